# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware of servers compared with what the inventory declares. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import MOST_CPUS, one_of, parse_count, parse_mib

#: Vendors round the sizes of disks.
_ROUNDED = 0.01
#: Part of the memory that firmware and kernel may keep, where the firmware does not list its modules.
_KEPT = 0.1
_GB = 1000**3

Facts = t.Mapping[str, t.Any]


class Result(t.NamedTuple):
    """Differences, each a sentence with the path of the declaration and a hint, and what is present but not declared."""

    differences: tuple[str, ...]
    notes: tuple[str, ...]


def compare(declared: model_hardware.Hardware, capacity: t.Any, found: Facts) -> Result:
    """Compare a server with ``hardware`` and ``node_capacity`` in the inventory.

    Disks and network cards that are not declared are notes: nothing depends on them.

    :arg capacity: ``node_capacity``, at least which must be present; ``None`` if it is not declared.
    """
    place = declared.path.rpartition(".")[0]
    differences = [*_memory(declared, capacity or {}, found, place), *_cpus(declared, capacity or {}, found, place), *_features(declared, found)]
    notes: list[str] = []
    if declared.disks:
        _disks(declared, found, differences, notes)
    if declared.nics:
        _nics(declared, found, differences, notes)
    return Result(tuple(differences), tuple(notes))


def _memory(declared: model_hardware.Hardware, capacity: Facts, found: Facts, place: str) -> t.Iterator[str]:
    installed, used = found["memory_installed_bytes"], found["memory_bytes"]
    text = f"{size_text(installed)} are installed" if installed else f"the kernel has {size_text(used)}"
    hint = "Check the memory modules, or correct the inventory."
    wanted = declared.memory
    if wanted is not None:
        if installed != wanted if installed else not wanted * (1 - _KEPT) <= used <= wanted:
            yield f"{declared.path}.memory: {size_text(wanted)} are declared, {text}. {hint}"
        return
    least = one_of(capacity, ("memory", "ram"), f"{place}.node_capacity", parse_mib)
    if least is not None and (installed or used / (1 - _KEPT)) < least << 20:
        yield f"{place}.node_capacity.memory: {size_text(least << 20)} are declared, {text}. {hint}"


def _cpus(declared: model_hardware.Hardware, capacity: Facts, found: Facts, place: str) -> t.Iterator[str]:
    if declared.cpus is not None:
        if found["cpus"] != declared.cpus:
            yield (
                f"{declared.path}.cpus: {declared.cpus} are declared, {found['cpus']} are present. Check the processors and whether the firmware has "
                "hyper-threading enabled, or correct the inventory."
            )
        return
    least = one_of(capacity, ("cpus", "cpu"), f"{place}.node_capacity", lambda value, at: parse_count(value, at, MOST_CPUS, "Write the number of CPUs."))
    if least is not None and found["cpus"] < least:
        yield f"{place}.node_capacity.cpus: {least} are declared, {found['cpus']} are present. Check the processors, or correct the inventory."


def _features(declared: model_hardware.Hardware, found: Facts) -> t.Iterator[str]:
    if declared.firmware is not None and found["firmware"] != declared.firmware:
        yield (
            f"{declared.path}.firmware: {declared.firmware} is declared, the server booted with {found['firmware']}. Change its boot mode "
            f"(server_power, boot_mode: {declared.firmware}), or correct the inventory."
        )
    has = found["virtualization"] is not None
    if declared.virtualization is not None and has != declared.virtualization:
        wanted, present = ("is required", "the CPU does not offer it") if declared.virtualization else ("is declared as absent", "the CPU offers it")
        yield f"{declared.path}.virtualization: hardware virtualization {wanted}, {present}. Change it in the firmware (VT-x, SVM), or correct the inventory."


def _disks(declared: model_hardware.Hardware, found: Facts, differences: list[str], notes: list[str]) -> None:
    by_serial = {disk["serial"]: disk for disk in found["disks"] if disk["serial"]}
    wanted = {one.serial for one in declared.disks}
    others = [disk for disk in found["disks"] if disk["serial"] not in wanted and not disk["removable"]]
    listed = ", ".join(_disk_text(disk) for disk in others)
    for one in declared.disks:
        disk = by_serial.get(one.serial)
        if disk is None:
            instead = f"not declared are {listed}" if others else "all disks of the server are declared"
            differences.append(
                f"{one.path}.serial: the server has no disk {one.serial}; {instead}. Check whether disks were swapped, or correct the inventory."
            )
        elif one.size is not None and abs(disk["size_bytes"] - one.size) > one.size * _ROUNDED:
            differences.append(f"{one.path}.size: {_disk_size(one.size)} are declared, {_disk_text(disk)} was found. Check the disk, or correct the inventory.")
    if others:
        notes.append(f"disks that are not declared: {listed}")


def _disk_text(disk: Facts) -> str:
    return f"{disk['name']} ({disk['serial'] or 'without a serial number'}, {_disk_size(disk['size_bytes'])})"


def _disk_size(size: int) -> str:
    """The size as it is on the label of a disk."""
    return f"{size / _GB:.1f} GB"


def _nics(declared: model_hardware.Hardware, found: Facts, differences: list[str], notes: list[str]) -> None:
    by_mac = {nic["mac"]: nic for nic in found["nics"]}
    wanted = {one.mac for one in declared.nics}
    others = [f"{nic['name']} ({nic['mac']})" for nic in found["nics"] if nic["mac"] not in wanted]
    for one in declared.nics:
        nic = by_mac.get(one.mac)
        if nic is None:
            instead = f"not declared are {', '.join(others)}" if others else "all network cards of the server are declared"
            differences.append(f"{one.path}.mac: the server has no network card {one.mac}; {instead}. Check the card, or correct the inventory.")
            continue
        if one.link is not None and nic["link"] != one.link:
            differences.append(
                f"{one.path}.link: {nic['name']} has {'a' if nic['link'] else 'no'} link. Check the cable and the port of the switch, or correct the inventory."
            )
        for key, value in (("neighbor", one.neighbor), ("port", one.port)):
            if value is not None and nic[key] != value:
                there = f"connected to {nic[key]}" if nic[key] else "without an answer by LLDP"
                differences.append(f"{one.path}.{key}: {value} is declared, {nic['name']} is {there}. Check the cabling and LLDP on the switch.")
    if others:
        notes.append(f"network cards that are not declared: {', '.join(others)}")


def row(name: str, found: Facts | None, state: str) -> list[str]:
    """Return the row of a server in the table of the report."""
    if not found:
        return [name, "-", "-", "-", "-", "-", "-", state]
    disks = "; ".join(_disk_text(disk) for disk in found["disks"] if not disk["removable"])
    nics = "; ".join(_nic_text(nic) for nic in found["nics"])
    virtual = found["virtualization"] or "none"
    memory = size_text(found["memory_installed_bytes"] or found["memory_bytes"])
    return [name, memory, str(found["cpus"]), disks or "none", nics or "none", found["firmware"], virtual, state]


def _nic_text(nic: Facts) -> str:
    there = f", {' '.join(filter(None, (nic['neighbor'], nic['port'])))}" if nic["neighbor"] else ""
    return f"{nic['name']} ({nic['mac']}, {'link' if nic['link'] else 'no link'}{there})"


HEAD = ["server", "memory", "CPUs", "disks", "network cards", "firmware", "virtualization", "state"]


def table(rows: t.Sequence[t.Sequence[str]]) -> list[str]:
    """Return lines with aligned columns."""
    full = [HEAD, *rows]
    widths = [max(len(line[column]) for line in full) for column in range(len(HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in full]
