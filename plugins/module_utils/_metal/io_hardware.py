# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the hardware of this server."""

from __future__ import annotations

import os
import pathlib
import re
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

_COLUMNS = "NAME,TYPE,SIZE,SERIAL,MODEL,WWN,TRAN,ROTA,RM,PTTYPE,FSTYPE"
_DMI = ("product_uuid", "product_serial", "sys_vendor", "product_name")
_ETHERNET = "1"
_TIMEOUT = 60.0


def dmi() -> dict[str, str]:
    """Return the identity of the system according to its firmware."""
    return {name: _text(pathlib.Path("/sys/class/dmi/id") / name) for name in _DMI}


def dmi_tables() -> bytes:
    """Return the tables of SMBIOS; empty if there are none."""
    try:
        return pathlib.Path("/sys/firmware/dmi/tables/DMI").read_bytes()
    except OSError:
        return b""


def memory() -> int:
    """Return the bytes of memory that the kernel uses."""
    return io_files.meminfo()["MemTotal"]


def cpus() -> int:
    """Return the number of CPUs."""
    return os.cpu_count() or 1


def cpuinfo() -> str:
    """Return what the kernel reports about the first CPU."""
    return pathlib.Path("/proc/cpuinfo").read_text("utf-8", "replace").partition("\n\n")[0]


def lsblk() -> str:
    """Return the block devices as JSON."""
    return io_command.run(["lsblk", "--json", "--bytes", "--output", _COLUMNS], timeout=_TIMEOUT).stdout


def nics() -> list[dict[str, t.Any]]:
    """Return the physical network cards."""
    found = []
    for path in sorted(pathlib.Path("/sys/class/net").iterdir()):
        # bridges, bonds and VLANs are no devices
        if not (path / "device").exists() or _text(path / "type") != _ETHERNET:
            continue
        speed = _text(path / "speed")
        driver = path / "device" / "driver"
        found.append(
            {
                "name": path.name,
                # a member of a bond has the address of another card
                "mac": (_text(path / "bonding_slave" / "perm_hwaddr") or _text(path / "address")).lower(),
                # not readable while the card is down
                "link": _text(path / "carrier") == "1",
                "speed_mbit": int(speed) if speed.isdigit() else None,
                "driver": os.path.basename(os.path.realpath(driver)) if driver.exists() else None,
            }
        )
    return found


def lldp(linked: t.Collection[str], timeout: float) -> str:
    """Return the neighbours according to lldpd, as JSON; empty without lldpd.

    :arg linked: wait until each of these interfaces has a neighbour.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            text = io_command.run(["lldpctl", "-f", "json0"], timeout=_TIMEOUT).stdout
        except CommandError:
            return ""
        known = set(re.findall(r'"name": *"([^"]+)", *\s*"via"', text))
        if set(linked) <= known or time.monotonic() >= deadline:
            return text
        time.sleep(2)


def uefi() -> bool:
    """Whether the firmware that booted is UEFI."""
    return os.path.isdir("/sys/firmware/efi")


def iommu() -> bool:
    """Whether an IOMMU is in use, which devices need that are passed to VMs."""
    try:
        return any(pathlib.Path("/sys/class/iommu").iterdir())
    except OSError:
        return False


def require_root() -> None:
    """Refuse to read without the privileges for identity and memory."""
    if os.geteuid():
        raise BackendError("only root can read the serial numbers of the hardware.", hint="Set become: true.")


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
