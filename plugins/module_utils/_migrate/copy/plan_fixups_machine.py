# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fix-ups of files about the old machine's hardware: volume managers, sensors, firmware, clock. Text only."""

from __future__ import annotations

import re
import typing as t

MARK = "# reduced.footprint:"
BEHIND = f"{MARK} the old disk stayed behind:"

#: Hardware services that are useless in a VM: they fail there, or claim its disks.
METAL_UNITS = (
    "bolt.service", "bluetooth.service", "cpufrequtils.service", "edac.service", "fancontrol.service", "fwupd.service", "fwupd-refresh.service",
    "fwupd-refresh.timer", "hddtemp.service", "hp-health.service", "ipmi.service", "ipmievd.service", "laptop-mode.service", "lm-sensors.service",
    "lm_sensors.service", "loadcpufreq.service", "mbpfan.service", "mcelog.service", "mdmonitor.service", "ModemManager.service",
    "multipathd.service", "multipathd.socket", "nvidia-persistenced.service", "openipmi.service", "powertop.service", "rasdaemon.service",
    "sensord.service", "smartd.service", "smartmontools.service", "thermald.service", "tlp.service",
)  # fmt: skip
#: After 90 s, systemd's default, a VM on a server that is busy, as after a power loss, would wait in emergency mode for a password that may be locked.
_DEVICES = "/etc/systemd/system.conf.d/zz-reduced-footprint.conf"
_PATIENT = f"{MARK} the disks of a VM may appear late\n[Manager]\nDefaultDeviceTimeoutSec=15min\n"
_METAL_ONLY = f"{MARK} a VM does not have this hardware\n[Unit]\nConditionVirtualization=no\n"
_UNIT_FOLDERS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system")
# drivers of sensors and management controllers, which log errors without the hardware
_METAL_MODULES = frozenset(
    "coretemp k10temp it87 nct6775 nct6683 w83627ehf w83627hf w83795 f71882fg lm78 lm85 adt7475 drivetemp ipmi_si ipmi_ssif applesmc dell_smm_hwmon "
    "thinkpad_acpi iTCO_wdt i8k".split()
)

PATTERNS = (
    "/etc/crypttab",
    "/etc/mdadm/mdadm.conf",
    "/etc/mdadm.conf",
    "/etc/lvm/lvm.conf",
    "/etc/lvm/lvmlocal.conf",
    "/etc/lvm/devices/system.devices",
    "/etc/multipath.conf",
    "/etc/multipath/bindings",
    "/etc/multipath/wwids",
    "/etc/multipath/conf.d/zz-reduced-footprint.conf",
    "/etc/cloud/cloud.cfg",
    "/etc/cloud/cloud-init.disabled",
    "/etc/selinux/config",
    "/.autorelabel",
    "/etc/adjtime",
    "/etc/modules",
    "/etc/modules-load.d/*.conf",
    _DEVICES,
    "/etc/systemd/system/*.service.d/zz-reduced-footprint.conf",
    "/etc/systemd/system/*.socket.d/zz-reduced-footprint.conf",
    "/etc/systemd/system/*.timer.d/zz-reduced-footprint.conf",
) + tuple(f"{folder}/{unit}" for folder in _UNIT_FOLDERS for unit in METAL_UNITS)


def fix_machine(tree: t.Mapping[str, str]) -> dict[str, str | None]:
    """Return the files that change: path → new text, ``None`` for a file to remove."""
    changes: dict[str, str | None] = {_DEVICES: _PATIENT}
    for path, text in tree.items():
        if path == "/etc/crypttab":
            changes[path] = comment_out(text, r"\S+\s+(/dev/|UUID=|LABEL=|PARTUUID=|PARTLABEL=)")
        elif path in ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"):
            changes[path] = comment_out(text, r"(ARRAY|DEVICE)\b(?!\s+(partitions|containers))")
        elif path in ("/etc/lvm/lvm.conf", "/etc/lvm/lvmlocal.conf"):
            changes[path] = drop_filters(text)
        elif path in ("/etc/lvm/devices/system.devices", "/etc/multipath/bindings", "/etc/multipath/wwids"):
            # lists of the old machine's disks; they would restrict the volume managers to these
            changes[path] = None
        elif path == "/etc/adjtime":
            changes[path] = re.sub(r"(?m)^LOCAL$", "UTC", text)
        elif path == "/etc/modules" or path.startswith("/etc/modules-load.d/"):
            changes[path] = _drop_modules(text)
    if "/etc/multipath.conf" in tree:
        changes["/etc/multipath/conf.d/zz-reduced-footprint.conf"] = f'{MARK} the disks of a VM have one path\nblacklist {{\n\tdevnode "^vd[a-z]+"\n}}\n'
    if "/etc/cloud/cloud.cfg" in tree:
        changes["/etc/cloud/cloud-init.disabled"] = f"{MARK} this machine was migrated and must not be initialized\n"
    if re.search(r"(?m)^\s*SELINUX=(enforcing|permissive)\b", tree.get("/etc/selinux/config", "")):
        # files written from outside have no label; the first boot relabels and reboots
        changes["/.autorelabel"] = "-F\n"
    for unit in METAL_UNITS:
        if any(f"{folder}/{unit}" in tree for folder in _UNIT_FOLDERS):
            changes[f"/etc/systemd/system/{unit}.d/zz-reduced-footprint.conf"] = _METAL_ONLY
    return changes


def comment_out(text: str, pattern: str) -> str:
    """Comment out lines that begin with ``pattern``, with the reason."""
    wanted = re.compile(rf"\A\s*{pattern}", re.IGNORECASE)
    return "".join(f"{BEHIND} {line}" if wanted.match(line) else line for line in text.splitlines(keepends=True))


def drop_filters(text: str) -> str:
    """Comment out LVM's device filters, which name disks of the old machine; a list may span several lines."""
    lines = []
    inside = False
    for line in text.splitlines(keepends=True):
        begins = bool(re.match(r"\s*(global_)?filter\s*=", line))
        lines.append(f"{BEHIND} {line}" if begins or inside else line)
        inside = (begins or inside) and "]" not in line.split("#")[0]
    return "".join(lines)


def _drop_modules(text: str) -> str:
    return "".join(
        f"{MARK} a VM does not have this hardware: {line}" if (line.split() or [""])[0].replace("-", "_") in _METAL_MODULES else line
        for line in text.splitlines(keepends=True)
    )
