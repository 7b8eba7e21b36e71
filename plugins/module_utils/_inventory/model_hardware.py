# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware that a server must have: ``hardware`` in the inventory."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, Unique, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, choice, number, parse_mac, sequence
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_size

UEFI, BIOS = "uefi", "bios"
KEYS = ("memory", "cpus", "disks", "nics", "firmware", "virtualization")
_DISK_KEYS = ("serial", "size")
_NIC_KEYS = ("mac", "link", "neighbor", "port")
_EXAMPLE = "Write {memory: 64 GiB, cpus: 16, disks: [{serial: S4EVNX0, size: 960 GB}], nics: [{mac: '52:54:00:12:34:56'}]}."
_MOST_CPUS = 65536
_SERIAL = re.compile(r"\A[^\s\x00-\x1f](?:[^\x00-\x1f]*[^\s\x00-\x1f])?\Z")


class Disk(t.NamedTuple):
    """A disk; ``size`` in bytes, ``None`` if any is accepted."""

    serial: str
    size: int | None
    path: str


class Nic(t.NamedTuple):
    """A network card.

    :arg link: whether it must have a link; ``None`` if either is accepted.
    :arg neighbor: name of the machine it must be connected to, as that one reports it with LLDP.
    """

    mac: str
    link: bool | None
    neighbor: str | None
    port: str | None
    path: str


class Hardware(t.NamedTuple):
    """What is declared; ``None`` for what is not.

    :arg memory: bytes.
    """

    path: str
    memory: int | None = None
    cpus: int | None = None
    disks: tuple[Disk, ...] = ()
    nics: tuple[Nic, ...] = ()
    firmware: str | None = None
    virtualization: bool | None = None


def parse(entry: t.Any, path: str) -> Hardware:
    """Return ``hardware`` of a server; ``None`` declares nothing."""
    if entry is None:
        return Hardware(path)
    check_known(entry, KEYS, path, _EXAMPLE)
    cpus, firmware = entry.get("cpus"), entry.get("firmware")
    disks = tuple(_disk(one, where) for one, where in _entries(entry, "disks", path))
    nics = tuple(_nic(one, where) for one, where in _entries(entry, "nics", path))
    unique = Unique()
    for value, where in (*((one.serial, f"{one.path}.serial") for one in disks), *((one.mac, f"{one.path}.mac") for one in nics)):
        unique.check(value, where, "Correct one of them.")
    return Hardware(
        path,
        parse_size(entry["memory"], "GiB", f"{path}.memory") if entry.get("memory") is not None else None,
        None if cpus is None else number(cpus, 0, 1, _MOST_CPUS, f"{path}.cpus"),
        disks,
        nics,
        None if firmware is None else choice(firmware, (UEFI, BIOS), f"{path}.firmware"),
        _flag(entry, "virtualization", path),
    )


def _entries(entry: t.Mapping[str, t.Any], key: str, path: str) -> list[tuple[t.Any, str]]:
    return [(one, f"{path}.{key}[{position}]") for position, one in enumerate(sequence(entry.get(key), f"{path}.{key}", _EXAMPLE))]


def _disk(entry: t.Any, path: str) -> Disk:
    check_known(entry, _DISK_KEYS, path, "Write {serial: S4EVNX0, size: 960 GB}.")
    serial = entry.get("serial")
    # YAML reads a serial of digits as a number, and may change it: 0123 is 83
    if not isinstance(serial, str) or not _SERIAL.match(serial):
        raise InputError("is required." if serial is None else f"{serial!r} is not text.", f"{path}.serial", "Write the serial number in quotes.")
    return Disk(serial, parse_size(entry["size"], "GB", f"{path}.size") if entry.get("size") is not None else None, path)


def _nic(entry: t.Any, path: str) -> Nic:
    check_known(entry, _NIC_KEYS, path, "Write {mac: '52:54:00:12:34:56'}.")
    mac = parse_mac(entry.get("mac"), f"{path}.mac")
    for key in ("neighbor", "port"):
        if entry.get(key) is not None and (not isinstance(entry[key], str) or not entry[key].strip()):
            raise InputError(f"{entry[key]!r} is not text.", f"{path}.{key}", "Write the name that LLDP reports, in quotes.")
    return Nic(mac, _flag(entry, "link", path), entry.get("neighbor"), entry.get("port"), path)


def _flag(entry: t.Mapping[str, t.Any], key: str, path: str) -> bool | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        raise InputError(f"is {kind_of(value)}, not a boolean.", f"{path}.{key}", "Use true or false.")
    return value
