# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies on another host that lost power; the storage tests use a real libvirtd over TCP."""

from __future__ import annotations

import errno
import pathlib
import types
import typing as t

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_room
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_remote_volumes import RemoteVolumes
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import Image, Pool, VolumePlan
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import plan_volume

POOL = Pool("p", "dir", "/pool", True)
NAME = "a-disk0.qcow2"


def failure(code: int) -> libvirt.libvirtError:
    """What libvirt raises."""
    error = libvirt.libvirtError("no")
    error.err = (code, 0, "no", 0, "", "", "", 0, 0)
    return error


class Folder:
    """A pool of files of another host: name → size, whether it is complete, and its backing file."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, bool, str]] = {"deb.qcow2": (8 * MIB, True, "")}
        # what happens to the next copy: nothing, a refusal, or the end of libvirt
        self.fails = ""

    def name(self) -> str:
        return "p"

    def refresh(self, flags: int) -> None:
        pass

    def storageVolLookupByName(self, name: str) -> t.Any:
        if name not in self.files:
            raise failure(libvirt.VIR_ERR_NO_STORAGE_VOL)
        size, unused, backing = self.files[name]
        layer = f"<backingStore><path>{backing}</path></backingStore>" if backing else ""
        return types.SimpleNamespace(
            name=lambda: name,
            path=lambda: f"/pool/{name}",
            info=lambda: (0, size, size),
            XMLDesc=lambda flags: f"<volume><target><format type='qcow2'/></target>{layer}</volume>",
            delete=lambda flags: self.files.pop(name),
            upload=lambda *unused: None,
        )

    def storageVolLookupByPath(self, path: str) -> t.Any:
        return self.storageVolLookupByName(path.rpartition("/")[2])

    def listAllVolumes(self, flags: int) -> list[t.Any]:
        return [self.storageVolLookupByName(name) for name in self.files]

    def createXML(self, xml: str, flags: int) -> t.Any:
        return self._create(xml)

    def createXMLFrom(self, xml: str, volume: t.Any, flags: int) -> t.Any:
        return self._create(xml)

    def newStream(self, flags: int) -> t.Any:
        return types.SimpleNamespace(sendAll=lambda *unused: None, finish=lambda: None, abort=lambda: None)

    def _create(self, xml: str) -> t.Any:
        document, fails = parse(xml), self.fails
        name = document.findtext("name")
        if name in self.files:
            raise failure(libvirt.VIR_ERR_STORAGE_VOL_EXIST)
        self.fails = ""
        if fails != "refused":
            self.files[name] = (int(document.findtext("capacity")), not fails, document.findtext("backingStore/path") or "")
        if fails:
            raise libvirt.libvirtError(fails)
        return self.storageVolLookupByName(name)


@pytest.fixture(name="there")
def fixture_there() -> Folder:
    return Folder()


def volumes(there: Folder, markers: pathlib.Path) -> RemoteVolumes:
    """As in each run."""
    return RemoteVolumes(POOL, there, markers, there, lambda: None)


def plan(found: RemoteVolumes, **details: t.Any) -> VolumePlan:
    disk = parse_vms([{"id": "a", "disks": [{"image": "deb", "format": "qcow2", **details}]}], cluster="lab")[0].disks[0]
    return plan_volume(disk, POOL, found.find(NAME, "d"), Image("deb", "/pool/deb.qcow2", "qcow2", 8 * MIB), "d")


@pytest.mark.parametrize("backing", [True, False])
def test_half_a_copy_is_created_again(there: Folder, tmp_path: pathlib.Path, backing: bool) -> None:
    there.fails = "the end"
    with pytest.raises(BackendError, match="cannot create the volume"):
        volumes(there, tmp_path).create(plan(volumes(there, tmp_path), backing=backing))
    assert there.files[NAME][1] is False
    again = volumes(there, tmp_path)
    assert again.find(NAME, "d") is None
    again.create(plan(again, backing=backing))
    assert there.files[NAME][1] is True and volumes(there, tmp_path).find(NAME, "d") is not None
    assert list(tmp_path.iterdir()) == []


def test_a_refused_copy_leaves_no_marker(there: Folder, tmp_path: pathlib.Path) -> None:
    there.fails = "refused"
    with pytest.raises(BackendError):
        volumes(there, tmp_path).create(plan(volumes(there, tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_a_volume_of_another_run_is_not_marked(there: Folder, tmp_path: pathlib.Path) -> None:
    run = volumes(there, tmp_path)
    planned = plan(run)
    # meanwhile, on another control node
    there.files[NAME] = (8 * MIB, True, "")
    with pytest.raises(BackendError):
        run.create(planned)
    assert volumes(there, tmp_path).find(NAME, "d") is not None and list(tmp_path.iterdir()) == []


def test_half_a_base_image_is_uploaded_again(there: Folder, tmp_path: pathlib.Path) -> None:
    there.files["deb.qcow2.partial"] = (8 * MIB, True, "")
    there.files["deb.qcow2"] = (8 * MIB, False, "")
    assert volumes(there, tmp_path).image("deb.qcow2") is None
    (tmp_path / "deb.qcow2").write_bytes(b"image")
    image = Image("deb", str(tmp_path / "deb.qcow2"), "qcow2", 8 * MIB, upload="deb.qcow2")
    found = volumes(there, tmp_path / "markers")
    found.create(plan(found)._replace(image=image))
    assert sorted(there.files) == [NAME, "deb.qcow2"] and there.files["deb.qcow2"][1] is True


def test_a_base_image_in_use_is_never_removed(there: Folder, tmp_path: pathlib.Path) -> None:
    there.files["deb.qcow2.partial"] = (8 * MIB, True, "")
    there.files["b-disk0.qcow2"] = (8 * MIB, True, "/pool/deb.qcow2")
    assert volumes(there, tmp_path).image("deb.qcow2") is not None


def test_a_full_folder_of_this_host_is_not_taken_for_the_pool() -> None:
    full = BackendError("cannot create the seed: No space left on device.")
    full.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(BackendError) as raised, io_room.explained(Pool("p", "dir", "/nonexistent", True), "/nonexistent/a-seed.iso"):
        raise full
    assert raised.value is full
