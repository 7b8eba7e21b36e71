# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decisions about copies: chunks, what is sent and kept, who may run the VM, and with which proof."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given, strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import plan_standby
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import CHUNK, Copy, chunks_in, packed, parse_copy, unpacked
from ansible_collections.reduced.footprint.plugins.module_utils._standby.plan_standby import RUN, STAY, WAIT

STARTED, RECEIVING = {"state": "started"}, {"state": "receiving"}


def copy(copy_id: str = "20261124T100000Z", source: str = "metal1") -> Copy:
    """A complete copy."""
    return Copy(copy_id, "m", "u", "m", source, 1.0, 2.0, False, "full", 1, 1.0, "<domain/>", {}, True, ())


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([RECEIVING], RUN),
        ([STARTED], STAY),
        ([None], WAIT),
        ([None, None], WAIT),
        ([None, RECEIVING], RUN),
        ([None, STARTED], STAY),
        # a start that was recorded on the witness and then refused, for example because the copy is damaged
        ([RECEIVING, STARTED], WAIT),
        ([RECEIVING, None, STARTED], WAIT),
        ([None, RECEIVING, STARTED], STAY),
        ([STARTED, RECEIVING], STAY),
        ([STARTED, None], STAY),
        ([RECEIVING, None], RUN),
        ([{}], WAIT),
        ([], WAIT),
    ],
)
def test_boot_verdict(answers: list[dict[str, t.Any] | None], verdict: str) -> None:
    assert plan_standby.boot_verdict(answers) == verdict


@pytest.mark.parametrize(
    ("given_values", "message"),
    [
        ({"confirmed": "metal1"}, None),
        ({"proof": {"by": "bmc", "state": "off"}}, None),
        ({"confirmed": "metal1", "source": "metal1", "wanted": "20261124T090000Z"}, None),
        ({}, "no one confirmed"),
        ({"confirmed": "metal2"}, "'metal2' is not the name"),
        ({"confirmed": "METAL1"}, "'METAL1' is not the name"),
        ({"confirmed": "metal1", "source": "metal2"}, "not from metal2"),
        ({"confirmed": "metal1", "wanted": "20261124T080000Z"}, "verified copy 20261124T080000Z"),
        ({"confirmed": "metal1", "proof": {"by": "bmc", "state": "on"}}, "reports that it is on"),
        ({"proof": {"by": "bmc"}}, "unknown, not off"),
        ({"proof": {"by": "guess", "state": "off"}}, "no one confirmed"),
    ],
)
def test_start(given_values: dict[str, t.Any], message: str | None) -> None:
    copies = [copy("20261124T090000Z"), copy("20261124T100000Z")]
    call = {"wanted": None, "source": None, "confirmed": None, "proof": {}, **given_values}
    if message is None:
        assert plan_standby.check_start("m", copies, **call).id == (call["wanted"] or "20261124T100000Z")
        return
    with pytest.raises(RefusedError, match=message) as caught:
        plan_standby.check_start("m", copies, **call)
    assert caught.value.hint and caught.value.path


def test_start_without_copy() -> None:
    with pytest.raises(RefusedError, match="verified copy of m does not exist"):
        plan_standby.check_start("m", [], None, None, "metal1", {})


@given(st.lists(st.tuples(st.integers(0, 40 * CHUNK), st.integers(0, 5 * CHUNK)), max_size=8), st.integers(1, 40 * CHUNK))
def test_touched_chunks(extents: list[tuple[int, int]], capacity: int) -> None:
    wanted = {at // CHUNK for offset, length in extents for at in {*range(offset, offset + length, CHUNK), offset + length - 1} if length}
    found = plan_standby.touched(extents, capacity)
    assert set(found) == {index for index in wanted if index < chunks_in(capacity)} and found == sorted(found)


def test_chunks_of_zeros_only() -> None:
    # the second chunk in two parts, the last one short
    capacity = 3 * CHUNK + 100
    extents = [(10, CHUNK), (CHUNK + 10, CHUNK - 10), (3 * CHUNK, 4096)]
    assert plan_standby.inside_only(extents, capacity) == {1, 3}
    assert plan_standby.length_of(3, capacity) == 100


def test_digests_of_a_file() -> None:
    blank = plan_standby.blank(2 * CHUNK + 1)
    assert unpacked(packed(blank), 2 * CHUNK + 1) == blank and len(set(blank)) == 2
    assert unpacked(packed(blank), CHUNK) is None
    assert parse_copy(copy().to_json()) == copy() and parse_copy("{}") is None and parse_copy(None) is None


def test_blocks() -> None:
    assert list(plan_standby.blocks([0, 1, 2, 5, 6, 7, 8], {6}, 2)) == [[0, 1], [2], [5], [6], [7, 8]]
    assert not list(plan_standby.blocks([], set(), 2))


@pytest.mark.parametrize(
    ("have", "runs", "sent"),
    [
        # unchanged, changed, changed, unchanged, changed
        ({}, [[1, 2], [4]], {1: b"x", 2: b"y", 4: b"z"}),
        # an interrupted attempt has written 1 as it is now, 2 as it was meanwhile, and 3, which has changed back
        ({1: b"x", 2: b"old", 3: b"old"}, [[2, 3, 4]], {1: b"x", 2: b"y", 3: b"3", 4: b"z"}),
        ({3: b"3"}, [[1, 2], [4]], {1: b"x", 2: b"y", 3: b"3", 4: b"z"}),
    ],
)
def test_what_is_written(have: dict[int, bytes], runs: list[list[int]], sent: dict[int, bytes]) -> None:
    base, now = [b"0", b"1", b"2", b"3", b"4"], [b"0", b"x", b"y", b"3", b"z"]
    found: dict[int, bytes] = {}
    assert list(plan_standby.to_write(range(5), now, base, have, found)) == runs
    assert found == sent


def test_surplus() -> None:
    assert plan_standby.surplus_copies(["c", "a", "b"], 2) == ["a"] and not plan_standby.surplus_copies(["a"], 2)
    names = ["other", "reduced-footprint-1", "reduced-footprint-2"]
    assert plan_standby.surplus_checkpoints(names, "2") == ["reduced-footprint-1"]
    assert plan_standby.surplus_checkpoints(names, None) == ["reduced-footprint-1", "reduced-footprint-2"]


def test_a_new_copy_is_the_last_one_also_if_the_clock_was_set_back() -> None:
    now = 1795687200.5
    name = plan_standby.copy_id(now, [])
    assert name == "20261126T100000Z" and plan_standby.copy_id(now, ["20261126T094500Z"]) == name
    # a clock that was wrong once, and two copies in one second
    for last, wanted in (("20270101T000000Z", "20270101T000001Z"), ("20261126T100000Z", "20261126T100001Z")):
        kept = ["20261126T090000Z", last]
        new = plan_standby.copy_id(now, kept)
        assert new == wanted and new not in plan_standby.surplus_copies([*kept, new], 2)


def test_the_vm_does_not_start_while_its_standby_makes_its_disks() -> None:
    starting = {"state": "receiving", "starting": True}
    assert plan_standby.boot_verdict([starting]) == WAIT
    assert plan_standby.boot_verdict([starting, {"state": "receiving"}]) == WAIT
    assert plan_standby.boot_verdict([starting, {"state": "started"}]) == WAIT
