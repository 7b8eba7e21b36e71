# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware of a server from what its tools print."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_hardware, run_hardware

GIB = 1 << 30
LSBLK = {
    "blockdevices": [
        {"name": "sdb", "type": "disk", "size": 960197124096, "serial": " S1 ", "model": "SAMSUNG MZ7LH960 ", "wwn": "0x5002", "tran": "sata", "rota": False,
         "rm": False, "pttype": "gpt", "fstype": None,
         "children": [{"name": "sdb1", "type": "part", "size": 1, "fstype": "LVM2_member", "pttype": "gpt",
                       "children": [{"name": "vg-a", "type": "lvm", "size": 1, "fstype": "ext4", "pttype": None}]}]},
        {"name": "sda", "type": "disk", "size": 8 * GIB, "serial": None, "model": None, "wwn": None, "tran": "usb", "rota": True, "rm": False,
         "pttype": None, "fstype": None},
        {"name": "sr0", "type": "rom", "size": 1024, "serial": "x"},
        {"name": "loop0", "type": "loop", "size": 1024},
        {"name": "zram0", "type": "disk", "size": 1024},
        {"name": "sdc", "type": "disk", "size": 0, "serial": "reader"},
    ]
}  # fmt: skip
LLDP = {
    "lldp": [
        {"interface": [
            {"name": "eno1", "via": "LLDP", "chassis": [{"id": [{"type": "mac", "value": "00:11"}], "name": [{"value": "switch1"}]}],
             "port": [{"id": [{"type": "ifname", "value": "Ethernet1/3"}], "descr": [{"value": "to metal1"}]}]},
            {"name": "eno1", "via": "LLDP", "chassis": [{"name": [{"value": "later"}]}], "port": [{}]},
            {"name": "eno2", "via": "LLDP", "chassis": [{"id": [{"type": "mac", "value": "00:22"}]}],
             "port": [{"id": [{"type": "mac", "value": "00:23"}], "descr": [{"value": "port 7"}]}]},
        ]}
    ]
}  # fmt: skip
CPUINFO = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu vmx sse\n"


def module(*sizes: tuple[int, int]) -> bytes:
    """SMBIOS with memory modules of a size and an extended size, among other structures."""
    text = bytes([0, 26, 0, 0]) + bytes(22) + b"vendor\0\0"
    for number, (size, extended) in enumerate(sizes):
        body = bytes(8) + size.to_bytes(2, "little") + bytes(14) + extended.to_bytes(4, "little") + bytes(8)
        text += bytes([17, 4 + len(body), number, 0]) + body + (b"DIMM 0\0A\0\0" if number % 2 else b"\0\0")
    return text + bytes([127, 4, 9, 0]) + b"\0\0" + bytes([17, 40, 9, 9]) + b"\xff" * 40


@pytest.mark.parametrize(
    "tables, size",
    [
        (b"", None),
        (module(), None),
        # an empty slot, and one whose size is unknown
        (module((0, 0), (0xFFFF, 0)), None),
        (module((16384, 0), (0, 0), (16384, 0)), 32 * GIB),
        (module((0x8000 | 512, 0)), 512 << 10),
        (module((0x7FFF, 131072)), 128 * GIB),
        (module((2048, 0))[:60], 2 * GIB),
        (b"\x11\x02", None),
    ],
)
def test_memory_is_the_sum_of_the_modules(tables: bytes, size: int | None) -> None:
    assert plan_hardware.installed_memory(tables) == size


def test_disks_have_their_serial_numbers_and_what_is_on_them() -> None:
    usb, sata = plan_hardware.disks(json.dumps(LSBLK))
    assert (sata["serial"], sata["model"], sata["content"], sata["removable"], sata["size_bytes"]) == (
        "S1", "SAMSUNG MZ7LH960", ["LVM2_member", "ext4", "gpt"], False, 960197124096,
    )  # fmt: skip
    assert (usb["serial"], usb["content"], usb["removable"], usb["wwn"]) == ("", [], True, None)


def test_neighbors_are_the_first_ones_with_the_name_of_their_port() -> None:
    assert plan_hardware.neighbours(json.dumps(LLDP)) == {
        "eno1": {"neighbor": "switch1", "port": "Ethernet1/3"},
        "eno2": {"neighbor": "00:22", "port": "port 7"},
    }
    for nothing in ("", "{}", '{"lldp": [{}]}', '{"lldp": [{"interface": []}]}'):
        assert plan_hardware.neighbours(nothing) == {}


class Machine:
    """A server of values."""

    def __init__(self, **more: t.Any) -> None:
        self.given: dict[str, t.Any] = {"lsblk": json.dumps(LSBLK), "lldp": json.dumps(LLDP), **more}
        self.waited: t.Any = None

    def require_root(self) -> None:
        pass

    def dmi(self) -> dict[str, str]:
        return self.given.get("dmi", {"product_uuid": "4C4C4544-0042\n", "product_serial": "B5", "sys_vendor": "Dell Inc.", "product_name": "R640"})

    def dmi_tables(self) -> bytes:
        return module((2048, 0))

    def memory(self) -> int:
        return 2 * GIB - 1

    def cpus(self) -> int:
        return 4

    def cpuinfo(self) -> str:
        return self.given.get("cpuinfo", CPUINFO)

    def lsblk(self) -> str:
        return str(self.given["lsblk"])

    def nics(self) -> list[dict[str, t.Any]]:
        nic = {"speed_mbit": None, "driver": None}
        return [{"name": "eno2", "mac": "b", "link": False, **nic}, {"name": "eno1", "mac": "a", "link": True, **nic}]

    def lldp(self, linked: t.Any, timeout: float) -> str:
        self.waited = (linked, timeout)
        return str(self.given["lldp"])

    def uefi(self) -> bool:
        return True

    def iommu(self) -> bool:
        return False


def test_the_result_of_a_server() -> None:
    machine = Machine()
    found = run_hardware.read(35, machine)
    assert machine.waited == (["eno1"], 35)
    assert found["system"] == {"uuid": "4c4c4544-0042", "serial": "B5", "vendor": "Dell Inc.", "product": "R640"}
    assert (found["cpu_model"], found["virtualization"], found["firmware"], found["iommu"]) == ("Xeon", "vmx", "uefi", False)
    assert [(nic["name"], nic["neighbor"]) for nic in found["nics"]] == [("eno1", "switch1"), ("eno2", "00:22")]
    assert (found["memory_installed_bytes"], found["memory_bytes"], found["cpus"]) == (2 * GIB, 2 * GIB - 1, 4)


@pytest.mark.parametrize("uuid, serial", [("00000000-0000-0000-0000-000000000000", "To Be Filled By O.E.M."), ("FFFFFFFF-FFFF", "Default string"), ("", "0")])
def test_an_identity_that_all_boards_have_is_none(uuid: str, serial: str) -> None:
    found = run_hardware.read(0, Machine(dmi={"product_uuid": uuid, "product_serial": serial}, cpuinfo="flags : fpu svm\n", lldp=""))
    assert found["system"] == {"uuid": "", "serial": "", "vendor": "", "product": ""}
    assert found["virtualization"] == "svm" and found["nics"][0]["neighbor"] is None


@pytest.mark.parametrize("broken", [{"lsblk": "no JSON"}, {"lsblk": "[]"}, {"lldp": "{"}, {"lldp": '{"lldp": [1]}'}])
def test_output_that_cannot_be_parsed_is_an_error(broken: dict[str, str]) -> None:
    with pytest.raises(BackendError, match="cannot be parsed"):
        run_hardware.read(0, Machine(**broken))
