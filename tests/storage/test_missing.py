# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A volume that was there once is never replaced by an empty one unless the caller says so."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore
from storage_host import MIB, POOL, StorageHost, killed

FORMS = {"raw": "a-disk0.img", "qcow2": "a-disk0.qcow2"}


def vm(*disks: t.Mapping[str, t.Any], **details: t.Any) -> dict[str, t.Any]:
    """A VM with these disks, each of 16 MiB."""
    return {"id": "a", "disks": [{"size": "16 MiB", **disk} for disk in disks or ({},)], **details}


def refused(host: StorageHost, details: t.Mapping[str, t.Any], **options: t.Any) -> str:
    """The error of a call about one VM and a second one, which is done all the same; check mode says the same."""
    there = host.volumes()
    foreseen = host.call(details, check=True, **options).vms[0]
    result = host.call(details, {"id": "bystander"}, **options)
    assert (foreseen.error, foreseen.actions, foreseen.changed) == (result.vms[0].error, [], False)
    assert not result.vms[0].changed and result.vms[1].error is None
    assert host.volumes() == there, "a volume was created"
    assert result.vms[0].error is not None
    return result.vms[0].error


@pytest.mark.parametrize("state", ["running", "present", "shutdown"])
@pytest.mark.parametrize("form", FORMS)
def test_a_missing_file_is_never_created_again(host: StorageHost, form: str, state: str) -> None:
    host.one(vm({"format": form}), state="shutdown")
    kept = host.folder.parent / "kept"
    (host.folder / FORMS[form]).rename(kept)
    error = refused(host, vm({"format": form}), state=state)
    for word in ("vms[0].disks[0]", FORMS[form], POOL, str(host.folder / FORMS[form]), f"recreate_disks: [{FORMS[form]}]"):
        assert word in error, error
    assert not host.domain("a").isActive()
    # restored, it serves as if nothing had happened
    kept.rename(host.folder / FORMS[form])
    assert not host.call(vm({"format": form}), state="shutdown").vms[0].changed


def test_a_layer_over_an_image_counts_as_well(host: StorageHost) -> None:
    host.image("tiny.qcow2")
    details = vm({"format": "qcow2", "image": "tiny", "backing": True})
    host.one(details, state="shutdown")
    (host.folder / "a-disk0.qcow2").unlink()
    assert "a-disk0.qcow2" in refused(host, details)


def test_a_changed_format_does_not_hide_that_the_volume_is_missing(host: StorageHost) -> None:
    host.one(vm(), state="shutdown")
    (host.folder / "a-disk0.img").unlink()
    assert "a-disk0.img" in refused(host, vm({"format": "qcow2"}))


def test_only_a_new_disk_of_a_vm_that_is_there_is_created(host: StorageHost) -> None:
    named = ({"name": "a-disk0.img"}, {"name": "a-disk1.img"})
    host.one(vm(named[0]), state="shutdown")
    added = host.one(vm(*named), state="shutdown")
    assert "create_volume footprint-test/a-disk1.img" in added.actions
    (host.folder / "a-disk1.img").unlink()
    assert "vms[0].disks[1]" in refused(host, vm(*named, {"name": "a-disk2.img"}))
    # one that left the definition may come again
    assert "redefine" in host.one(vm(named[0]), state="shutdown").actions
    assert "create_volume footprint-test/a-disk1.img" in host.one(vm(*named), state="shutdown").actions


def test_the_caller_may_have_it_created_again(host: StorageHost) -> None:
    host.one(vm({}, {}), state="shutdown")
    (host.folder / "a-disk0.img").unlink()
    (host.folder / "a-disk1.img").write_bytes(b"precious" * 2 * MIB)
    options = {"state": "shutdown", "recreate_disks": ["a-disk0.img", f"{POOL}/a-disk1.img"]}
    made = host.one(vm({}, {}), **options)
    assert made.actions == ["create_volume footprint-test/a-disk0.img"]
    # what is there is left as it is, whatever is asked for
    assert (host.folder / "a-disk1.img").read_bytes()[:8] == b"precious"


def test_an_unknown_disk_is_an_error_before_anything_is_done(host: StorageHost) -> None:
    for check in (True, False):
        with pytest.raises(InputError, match=r"recreate_disks\[0\].*a-disk7.*[Dd]id you mean a-disk0\.img"):
            host.call(vm(), check=check, recreate_disks=["a-disk7.img"])
    assert host.volumes() == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_protected_disk_is_not_created_again_even_when_asked(host: StorageHost, whole: bool) -> None:
    details = vm(protected=True) if whole else vm({"protected": True})
    host.one(details, state="shutdown")
    (host.folder / "a-disk0.img").unlink()
    error = refused(host, details, recreate_disks=["a-disk0.img"])
    assert "protected" in error and "recreate_disks: [" not in error


def test_a_disk_is_not_moved_to_another_pool_by_an_empty_one_there(host: StorageHost) -> None:
    other = host.folder.parent / "other"
    other.mkdir()
    pool = host.connections["qemu"].storagePoolCreateXML(f"<pool type='dir'><name>other</name><target><path>{other}</path></target></pool>")
    try:
        host.one(vm(), state="shutdown")
        error = refused(host, vm({"pool": "other"}), state="shutdown")
        assert str(host.folder / "a-disk0.img") in error and str(other / "a-disk0.img") in error
        assert list(other.iterdir()) == []
        (host.folder / "a-disk0.img").rename(other / "a-disk0.img")
        assert host.one(vm({"pool": "other"}), state="shutdown").actions == ["redefine"]
    finally:
        pool.destroy()
        shutil.rmtree(other)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_running_guest_still_has_open_can_be_rescued(host: StorageHost, form: str) -> None:
    details = vm({"format": form})
    path = host.folder / FORMS[form]
    host.one(details, state="shutdown")
    subprocess.run(["qemu-io", "-f", form, "-c", "write -P 0x5a 1M 64k", str(path)], check=True, stdout=subprocess.DEVNULL)
    host.one(details)
    path.unlink()
    for options in ({}, {"recreate_disks": [FORMS[form]]}):
        error = refused(host, details, **options)
        assert "still has it open" in error and "virsh suspend a" in error, error
    assert host.domain("a").isActive()
    # as the hint says
    host.domain("a").suspend()
    process = qemu_of("a", path.parent)
    handle = next(each for each in pathlib.Path(f"/proc/{process}/fd").iterdir() if os.readlink(each) == f"{path} (deleted)")
    subprocess.run(["cp", "--sparse=always", str(handle), str(path)], check=True)
    host.domain("a").destroy()
    read = subprocess.run(["qemu-io", "-r", "-f", form, "-c", "read -P 0x5a 1M 64k", str(path)], capture_output=True, text=True, check=True)
    assert "failed" not in read.stdout
    assert host.one(details).actions == ["start"]


def qemu_of(name: str, folder: pathlib.Path) -> int:
    """The process of a guest whose disks are in a folder: other tests on this machine have guests of the same name."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"qemu" in argv[0] and f"guest={name},debug-threads=on".encode() in argv and any(str(folder).encode() in each for each in argv):
            return int(process.name)
    raise AssertionError(f"no process of {name}")


@pytest.mark.parametrize("running", [True, False])
def test_the_root_of_a_container_is_never_unpacked_again(host: StorageHost, running: bool) -> None:
    host.root_image()
    details = {"id": "box", "disks": [{"image": "root"}]}
    host.one(details, kind="lxc")
    if not running:
        host.domain("box", "lxc").destroy()
    kept = host.folder.parent / "kept-root"
    (host.folder / "box-disk0").rename(kept)
    for check in (True, False):
        error = host.call(details, kind="lxc", check=check).vms[0].error or ""
        assert "box-disk0" in error and str(host.folder / "box-disk0") in error, error
        assert ("virsh -c lxc:///system domid box" in error) is running
    assert host.volumes() == []
    if running:
        # as the hint says
        first = subprocess.run(["pgrep", "-P", str(host.domain("box", "lxc").ID())], check=True, capture_output=True, text=True).stdout.split()[0]
        assert pathlib.Path(f"/proc/{first}/root/etc/inittab").read_text() == (kept / "etc" / "inittab").read_text()
    kept.rename(host.folder / "box-disk0")
    assert host.call(details, kind="lxc").vms[0].error is None


def test_a_domain_of_an_earlier_release_has_no_mark_and_is_safe_too(host: StorageHost) -> None:
    host.one(vm(), state="shutdown")
    assert "pending" not in host.domain("a").XMLDesc(2)
    (host.folder / "a-disk0.img").unlink()
    assert "a-disk0.img" in refused(host, vm())


@pytest.mark.parametrize("step", ["define", "set_metadata", "create", "set_autostart", "start"])
@pytest.mark.parametrize("after", [True, False])
def test_a_creation_killed_at_each_step_is_completed(host: StorageHost, step: str, after: bool) -> None:
    details = vm({}, {"format": "qcow2"})
    killed(VolumeStore if step == "create" else io_domains.DomainHost, step, after, lambda: host.call(details))
    completed = host.call(details, check=True).vms[0]
    result = host.call(details).vms[0]
    assert (completed.error, completed.actions) == (result.error, result.actions) and result.error is None
    assert host.domain("a").isActive() and len(host.volumes()) == 2
    assert "pending_disk" not in host.domain("a").XMLDesc(2)
    assert not host.call(details).vms[0].changed
    # and from then on it counts as made
    host.domain("a").destroy()
    (host.folder / host.volumes()[1]).unlink()
    assert "vms[0].disks[1]" in refused(host, details)
