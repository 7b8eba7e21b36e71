# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of transitions, one by one; what they mean together is explored by ``tests/model/test_owner.py``."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ARRIVED,
    CONFIRMED,
    FORMER,
    INCOMING,
    MOVE,
    MOVED,
    OWNER,
    STOPPED,
    Operation,
    Record,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event, step

HERE = Record("lab", "m", "u", "m", 1, OWNER, "metal1")
MOVING = HERE._replace(operation=Operation(MOVE, "1", "metal2", "metal1", STOPPED))
ARRIVING = HERE._replace(role=INCOMING, to="metal2", operation=Operation(MOVE, "1", "metal2", "metal1", ARRIVED))


def test_a_move_in_one_order():
    given = step(MOVING, Event("handed over", here="metal1", answers={"metal2": ARRIVING}))
    assert given == MOVING._replace(role=FORMER, to="metal2") and given.state == MOVED
    taken = step(ARRIVING, Event("taken", here="metal2", answers={"metal1": given}))
    assert (taken.role, taken.epoch, taken.operation, taken.proof) == (OWNER, 2, None, "handed over by metal1")
    assert step(given, Event("confirmed", answers={"metal2": taken})).state == CONFIRMED


def test_a_machine_that_had_it_before_knows_so_when_what_it_received_is_discarded():
    before = HERE._replace(role=FORMER, to="metal3")
    begun = HERE._replace(operation=Operation(MOVE, "1", "metal2", "metal1"))
    received = step(before, Event("received", here="metal2", token="1", to="metal1", of=begun))
    # also when it is received again
    received = step(received, Event("received", here="metal2", token="2", to="metal1", of=begun))
    left = step(received, Event("discarded", answers={"metal1": HERE}))
    assert (left.role, left.to, left.operation) == (FORMER, "metal1", None)


def test_what_was_received_is_discarded_only_if_its_source_keeps_the_vm_or_its_standby_has_it():
    taken = step(MOVING, Event("learned", to="metal9"))
    assert taken.is_taken and step(ARRIVING, Event("discarded", answers={"metal1": taken})) is None
    # installed again, it received a late request
    with pytest.raises(RefusedError, match="does not answer that it keeps"):
        step(ARRIVING, Event("discarded", answers={"metal1": ARRIVING._replace(operation=Operation(MOVE, "0"))}))


def test_its_own_guard_is_kept_by_each_machine():
    before = HERE._replace(role=FORMER, to="metal1", start="ask")
    assert step(before, Event("received", here="metal2", token="1", to="metal1", of=MOVING._replace(operation=Operation(MOVE, "1")))).start == "ask"
    assert step(None, Event("received", here="metal2", token="1", of=before._replace(role=OWNER))).start == "free"


@pytest.mark.parametrize(
    ("old", "event", "path"),
    [
        (MOVING, Event("handed over", answers={}), "destination"),
        (ARRIVING, Event("taken", answers={}), "handed over"),
        (ARRIVING, Event("discarded", answers={}), "kept"),
        (MOVING._replace(role=FORMER, to="metal2"), Event("confirmed", answers={}), "owner"),
        (MOVING._replace(role=FORMER, to="metal2"), Event("asked back", answers={}), "owner"),
        (HERE._replace(role=FORMER, to="metal2"), Event("asked back", answers={"metal2": HERE._replace(epoch=2)}), "data"),
        (HERE._replace(epoch=0), Event("begun", here="metal2", to="metal2", answers={"metal2": MOVING._replace(role=FORMER)}), "epoch"),
        (MOVING._replace(role=FORMER, to="metal2"), Event("taken", answers={}), "handed over"),
        (HERE, Event("stopped", running=None), "running"),
        (None, Event("taken"), "role"),
        (HERE, Event("received", of=HERE), "role"),
    ],
)
def test_silence_and_what_is_not_known_refuse(old, event, path):
    with pytest.raises(RefusedError) as raised:
        step(old, event)
    assert raised.value.path == path and raised.value.hint and "{" not in raised.value.message
