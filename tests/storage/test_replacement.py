# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An old VM is taken away once, with its disks kept under another name, and vm_define creates it again with empty ones."""

from __future__ import annotations

import pathlib
import typing as t

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_replacement, run_replacement
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_replacement import ReplacementRequest, apply, replacements
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from storage_host import POOL, StorageHost
from tests.support.records import use_folder

AT, LATER = "20261125T190000Z", "20261126T190000Z"
VM: dict[str, t.Any] = {"id": "a", "disks": [{"size": "4 MiB"}, {"size": "4 MiB", "format": "qcow2", "protected": True}]}
KEPT = [f"a-disk0.img.replaced-{AT}", f"a-disk1.qcow2.replaced-{AT}"]
Retire = t.Callable[..., t.Dict[str, t.Any]]


@pytest.fixture(name="retire")
def fixture_retire(host: StorageHost, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Retire:
    """Take a VM away; the records of the host are in a folder of the test."""
    monkeypatch.setattr(io_replacement, "HOME", tmp_path / "replaced")
    monkeypatch.setattr(io_replacement, "REFUSED", tmp_path / "refused")
    use_folder(tmp_path, monkeypatch)
    base = ReplacementRequest("a", "storage", "retired", AT, "metal1", "metal1", "metal1", pool=POOL, shutdown_timeout=0, uri=host.uris["qemu"])

    def run(check: bool = False, **changes: t.Any) -> dict[str, t.Any]:
        return apply(base._replace(**changes), check_mode=check)

    return run


def left_to() -> list[str]:
    """The servers that have the VMs that left this one."""
    return [record.to for record in io_owner.read_all().values()]


def test_disks_are_kept_and_a_new_vm_starts_with_empty_ones(host: StorageHost, retire: Retire) -> None:
    host.one(VM)
    (host.folder / "a-disk0.img").write_bytes(b"old" * 1000)
    found = retire(details=VM)
    assert found["changed"] and found["replacement"]["state"] == "retired"
    assert [action.split()[0] for action in found["actions"]] == ["power", "keep", "keep", "undefine"]
    assert host.volumes() == KEPT
    assert found["replacement"]["disks"] == [str(host.folder / name) for name in KEPT]
    assert b"old" in (host.folder / KEPT[0]).read_bytes()
    created = host.one(VM)
    assert created.actions[0] == "define" and b"old" not in (host.folder / "a-disk0.img").read_bytes()
    # the new VM is not taken away
    again = retire(details=VM)
    assert (again["changed"], again["actions"]) == (False, [])
    assert retire(state="completed")["changed"] and not retire(state="completed")["changed"]
    assert [record["state"] for record in replacements("storage", "a")] == ["completed"]
    assert host.domain("a").isActive()
    # the next replacement takes it
    assert retire(at=LATER)["changed"]
    assert host.volumes() == sorted([*KEPT, f"a-disk0.img.replaced-{LATER}", f"a-disk1.qcow2.replaced-{LATER}"])


def test_check_mode_changes_nothing(host: StorageHost, retire: Retire) -> None:
    host.one(VM)
    found = retire(check=True, details=VM)
    assert found["changed"] and len(found["actions"]) == 4
    assert host.domain("a").isActive() and host.volumes() == ["a-disk0.img", "a-disk1.qcow2"]
    assert replacements() == []


@pytest.mark.parametrize("step", ["write", "set_aside", "undefine", "refresh"])
def test_what_is_killed_at_each_step_is_completed(host: StorageHost, retire: Retire, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    host.one(VM)
    place = {"write": io_replacement, "set_aside": io_replacement, "undefine": run_replacement.DomainHost, "refresh": run_replacement.io_volumes.VolumeStore}
    done = getattr(place[step], step)

    def killed(*given: t.Any) -> None:
        done(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(place[step], step, killed)
        retire(details=VM)
    found = retire(details=VM)
    assert found["replacement"]["state"] == "retired"
    assert host.volumes() == KEPT
    assert found["replacement"]["disks"] == [str(host.folder / name) for name in KEPT]
    with pytest.raises(libvirt.libvirtError, match="not found"):
        host.domain("a")


def test_on_another_server_a_note_remains(host: StorageHost, retire: Retire, tmp_path: pathlib.Path) -> None:
    host.one(VM)
    io_replacement.REFUSED.mkdir()
    for name in ("a", "b"):
        (io_replacement.REFUSED / name).touch()
    found = retire(to="metal2")
    assert [mark.name for mark in io_replacement.REFUSED.iterdir()] == ["b"]
    assert found["actions"][-1] == "record that it is on metal2"
    assert (left_to(), host.volumes()) == (["metal2"], KEPT)
    # it returns one day
    assert retire(at=LATER, source="metal2", to="metal1", details=VM)["changed"]
    assert left_to() == []


def test_a_disk_in_the_way_of_the_new_vm_is_kept_aside(host: StorageHost, retire: Retire) -> None:
    host.one(VM, state="present")
    host.one({"id": "a"}, state="absent")
    assert [action.split()[0] for action in retire(details=VM)["actions"]] == ["keep", "keep"]
    assert host.volumes() == KEPT


def test_disks_are_removed_only_on_request_and_never_protected_ones(host: StorageHost, retire: Retire) -> None:
    host.one(VM)
    with pytest.raises(RefusedError, match="remove_disks: the VM or a disk of it is protected"):
        retire(remove_disks=True, details=VM)
    assert host.domain("a").isActive()
    plain = {"id": "a", "disks": [{"size": "4 MiB"}, {"size": "4 MiB", "format": "qcow2"}]}
    host.one(plain)
    assert [action.split()[0] for action in retire(remove_disks=True, details=plain)["actions"]] == ["power", "remove", "remove", "undefine"]
    assert host.volumes() == []


def test_what_another_vm_needs_is_refused_before_anything_is_changed(host: StorageHost, retire: Retire) -> None:
    shared = {"size": "4 MiB", "name": "both", "shareable": True, "format": "raw"}
    host.one({"id": "a", "disks": [shared]})
    host.one({"id": "b", "disks": [shared]})
    with pytest.raises(RefusedError, match="the new VM would start with a disk of the old one: .*the domain b needs it"):
        retire()
    assert host.domain("a").isActive() and replacements() == []


def test_invalid_requests_are_refused(host: StorageHost, retire: Retire) -> None:
    with pytest.raises(InputError, match="at: '2026' is not a time"):
        retire(at="2026")
    with pytest.raises(InputError, match="id"):
        retire(id="../a")
    with pytest.raises(RefusedError, match="the old VM was not taken away on this server"):
        retire(state="completed")
    io_replacement.HOME.mkdir()
    retire()
    [record] = io_replacement.HOME.iterdir()
    record.write_text("{", encoding="ascii")
    with pytest.raises(BackendError, match="is not a record of a replacement"):
        retire()
