# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A witness is a machine of its own, and its vote decides."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.plan_witness import Machine, check_places, check_votes

W = Machine("laptop", "", ("witness",), "servers.laptop.roles")
DATA = [Machine("c1", "metal1"), Machine("c2", "metal2")]


def test_a_machine_of_its_own_is_accepted():
    check_places([W, Machine("vm", "metal9", ("witness",))], DATA)
    check_votes([W], ["c1", "c2"])


@pytest.mark.parametrize(
    "witness, words",
    [
        (W._replace(name="c2"), "c2 cannot be a witness: it is a controller and has a vote already"),
        (W._replace(roles=("virt", "witness")), "laptop cannot be a witness: it is a virt host"),
        (W._replace(server="metal1"), "laptop cannot be a witness: it is on metal1 with c1, and both votes would be lost together"),
        (W._replace(name="metal2"), "metal2 cannot be a witness: it is on metal2 with c2"),
    ],
)
def test_a_witness_that_is_lost_together_with_a_member_is_refused(witness, words):
    with pytest.raises(RefusedError) as refused:
        check_places([witness], DATA)
    assert words in refused.value.message
    assert refused.value.path == "servers.laptop.roles"
    assert "third machine" in refused.value.hint


@pytest.mark.parametrize(
    "members, witnesses, accepted",
    [(2, 1, True), (4, 1, True), (3, 1, False), (3, 2, True), (2, 2, False), (1, 1, False), (0, 1, True), (3, 0, True)],
)
def test_votes_are_odd_and_witnesses_a_minority(members, witnesses, accepted):
    names = [f"c{number}" for number in range(members)]
    voting = [W._replace(name=f"w{number}", path=f"witness: w{number}") for number in range(witnesses)]
    if accepted:
        check_votes(voting, names)
        return
    with pytest.raises(RefusedError) as refused:
        check_votes(voting, names)
    assert refused.value.path == f"witness: w{witnesses - 1}"
    if witnesses < members:
        # a new member joins before the witness leaves
        check_votes(voting, names, leaving=True)
    else:
        with pytest.raises(RefusedError):
            check_votes(voting, names, leaving=True)
    assert "remove_controller" in refused.value.hint or "fewer witnesses" in refused.value.hint
