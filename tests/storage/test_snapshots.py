# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots of real guests (``reduced.footprint.vm_snapshot``): created, listed, reverted, removed, and refused where they would harm."""

from __future__ import annotations

import json
import pathlib
import subprocess
import typing as t

import pytest
from ansible.module_utils import basic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_snapshot import SnapshotRequest, change
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Operation, Record
from ansible_collections.reduced.footprint.plugins.modules import vm_snapshot

from storage_host import StorageHost

VM = {"id": "a", "disks": [{"size": "16 MiB", "format": "qcow2"}], "user_data": "#cloud-config\n{}\n"}


@pytest.fixture(name="records", autouse=True)
def fixture_records(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Records of owners in a folder of the test."""
    monkeypatch.setattr(io_owner, "HOME", tmp_path / "vms")
    return tmp_path / "vms"


def step(host: StorageHost, state: str, name: str = "before", changed: bool = True, vm: str = "a", kind: str = "qemu") -> list[dict[str, t.Any]]:
    """Change a snapshot, first in check mode, which must foresee it and change nothing."""
    request = SnapshotRequest("storage", vm, name, state, "of a test", host.uris[kind])
    there = listed(host, vm, kind)
    foreseen = change(request, check_mode=True)
    assert listed(host, vm, kind) == there == foreseen["snapshots"]
    done = change(request, check_mode=False)
    assert (foreseen["changed"], foreseen["diff"]) == (done["changed"], done["diff"]) and done["changed"] == changed
    assert (done["diff"]["before"] != done["diff"]["after"]) == changed
    assert done["snapshots"] == listed(host, vm, kind)
    return done["snapshots"]


def listed(host: StorageHost, vm: str = "a", kind: str = "qemu") -> list[dict[str, t.Any]]:
    (found,) = read_vms(InfoRequest(uri=host.uris[kind], ids=[vm], snapshots=True))
    assert found["has_snapshots"] == bool(found["snapshots"])
    return found["snapshots"]


def content(path: str) -> str:
    """The first byte of a disk that no guest uses."""
    done = subprocess.run(["qemu-io", "-f", "qcow2", "-c", "read -v 0 1", path], check=True, capture_output=True, encoding="utf-8")
    return done.stdout.partition(":")[2].split()[0]


def write(path: str, byte: str) -> None:
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write -P 0x{byte} 0 512", path], check=True, stdout=subprocess.DEVNULL)


def test_disks_return_to_a_snapshot(host: StorageHost) -> None:
    path = host.one(VM, state="shutdown").disks[0]["path"]
    write(path, "11")
    (first,) = step(host, "present")
    assert (first["name"], first["description"], first["state"], first["current"], first["parent"]) == ("before", "of a test", "shutdown", True, None)
    assert first["created_at"].endswith("Z")
    step(host, "present", changed=False)
    write(path, "22")
    second = step(host, "present", "later")[-1]
    assert (second["name"], second["parent"]) == ("later", "before")
    write(path, "33")
    # a snapshot does not change the VM
    assert not host.call(VM, state="shutdown").vms[0].changed
    step(host, "reverted")
    assert content(path) == "11"
    step(host, "reverted", "later")
    assert content(path) == "22"
    step(host, "absent")
    assert [each["name"] for each in step(host, "absent", changed=False)] == ["later"]
    assert content(path) == "22"
    assert step(host, "absent", "later") == []
    assert host.facts(path).get("snapshots", []) == []


def test_a_running_guest_returns_with_its_memory_and_definition(host: StorageHost) -> None:
    host.one(VM)
    (first,) = step(host, "present")
    assert first["state"] == "running"
    host.one({**VM, "memory_mb": 48}, state="shutdown")
    step(host, "reverted")
    assert host.domain("a").isActive() and host.domain("a").info()[1] == 32 * 1024
    # the details apply again
    assert host.call({**VM, "memory_mb": 48}, state="running").vms[0].changed
    host.one(VM, state="shutdown")
    # with its snapshots
    host.call({"id": "a"}, state="absent", remove_disks=True)
    assert not read_vms(InfoRequest(uri=host.uris["qemu"], ids=["a"]))


@pytest.mark.parametrize(
    ("vm", "reason"),
    [
        ({"disks": [{"size": "16 MiB"}]}, "its disk vda is raw, not qcow2"),
        ({"disks": [{"size": "16 MiB", "format": "qcow2"}, {"size": "16 MiB", "shareable": True}]}, "its disk vdb is shared with other VMs"),
        ({"disks": []}, "it has no disk"),
    ],
)
def test_unfit_disks_are_refused(host: StorageHost, vm: dict[str, t.Any], reason: str) -> None:
    host.one({"id": "a", **vm}, state="shutdown")
    for check in (True, False):
        with pytest.raises(RefusedError, match=reason):
            change(SnapshotRequest("storage", "a", "before", uri=host.uris["qemu"]), check_mode=check)
    assert listed(host) == []


def test_vms_with_copies_or_a_move_are_refused(host: StorageHost) -> None:
    uuid = host.one(VM, state="shutdown").uuid
    step(host, "present")
    record = Record("storage", "a", uuid, "a")
    io_owner.prepare()
    for found, refused, words in (
        (record._replace(operation=Operation("move", "token", "metal2", "metal1")), ("present", "reverted", "absent"), "it is moving .server metal2"),
        (record._replace(role="former", to="metal2"), ("present", "reverted", "absent"), "it is confirmed .server metal2"),
        (record._replace(start="ask"), ("present", "reverted"), "it has copies on a standby"),
    ):
        io_owner.write(found)
        for state in refused:
            with pytest.raises(RefusedError, match=words):
                change(SnapshotRequest("storage", "a", "before" if state != "present" else "other", state, uri=host.uris["qemu"]), check_mode=False)
    assert len(listed(host)) == 1
    step(host, "absent")


def test_saved_memory_is_refused(host: StorageHost) -> None:
    host.one(VM)
    step(host, "present")
    host.domain("a").managedSave(0)
    with pytest.raises(RefusedError, match="it has saved memory"):
        change(SnapshotRequest("storage", "a", "before", "reverted", uri=host.uris["qemu"]), check_mode=False)
    step(host, "absent")
    host.domain("a").managedSaveRemove(0)


def test_containers_are_refused(host: StorageHost) -> None:
    host.root_image()
    host.one({"id": "c", "hypervisor": "lxc", "disks": [{"size": "16 MiB", "image": "root"}]}, kind="lxc", state="shutdown")
    with pytest.raises(RefusedError, match="containers have no snapshots"):
        change(SnapshotRequest("storage", "c", "before", uri=host.uris["lxc"]), check_mode=False)


def test_unknown_names_are_errors(host: StorageHost) -> None:
    host.one(VM, state="shutdown")
    for vm, name, state, words in (
        ("b", "x", "present", "no VM of the cluster storage on this host has the id b"),
        ("a", "../x", "present", "is not a valid name"),
        ("a", "x", "reverted", "x is not a snapshot of the VM .snapshots: none"),
    ):
        with pytest.raises(InputError, match=words):
            change(SnapshotRequest("storage", vm, name, state, uri=host.uris["qemu"]), check_mode=False)
    with pytest.raises(InputError, match="uri: is another host"):
        change(SnapshotRequest("storage", "a", "x", uri="qemu+ssh://root@metal2/system"), check_mode=False)


def test_the_module_returns_what_it_does(host: StorageHost, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    host.one(VM, state="shutdown")

    def run(state: str, check: bool = False) -> dict[str, t.Any]:
        given = {"cluster": "storage", "id": "a", "snapshot": "x", "state": state, "uri": host.uris["qemu"], "_ansible_check_mode": check}
        monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode())
        monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        with pytest.raises(SystemExit):
            vm_snapshot.main()
        return dict(json.loads(capsys.readouterr().out.splitlines()[-1]))

    results = [run("present", check=True), run("present"), run("present"), run("reverted"), run("absent"), run("absent")]
    assert [each["changed"] for each in results] == [True, True, False, True, True, False]
    assert [[one["name"] for one in each["snapshots"]] for each in results] == [[], ["x"], ["x"], ["x"], [], []]
    failed = run("reverted")
    assert failed["failed"] and failed["error"]["path"] == "snapshot"
