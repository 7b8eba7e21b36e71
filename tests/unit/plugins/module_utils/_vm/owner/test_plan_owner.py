# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of transitions, one by one; what they mean together is explored by ``tests/model/test_owner.py``."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ARRIVED,
    FORMER,
    INCOMING,
    MOVE,
    OWNER,
    PROMISE,
    STANDBY,
    STOPPED,
    Known,
    Operation,
    Record,
    Unknown,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event, may_permit, step

HERE = Record("lab", "m", "u", "m", 1, OWNER, "metal1")
MOVING = HERE._replace(operation=Operation(MOVE, "1", "metal2", "metal1", STOPPED))
ARRIVING = HERE._replace(role=INCOMING, to="metal2", operation=Operation(MOVE, "1", "metal2", "metal1", ARRIVED))


def test_a_move_in_one_order():
    given = step(MOVING, Event("handed over", here="metal1", answers={"metal2": Known(ARRIVING)}))
    assert given == MOVING._replace(role=FORMER, to="metal2")
    taken = step(ARRIVING, Event("taken", here="metal2", answers={"metal1": Known(given)}))
    assert (taken.role, taken.epoch, taken.operation, taken.proof.kind) == (OWNER, 2, None, "handed over")
    assert step(given, Event("confirmed", answers={"metal2": Known(taken)})) is None


@pytest.mark.parametrize(
    ("old", "event", "path"),
    [
        (MOVING, Event("handed over", answers={"metal2": Unknown("no answer")}), "destination"),
        (ARRIVING, Event("taken", answers={"metal1": Unknown("no answer")}), "handed over"),
        (ARRIVING, Event("discarded", answers={}), "kept"),
        (HERE._replace(role=FORMER, to="metal2"), Event("confirmed", answers={"metal2": Unknown("no answer")}), "owner"),
        (HERE, Event("stopped", running=None), "running"),
        (None, Event("taken"), "role"),
        (None, Event("created", of=HERE), None),
    ],
)
def test_silence_and_what_is_not_known_refuse(old, event, path):
    if path is None:
        assert step(old, event) == HERE._replace(to="")
        return
    with pytest.raises(RefusedError) as raised:
        step(old, event)
    assert raised.value.path == path and raised.value.hint and "{" not in raised.value.message


def test_a_voter_permits_only_the_owner_that_it_knows():
    voter = HERE._replace(role=STANDBY)
    assert may_permit(voter, 1) and not may_permit(voter, 2) and not may_permit(None, 1) and not may_permit(HERE, 1)
    assert not may_permit(voter._replace(operation=Operation(PROMISE, "1", "metal2")), 1)
