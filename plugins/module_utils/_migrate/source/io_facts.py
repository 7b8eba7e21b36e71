# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gather facts of the source of a migration. Runs on the source itself and changes nothing."""

from __future__ import annotations

import glob
import os
import pathlib
import platform
import shutil
import socket
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_blocks, io_disks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_links import interfaces, other_media


def read_text(path: str) -> str | None:
    """A file of unknown encoding as text, ``None`` if it cannot be read; invalid bytes are preserved on writing."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None


def read_tree(patterns: t.Iterable[str]) -> dict[str, str]:
    """The texts of the regular files that match absolute globs; links are left out."""
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern)) if os.path.isfile(path) and not os.path.islink(path)]
    return {path: text for path in paths for text in [read_text(path)] if text is not None}


def gather(services: t.Sequence[str], tools: t.Sequence[str], excludes: t.Sequence[str] = ()) -> dict[str, t.Any]:
    """Facts of this machine as the source of a migration.

    :arg excludes: what is not copied, and does not count as used.
    """
    swaps, swap_files = io_disks.swaps()
    filesystems = io_disks.filesystems()
    io_disks.subtract(filesystems, excludes)
    return {
        "hostname": socket.gethostname(),
        "machine_id": (read_text("/etc/machine-id") or "").strip(),
        "boot_id": (read_text("/proc/sys/kernel/random/boot_id") or "").strip(),
        "arch": platform.machine(),
        "time": time.time(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        # in a container this is the firmware of its host
        "firmware": "uefi" if os.path.isdir("/sys/firmware/efi") and not os.path.exists("/run/systemd/container") else "bios",
        "filesystems": filesystems,
        "swaps": swaps,
        "swap_files": swap_files,
        "blocks": io_blocks.blocks(),
        "boot_seconds": boot_seconds(),
        "foreign": io_disks.not_copied(filesystems),
        "interfaces": interfaces(),
        "other_media": other_media(),
        "tools": {tool: _which(tool) for tool in tools},
        "kernels": sorted(os.path.basename(each)[len("vmlinuz-") :] for each in glob.glob("/boot/vmlinuz-*")),
        "initramfs": next((tool for tool in ("update-initramfs", "dracut") if _which(tool)), None),
        "grub": _grub(),
        "versions": {"grub": _version(_grub()["install"] or "grub-install", "--version"), "e2fsprogs": _version("e2fsck", "-V")},
        "host_keys": [" ".join((read_text(each) or "").split()[:2]) for each in sorted(glob.glob("/etc/ssh/ssh_host_*_key.pub"))],
        "services": {unit: unit_state(unit) for unit in services},
    }


def boot_seconds() -> float | None:
    """Duration of this machine's last boot, from power on if the firmware reports it; ``None`` while it still boots."""
    names = ("FirmwareTimestampMonotonic", "UserspaceTimestampMonotonic", "FinishTimestampMonotonic")
    done = run(["systemctl", "show", *(f"--property={each}" for each in names)], ok=range(256))
    values = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    firmware, userspace, finish = (int(values.get(each) or 0) for each in names)
    if not finish:
        return None
    # a container has its host's clock and no kernel of its own to boot
    begin = userspace if os.path.exists("/run/systemd/container") else -firmware
    return round((finish - begin) / 1e6, 1)


def _which(tool: str) -> str | None:
    return shutil.which(tool, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def _grub() -> dict[str, t.Any]:
    """The GRUB files of this machine by firmware type; ``shim``: whether a signed boot loader is on the EFI system partition."""
    targets = {name: os.path.isdir(f"/usr/lib/grub/{name}") for name in ("i386-pc", "x86_64-efi", "arm64-efi")}
    return {
        "install": _which("grub-install") or _which("grub2-install"),
        "i386_pc": targets["i386-pc"],
        "efi": targets["x86_64-efi" if platform.machine() == "x86_64" else "arm64-efi"],
        "shim": bool(glob.glob("/boot/efi/EFI/*/shim*.efi") + glob.glob("/efi/EFI/*/shim*.efi")),
    }


def _version(*argv: str) -> str | None:
    """What a program says about its version; ``None`` if it is missing or fails."""
    try:
        done = run(argv, timeout=10)
    except CommandError:
        return None
    return (done.stdout + done.stderr).partition("\n")[0]


def unit_state(unit: str) -> dict[str, str]:
    """The state of a unit: load, active, sub."""
    done = run(["systemctl", "show", "--property=LoadState,ActiveState,SubState", "--", unit], ok=range(256))
    values = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    return {"load": values.get("LoadState", ""), "active": values.get("ActiveState", ""), "sub": values.get("SubState", "")}
