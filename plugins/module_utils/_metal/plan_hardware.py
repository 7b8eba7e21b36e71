# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware of a server, from what its kernel, its firmware and lldpd report. No I/O."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, MIB

_MEMORY_DEVICE, _END = 17, 127
_EXTENDED, _UNKNOWN, _IN_KIB = 0x7FFF, 0xFFFF, 0x8000
#: What firmware contains where the vendor wrote no value.
_PLACEHOLDERS = frozenset(
    ("", "none", "unknown", "not specified", "not applicable", "default string", "to be filled by o.e.m.", "system serial number", "system product name",
     "system manufacturer", "0123456789", "123456789", "0", "n/a", "oem", "o.e.m.")
)  # fmt: skip


class Raw(t.NamedTuple):
    """What was read.

    :arg dmi: files of ``/sys/class/dmi/id`` by name.
    :arg tables: the tables of SMBIOS; empty if there are none.
    :arg nics: one mapping for each physical network card: ``name``, ``mac``, ``link``, ``speed_mbit``, ``driver``.
    :arg lldp: output of ``lldpctl -f json0``; empty without lldpd.
    """

    dmi: t.Mapping[str, str]
    tables: bytes
    memory: int
    cpus: int
    cpuinfo: str
    lsblk: str
    nics: t.Sequence[t.Mapping[str, t.Any]]
    lldp: str
    uefi: bool
    iommu: bool


def hardware(raw: Raw) -> dict[str, t.Any]:
    """Return the hardware as a result of the module.

    :raises ValueError: the output of a tool cannot be parsed.
    """
    neighbors = neighbours(raw.lldp)
    flags, model = _cpu(raw.cpuinfo)
    uuid = _given(raw.dmi.get("product_uuid", "")).lower()
    return {
        "system": {
            # a board without an identity has only equal digits
            "uuid": uuid if len(set(uuid) - {"-"}) > 1 else "",
            "serial": _given(raw.dmi.get("product_serial", "")),
            "vendor": _given(raw.dmi.get("sys_vendor", "")),
            "product": _given(raw.dmi.get("product_name", "")),
        },
        "memory_bytes": raw.memory,
        "memory_installed_bytes": installed_memory(raw.tables),
        "cpus": raw.cpus,
        "cpu_model": model,
        "disks": disks(raw.lsblk),
        "nics": [{**nic, **neighbors.get(nic["name"], {"neighbor": None, "port": None})} for nic in sorted(raw.nics, key=lambda one: str(one["name"]))],
        "firmware": "uefi" if raw.uefi else "bios",
        "virtualization": next((name for name in ("vmx", "svm") if name in flags), None),
        "iommu": raw.iommu,
    }


def _given(text: str) -> str:
    return "" if text.strip().lower() in _PLACEHOLDERS else text.strip()


def _cpu(text: str) -> tuple[frozenset[str], str]:
    fields = dict(reversed([(key.strip(), value.strip()) for key, colon, value in (line.partition(":") for line in text.splitlines()) if colon]))
    return frozenset(fields.get("flags", "").split()), fields.get("model name", "")


def installed_memory(tables: bytes) -> int | None:
    """Return the bytes of all memory modules according to SMBIOS; ``None`` if it does not list them."""
    found, total, position = False, 0, 0
    while position + 4 <= len(tables):
        kind, length = tables[position], tables[position + 1]
        if length < 4 or kind == _END:
            break
        body = tables[position : position + length]
        if kind == _MEMORY_DEVICE and length >= 14:
            size = int.from_bytes(body[12:14], "little")
            if size == _EXTENDED and length >= 32:
                total += (int.from_bytes(body[28:32], "little") & 0x7FFFFFFF) * MIB
            elif size not in (0, _UNKNOWN, _EXTENDED):
                total += (size & ~_IN_KIB) * (KIB if size & _IN_KIB else MIB)
            found = found or size not in (0, _UNKNOWN)
        # after the structure there are its strings, and two zeros
        end = tables.find(b"\0\0", position + length)
        if end < 0:
            break
        position = end + 2
    return total if found and total else None


def disks(text: str) -> list[dict[str, t.Any]]:
    """Return the disks in the output of ``lsblk``, sorted by name."""
    found = []
    for entry in json.loads(text).get("blockdevices") or ():
        name = str(entry.get("name") or "")
        if entry.get("type") != "disk" or not entry.get("size") or name.startswith(("zram", "ram", "loop", "fd", "nbd")):
            continue
        found.append(
            {
                "name": name,
                "serial": str(entry.get("serial") or "").strip(),
                "size_bytes": int(entry["size"]),
                "model": str(entry.get("model") or "").strip(),
                "wwn": entry.get("wwn") or None,
                "transport": entry.get("tran") or None,
                "rotational": bool(entry.get("rota")),
                # also memory cards and virtual media of a controller
                "removable": bool(entry.get("rm")) or entry.get("tran") == "usb",
                "content": sorted(_content(entry)),
            }
        )
    return sorted(found, key=lambda one: str(one["name"]))


def _content(entry: t.Mapping[str, t.Any]) -> set[str]:
    """The partition table and the file systems of a device and its parts."""
    found = {str(entry[key]) for key in ("pttype", "fstype") if entry.get(key)}
    return found.union(*(_content(each) for each in entry.get("children") or ()))


def neighbours(text: str) -> dict[str, dict[str, str | None]]:
    """Return the machine and the port that each interface is connected to, from the output of ``lldpctl -f json0``."""
    found: dict[str, dict[str, str | None]] = {}
    for one in (json.loads(text).get("lldp") or ()) if text.strip() else ():
        for interface in one.get("interface") or ():
            chassis, port = (interface.get("chassis") or [{}])[0], (interface.get("port") or [{}])[0]
            # several answer on a link without a switch that filters; the first one is the oldest
            found.setdefault(
                str(interface.get("name")),
                {"neighbor": _first(chassis, "name") or _first(chassis, "id"), "port": _port(port)},
            )
    return found


def _port(port: t.Mapping[str, t.Any]) -> str | None:
    """The name of the port; its description where the id is an address."""
    entries = port.get("id") or [{}]
    return _first(port, "descr") or _first(port, "id") if entries[0].get("type") == "mac" else _first(port, "id") or _first(port, "descr")


def _first(entry: t.Mapping[str, t.Any], key: str) -> str | None:
    return next((str(each["value"]) for each in entry.get(key) or () if each.get("value")), None)
