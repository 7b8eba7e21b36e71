# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was read of the disks, and the files that make an unpacked system that of one server. No I/O."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import INSTALLED_SERVER
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
from ansible_collections.reduced.footprint.plugins.module_utils._metal.plan_install import Disk
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_host_key

MARK = "etc/reduced.footprint/installed-server.json"
SERVER = re.compile(r"(?:^|\s)footprint\.server=(http://[0-9.]+:[0-9]{1,5})(?=\s|$)")
_NOT_DISKS = ("zram", "ram", "loop", "fd", "nbd", "sr")
_GRUB = """\
GRUB_DEFAULT=0
GRUB_TIMEOUT=2
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=tty0 console=ttyS0,115200"
GRUB_TERMINAL=console
GRUB_DISABLE_OS_PROBER=true
"""
_SSHD = "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"


class File(t.NamedTuple):
    """A file of the system."""

    path: str
    text: str
    mode: int = 0o644


class Image(t.NamedTuple):
    """The archive of the system: its hash, and the bytes of its files."""

    sha256: str
    unpacked: int


def image(text: str) -> Image:
    """Return what the boot server reports of the archive.

    :raises ValueError: it cannot be parsed.
    """
    try:
        found = json.loads(text)
        digest = str(found["sha256"])
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise ValueError("its hash is not one of SHA-256")
        return Image(digest, int(found["unpacked"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"a value is missing: {error}") from error


def server(command_line: str) -> str | None:
    """Return the URL of the boot server, from the command line of the kernel."""
    found = SERVER.search(command_line)
    return found[1] if found else None


def devices(text: str) -> dict[str, list[str]]:
    """Return each disk in the output of ``lsblk`` with all devices on it, the disk last."""
    return {str(entry["path"]): [str(each["path"]) for each in _all(entry)] for entry in _disks(text)}


def _disks(text: str) -> list[t.Mapping[str, t.Any]]:
    entries = json.loads(text).get("blockdevices") or ()
    return [one for one in entries if one.get("type") == "disk" and one.get("size") and not str(one.get("name")).startswith(_NOT_DISKS)]


def disks(text: str, own: str) -> list[Disk]:
    """Return the disks in the output of ``lsblk``, without their content.

    :arg own: mount points below this one are those of an earlier run.
    """
    found = []
    for entry in _disks(text):
        used = [f"{each['path']} at {point}" for each in _all(entry) for point in each.get("mountpoints") or () if point and not _below(str(point), own)]
        serial = str(entry.get("serial") or "").strip()
        sector = int(entry.get("log-sec") or 512)
        found.append(Disk(str(entry["path"]), serial, int(entry["size"]), bool(entry.get("ro")), used=tuple(used), sector=sector))
    return sorted(found, key=lambda one: one.device)


def _below(point: str, folder: str) -> bool:
    return point == folder or point.startswith(f"{folder}/")


def _all(entry: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """A device and all devices on it, those on top first."""
    found = [each for child in entry.get("children") or () for each in _all(child)]
    return [*found, entry]


def mapped(text: str, disk: str) -> list[str]:
    """Return the mapped devices on a disk in the output of ``lsblk``, those on top first."""
    entries = [entry for entry in json.loads(text).get("blockdevices") or () if entry.get("path") == disk]
    found = [str(each["path"]) for entry in entries for each in _all(entry) if str(each["path"]).startswith("/dev/mapper/")]
    return list(dict.fromkeys(found))


def signatures(text: str) -> list[str]:
    """Return the kinds in the output of ``wipefs --json``."""
    found = (json.loads(text).get("signatures") or ()) if text.strip() else ()
    return sorted({str(each.get("type")) for each in found})


def groups(text: str) -> dict[str, list[str]]:
    """Return each volume group with its devices, from the output of ``pvs --reportformat json``."""
    found: dict[str, list[str]] = {}
    for report in json.loads(text).get("report") or ():
        for each in report.get("pv") or ():
            if each.get("vg_name"):
                found.setdefault(str(each["vg_name"]), []).append(str(each["pv_name"]))
    return found


def mark(text: str) -> dict[str, str]:
    """Return name and disk of the server that a system was installed as.

    :raises ValueError: it cannot be parsed.
    """
    found = INSTALLED_SERVER.load(text, f"/{MARK}")
    return {"name": str(found.get("name")), "disk": str(found.get("disk"))}


def record(name: str, disk: str) -> str:
    """Return the text of :data:`MARK`."""
    return json.dumps(INSTALLED_SERVER.mark({"name": name, "disk": disk})) + "\n"


def files(install: model_install.Install, key: model_host_key.HostKey, root: str, esp: str | None, machine: str) -> list[File]:
    """Return the files of one server.

    :arg root: UUID of the root file system.
    :arg esp: UUID of the EFI system partition; ``None`` for BIOS.
    :arg machine: a new machine id.
    """
    short = install.hostname.partition(".")[0]
    names = install.hostname if short == install.hostname else f"{install.hostname} {short}"
    mounts = f"UUID={root} / ext4 errors=remount-ro 0 1\n" + (f"UUID={esp} /boot/efi vfat umask=0077 0 1\n" if esp else "")
    network = ["[Match]", f"PermanentMACAddress={install.mac}", "", "[Network]", f"Address={install.address}"]
    network += [f"Gateway={install.gateway}"] if install.gateway else []
    network += [f"DNS={one}" for one in install.dns] + ["IPv6AcceptRA=no"]
    found = [
        File("etc/fstab", mounts),
        File("etc/hostname", f"{install.hostname}\n"),
        File("etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{install.address.ip} {names}\n"),
        File("etc/machine-id", f"{machine}\n", 0o444),
        File("etc/systemd/network/10-admin.network", "\n".join(network) + "\n"),
        File("etc/default/grub", _GRUB),
        File("etc/ssh/sshd_config.d/10-keys-only.conf", _SSHD),
        File(f"etc/ssh/{model_host_key.PRIVATE_NAME}", key.private, 0o600),
        File(f"etc/ssh/{model_host_key.PUBLIC_NAME}", f"{key.public}\n"),
        File("root/.ssh/authorized_keys", "".join(f"{one}\n" for one in install.keys), 0o600),
        File(MARK, record(install.name, install.disk)),
    ]
    # nothing but this file is read: the system has no resolver of its own
    return [*found, File("etc/resolv.conf", "".join(f"nameserver {one}\n" for one in install.dns))] if install.dns else found
