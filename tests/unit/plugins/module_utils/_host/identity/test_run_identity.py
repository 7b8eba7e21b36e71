# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which machine has the name of a server, as the others keep it."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity import io_identity, run_identity
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.model_identity import same_uuid

FIRST, SECOND, THIRD = ("1" * 32, "2" * 32, "3" * 32)
UUID = "4c4c4544-0042-3510-8052-b4c04f565231"
AT, LATER = "20261125T190000Z", "20261126T190000Z"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (UUID, True),
        (UUID.upper(), True),
        # in the byte order of the first three fields in which some controllers report it
        ("44454c4c-4200-1035-8052-b4c04f565231", True),
        (UUID.replace("-", ""), True),
        (f"{UUID[:-1]}2", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_the_same_uuid(other: str, same: bool) -> None:
    assert same_uuid(UUID, other) is same and same_uuid(other, UUID) is same


def test_texts_that_are_no_uuid() -> None:
    assert same_uuid("Not Specified", "not specified ") and not same_uuid("", "")


def machine(machine_id: str = FIRST, address: str = "192.0.2.12", name: str = "metal2", **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "machine_id": machine_id, "address": address, **more}


def apply(home: pathlib.Path, *machines: dict[str, t.Any], state: str = "known", at: str = AT, check: bool = False) -> dict[str, t.Any]:
    return run_identity.apply(machines, state, at, "typed" if state == "replacing" else "", check_mode=check, home=home)


def kept(home: pathlib.Path) -> t.Any:
    [record] = run_identity.identity(home)["records"]
    return record


def test_a_server_is_recorded_once(tmp_path: pathlib.Path) -> None:
    assert apply(tmp_path, machine(), check=True)["changed"] and run_identity.identity(tmp_path)["records"] == []
    assert apply(tmp_path, machine())["diff"]["after"] == f"metal2: {FIRST} at 192.0.2.12, known\n"
    assert apply(tmp_path, machine(), at=LATER)["changed"] is False
    assert kept(tmp_path)["at"] == AT
    assert apply(tmp_path, machine(address="192.0.2.13"))["changed"] and kept(tmp_path)["address"] == "192.0.2.13"


def test_two_names_of_one_machine_are_noticed(tmp_path: pathlib.Path) -> None:
    assert apply(tmp_path, machine(), machine(SECOND, name="metal3"))["warnings"] == []
    for again in range(2):
        result = apply(tmp_path, machine(), machine(SECOND, name="metal3"), machine(name="metal4", address="198.51.100.12"))
        assert result["changed"] is (again == 0)
        (warning,) = result["warnings"]
        assert warning.startswith("metal2 and metal4 have the same machine-id. If they are one machine")


def test_another_machine_does_not_get_the_name_unnoticed(tmp_path: pathlib.Path) -> None:
    apply(tmp_path, machine())
    result = apply(tmp_path, machine(SECOND))
    assert not result["changed"] and kept(tmp_path)["machine_id"] == FIRST
    assert result["warnings"][0].endswith("run replace_server with replace_server_name=metal2.")


def test_a_machine_takes_the_name_over(tmp_path: pathlib.Path) -> None:
    apply(tmp_path, machine())
    assert apply(tmp_path, machine(SECOND, "192.0.2.22"), state="replacing", at=LATER)["changed"]
    record = kept(tmp_path)
    assert (record["machine_id"], record["state"], record["at"], record["proof"]) == (SECOND, "replacing", LATER, "typed")
    assert record["old"] == [{"machine_id": FIRST, "product_uuid": "", "address": "192.0.2.12"}]
    # an interrupted run, and provision_virt meanwhile, leave it unfinished
    for state in ("replacing", "known"):
        assert not apply(tmp_path, machine(SECOND, "192.0.2.22"), state=state)["changed"] and kept(tmp_path)["state"] == "replacing"
    assert apply(tmp_path, machine(SECOND, "192.0.2.22"), state="replaced")["changed"] and kept(tmp_path)["state"] == "known"
    assert not apply(tmp_path, machine(SECOND, "192.0.2.22"), state="replaced")["changed"]
    apply(tmp_path, machine(THIRD), state="replacing")
    assert [one["machine_id"] for one in kept(tmp_path)["old"]] == [SECOND, FIRST]


def test_a_host_without_a_record_gets_the_state(tmp_path: pathlib.Path) -> None:
    assert apply(tmp_path, machine(), state="replacing")["records"][0]["state"] == "replacing"
    assert apply(tmp_path, machine(name="metal3"), state="replaced")["records"][0]["state"] == "known"


def test_only_what_was_begun_is_completed(tmp_path: pathlib.Path) -> None:
    apply(tmp_path, machine())
    with pytest.raises(RefusedError, match="but recorded is 1111"):
        apply(tmp_path, machine(SECOND), state="replaced")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (machine("x"), "machines[0].machine_id"),
        (machine(""), "machines[0].machine_id"),
        (machine("../../etc/passwd"), "machines[0].machine_id"),
        (machine(FIRST.upper().replace("1", "A")), "machines[0].machine_id"),
        (machine(name="../metal2"), "machines[0].name"),
        (machine(name=""), "machines[0].name"),
        (machine(address="a b"), "machines[0].address"),
        (machine(product_uuid="{{ x }}"), "machines[0].product_uuid"),
    ],
)
def test_invalid_values_are_refused(tmp_path: pathlib.Path, given: t.Any, path: str) -> None:
    with pytest.raises(InputError) as error:
        apply(tmp_path, given)
    assert error.value.path == path and error.value.hint and not list(tmp_path.iterdir())
    with pytest.raises(InputError):
        apply(tmp_path, machine(), at="now")


@pytest.mark.parametrize("text", ["{", "[]", '{"old": ["x"]}', '{"name": "metal2", "machine_id": "1", "at": "", "state": "known", "old": [], "proof": ""}'])
def test_a_damaged_record_is_named(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "metal2.json").write_text(text, encoding="utf-8")
    with pytest.raises(BackendError, match="metal2.json is not a record of a server"):
        apply(tmp_path, machine())


def test_the_identity_of_this_machine_is_read(tmp_path: pathlib.Path) -> None:
    assert io_identity.here(str(tmp_path)) == ("", "", "")
    for path, text in (("etc/machine-id", f"{FIRST}\n"), ("sys/class/dmi/id/product_uuid", "4C4C4544-0042\n")):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text, encoding="ascii")
    assert io_identity.here(str(tmp_path)) == (FIRST, "4c4c4544-0042", "")
