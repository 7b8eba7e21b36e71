# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VM details: what is understood, and what is refused with which words."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, MIB
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac, vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms


def one(**details: t.Any) -> t.Any:
    """The only VM of a list."""
    return parse_vms([dict({"id": "a"}, **details)], cluster="lab")[0]


def test_list_and_json_text_are_the_same() -> None:
    details = [{"id": 0, "cpu": 2, "ram": 4}, {"id": "b", "disks": [{"size": 1}], "nics": [{"bridge": "br0"}]}]
    assert parse_vms(details, cluster="lab") == parse_vms(json.dumps(details), cluster="lab")


@pytest.mark.parametrize("nothing", [None, "", "  ", [], "[]", "null"])
def test_empty_details_are_accepted(nothing: object) -> None:
    assert parse_vms(nothing, cluster="lab") == ()


def test_id_zero_is_valid_and_is_the_default_name() -> None:
    vm = one(id=0)
    assert (vm.id, vm.name, vm.uuid) == ("0", "0", vm_uuid("lab", "0"))


@pytest.mark.parametrize("details", [{"cpu": 3}, {"vcpus": 3}, {"cpu": "3"}, {"cpu": 3, "vcpus": 3}])
def test_cpu_aliases(details: dict[str, t.Any]) -> None:
    assert one(**details).cpu == 3


@pytest.mark.parametrize("details", [{"ram": 2}, {"mem": 2}, {"memory_mb": 2048}, {"ram": "2048 MiB"}, {"ram": "2"}, {"ram": 2, "memory_mb": 2048}])
def test_memory_aliases(details: dict[str, t.Any]) -> None:
    assert one(**details).memory_mib == 2048


def test_defaults_are_distinguished_from_given_values() -> None:
    vm = one()
    assert (vm.cpu, vm.memory_mib, vm.cpu_given, vm.memory_given) == (2, 2048, False, False)
    assert (one(cpu=2).cpu_given, one(mem=2).memory_given) == (True, True)


def test_vda_size_is_the_first_disk() -> None:
    assert [disk.size for disk in one(vda_size=4).disks] == [4 * GIB]
    assert [disk.size for disk in one(vda_size="512 MiB", disks=[{"image": "x"}, {"size": 1}]).disks] == [512 * MIB, GIB]


def test_disks_get_names_and_targets_in_order() -> None:
    disks = one(disks=[{"size": 1}, {"size": 1, "format": "qcow2"}, {"size": 1, "bus": "scsi"}, {"size": 1}]).disks
    assert [disk.name for disk in disks] == ["a-disk0.img", "a-disk1.qcow2", "a-disk2.img", "a-disk3.img"]
    assert [disk.target for disk in disks] == ["vda", "vdb", "sda", "vdc"]


def test_container_disks_have_mount_points() -> None:
    disks = one(hypervisor="lxc", disks=[{"image": "root"}, {"mount": "/srv"}]).disks
    assert [(disk.format, disk.mount, disk.name) for disk in disks] == [("dir", "/", "a-disk0"), ("dir", "/srv", "a-disk1")]


def test_macs_are_derived_unless_given() -> None:
    vm = one(nics=[{"bridge": "br0"}, {"network": "default", "mac": "52-54-00-AA-BB-CC"}])
    assert vm.macs == (nic_mac("lab", "a", 0), "52:54:00:aa:bb:cc")


def test_given_uuid_is_used() -> None:
    assert one(uuid="6D1D2C5E-52F4-5D0B-9C7A-0F2B7E5F4A11").uuid == "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11"


def test_firmware_and_secure_boot() -> None:
    assert (one().boot_firmware, one().secure_boot) == (None, False)
    assert (one(boot_firmware="bios").boot_firmware, one(boot_firmware="").boot_firmware) == ("bios", None)
    vm = one(boot_firmware="efi", secure_boot="yes", machine="pc-q35-7.2")
    assert (vm.boot_firmware, vm.secure_boot) == ("efi", True)


def test_a_long_value_is_shortened_in_its_message() -> None:
    with pytest.raises(InputError) as raised:
        one(cpu="x" * 100000)
    assert len(str(raised.value)) < 300


def test_other_keys_are_free_variables() -> None:
    assert one(rack="r1", new_value=None).free == {"rack": "r1", "new_value": None}


BAD: list[tuple[t.Any, str]] = [
    ({"id": 1}, "vms: is a mapping, not a list."),
    ("[{", "vms: is not valid JSON: "),
    ("{}", "vms: is a mapping, not a list."),
    (7, "vms: is a number, not a list."),
    (["a"], "vms[0]: is text, not a mapping."),
    ([{"cpu": 1}], "vms[0].id: is missing."),
    ([{"id": None}], "vms[0].id: is missing."),
    ([{"id": -1}], "vms[0].id: -1 is negative."),
    ([{"id": True}], "vms[0].id: True is not a valid name."),
    ([{"id": 1.5}], "vms[0].id: 1.5 is not a valid name."),
    ([{"id": "../etc"}], "vms[0].id: '../etc' is not a valid name."),
    ([{"id": "a\n"}], "vms[0].id: 'a\\n' is not a valid name."),
    ([{"id": "."}], "vms[0].id: '.' is not a valid name."),
    ([{"id": ".."}], "vms[0].id: '..' is not a valid name."),
    ([{"id": "a."}], "vms[0].id: 'a.' is not a valid name."),
    ([{"id": "-a"}], "vms[0].id: '-a' is not a valid name."),
    ([{"id": "a b"}], "vms[0].id: 'a b' is not a valid name."),
    ([{"id": "é"}], "vms[0].id: 'é' is not a valid name."),
    ([{"id": "١"}], "vms[0].id: '١' is not a valid name."),
    ([{"id": "a" * 64}], "vms[0].id: 'aaaa"),
    ([{"id": "a" * 100000}], "vms[0].id: 'aaaa"),
    ([{"id": 10**5000}], "vms[0].id: None is not a valid name."),
    ([{"id": "{{ 7 * 7 }}"}], "vms[0].id: '{{ 7 * 7 }}' is not a valid name."),
    ([{"id": 1, "name": "a\0"}], "vms[0].name: 'a\\x00' is not a valid name."),
    ([{"id": 1, "cpu": "9" * 5000}], "vms[0].cpu: '9999"),
    ([{"id": 1, "ram": "9" * 5000}], "vms[0].ram: '9999"),
    ([{"id": 1, "ram": 1e300}], "vms[0].ram: 1e+300 is not a size."),
    ([{"id": 1, "ram": float("inf")}], "vms[0].ram: inf is not a size."),
    ([{"id": 1, "ram": float("nan")}], "vms[0].ram: nan is not a size."),
    ([{"id": 1, "x": json.loads("[" * 40 + "]" * 40)}], "vms[0].x: is nested more than 32 levels deep."),
    ("[" * 200000, "vms: is not valid JSON: "),
    ([{"id": 1, "boot_firmware": "uefi"}], "vms[0].boot_firmware: 'uefi' is not a valid firmware. Use bios or efi."),
    ([{"id": 1, "boot": ["network", "disk"]}], "vms[0].boot[1]: 'disk' is not a boot device. Use hd, network, cdrom, fd; the disk is hd."),
    ([{"id": 1, "boot": "net"}], "vms[0].boot: 'net' is not a boot device."),
    ([{"id": 1, "boot_firmware": ["efi"]}], "vms[0].boot_firmware: ['efi'] is not a valid firmware."),
    ([{"id": 1, "boot_firmware": "efi", "hypervisor": "lxc"}], "vms[0].boot_firmware: is not supported for containers."),
    ([{"id": 1, "secure_boot": True}], "vms[0].secure_boot: requires boot_firmware: efi."),
    ([{"id": 1, "secure_boot": True, "boot_firmware": "bios"}], "vms[0].secure_boot: requires boot_firmware: efi."),
    ([{"id": 1, "secure_boot": "maybe", "boot_firmware": "efi"}], "vms[0].secure_boot: 'maybe' is neither true nor false."),
    ([{"id": 1, "secure_boot": True, "boot_firmware": "efi", "machine": "pc"}], "vms[0].secure_boot: requires the machine type q35, got pc."),
    ([{"id": 1, "disks": [{"size": 1, "target": "sda"}]}], "vms[0].disks[0].target: sda is not a valid target on the bus virtio."),
    ([{"id": 1, "disks": [{"size": 1, "bus": "scsi", "target": "vda"}]}], "vms[0].disks[0].target: vda is not a valid target on the bus scsi."),
    ([{"id": 1, "user_data": "x", "disks": [{"size": 1, "target": "vdz"}]}], "vms[0].disks[0].target: vdz is reserved for the cloud-init seed"),
    ([{"id": 1}, {"id": "1"}], "vms[1].id: '1' is already used at vms[0].id."),
    ([{"id": 1, "name": "x"}, {"id": 2, "name": "x"}], "vms[1].name: 'x' is already used at vms[0].name."),
    ([{"id": 1}, {"id": 2}, {"id": 3, "ram": -4}], "vms[2].ram: -4 is negative."),
    ([{"id": 1, "ram": 0}], "vms[0].ram: 0 is not greater than 0."),
    ([{"id": 1, "ram": 131072}], "vms[0].ram: 128 TiB is not between 4 MiB and 64 TiB of memory. A number without a unit is in GiB"),
    ([{"id": 1, "memory_mb": "lots"}], "vms[0].memory_mb: 'lots' is not a size."),
    ([{"id": 1, "ram": 1, "memory_mb": 2048}], "vms[0].memory_mb: conflicts with ram"),
    ([{"id": 1, "cpu": 0}], "vms[0].cpu: 0 is not between 1 and 4096 CPUs."),
    ([{"id": 1, "cpu": -2}], "vms[0].cpu: -2 is not between 1 and 4096 CPUs."),
    ([{"id": 1, "cpu": 1.5}], "vms[0].cpu: 1.5 is not a whole number of CPUs."),
    ([{"id": 1, "cpu": 100000}], "vms[0].cpu: 100000 is not between 1 and 4096 CPUs."),
    ([{"id": 1, "cpu": 1, "vcpus": 2}], "vms[0].vcpus: conflicts with cpu"),
    ([{"id": 1, "hypervisor": "xen"}], "vms[0].hypervisor: 'xen' is not a valid hypervisor type."),
    ([{"id": 1, "roles": 5}], "vms[0].roles: 5 is not a list of roles."),
    ([{"id": 1, "address": "10.0.0.300"}], "vms[0].address: '10.0.0.300' is not an IP address."),
    ([{"id": 1, "autostart": "maybe"}], "vms[0].autostart: 'maybe' is neither true nor false."),
    ([{"id": 1, "uuid": "no"}], "vms[0].uuid: 'no' is not a UUID."),
    ([{"id": 1, "a b": 1}], "vms[0]: 'a b' is not a valid template variable."),
    ([{"id": 1, "nics": {}}], "vms[0].nics: is a mapping, not a list."),
    ([{"id": 1, "nics": [{}]}], "vms[0].nics[0]: has neither a bridge nor a network."),
    ([{"id": 1, "nics": [{"bridge": "a", "network": "b"}]}], "vms[0].nics[0]: has both a bridge and a network."),
    ([{"id": 1, "nics": [{"bridge": "a-name-too-long-for-linux"}]}], "vms[0].nics[0].bridge: "),
    ([{"id": 1, "nics": [{"bridge": "a", "vlan": 4095}]}], "vms[0].nics[0].vlan: 4095 is not a valid VLAN tag."),
    ([{"id": 1, "nics": [{"bridge": "a", "mac": "01:00:5e:00:00:01"}]}], "vms[0].nics[0].mac: '01:00:5e:00:00:01' is not a MAC address of a network card."),
    # what YAML makes of 52:54:00:12:34:56, and of 00:00:00:00:00:00
    ([{"id": 1, "nics": [{"bridge": "a", "mac": 41135085296}]}], "vms[0].nics[0].mac: is a number, not a MAC address. Write the address in quotes"),
    ([{"id": 1, "nics": [{"bridge": "a", "mac": 0}]}], "vms[0].nics[0].mac: is a number, not a MAC address. Write the address in quotes"),
    (
        [{"id": i, "nics": [{"bridge": "a", "mac": "52:54:00:00:00:01"}]} for i in (1, 2)],
        "vms[1].nics[0].mac: '52:54:00:00:00:01' is already used at vms[0].nics[0].mac.",
    ),
    ([{"id": 1, "disks": [{}]}], "vms[0].disks[0].size: is required for a disk without an image"),
    ([{"id": 1, "disks": [{"size": "1 KiB"}]}], "vms[0].disks[0].size: 1 KiB is not between"),
    ([{"id": 1, "disks": [{"size": 1}, {"size": -1}]}], "vms[0].disks[1].size: -1 is negative."),
    ([{"id": 1, "disks": [{"size": 1, "format": "vmdk"}]}], "vms[0].disks[0].format: 'vmdk' is not a valid disk format"),
    ([{"id": 1, "disks": [{"size": 1, "image": "../x"}]}], "vms[0].disks[0].image: '../x' is not a valid image."),
    ([{"id": 1, "disks": [{"size": 1, "backing": True}]}], "vms[0].disks[0].backing: requires format qcow2 and an image."),
    ([{"id": 1, "disks": [{"size": 1, "bus": "ide"}]}], "vms[0].disks[0].bus: 'ide' is not a valid disk bus"),
    ([{"id": 1, "disks": [{"size": 1}, {"size": 1, "target": "vda"}]}], "vms[0].disks[1].target: 'vda' is already used at vms[0].disks[0].target."),
    ([{"id": i, "disks": [{"size": 1, "name": "x"}]} for i in (1, 2)], "vms[1].disks[0].name: the volume x of the VM 2 is also the disk vms[0].disks[0]"),
    ([{"id": 1, "vda_size": 1, "disks": [{"size": 2}]}], "vms[0].vda_size: conflicts with disks[0].size"),
    ([{"id": 1, "hypervisor": "lxc", "disks": [{"image": "r"}, {}]}], "vms[0].disks[1].mount: is missing."),
    ([{"id": 1, "hypervisor": "lxc", "disks": [{"image": "r"}, {"mount": "/a/../.."}]}], "vms[0].disks[1].mount: "),
    (
        [{"id": 1, "hypervisor": "lxc", "disks": [{"image": "r", "format": "qcow2"}]}],
        "vms[0].disks[0].format: 'qcow2' is not a valid disk format for a container.",
    ),
]


@pytest.mark.parametrize("value, message", BAD, ids=[case[1] for case in BAD])
def test_invalid_input_is_refused_with_path_and_hint(value: t.Any, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_vms(value, cluster="lab")
    assert str(raised.value).startswith(message)
    assert raised.value.hint


def test_cluster_name_is_required() -> None:
    with pytest.raises(InputError, match="^cluster: "):
        parse_vms([], cluster="")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["id", "cpu", "ram", "name", "nics", "disks", "hypervisor", "vda_size", "address", "uuid", "roles", "autostart", "other"])


@given(st.lists(st.dictionaries(KEYS, ANYTHING, max_size=5) | ANYTHING, max_size=3))
def test_arbitrary_input_raises_only_input_errors(value: list[t.Any]) -> None:
    try:
        parse_vms(value, cluster="lab")
    except InputError as error:
        assert error.path


PARTS = st.sampled_from(["size", "pool", "format", "image", "backing", "name", "target", "bus", "serial", "mount", "bridge", "network", "vlan", "mac", "model"])


@given(st.sampled_from(["qemu", "lxc"]), st.lists(st.dictionaries(PARTS, ANYTHING | st.just("x"), max_size=5), max_size=2))
def test_arbitrary_nics_and_disks_raise_only_input_errors(hypervisor: str, parts: list[t.Any]) -> None:
    for kind in ("disks", "nics"):
        try:
            parse_vms([{"id": 1, "hypervisor": hypervisor, kind: parts}], cluster="lab")
        except InputError as error:
            assert error.path


SHARED = {"size": 1, "name": "x", "shareable": True}


@pytest.mark.parametrize(
    "first, second, refused",
    [
        ({"size": 1, "name": "x"}, {"size": 1, "name": "x", "pool": "p"}, True),
        ({"size": 1, "name": "x", "pool": "p"}, {"size": 1, "name": "x"}, True),
        ({"size": 1, "name": "x", "pool": "q"}, {"size": 1, "name": "x"}, False),
        (SHARED, SHARED, False),
        (SHARED, dict(SHARED, pool="p"), False),
        (SHARED, {"size": 1, "name": "x"}, True),
    ],
)
def test_volume_of_two_vms_is_refused_unless_shareable(first: t.Any, second: t.Any, refused: bool) -> None:
    vms = [{"id": 1, "disks": [first]}, {"id": 2, "disks": [second]}]
    try:
        parse_vms(vms, cluster="lab", pool="p")
        assert not refused
    except InputError as error:
        assert refused and "the volume p/x of the VM 2 is also the disk vms[0].disks[0] of the VM 1" in str(error)


@pytest.mark.parametrize("disk", [{"format": "qcow2"}, {"format": "dir"}])
def test_shareable_is_refused_except_for_raw_disks_of_machines(disk: t.Any) -> None:
    vm = {"id": 1, "hypervisor": "lxc" if disk["format"] == "dir" else "qemu", "disks": [dict(SHARED, **disk)]}
    with pytest.raises(InputError, match="is only supported for raw disks of machines"):
        parse_vms([vm], cluster="lab")


def test_volume_twice_in_one_vm_is_refused() -> None:
    with pytest.raises(InputError, match="of the VM 1 is also the disk"):
        parse_vms([{"id": 1, "disks": [SHARED, SHARED]}], cluster="lab")
