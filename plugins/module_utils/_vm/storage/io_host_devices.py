# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Block devices that this host uses itself: mounted, swap, or part of a volume group, an array or another device."""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_mounts

_SWAPS = "/proc/swaps"


def used_because(device: str, mounts: str = io_mounts.MOUNTS, swaps: str = _SWAPS) -> str | None:
    """Return how this host uses a device or one of its partitions; ``None`` if it does not.

    :arg device: its folder in sysfs.
    """
    parts = [pathlib.Path(device), *sorted(each.parent for each in pathlib.Path(device).glob("*/partition"))]
    by_number = {number: part.name for part in parts if (number := (read_text(str(part / "dev")) or "").strip())}
    for number, point in _mounted(mounts):
        if number in by_number:
            return f"{by_number[number]} is mounted at {point}"
    for line in (read_text(swaps) or "").splitlines()[1:]:
        number = _number_of(io_mounts.unescaped(line.split()[0])) if line.split() else None
        if number in by_number:
            return f"{by_number[str(number)]} is swap"
    for part in parts:
        if os.path.isdir(part / "holders") and (holders := sorted(os.listdir(part / "holders"))):
            return f"{part.name} is part of {', '.join(_shown(part / 'holders' / each) for each in holders)}"
    return None


def _mounted(path: str) -> t.Iterator[tuple[str, str]]:
    """Device number and mount point of each mount; btrfs has another number than its device, which is its source."""
    for mount in io_mounts.mounts(path):
        yield mount.number, mount.point
        number = _number_of(mount.source) if mount.source.startswith("/dev/") else None
        if number:
            yield number, mount.point


def _number_of(path: str) -> str | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def _shown(holder: pathlib.Path) -> str:
    """The name of a device of the device mapper, or else that of the kernel."""
    return (read_text(str(holder / "dm" / "name")) or "").strip() or holder.name
