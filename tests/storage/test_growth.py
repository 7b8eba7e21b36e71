# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Existing volumes are increased, also in running guests, and never shrunk or converted."""

from __future__ import annotations

import os
import typing as t

import pytest

from storage_host import MIB, StorageHost

FORMS: dict[str, dict[str, t.Any]] = {
    "raw": {},
    "qcow2": {"format": "qcow2"},
    "layer": {"format": "qcow2", "image": "tiny", "backing": True},
}


def vm(mib: int, **disk: t.Any) -> dict[str, t.Any]:
    """A VM with one disk."""
    return {"id": "a", "disks": [dict(disk, size=f"{mib} MiB")]}


@pytest.mark.parametrize("state", ["running", "shutdown"])
@pytest.mark.parametrize("form", FORMS)
def test_disk_is_increased_with_the_details(host: StorageHost, form: str, state: str) -> None:
    host.image("tiny.qcow2")
    made = host.one(vm(16, **FORMS[form]), state=state)
    number = host.domain("a").ID()
    grown = host.one(vm(24, **FORMS[form]), state=state)
    assert [action.split()[0] for action in grown.actions] == ["grow_volume"]
    assert grown.changes == [{"path": "disks[vda].size", "class": "live", "before": "16 MiB", "after": "24 MiB", "applied": "16 MiB"}]
    assert grown.disks[0]["capacity_bytes"] == host.facts(grown.disks[0]["path"])["virtual-size"] == 24 * MIB
    # sparse: unwritten blocks take no space
    assert grown.disks[0]["allocation_bytes"] < MIB
    assert not grown.restart_required
    # the guest was not touched, and its own block layer knows
    assert (host.domain("a").ID(), made.uuid) == (number, grown.uuid)
    if state == "running":
        assert host.domain("a").blockInfo("vda")[0] == 24 * MIB


def test_disks_are_increased_separately(host: StorageHost) -> None:
    disks = [{"size": "16 MiB"}, {"size": "16 MiB", "format": "qcow2"}]
    host.one({"id": "a", "disks": disks})
    grown = host.one({"id": "a", "disks": [disks[0], dict(disks[1], size="20 MiB")]})
    assert grown.actions == ["grow_volume footprint-test/a-disk1.qcow2"]
    assert [disk["capacity_bytes"] for disk in grown.disks] == [16 * MIB, 20 * MIB]


@pytest.mark.parametrize("form", FORMS)
def test_disk_is_never_shrunk(host: StorageHost, form: str) -> None:
    host.image("tiny.qcow2")
    host.one(vm(16, **FORMS[form]))
    for check in (True, False):
        refused = host.call(vm(12, **FORMS[form]), {"id": "b"}, check=check)
        assert "vms[0].disks[0].size" in refused.vms[0].error
        assert "has 16 MiB, wanted is 12 MiB; shrinking" in refused.vms[0].error
        assert not refused.vms[0].changed
        # the other VM is done
        assert refused.vms[1].error is None and refused.vms[1].changed
    assert host.facts(host.folder / ("a-disk0.img" if form == "raw" else "a-disk0.qcow2"))["virtual-size"] == 16 * MIB


@pytest.mark.parametrize("before, after", [("raw", "qcow2"), ("qcow2", "raw")])
@pytest.mark.parametrize("name", [None, "mine"])
def test_format_is_never_changed(host: StorageHost, before: str, after: str, name: str | None) -> None:
    named = {"name": name} if name else {}
    host.one(vm(16, format=before, **named))
    there = host.volumes()
    refused = host.call(vm(16, format=after, **named)).vms[0]
    assert "vms[0].disks[0].format" in refused.error and f"is {before}, wanted is {after}" in refused.error
    assert host.volumes() == there


def test_image_header_in_a_raw_disk_is_ignored(host: StorageHost) -> None:
    host.one(vm(16), state="shutdown")
    with (host.folder / "a-disk0.img").open("r+b") as stream:
        stream.write(b"QFI\xfb\x00\x00\x00\x03" + bytes(100))
    grown = host.one(vm(24), state="shutdown")
    assert (grown.error, grown.disks[0]["capacity_bytes"]) == (None, 24 * MIB)


def test_different_image_is_reported_and_changes_nothing(host: StorageHost) -> None:
    for name in ("tiny.qcow2", "other.qcow2"):
        host.image(name)
    host.one(vm(16, image="tiny"))
    result = host.call(vm(16, image="other"))
    assert not result.vms[0].changed
    assert len([warning for warning in result.warnings if "was created from the image tiny and is kept; image: other applies only" in warning]) == 1


def test_changed_or_missing_backing_image_is_reported(host: StorageHost) -> None:
    image = host.image("tiny.qcow2")
    layer = vm(16, **FORMS["layer"])
    host.one(layer)
    assert not [warning for warning in host.call(layer).warnings if "the backing file" in warning]
    os.utime(image, (1, 1))
    changed = host.call(layer)
    assert len([warning for warning in changed.warnings if "has changed since the layer was created" in warning]) == 1
    assert not changed.vms[0].changed
    image.unlink()
    # what runs runs on
    running = host.call(layer)
    assert (running.vms[0].error, len([warning for warning in running.warnings if "is missing" in warning])) == (None, 1)
    host.domain("a").destroy()
    gone = host.call(layer).vms[0]
    assert "vms[0].disks[0].image" in gone.error and f"the backing file {image} of the volume" in gone.error and "cannot start" in gone.error


def test_serial_numbers_reach_the_guest(host: StorageHost) -> None:
    host.one(vm(16, serial="ROOT 1"))
    assert "<serial>ROOT 1</serial>" in host.domain("a").XMLDesc()


def test_volume_of_a_refused_definition_is_removed(host: StorageHost) -> None:
    host.one(vm(16), state="present")
    more = {"id": "a", "machine": "no-such-machine", "disks": [{"size": "16 MiB"}, {"size": "16 MiB"}]}
    refused = host.call(more, state="present").vms[0]
    assert refused.error is not None
    assert host.volumes() == ["a-disk0.img"]
    # what was there before is as it was, and the VM too
    assert not host.call(vm(16), state="present").vms[0].changed
