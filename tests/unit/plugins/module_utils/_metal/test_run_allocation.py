# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole servers are assigned once, kept, and released, also by several runs at the same time."""

from __future__ import annotations

import json
import multiprocessing
import pathlib
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._metal.run_allocation import allocate, hidden_values, shown

POOL = [
    {"name": "m16", "memory": 16, "cpus": 8},
    {"name": "m64", "memory": 64, "cpus": 16, "traits": ["sriov"]},
    {"name": "m128", "memory": 128, "cpus": 32, "traits": ["gpu", "sriov"]},
]


def run(record: pathlib.Path, check_mode: bool = False, **given: t.Any) -> dict[str, t.Any]:
    params = {"record": str(record), "state": "assigned", "servers": POOL, "wanted": [], "names": [], "lock_timeout": 60, **given}
    return allocate(params, check_mode, lambda: "2026-11-24T10:00:00Z").as_result()


def pairs(result: dict[str, t.Any]) -> dict[str, str]:
    return {one["name"]: one["server"] for one in result["allocations"]}


@pytest.fixture(name="record")
def fixture_record(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "record.json"


@pytest.mark.parametrize(
    ("wanted", "server"),
    [
        ({"ram": 16}, "m16"),
        ({"ram": 8, "match": "at_least"}, "m16"),
        ({"ram": 8, "match": "at_least", "traits": ["gpu"]}, "m128"),
        ({"traits": "sriov"}, "m64"),
        ({"host": "m128"}, "m128"),
    ],
)
def test_the_smallest_server_that_matches_is_assigned(record: pathlib.Path, wanted: dict[str, t.Any], server: str) -> None:
    result = run(record, wanted=[{"name": "a", **wanted}])
    assert pairs(result) == {"a": server} and result["actions"] == [f"assign {server} to a"] and result["changed"]
    assert record.stat().st_mode & 0o777 == 0o600


def test_a_request_keeps_its_server_until_it_is_released(record: pathlib.Path) -> None:
    run(record, wanted=[{"name": "a", "ram": 16, "match": "at_least"}, {"name": "b", "ram": 16, "match": "at_least"}])
    # a smaller server that is new does not matter, nor does the order
    again = run(record, servers=[*POOL, {"name": "m17", "memory": 17, "cpus": 8}], wanted=[{"name": name, "ram": 16, "match": "at_least"} for name in "ba"])
    assert not again["changed"] and again["diff"]["before"] == again["diff"]["after"]
    assert pairs(again) == {"a": "m16", "b": "m64"}
    released = run(record, state="released", names=["a", "never"])
    assert released["actions"] == ["release m16 from a"] and pairs(released) == {"b": "m64"}
    assert not run(record, state="released", names=["a"])["changed"]
    assert pairs(run(record, wanted=[{"name": "c", "ram": 16}])) == {"b": "m64", "c": "m16"}


def test_a_server_is_never_given_twice_and_nothing_is_assigned_in_part(record: pathlib.Path) -> None:
    run(record, wanted=[{"name": "a", "ram": 128}])
    with pytest.raises(CapacityError, match="no server for c: .*m128 would match, but is assigned"):
        run(record, wanted=[{"name": "b", "ram": 16}, {"name": "c", "ram": 128}])
    assert pairs(run(record)) == {"a": "m128"}
    # not even while its server is not listed
    with pytest.raises(CapacityError):
        run(record, servers=POOL[:2], wanted=[{"name": "d", "host": "m128"}])


def test_check_mode_returns_the_assignment_and_records_none(record: pathlib.Path) -> None:
    planned = run(record, check_mode=True, wanted=[{"name": "a", "ram": 16}])
    assert planned["changed"] and not record.exists()
    assert run(record, wanted=[{"name": "a", "ram": 16}]) == planned


def test_a_changed_request_or_server_is_refused(record: pathlib.Path) -> None:
    run(record, wanted=[{"name": "a", "ram": 16}])
    with pytest.raises(RefusedError, match=r"wanted\[0\]: a has m16, which has 16 GiB memory, not exactly 64 GiB"):
        run(record, wanted=[{"name": "a", "ram": 64}])
    with pytest.raises(RefusedError, match="which has 8 GiB memory"):
        run(record, servers=[{"name": "m16", "memory": 8, "cpus": 8}], wanted=[{"name": "a", "ram": 16}])


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"record": "record.json"}, "record"),
        ({"state": "released"}, "names"),
        ({"wanted": [{"name": "a", "trait": "gpu"}]}, "wanted[0].trait"),
        ({"wanted": [{"name": "a", "traits": {"gpu": 1}}]}, "wanted[0].traits"),
        ({"servers": [{"name": "m", "memory": 1, "cpus": 1, "traits": 1.5}]}, "servers[0].traits"),
        ({"servers": [{"name": "m"}, {"name": "m"}]}, "servers[1].name"),
    ],
)
def test_invalid_input_has_its_path(record: pathlib.Path, given: dict[str, t.Any], path: str) -> None:
    given = dict(given)
    with pytest.raises(InputError) as raised:
        run(given.pop("record", record), **given)  # type: ignore[arg-type]
    assert raised.value.path == path and not record.exists()


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", '{"version": 2, "assigned": {}}', '{"version": 1, "assigned": {"a": {}}}',
     '{"version": 1, "assigned": {"a": {"server": "m", "since": ""}, "b": {"server": "m", "since": ""}}}'],
)  # fmt: skip
def test_a_damaged_record_is_refused_and_kept(record: pathlib.Path, text: str) -> None:
    record.write_text(text, "utf-8")
    with pytest.raises(InputError):
        run(record, wanted=[{"name": "a", "ram": 16}])
    assert record.read_text("utf-8") == text


def test_secrets_of_vm_details_are_not_returned() -> None:
    servers = [{"name": "m", "vms": [{"id": "a", "vnc_password": "hidden-secret"}]}]
    assert hidden_values({"servers": servers}) == {"hidden-secret"} and "hidden-secret" not in repr(shown(servers))


def _one(record: str, number: int, results: t.Any) -> None:
    try:
        servers = [{"name": f"s{index}", "memory": 16, "cpus": 4} for index in range(6)]
        results.put(pairs(run(pathlib.Path(record), servers=servers, wanted=[{"name": f"r{number}", "ram": 16}]))[f"r{number}"])
    except FootprintError:
        results.put(None)


def test_runs_at_the_same_time_agree(record: pathlib.Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    runs = [context.Process(target=_one, args=(str(record), number, results)) for number in range(8)]
    for each in runs:
        each.start()
    found = [results.get(timeout=120) for _each in runs]
    for each in runs:
        each.join()
    given = [server for server in found if server]
    assert len(given) == len(set(given)) == 6 and found.count(None) == 2
    assert sorted(entry["server"] for entry in json.loads(record.read_text("utf-8"))["assigned"].values()) == sorted(given)


def test_a_record_that_cannot_be_read_is_an_error_with_its_path(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match=f"record: {tmp_path} cannot be read: Is a directory"):
        run(tmp_path, wanted=[{"name": "a"}])
