# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM is not started from its copy while another virt host has it, or may finish a move of it."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._standby.plan_elsewhere import Wanted, plan


def decide(state: str | None, moved: str | None, note: str | None, *abandoned: str) -> dict[str, t.Any]:
    """Decide while w1, another virt host, has the VM in a state, moved to a server, and a note about it."""
    vms = [{"uuid": "x", "state": "running", "moved": None}, *([{"uuid": "u", "state": state, "moved": moved}] if state else [])]
    moves = [{"uuid": "x", "state": "arriving"}, *([{"uuid": "u", "state": note, "to": "w9"}] if note else [])]
    return plan(Wanted("m", "u", "metal1", abandoned), [{"item": "w1", "vms": vms}], [{"item": "w1", "moves": moves}]).as_result()


@pytest.mark.parametrize(
    ("state", "moved", "note"),
    [
        # its live migration was interrupted before or after it ran there; the latter is settled after a while
        ("paused", "w1", "arriving"),
        ("running", "w1", "arriving"),
        ("running", None, None),
        # its copy was interrupted after it was defined there, or it was shut down
        ("shutdown", "w1", "arriving"),
        ("shutdown", None, None),
        # never an old VM
        ("running", "metal1", "moved"),
    ],
)
def test_a_vm_that_another_server_has_is_refused(state: str, moved: str | None, note: str | None) -> None:
    message = decide(state, moved, note, "w1")["msg"]
    assert f"w1 ({state}) has m, which was moved there from metal1, or a move there was interrupted" in message
    assert "finish the move there with move_vm" in message


@pytest.mark.parametrize(("state", "note"), [("shutdown", "moved"), ("shutdown", None), (None, None)])
def test_an_old_vm_of_an_earlier_move_does_not_count(state: str | None, note: str | None) -> None:
    # confirmed notes are not listed
    assert decide(state, "metal1", note) == {"changed": False, "why": [], "lines": [], "steps": [], "locks": [], "report": []}


def test_a_vm_that_another_server_moves_is_refused() -> None:
    # off for its last copy; that server continues the move
    assert "w1 (moving to w9) has m" in decide("shutdown", "w9", "moving", "w1")["msg"]


def test_an_unfinished_move_is_abandoned_by_name_only() -> None:
    message = decide(None, None, "arriving")["msg"]
    assert "w1 has the record of a move of m that has not ended, but not the VM. Switch metal1 on" in message
    assert message.endswith("set start_standby_abandon_move: w1.")
    message = decide(None, None, "arriving", "w2")["msg"]
    assert "start_standby_abandon_move: w2 has no unfinished move of the VM. w1 has the record" in message
    assert not decide(None, None, "arriving", "w1")["why"]
    # named, but not needed
    assert not decide(None, None, None, "w1")["why"]


def test_a_server_that_does_not_answer_is_named_by_a_person() -> None:
    vms = [{"item": "w1", "unreachable": True}, {"item": "w2", "vms": []}, {"item": "w3", "vms": []}]
    moves = [{"item": "w1", "unreachable": True}, {"item": "w2", "msg": "Run as root."}, {"item": "w3", "moves": []}]

    def decide(*lost: str) -> str:
        return str(plan(Wanted("m", "u", "metal1", lost=lost), vms, moves).as_result().get("msg") or "")

    for named in ((), ("w1",)):
        left = "w2" if named else "w1, w2"
        assert f"start_standby_lost: {left} did not answer. If m was moved to one of them before metal1 was lost, it may run there" in decide(*named)
    assert decide().endswith("then set start_standby_lost: w1,w2.")
    assert not decide("w1", "w2")
    assert "w3 answers, or is not another virt host" in decide("w1", "w2", "w3")
