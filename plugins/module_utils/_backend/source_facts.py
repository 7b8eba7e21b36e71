# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the source of a migration is like. Runs on the source itself and changes nothing."""

from __future__ import annotations

import glob
import json
import os
import pathlib
import platform
import re
import shutil
import socket
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import run

# File systems that live on a disk of the machine and therefore move.
_DISK_TYPES = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "exfat", "f2fs", "jfs", "reiserfs", "zfs", "nilfs2"))
# File systems whose content lives elsewhere; the new master mounts them itself.
_FOREIGN_TYPES = frozenset(("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs", "9p", "virtiofs", "afs"))
_NOT_BELOW = ("/proc", "/sys", "/dev", "/run")


def read_text(path: str) -> str | None:
    """A file of unknown encoding as text, ``None`` when it cannot be read; bytes survive the round trip."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None


def read_tree(patterns: t.Iterable[str], root: str = "/") -> dict[str, str]:
    """The files that match absolute globs, below ``root``; keys are paths as the machine itself sees them."""
    tree = {}
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(root, pattern.lstrip("/")))):
            inner = "/" + os.path.relpath(path, root)
            # never through a link: on the copy it could lead out to the host
            if os.path.isfile(path) and not os.path.islink(path):
                text = read_text(path)
                if text is not None:
                    tree[inner] = text
    return tree


def gather(services: t.Sequence[str], tools: t.Sequence[str]) -> dict[str, t.Any]:
    """Facts of this machine as the source of a migration.

    :arg services: units whose state is wanted.
    :arg tools: programs whose paths are wanted.
    """
    return {
        "hostname": socket.gethostname(),
        "machine_id": (read_text("/etc/machine-id") or "").strip(),
        "boot_id": (read_text("/proc/sys/kernel/random/boot_id") or "").strip(),
        "arch": platform.machine(),
        "time": time.time(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "firmware": "uefi" if os.path.isdir("/sys/firmware/efi") else "bios",
        "filesystems": filesystems(),
        "foreign": [each for each in mounts() if each["fstype"] in _FOREIGN_TYPES],
        "interfaces": interfaces(),
        "tools": {tool: _which(tool) for tool in tools},
        "kernels": sorted(os.path.basename(each)[len("vmlinuz-") :] for each in glob.glob("/boot/vmlinuz-*")),
        "initramfs": next((tool for tool in ("update-initramfs", "dracut") if _which(tool)), None),
        "grub": {"install": _which("grub-install") or _which("grub2-install"), "i386_pc": os.path.isdir("/usr/lib/grub/i386-pc")},
        "host_keys": [" ".join((read_text(each) or "").split()[:2]) for each in sorted(glob.glob("/etc/ssh/ssh_host_*_key.pub"))],
        "services": {unit: unit_state(unit) for unit in services},
    }


def _which(tool: str) -> str | None:
    return shutil.which(tool, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def mounts() -> list[dict[str, str]]:
    """The mount table: mount, root (of the mount inside its file system), device, fstype, id (major:minor)."""
    found = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        left, _dash, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) > 4 and len(kind) > 1:
            found.append({"id": fields[2], "root": _unescape(fields[3]), "mount": _unescape(fields[4]), "fstype": kind[0], "device": _unescape(kind[1])})
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


def filesystems() -> list[dict[str, t.Any]]:
    """Every file system on a disk, once, with what is used in it.

    A bind mount of something already listed is no file system of its own.
    """
    found: list[dict[str, t.Any]] = []
    seen: set[str] = set()
    for each in mounts():
        inside = any(each["mount"] == top or each["mount"].startswith(top + "/") for top in _NOT_BELOW)
        if each["fstype"] not in _DISK_TYPES or inside or each["id"] in seen or not os.path.isdir(each["mount"]):
            continue
        seen.add(each["id"])
        space = os.statvfs(each["mount"])
        found.append(
            {
                "mount": each["mount"],
                "device": each["device"],
                "fstype": each["fstype"],
                "total": space.f_blocks * space.f_frsize,
                "used": (space.f_blocks - space.f_bfree) * space.f_frsize,
                "inodes_used": space.f_files - space.f_ffree,
            }
        )
    return sorted(found, key=lambda each: each["mount"])


def interfaces() -> list[dict[str, t.Any]]:
    """Network cards with their addresses; the loopback and cards without a MAC are left out."""
    done = run(["ip", "-json", "address", "show"])
    found = []
    for link in json.loads(done.stdout or "[]"):
        if link.get("link_type") != "ether":
            continue
        addresses = [f"{each['local']}/{each['prefixlen']}" for each in link.get("addr_info", []) if each.get("family") == "inet"]
        # a bridge's or bond's MAC is a member's; only what has hardware or an address is a card here
        found.append({"name": link["ifname"], "mac": link.get("address", ""), "addresses": addresses})
    return found


def unit_state(unit: str) -> dict[str, str]:
    """What systemd says of a unit: load, active, sub."""
    done = run(["systemctl", "show", "--property=LoadState,ActiveState,SubState", "--", unit], ok=range(256))
    values = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    return {"load": values.get("LoadState", ""), "active": values.get("ActiveState", ""), "sub": values.get("SubState", "")}
