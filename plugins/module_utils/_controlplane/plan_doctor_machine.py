# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of the machines: links, MTU, space, disks, units, due restarts."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_doctor_finding import NOTE, REPAIR, UNKNOWN, Finding, Known, start_unit
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text

#: Part of the answers → check.
CHECK_OF = {
    "links": "links", "file_systems": "space", "pools": "space", "disks": "disks", "units": "units", "restart": "restarts", "keys": "keys", "run": "jobs",
    "moves": "jobs", "record": "inventory",
}  # fmt: skip
_FULL, _FILLING = 95.0, 85.0
#: A port of a server that has negotiated less, in Mb/s.
_SLOW = 1000
_BASIC = "Check its cable and the port of its switch"
Entry = t.Mapping[str, t.Any]


def findings(awake: Known) -> list[Finding]:
    """Return what is not healthy or unknown."""
    found: list[Finding] = []
    for host, seen in awake.items():
        parts = seen.get("parts") or {}
        late = {part: one["error"] for part, one in parts.items() if part in CHECK_OF and "error" in one}
        found += [Finding(CHECK_OF[part], UNKNOWN, f"cannot be read: {why}", "", host) for part, why in late.items()]
        found += _links(host, _of(seen, "links") or ())
        found += _space(host, _of(seen, "file_systems") or (), _of(seen, "pools") or ())
        found += _disks(host, _of(seen, "disks") or {}, "pools" in parts)
        found += _units(host, _of(seen, "units") or {})
        if _of(seen, "restart"):
            found.append(Finding("restarts", NOTE, str(_of(seen, "restart")), "maintain_virt_node restarts servers one at a time", host))
    return found + _mtu(awake)


def healthy(awake: Known) -> dict[str, str]:
    """Return check → what is said if nothing was found; nothing of what no host has answered."""
    ports = {host: [one for one in _of(seen, "links") or () if _is_port(one)] for host, seen in awake.items()}
    bridges = {one["mtu"] for seen in awake.values() for one in _of(seen, "links") or () if one["kind"] == "bridge"}
    known = [one for seen in awake.values() for one in (_of(seen, "disks") or {}).get("disks") or () if one["known"]]
    fullest = max(((_used(one), f"{one['path']} on {host}") for host, seen in awake.items() for one in _of(seen, "file_systems") or ()), default=None)
    return {
        "links": f"{sum(map(len, ports.values()))} ports of bridges and bonds on {sum(map(bool, ports.values()))} hosts" if any(ports.values()) else "",
        "MTU": f"{', '.join(map(str, sorted(bridges)))} at all bridges" if bridges else "",
        "space": f"at most {fullest[0]:.0f} % used ({fullest[1]})" if fullest else "",
        "disks": f"SMART of {len(known)} disks" if known else "",
        "units": "none has failed" if any(_of(seen, "units") is not None for seen in awake.values()) else "",
        "restarts": "none is due" if any(_of(seen, "restart") is not None for seen in awake.values()) else "",
    }


def _of(seen: Entry, part: str) -> t.Any:
    return ((seen.get("parts") or {}).get(part) or {}).get("value")


def _is_port(link: Entry) -> bool:
    """Whether it connects the machine: guests have ports of bridges as well, which come and go with them."""
    return link["master"] is not None and link["kind"] in ("device", "bond", "vlan")


def _links(host: str, links: t.Sequence[Entry]) -> t.Iterator[Finding]:
    for one in links:
        if _is_port(one):
            name = f"{one['name']}, a port of {one['master']},"
            if not one["up"]:
                yield Finding("links", REPAIR, f"{name} is switched off", f"ip link set {one['name']} up, or run provision_virt", host)
            elif one["carrier"] is False:
                yield Finding("links", REPAIR, f"{name} has no link", _BASIC, host)
            elif one["kind"] == "device" and one["speed"] and 0 < one["speed"] < _SLOW:
                yield Finding("links", NOTE, f"{name} runs at {one['speed']} Mb/s", _BASIC, host)


def _mtu(awake: Known) -> list[Finding]:
    """Bridges of one name belong to one network, and a port that carries less than its bridge drops what is larger."""
    found, bridges = [], {}
    for host, seen in awake.items():
        links = {one["name"]: one for one in _of(seen, "links") or ()}
        for one in links.values():
            if one["kind"] == "bridge" and any(_is_port(port) and port["master"] == one["name"] for port in links.values()):
                bridges.setdefault(one["name"], {}).setdefault(one["mtu"], []).append(host)
            master = links.get(one["master"] or "")
            if master and _is_port(one) and one["mtu"] < master["mtu"]:
                text = f"{one['name']} has {one['mtu']}, its {master['kind']} {master['name']} {master['mtu']}"
                found.append(Finding("MTU", REPAIR, text, "Set mtu in virt_host_bridges, and run provision_virt", host))
    for name, sizes in bridges.items():
        if len(sizes) > 1:
            text = ", ".join(f"{mtu} on {' and '.join(hosts)}" for mtu, hosts in sorted(sizes.items()))
            found.append(Finding("MTU", REPAIR, f"{name} has {text}", "Set the same mtu in virt_host_bridges, and run provision_virt"))
    return found


def _used(one: Entry) -> float:
    """Return how full it is in percent, of bytes or inodes."""
    pairs = ((one["size_bytes"], one["free_bytes"]), (one.get("inodes") or 0, one.get("free_inodes") or 0))
    return max(100.0 * (size - free) / size if size else 0.0 for size, free in pairs)


def _space(host: str, systems: t.Sequence[Entry], pools: t.Sequence[Entry]) -> t.Iterator[Finding]:
    for one in systems:
        if one["read_only"] and one["path"] == "/":
            yield Finding("space", REPAIR, "/ is read-only", "Read the kernel's messages (dmesg): its disk or file system has errors", host)
        yield from _filled(host, f"the file system {one['path']}", one)
    for one in pools:
        if not one["active"] and one["autostart"]:
            yield Finding("space", REPAIR, f"the pool {one['name']} is not active", f"Mount its file system, then virsh pool-start {one['name']}", host)
        elif one["active"] and one["type"] not in ("dir", "fs"):
            # that of files has the space of its file system
            yield from _filled(host, f"the pool {one['name']}", one)


def _filled(host: str, what: str, one: Entry) -> t.Iterator[Finding]:
    used = _used(one)
    if used >= _FILLING:
        kind = "inodes" if one["size_bytes"] and 100.0 * (one["size_bytes"] - one["free_bytes"]) / one["size_bytes"] < _FILLING else "space"
        left = f"{size_text(one['free_bytes'])} left" if kind == "space" and one["free_bytes"] else "almost none left"
        todo = "Free or add space: QEMU pauses VMs that write to a full pool"
        yield Finding("space", REPAIR if used >= _FULL else NOTE, f"{what} has {used:.0f} % of its {kind} in use, {left}", todo, host)


def _disks(host: str, found: Entry, server: bool) -> t.Iterator[Finding]:
    if server and found and not found["smart"]:
        yield Finding("disks", NOTE, "the health of its disks is not known", "Install smartmontools", host)
    for one in found.get("disks") or ():
        if one["problems"]:
            yield Finding("disks", REPAIR, f"{one['name']}: {', '.join(one['problems'])}", "Replace it; first check that its data are elsewhere", host)
    for one in found.get("arrays") or ():
        if one["missing"]:
            yield Finding("disks", REPAIR, f"{one['name']} lacks {one['missing']} members", f"Replace the disk, then mdadm --add /dev/{one['name']}", host)


def _units(host: str, found: Entry) -> t.Iterator[Finding]:
    if found.get("failed"):
        names = ", ".join(found["failed"])
        yield Finding("units", REPAIR, f"failed: {names}", f"journalctl -u {found['failed'][0]}; then start it, or systemctl reset-failed", host)
    for name in found.get("stopped") or ():
        yield Finding("units", REPAIR, f"{name} is enabled and does not run", "Start it", host, start_unit(name))
