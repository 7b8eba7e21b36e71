# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what an operator checks on a machine: links, file systems, disks, units, a due restart, keys. Changes nothing."""

from __future__ import annotations

import json
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, model_one_time_key

#: File systems without space of their own that could run out.
_FIXED = frozenset(("iso9660", "squashfs", "erofs", "udf"))
_TIMERS = ("footprint-*.timer", "reduced-footprint-*.timer")
_TIME_SERVICES = ("chrony.service", "chronyd.service", "systemd-timesyncd.service", "ntpsec.service")
_RESTART = ("run/reboot-required", "var/run/reboot-required")
_SECONDS = 6.0
#: Attributes of ATA disks: sectors that were replaced, that wait for it, and that cannot be read.
_SECTORS = {5: "reallocated", 197: "pending", 198: "uncorrectable"}


def links(root: str = "/") -> list[dict[str, t.Any]]:
    """Return the network interfaces: name, kind, master, whether they are on and have a link (``None`` if they are off), MTU, and speed in Mb/s."""
    found = []
    for folder in sorted(pathlib.Path(root, "sys/class/net").iterdir()):
        if (folder / "flags").exists():
            up = bool(int(_line(folder / "flags") or "0", 16) & 1)
            carrier, speed, master = _line(folder / "carrier"), _line(folder / "speed"), folder / "master"
            found.append({
                "name": folder.name, "kind": _kind(folder), "master": os.path.basename(os.readlink(master)) if master.is_symlink() else None, "up": up,
                "carrier": carrier == "1" if up and carrier else None, "mtu": int(_line(folder / "mtu") or 0), "speed": int(speed) if speed else None,
            })  # fmt: skip
    return found


def _kind(folder: pathlib.Path) -> str:
    kinds = {"bridge": "bridge", "bonding": "bond", "device": "device"}
    # one that is on top of another one and neither a bridge nor a bond is a VLAN, or works like one
    other = "vlan" if any(folder.glob("lower_*")) else "other"
    return next((kind for entry, kind in kinds.items() if (folder / entry).exists()), other)


def _line(path: pathlib.Path) -> str | None:
    """Return the first line of a file of the kernel, which has no value for some of those of an interface that is off."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def file_systems(mounts: str = "/proc/self/mounts") -> list[dict[str, t.Any]]:
    """Return the file systems on block devices, each once: path, bytes and inodes with those that are free, and whether it is read-only."""
    found: dict[str, dict[str, t.Any]] = {}
    for device, path, kind, options in (line.split()[:4] for line in (read_text(mounts) or "").splitlines()):
        if device.startswith("/dev/") and device not in found and kind not in _FIXED and not device.startswith("/dev/loop"):
            name = path.encode().decode("unicode_escape")
            status = os.statvfs(name)
            found[device] = {
                "path": name, "size_bytes": status.f_blocks * status.f_frsize, "free_bytes": status.f_bavail * status.f_frsize,
                "inodes": status.f_files, "free_inodes": status.f_favail, "read_only": "ro" in options.split(","),
            }  # fmt: skip
    return list(found.values())


def disks(root: str = "/") -> dict[str, t.Any]:
    """Return ``smart`` (whether it could be read), ``disks`` (name, problems) and ``arrays`` (software RAID: name, missing members)."""
    arrays = []
    for folder in sorted(pathlib.Path(root, "sys/block").glob("md*/md")):
        arrays.append({"name": folder.parent.name, "missing": int(_line(folder / "degraded") or 0)})
    try:
        scan = json.loads(run(["smartctl", "--json", "--scan"], timeout=_SECONDS).stdout)
    except (CommandError, ValueError):
        return {"smart": False, "disks": [], "arrays": arrays}
    return {"smart": True, "disks": [_disk(str(one["name"]), str(one["type"])) for one in scan.get("devices") or ()], "arrays": arrays}


def _disk(name: str, kind: str) -> dict[str, t.Any]:
    # its exit code is a set of findings, which are in the document as well
    text = run(["smartctl", "--json", "--health", "--attributes", "--device", kind, name], timeout=_SECONDS, ok=range(256)).stdout
    found = json.loads(text)
    passed = (found.get("smart_status") or {}).get("passed")
    problems = ["its SMART status is FAILED"] if passed is False else []
    for each in (found.get("ata_smart_attributes") or {}).get("table") or ():
        count = (each.get("raw") or {}).get("value") or 0
        if each.get("id") in _SECTORS and count:
            problems.append(f"{count} {_SECTORS[each['id']]} sectors")
    nvme = found.get("nvme_smart_health_information_log") or {}
    if nvme.get("critical_warning"):
        problems.append(f"critical warning {nvme['critical_warning']}")
    if (nvme.get("percentage_used") or 0) >= 90:
        problems.append(f"{nvme['percentage_used']} % of its life is used")
    return {"name": name, "known": passed is not None or bool(nvme), "problems": problems}


def units() -> dict[str, t.Any]:
    """Return ``failed`` units, ``stopped`` timers of the collection that are enabled, and ``time_services`` that are enabled: name, whether it runs."""
    failed = run(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--full"], timeout=_SECONDS).stdout
    listing = ["systemctl", "list-unit-files", "--state=enabled", "--plain", "--no-legend", "--full", *_TIMERS, *_TIME_SERVICES]
    # the exit code is 1 if there is none
    names = [line.split()[0] for line in run(listing, timeout=_SECONDS, ok=(0, 1)).stdout.splitlines() if line.split()]
    # by name: a pattern would find loaded units only, and one that is off need not be
    shown = run(["systemctl", "show", "--property=Id,ActiveState", *names], timeout=_SECONDS).stdout if names else ""
    entries = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.split("\n\n") if block.strip()]
    enabled = {entry["Id"]: entry["ActiveState"] in ("active", "activating") for entry in entries}
    return {
        "failed": [line.split()[0] for line in failed.splitlines() if line.split()],
        "stopped": sorted(name for name, runs in enabled.items() if name.endswith(".timer") and not runs),
        "time_services": {name: runs for name, runs in enabled.items() if name in _TIME_SERVICES},
    }


def restart(root: str = "/") -> str:
    """Return why the machine must be restarted, empty if nothing says so."""
    if any(pathlib.Path(root, name).exists() for name in _RESTART):
        return "packages that were updated require it"
    release = _line(pathlib.Path(root, "proc/sys/kernel/osrelease")) or ""
    modules = pathlib.Path(root, "lib/modules")
    if release and modules.is_dir() and any(modules.iterdir()) and not (modules / release).is_dir():
        return f"the running kernel {release} was removed"
    return ""


def keys(text: str | None = None, now: float | None = None) -> list[dict[str, t.Any]]:
    """Return the one-time keys of root: name, the key, and the seconds until it expires, negative if it has, ``None`` if it is permanent."""
    found, prefix = [], f"{model_one_time_key.MARKER}-"
    for line in (io_authorized_keys.current() if text is None else text).splitlines():
        words = line.split()
        if len(words) > 2 and words[-1].startswith(prefix) and not line.lstrip().startswith("#"):
            ends = model_one_time_key.expires_at(line, words[-1])
            left = None if ends is None else round(ends - (time.time() if now is None else now))
            found.append({"name": words[-1][len(prefix) :], "public_key": " ".join(words[-3:]), "left_seconds": left})
    return found
