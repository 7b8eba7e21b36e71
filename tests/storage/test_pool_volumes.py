# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A template may give disks by pool and volume: libvirt looks these up in its own list of the pool when the VM starts."""

from __future__ import annotations

import typing as t

import pytest

from storage_host import MIB, TEMPLATE, StorageHost

_FILE = TEMPLATE[TEMPLATE.index("{% for disk in disks") :]
_FILE = _FILE[: _FILE.index("{% endfor %}") + len("{% endfor %}")]
_VOLUME = """{% for disk in disks %}
    <disk type="volume" device="disk">
      <driver name="qemu" type="{{ disk.format }}"/>
      <source pool="{{ disk.pool }}" volume="{{ disk.name }}"/>
      <target dev="{{ disk.target }}" bus="{{ disk.bus }}"/>
    </disk>
{% endfor %}"""
BY_VOLUME = TEMPLATE.replace(_FILE, _VOLUME)


def vm(*disks: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A VM with these disks, each of 16 MiB."""
    return {"id": "a", "disks": [{"size": "16 MiB", **disk} for disk in disks]}


@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_one_run_creates_and_starts_it(host: StorageHost, form: str) -> None:
    made = host.one(vm({"format": form}), template=BY_VOLUME)
    assert made.actions[-1] == "start" and "type='volume'" in host.domain("a").XMLDesc()


def test_one_run_attaches_another_disk_to_a_running_vm(host: StorageHost) -> None:
    host.one(vm({}), template=BY_VOLUME)
    number = host.domain("a").ID()
    added = host.one(vm({}, {"format": "qcow2"}), template=BY_VOLUME)
    assert not added.restart_required
    assert (host.domain("a").ID(), host.domain("a").blockInfo("vdb")[0]) == (number, 16 * MIB)


@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_it_grows_below_a_running_vm(host: StorageHost, form: str) -> None:
    host.one(vm({"format": form}), template=BY_VOLUME)
    grown = host.one(vm({"format": form, "size": "24 MiB"}), template=BY_VOLUME)
    assert [action.split()[0] for action in grown.actions] == ["grow_volume"]
    assert host.domain("a").blockInfo("vda")[0] == 24 * MIB


@pytest.mark.parametrize("running", [True, False])
def test_it_is_not_created_again(host: StorageHost, running: bool) -> None:
    host.one(vm({}), template=BY_VOLUME, state="running" if running else "shutdown")
    (host.folder / "a-disk0.img").unlink()
    for check in (True, False):
        error = host.call(vm({}), template=BY_VOLUME, check=check).vms[0].error or ""
        assert "a-disk0.img of the pool footprint-test is missing" in error
        assert ("still has it open" in error) is running
    assert host.volumes() == []


def test_its_volumes_go_with_it(host: StorageHost) -> None:
    host.one(vm({}, {"format": "qcow2"}), template=BY_VOLUME)
    removed = host.call({"id": "a"}, template=BY_VOLUME, state="absent", remove_disks=True).vms[0]
    assert (removed.error, host.volumes()) == (None, [])


def test_a_run_that_was_killed_before_libvirt_saw_the_volume_is_completed(host: StorageHost) -> None:
    host.call(vm({}), template=BY_VOLUME, state="present")
    pool = host.connections["qemu"].storagePoolLookupByName("footprint-test")
    # as if the call above had been killed before it let libvirt see what it had created
    kept = host.folder.parent / "kept.img"
    (host.folder / "a-disk0.img").rename(kept)
    pool.refresh()
    kept.rename(host.folder / "a-disk0.img")
    assert "a-disk0.img" not in pool.listVolumes()
    assert host.one(vm({}), template=BY_VOLUME).actions == ["start"]
