# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An entry removed from the disks or NICs of a VM is detached, also from the running guest, and no other entry changes."""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

import pytest
from lxml import etree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import tiny_guest  # noqa: E402
from storage_host import MIB, TEMPLATE, StorageHost  # noqa: E402

from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac  # noqa: E402
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms  # noqa: E402
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import VmResult  # noqa: E402
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source  # noqa: E402

NETWORK = "<network><name>{name}</name><bridge name='{bridge}' stp='off'/></network>"
NETWORKS = ("keys-a", "keys-b", "keys-c")
SIZES = (16, 24, 32)
Entry = t.Dict[str, t.Any]
UNNAMED_DISKS: list[Entry] = [{"size": f"{size} MiB"} for size in SIZES]
NAMED_DISKS = [dict(disk, name=f"a-{letter}.img") for letter, disk in zip("xyz", UNNAMED_DISKS)]
UNNAMED_NICS: list[Entry] = [{"network": name} for name in NETWORKS]
NAMED_NICS = [dict(nic, name=nic["network"][-1]) for nic in UNNAMED_NICS]


@pytest.fixture(name="host")
def fixture_networks(host: StorageHost) -> t.Iterator[StorageHost]:
    """With three networks that have no addresses."""
    made = []
    try:
        for number, name in enumerate(NETWORKS):
            made.append(host.connections["qemu"].networkDefineXML(NETWORK.format(name=name, bridge=f"rfk{number}{os.getpid() % 0xFFFFF:05x}")))
            made[-1].create()
        yield host
    finally:
        host.clear()
        for network in made:
            if network.isActive():
                network.destroy()
            network.undefine()


@pytest.fixture(name="template")
def fixture_template(host: StorageHost) -> tuple[str, pathlib.Path]:
    """One whose guest has a kernel, and its console."""
    return tiny_guest.template(TEMPLATE, host.images)


def vm(disks: t.Sequence[Entry] = (), nics: t.Sequence[Entry] = ()) -> dict[str, t.Any]:
    """A VM with some disks and NICs."""
    return {"id": "a", "disks": list(disks), "nics": list(nics), "memory_mb": 192}


def without(entries: t.Sequence[t.Any], *indexes: int) -> list[t.Any]:
    """A list less some entries."""
    return [entry for index, entry in enumerate(entries) if index not in indexes]


def documents(host: StorageHost) -> tuple[t.Any, ...]:
    """The definition, and what runs."""
    domain = host.domain("a")
    return tuple(etree.fromstring(domain.XMLDesc(flags)) for flags in ((2, 0) if domain.isActive() else (2,)))


def disks_of(host: StorageHost) -> dict[str, tuple[str, int]]:
    """Target → volume and MiB; the definition and what runs have to agree."""
    found = [
        {disk.find("target").get("dev"): disk.find("source").get("file") for disk in document.iterfind("devices/disk")} for document in documents(host)
    ]
    assert all(each == found[0] for each in found)
    if host.domain("a").isActive():
        # QEMU itself opened these files
        opened = host.domain("a").blockStats
        assert all(opened(target) for target in found[0])
    return {target: (os.path.basename(path), host.facts(path)["virtual-size"] // MIB) for target, path in found[0].items()}


def nics_of(host: StorageHost) -> dict[str, str]:
    """MAC → network; the definition and what runs have to agree."""
    found = [
        {nic.find("mac").get("address"): nic.find("source").get("network") for nic in document.iterfind("devices/interface")} for document in documents(host)
    ]
    assert all(each == found[0] for each in found)
    return found[0]


def refused(host: StorageHost, wanted: t.Mapping[str, t.Any], **options: t.Any) -> str:
    """The error of an edit that is refused, in check mode too, and changes nothing."""
    before, volumes = (disks_of(host), nics_of(host)), host.volumes()
    foreseen = host.call(wanted, check=True, **options).vms[0]
    result = host.call(wanted, **options).vms[0]
    assert foreseen.error == result.error and result.error is not None
    assert not result.changed and not foreseen.changed
    assert ((disks_of(host), nics_of(host)), host.volumes()) == (before, volumes)
    return result.error


def paths(result: VmResult) -> list[tuple[str, str, bool]]:
    """What changed, when, and whether it went."""
    return [(each["path"], each["class"], each["after"] is None) for each in result.changes]


@pytest.mark.parametrize("order", [(1, 0), (0, 2)])
def test_named_devices_are_detached_from_a_running_guest(host: StorageHost, template: tuple[str, pathlib.Path], order: tuple[int, int]) -> None:
    options = {"template": template[0], "live_timeout": 60}
    made = host.one(vm(NAMED_DISKS, NAMED_NICS), **options)
    disks, nics, number = disks_of(host), nics_of(host), host.domain("a").ID()
    assert list(nics) == made.macs == [nic_mac("storage", "a", name) for name in "abc"]
    tiny_guest.wait(template[1])
    gone: tuple[int, ...] = ()
    for index in order:
        gone += (index,)
        wanted = vm(without(NAMED_DISKS, *gone), without(NAMED_NICS, *gone))
        done = host.one(wanted, **options)
        assert paths(done) == [(f"devices/disk[vd{'abc'[index]}]", "live", True), (f"devices/interface[{list(nics)[index]}]", "live", True)]
        assert disks_of(host) == {target: found for target, found in disks.items() if target not in [f"vd{'abc'[each]}" for each in gone]}
        assert nics_of(host) == {mac: network for mac, network in nics.items() if network not in [NETWORKS[each] for each in gone]}
        assert (host.domain("a").ID(), done.restart_required) == (number, False)
        # the inventory comes to the same MACs, without asking the host
        assert parse_vms([wanted], cluster="storage")[0].macs == tuple(nics_of(host))
    # the volumes are kept, and a new entry gets an unused name
    assert all(disk["name"] in host.volumes() for disk in NAMED_DISKS)
    left = disks_of(host)
    host.one(vm([*without(NAMED_DISKS, *gone), {"name": "new.img", "size": "8 MiB"}], without(NAMED_NICS, *gone)), **options)
    assert disks_of(host) == {**left, {(1, 0): "vdd", (0, 2): "vdc"}[order]: ("new.img", 8)}


def test_unnamed_devices_are_detached_once_the_others_are_named(host: StorageHost, template: tuple[str, pathlib.Path]) -> None:
    options = {"template": template[0], "live_timeout": 60}
    host.one(vm(UNNAMED_DISKS, UNNAMED_NICS), **options)
    disks, nics, number = disks_of(host), nics_of(host), host.domain("a").ID()
    macs = list(nics)
    for index in (0, 1):
        rest = without(range(3), index)
        error = refused(host, vm(without(UNNAMED_DISKS, index), UNNAMED_NICS), **options)
        assert "vms[0].disks: it is not certain which disk is which" in error
        assert all(f"name: a-disk{disk}.img in disks[{place}]" in error for place, disk in enumerate(rest))
        error = refused(host, vm(UNNAMED_DISKS, without(UNNAMED_NICS, index)), **options)
        assert "vms[0].nics: it is not certain which NIC is which" in error
        assert all(f"mac: {macs[nic]} in nics[{place}]" in error for place, nic in enumerate(rest))
    tiny_guest.wait(template[1])
    named = [dict(disk, name=f"a-disk{place}.img") for place, disk in enumerate(UNNAMED_DISKS)]
    fixed = [dict(nic, mac=mac) for nic, mac in zip(UNNAMED_NICS, macs)]
    for gone in ((0,), (0, 1)):
        done = host.one(vm(without(named, *gone), without(fixed, *gone)), **options)
        assert disks_of(host) == dict(list(disks.items())[len(gone) :])
        assert nics_of(host) == dict(list(nics.items())[len(gone) :])
        assert (host.domain("a").ID(), done.restart_required) == (number, False)


def test_last_unnamed_device_is_detached(host: StorageHost) -> None:
    host.one(vm(UNNAMED_DISKS, UNNAMED_NICS), state="shutdown")
    disks, nics = disks_of(host), nics_of(host)
    host.one(vm(UNNAMED_DISKS[:2], UNNAMED_NICS[:2]), state="shutdown")
    assert disks_of(host) == dict(list(disks.items())[:2])
    assert nics_of(host) == dict(list(nics.items())[:2])
    host.one(vm((), ()), state="shutdown")
    assert (disks_of(host), nics_of(host)) == ({}, {})


@pytest.mark.parametrize(
    "edit",
    [
        lambda disks: [{"size": "64 MiB"}, *disks],
        lambda disks: [*disks[1:], {"size": "64 MiB"}],
        lambda disks: [disks[1], disks[2], dict(disks[2], size="40 MiB")],
        lambda disks: [dict(disk, name=f"b{number}.img") for number, disk in enumerate(disks)],
        lambda disks: [dict(disks[0], size="20 MiB"), disks[1]],
    ],
    ids=["inserted in front", "removed and appended", "moved up", "renamed", "removed and grown"],
)
def test_other_edits_of_unnamed_disks_are_refused(host: StorageHost, edit: t.Callable[[list[Entry]], list[Entry]]) -> None:
    host.one(vm(UNNAMED_DISKS), state="shutdown")
    assert "it is not certain which disk is which" in refused(host, vm(edit(UNNAMED_DISKS)), state="shutdown")


def test_ambiguous_identical_disks_are_refused(host: StorageHost) -> None:
    disks: list[Entry] = [{"size": "16 MiB"}] * 3
    host.one(vm(disks), state="shutdown")
    assert "it is not certain which disk is which" in refused(host, vm(disks[:2]), state="shutdown")
    host.one(vm([dict(disks[0], name="a-disk0.img"), dict(disks[0], name="a-disk2.img")]), state="shutdown")
    assert disks_of(host) == {"vda": ("a-disk0.img", 16), "vdc": ("a-disk2.img", 16)}


def test_changes_in_place_are_applied(host: StorageHost) -> None:
    host.one(vm(UNNAMED_DISKS, UNNAMED_NICS), state="shutdown")
    macs = list(nics_of(host))
    host.one(vm([dict(UNNAMED_DISKS[0], size="20 MiB"), *UNNAMED_DISKS[1:], {"size": "8 MiB"}], [*UNNAMED_NICS, UNNAMED_NICS[0]]), state="shutdown")
    assert disks_of(host) == {"vda": ("a-disk0.img", 20), "vdb": ("a-disk1.img", 24), "vdc": ("a-disk2.img", 32), "vdd": ("a-disk3.img", 8)}
    assert list(nics_of(host))[:3] == macs and len(nics_of(host)) == 4


def test_nic_keeps_its_mac_when_named(host: StorageHost) -> None:
    host.one(vm(nics=UNNAMED_NICS), state="shutdown")
    before = nics_of(host)
    named = [dict(nic, name=f"n{number}") for number, nic in enumerate(UNNAMED_NICS)]
    assert f"mac: {list(before)[0]} in nics[0]" in refused(host, vm(nics=named), state="shutdown")
    # the number of a position is its name
    assert not host.call(vm(nics=[dict(nic, name=number) for number, nic in enumerate(UNNAMED_NICS)]), state="shutdown").vms[0].changed
    assert not host.call(vm(nics=[dict(nic, mac=mac) for nic, mac in zip(named, before)]), state="shutdown").vms[0].changed
    host.one(vm(nics=[dict(UNNAMED_NICS[2], name=2)]), state="shutdown")
    assert nics_of(host) == {list(before)[2]: NETWORKS[2]}


def test_container_keeps_its_folders(host: StorageHost) -> None:
    host.root_image()
    disks: list[Entry] = [{"image": "root"}, {"mount": "/a"}, {"mount": "/b"}]
    made = {"id": "c", "disks": disks}
    host.one(made, kind="lxc", state="present", template=template_source("lxc"))
    for folder in "12":
        (host.folder / f"c-disk{folder}" / "mark").write_text(folder)
    error = host.call({"id": "c", "disks": [disks[0], disks[2]]}, kind="lxc", state="present", template=template_source("lxc")).vms[0].error
    assert error is not None and "name: c-disk2 in disks[1]" in error
    left = {"id": "c", "disks": [disks[0], dict(disks[2], name="c-disk2")]}
    host.one(left, kind="lxc", state="present", template=template_source("lxc"))
    document = etree.fromstring(host.domain("c", "lxc").XMLDesc(2))
    shown = {each.find("target").get("dir"): os.path.basename(each.find("source").get("dir")) for each in document.iterfind("devices/filesystem")}
    assert shown == {"/": "c-disk0", "/b": "c-disk2"}


def test_adopted_domain_keeps_its_devices(host: StorageHost) -> None:
    made = vm(NAMED_DISKS, [dict(nic, mac=f"52:54:00:77:00:0{number}") for number, nic in enumerate(UNNAMED_NICS)])
    host.one(made, state="shutdown")
    domain = host.domain("a")
    document = etree.fromstring(domain.XMLDesc(2))
    document.remove(document.find("metadata"))
    domain.undefine()
    host.connections["qemu"].defineXML(etree.tostring(document, encoding="unicode"))
    taken = host.call(vm(UNNAMED_DISKS, UNNAMED_NICS), adopt=True, state="shutdown").vms[0]
    assert taken.error is None
    disks, nics = disks_of(host), nics_of(host)
    assert not host.call(vm(UNNAMED_DISKS, UNNAMED_NICS), state="shutdown").vms[0].changed
    error = refused(host, vm(UNNAMED_DISKS[1:], UNNAMED_NICS), state="shutdown")
    assert "vda (a-x.img), vdb (a-y.img), vdc (a-z.img)" in error and "Write the targets of the remaining disks" in error
    error = refused(host, vm(UNNAMED_DISKS, UNNAMED_NICS[1:]), state="shutdown")
    assert "mac: 52:54:00:77:00:01 in nics[0], mac: 52:54:00:77:00:02 in nics[1]" in error
    left = vm(
        [dict(UNNAMED_DISKS[1], target="vdb"), dict(UNNAMED_DISKS[2], target="vdc")], [dict(nic, mac=mac) for nic, mac in list(zip(UNNAMED_NICS, nics))[1:]]
    )
    assert host.call(left, state="shutdown").vms[0].error is None
    assert disks_of(host) == dict(list(disks.items())[1:])
    assert nics_of(host) == dict(list(nics.items())[1:])
    assert not host.call(left, state="shutdown").vms[0].changed
