# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random edits of lists of disks and NICs: what stays keeps its MAC, volume and target, or the edit is refused; tests/storage asks real guests."""

from __future__ import annotations

import dataclasses
import os
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_keys, xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.xml_devices import recorded_disks
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_template import Template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_variables import variables_of

TEMPLATE = Template(template_source("bios"))
Entry = t.Dict[str, t.Any]


class Store:
    """Two pools of files in memory: path → size and image."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, str | None]] = {}

    def pool(self, name: str, path: str) -> model_storage.Pool:
        if name not in ("default", "fast"):
            raise InputError(f"the host has no storage pool {name!r}.", path)
        return model_storage.Pool(name, "dir", f"/pools/{name}")

    def pool_of(self, path: str) -> tuple[model_storage.Pool, str] | None:
        return self.pool(os.path.basename(os.path.dirname(path)), "pool"), os.path.basename(path)

    def place(self, pool: model_storage.Pool, name: str) -> str:
        return f"{pool.path}/{name}"

    def source(self, pool: model_storage.Pool, disk: t.Any, path: str) -> model_storage.DiskSource:
        return model_storage.DiskSource("file", self.place(pool, disk.name), pool.name)

    def has(self, pool: model_storage.Pool, name: str) -> bool:
        return self.place(pool, name) in self.files

    def find(self, pool: model_storage.Pool, disk: t.Any, path: str, raw: bool = False) -> model_storage.Volume | None:
        place = self.place(pool, disk.name)
        if place not in self.files:
            return None
        size, image = self.files[place]
        origin = model_storage.Origin(image, "", 1, 1) if image else None
        return model_storage.Volume(place, "file", "qcow2" if place.endswith("qcow2") else "raw", size, 0, None, origin)


class Footprint:
    """One VM through several runs: the decisions of vm_define about keys, and nothing else."""

    def __init__(self) -> None:
        self.store = Store()
        self.applied: t.Any = None

    def run(self, disks: list[Entry], nics: list[Entry]) -> t.Any:
        """One run; the document that is applied now."""
        (vm,) = parse_vms([{"id": "a", "disks": disks, "nics": nics}], cluster="lab")
        if self.applied is not None:
            grows = any(disk.size > self.store.files.get(place, (disk.size, None))[0] for disk, place in self.placed(vm))
            vm = dataclasses.replace(vm, disks=run_keys.settle_disks(vm, self.applied, t.cast(t.Any, self.store), "default", grows))
        plans = []
        for disk, place in self.placed(vm):
            found = self.store.files.get(place)
            if found is not None and disk.size < found[0]:
                raise RefusedError("shrinks.")
            how = model_storage.EMPTY if found is None else model_storage.KEEP
            plans.append(model_storage.VolumePlan(how, disk, self.store.pool(disk.pool or "default", ""), None, disk.size))
        sources = [model_storage.DiskSource("file", place, "default") for unused, place in self.placed(vm)]
        document = xml_domain.parse(TEMPLATE.render(variables_of(vm, "lab", "kvm", sources)).text)
        xml_domain.finish(document, vm, "lab", "kvm")
        if self.applied is not None:
            run_keys.check_edit(vm, "lab", plans, document, self.applied, False)
        for disk, place in self.placed(vm):
            self.store.files[place] = (disk.size, disk.image or self.store.files.get(place, (0, None))[1])
        # as it is read back from the metadata
        self.applied = xml_domain.parse(xml_domain.canonical(document))
        return self.applied

    def placed(self, vm: VmDetails) -> list[tuple[t.Any, str]]:
        return [(disk, f"/pools/{disk.pool or 'default'}/{disk.name}") for disk in vm.disks]


def identities(document: t.Any) -> tuple[list[tuple[str, str]], list[str]]:
    """Volume and target of each disk, MAC of each NIC, in the order of the details."""
    return [(path, disk.target) for path, disk in recorded_disks(document).items()], xml_domain.macs_of(document)


def disk(size: int, **more: t.Any) -> Entry:
    return dict({"size": f"{size} MiB"}, **more)


def nic(bridge: int, **more: t.Any) -> Entry:
    return dict({"bridge": f"br{bridge}"}, **more)


# few values, so that entries look alike
DISKS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["virtio", "scsi"]), st.sampled_from([None, "default", "fast"]), st.booleans()), max_size=5)
NICS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, 5]), st.sampled_from(["none", "none", "name", "mac"])), max_size=5)
EDITS = st.tuples(st.sampled_from(["remove", "insert", "swap", "change", "append", "nothing"]), st.integers(0, 5), st.integers(0, 5), st.booleans())


def disk_entries(drawn: list[tuple[t.Any, ...]]) -> list[Entry]:
    made = []
    for number, (size, bus, pool, named) in enumerate(drawn):
        made.append(disk(10 * size, bus=bus, **({"pool": pool} if pool else {}), **({"name": f"n{number}.img"} if named else {})))
    return made


def nic_entries(drawn: list[tuple[t.Any, ...]]) -> list[Entry]:
    made = []
    for number, (bridge, vlan, key) in enumerate(drawn):
        more = {"name": {"name": f"n{number}"}, "mac": {"mac": f"52:54:00:99:00:0{number}"}, "none": {}}[key]
        made.append(nic(bridge, **({"vlan": vlan} if vlan else {}), **more))
    return made


def edited(entries: list[Entry], edit: tuple[t.Any, ...], new: Entry, change: t.Callable[[Entry], Entry]) -> tuple[list[Entry], list[int | None]]:
    """The list after an edit, and where each entry was before (``None``: nowhere)."""
    what, one, other, named = edit
    pairs: list[tuple[Entry, int | None]] = list(zip(entries, range(len(entries))))
    if what == "append":
        pairs.append((new if not named else dict(new, name="new.img" if "size" in new else "new"), None))
    elif what == "insert":
        pairs.insert(one % (len(pairs) + 1), (new if not named else dict(new, name="new.img" if "size" in new else "new"), None))
    elif pairs and what == "remove":
        del pairs[one % len(pairs)]
    elif pairs and what == "swap":
        first, second = one % len(pairs), other % len(pairs)
        if pairs[first][0] != pairs[second][0]:
            pairs[first], pairs[second] = pairs[second], pairs[first]
    elif pairs and what == "change":
        pairs[one % len(pairs)] = (change(pairs[one % len(pairs)][0]), pairs[one % len(pairs)][1])
    return [entry for entry, unused in pairs], [before for unused, before in pairs]


@given(DISKS, NICS, EDITS, EDITS)
def test_what_stays_keeps_what_it_has(disks: list[t.Any], nics: list[t.Any], disk_edit: t.Any, nic_edit: t.Any) -> None:
    footprint = Footprint()
    try:
        first = identities(footprint.run(disk_entries(disks), nic_entries(nics)))
    except InputError:
        # names that two have
        return
    new_disks, disks_before = edited(disk_entries(disks), disk_edit, disk(200), lambda entry: dict(entry, size="90 MiB"))
    new_nics, nics_before = edited(nic_entries(nics), nic_edit, nic(9), lambda entry: dict(entry, bridge="br8"))
    everything_named = all("name" in each for each in disk_entries(disks) + new_disks) and all(
        "name" in each or "mac" in each for each in nic_entries(nics) + new_nics
    )
    try:
        second = identities(footprint.run(new_disks, new_nics))
    except FootprintError as error:
        # a name leaves nothing to guess
        assert not everything_named, error
        # and what changes nothing is never refused
        assert (new_disks, new_nics) != (disk_entries(disks), nic_entries(nics)), error
        return
    for now, before in enumerate(disks_before):
        if before is not None:
            assert second[0][now] == first[0][before]
    for now, before in enumerate(nics_before):
        if before is not None:
            assert second[1][now] == first[1][before]
    # no disk gets the volume of another one: a new disk is a new volume
    assert len({target for unused, target in second[0]}) == len(second[0])
    assert len(set(second[1])) == len(second[1])
    if None in disks_before:
        assert second[0][disks_before.index(None)][0] not in {path for path, unused in first[0]}
    # the inventory knows the details alone
    assert list(parse_vms([{"id": "a", "disks": new_disks, "nics": new_nics}], cluster="lab")[0].macs) == second[1]
    assert identities(footprint.run(new_disks, new_nics)) == second


@given(DISKS, NICS, st.integers(0, 5), st.integers(0, 5))
def test_the_way_out_leads_out(disks: list[t.Any], nics: list[t.Any], first_gone: int, second_gone: int) -> None:
    """Every refused removal is made once the others have what the error names."""
    footprint = Footprint()
    try:
        first = identities(footprint.run(disk_entries(disks), nic_entries(nics)))
    except InputError:
        return
    kept_disks = [
        dict(entry, name=os.path.basename(path)) for index, (entry, (path, unused)) in enumerate(zip(disk_entries(disks), first[0])) if index != first_gone
    ]
    kept_nics = [dict(entry, mac=mac) for index, (entry, mac) in enumerate(zip(nic_entries(nics), first[1])) if index != second_gone]
    second = identities(footprint.run(kept_disks, kept_nics))
    assert second[0] == [found for index, found in enumerate(first[0]) if index != first_gone]
    assert second[1] == [found for index, found in enumerate(first[1]) if index != second_gone]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([disk(10), disk(20)], [disk(20)], "vms[0].disks: it is not certain which disk is which: disks[0] could be vdb (a-disk1.img)"),
        ([disk(10), disk(20)], [disk(20)], "name: a-disk1.img in disks[0]; the VM has vda (a-disk0.img), vdb (a-disk1.img)."),
        ([disk(10), disk(10), disk(10, name="x.img")], [disk(10), disk(10, name="x.img")], "it is not certain which disk is which"),
        ([disk(10)], [disk(10, name="root.img")], "Replacing a disk by a new one takes two runs"),
        ([disk(10, name="x.img")], [disk(10)], "Write name: x.img into disks[0] to keep that disk"),
        (
            [disk(10, name="x.img"), disk(10, name="y.img")],
            [disk(10, name="x.img", target="vdb"), disk(10, name="y.img")],
            "'vdb' is already the target of disks[1]",
        ),
    ],
)
def test_the_error_says_what_to_write(before: list[Entry], after: list[Entry], said: str) -> None:
    footprint = Footprint()
    footprint.run(before, [])
    with pytest.raises(RefusedError) as raised:
        footprint.run(after, [])
    assert said in str(raised.value)


def test_a_named_disk_that_stays_is_none_of_those_that_went() -> None:
    footprint = Footprint()
    footprint.run([disk(10), disk(10, name="x.img")], [])
    assert identities(footprint.run([disk(10, name="x.img")], []))[0] == [("/pools/default/x.img", "vdb")]


def test_a_name_for_a_disk_that_cannot_be_the_old_one_makes_a_new_one() -> None:
    footprint = Footprint()
    footprint.run([disk(20)], [])
    assert identities(footprint.run([disk(10, name="smaller.img")], []))[0] == [("/pools/default/smaller.img", "vda")]


def test_a_disk_that_was_moved_to_another_pool_by_hand() -> None:
    footprint = Footprint()
    footprint.run([disk(10), disk(20)], [])
    footprint.store.files["/pools/fast/a-disk1.img"] = footprint.store.files.pop("/pools/default/a-disk1.img")
    now = identities(footprint.run([disk(10), disk(20, pool="fast")], []))[0]
    assert now == [("/pools/default/a-disk0.img", "vda"), ("/pools/fast/a-disk1.img", "vdb")]


@pytest.mark.parametrize(
    ("left", "targets"),
    [
        (["z.img", "new.img"], ["vdc", "vdd"]),
        (["y.img", "z.img", "new.img", "newer.img"], ["vdb", "vdc", "vdd", "vde"]),
        (["x.img", "z.img", "new.img"], ["vda", "vdc", "vdd"]),
        (["x.img", "y.img", "new.img"], ["vda", "vdb", "vdc"]),
        # in front of the others only existing ones
        (["new.img", "y.img"], ["vda", "vdb"]),
        (["z.img", "x.img"], ["vdc", "vda"]),
    ],
)
def test_a_new_disk_comes_behind_those_that_stay(left: list[str], targets: list[str]) -> None:
    footprint = Footprint()
    footprint.run([disk(10, name=name) for name in ("x.img", "y.img", "z.img")], [])
    now = identities(footprint.run([disk(10, name=name) for name in left], []))[0]
    assert [target for unused, target in now] == targets


def test_another_bus_gives_another_target() -> None:
    footprint = Footprint()
    footprint.run([disk(10, name="x.img"), disk(20, name="y.img")], [])
    now = identities(footprint.run([disk(10, name="x.img"), disk(20, name="y.img", bus="scsi")], []))[0]
    assert [target for unused, target in now] == ["vda", "sda"]


def test_a_nic_of_the_template_that_would_move() -> None:
    """A template's own NIC without a MAC has the position behind those of the details."""
    (vm,) = parse_vms([{"id": "a", "nics": [nic(1)]}], cluster="lab")
    (more,) = parse_vms([{"id": "a", "nics": [nic(1), nic(2)]}], cluster="lab")

    def document(details: VmDetails) -> t.Any:
        nics = "".join(f"<interface type='bridge'><mac address='{each.mac}'/><source bridge='{each.bridge}'/></interface>" for each in details.nics)
        found = xml_domain.parse(f"<domain type='kvm'><devices>{nics}<interface type='network'><source network='n'/></interface></devices></domain>")
        xml_domain.finish(found, details, "lab", "kvm")
        return found

    run_keys.check_edit(vm, "lab", (), document(vm), document(vm), False)
    with pytest.raises(RefusedError, match="NIC number 2 of the template"):
        run_keys.check_edit(more, "lab", (), document(more), document(vm), False)
