# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes only libvirt can make, with a volume group that plays along.

The device mapper is not in every kernel. Real block devices (partitions) are tried beside the
other storage tests, a real volume group on a server under QEMU (tests/lvm).
"""

from __future__ import annotations

import pathlib
import types
import typing as t

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_pools import PoolVolumes
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import Image, Pool, VolumePlan
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import plan_volume

EXTENT = 4 * MIB
POOL = Pool("vg0", "logical", "/dev/vg0")
IMAGE = Image("deb", "/images/deb", "qcow2", 8 * MIB)
NAME = "a-disk0.img"


def failure(code: int) -> libvirt.libvirtError:
    """What libvirt raises."""
    error = libvirt.libvirtError("no")
    error.err = (code, 0, "it does not want to", 0, "", "", "", 0, 0)
    return error


class Group:
    """A volume group: whole extents, no format, names that are taken stay so."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        # made by others, and not known to libvirt before it looks
        self.beside: dict[str, int] = {}
        self.busy = False
        self.looks = 0
        self.said: list[str] = []
        self.kind = 1
        self.stubborn = False

    def refresh(self, flags: int) -> None:
        self.looks += 1
        if self.busy:
            raise failure(libvirt.VIR_ERR_INTERNAL_ERROR)
        self.sizes.update(self.beside)

    def storageVolLookupByName(self, name: str) -> t.Any:
        if name not in self.sizes:
            raise failure(libvirt.VIR_ERR_NO_STORAGE_VOL)
        return types.SimpleNamespace(
            info=lambda: (self.kind, self.sizes[name], self.sizes[name]),
            path=lambda: f"/dev/vg0/{name}",
            XMLDesc=lambda flags: "<volume><target/></volume>",
            wipe=lambda flags: self.said.append("wipe"),
            delete=lambda flags: self._delete(name),
        )

    def createXML(self, xml: str, flags: int) -> t.Any:
        document = parse(xml)
        assert document.find("target/format") is None
        if document.findtext("name") in self.sizes:
            raise failure(libvirt.VIR_ERR_STORAGE_VOL_EXIST)
        self._set("create", document.findtext("name"), int(document.findtext("capacity")))
        return self.storageVolLookupByName(document.findtext("name"))

    def _set(self, verb: str, name: str, size: int) -> None:
        self.said.append(verb)
        self.sizes[name] = -(-size // EXTENT) * EXTENT

    def _delete(self, name: str) -> None:
        if self.stubborn:
            raise failure(libvirt.VIR_ERR_INTERNAL_ERROR)
        self.said.append("delete")
        del self.sizes[name]


class Bench:
    """A group, what we do with it, and a qemu-img that writes down what it is asked."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.group = Group()
        self.marker = folder / f"vg0.{NAME}.unfinished"
        self.volumes = PoolVolumes(POOL, self.group, folder)
        monkeypatch.setattr(io_command, "run", self.convert)

    def convert(self, argv: t.Sequence[str], **unused: t.Any) -> None:
        """What qemu-img would do while the marker stands, and lvextend."""
        if argv[0] == "lvextend":
            assert argv[-1] == f"/dev/vg0/{NAME}" and argv[-2].endswith("b")
            self.group._set("lvextend", NAME, int(argv[-2][:-1]))
            return
        assert self.marker.exists()
        self.group.said.append(f"convert to {argv[-1]}")

    def plan(self, image: Image | None = None, size: str = "10 MiB") -> VolumePlan:
        """The decision about the only disk."""
        details = {"id": "a", "disks": [{"size": size, "image": "deb"} if image else {"size": size}]}
        disk = parse_vms([details], cluster="lab")[0].disks[0]
        return plan_volume(disk, POOL, self.volumes.find(NAME, "d"), image, "d")


@pytest.fixture(name="bench")
def fixture_bench(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A volume group of its own."""
    return Bench(tmp_path, monkeypatch)


@pytest.mark.parametrize("stubborn, said", [(False, ["delete", "create"]), (True, [])])
@pytest.mark.parametrize("image", [None, IMAGE])
def test_leftover_of_a_killed_run_is_created_again(bench: Bench, stubborn: bool, said: list[str], image: Image | None) -> None:
    bench.group.sizes[NAME], bench.group.stubborn = 12 * MIB, stubborn
    bench.marker.write_text("")
    assert bench.volumes.find(NAME, "d") is None and bench.volumes.leaving(NAME)
    bench.volumes.create(bench.plan(image))
    assert bench.group.said == said + ([f"convert to /dev/vg0/{NAME}"] if image else [])
    assert bench.volumes.find(NAME, "d") is not None and not bench.marker.exists()


def test_leftover_that_is_too_small_is_reported(bench: Bench) -> None:
    bench.group.sizes[NAME], bench.group.stubborn = 4 * MIB, True
    bench.marker.write_text("")
    with pytest.raises(BackendError, match="cannot create the volume a-disk0.img: it does not want to"):
        bench.volumes.create(bench.plan(IMAGE))
    assert bench.volumes.find(NAME, "d") is None


def test_it_grows(bench: Bench) -> None:
    bench.volumes.create(bench.plan())
    plan = bench.plan(size="30 MiB")
    assert plan.how == "grow"
    bench.volumes.grow(NAME, plan.size)
    # a run that is killed here has not resized the running domain: the next one does
    assert bench.plan(size="30 MiB").how == "grow"
    bench.volumes.grow(NAME, plan.size)
    bench.volumes.grown(NAME)
    assert bench.plan(size="30 MiB").how == "keep"
    assert bench.group.said == ["create", "lvextend"]


def test_half_a_wipe_is_never_used(bench: Bench) -> None:
    bench.volumes.create(bench.plan())
    bench.group.stubborn = True
    with pytest.raises(BackendError, match="cannot remove the volume"):
        bench.volumes.remove(NAME, True)
    assert bench.volumes.find(NAME, "d") is None and bench.volumes.leaving(NAME)


def test_what_only_the_network_reaches_is_refused(bench: Bench) -> None:
    bench.volumes.create(bench.plan())
    bench.group.kind = 3
    with pytest.raises(InputError, match="is accessible only over the network"):
        bench.volumes.find(NAME, "d")


@pytest.mark.parametrize("busy", [False, True])
def test_what_others_made_beside_libvirt_is_found(bench: Bench, busy: bool) -> None:
    bench.group.beside[NAME], bench.group.busy = 2 * EXTENT, busy
    found = bench.volumes.find(NAME, "d")
    assert (found is None) == busy
    assert bench.volumes.find("another", "d") is None and bench.group.looks == 1
