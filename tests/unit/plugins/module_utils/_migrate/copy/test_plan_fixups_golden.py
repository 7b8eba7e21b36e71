# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole trees of sources, one of each family of distributions, and what the fix-ups make of them.

``golden_fixups/FAMILY.before.txt`` holds files of a source, ``FAMILY.after.txt`` those that
change; a file that is taken away has the one line ``(gone)``. ``GOLDEN=write`` writes the latter
again: read what changed before you keep it.
"""

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import Context, plan_fixups
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import NicChange
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import Filesystem
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout, same_schema

FOLDER = pathlib.Path(__file__).parent / "golden_fixups"
GIB = 1024**3
VM = "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11"
NICS = (NicChange("eno1", "02:ab:00:00:00:02", "52:54:00:11:22:33"), NicChange("eno2", "02:ab:00:00:00:03", "52:54:00:11:22:34"))
GONE = "(gone)\n"


def lies(mount, fstype, size, device="/dev/x", subvolume=None):
    return Filesystem(mount, device, fstype, GIB // 4, 1000, size=size, subvolume=subvolume)


ESP, BOOT = lies("/boot/efi", "vfat", GIB // 2), lies("/boot", "ext3", GIB)
SOURCES = {
    "debian": ([lies("/", "xfs", 20 * GIB), BOOT, ESP, lies("/var", "ext4", 10 * GIB)], [{"size": 2 * GIB}]),
    "ubuntu": ([lies("/", "ext4", 20 * GIB), BOOT, ESP], []),
    "redhat": ([lies("/", "xfs", 20 * GIB), lies("/boot", "xfs", GIB), ESP, lies("/var", "xfs", 10 * GIB)], [{"size": 2 * GIB}]),
    "btrfs": (
        [lies("/", "btrfs", 20 * GIB, "/dev/s", "@"), lies("/home", "btrfs", 20 * GIB, "/dev/s", "@home"), lies("/efi", "vfat", GIB), lies("/srv", "xfs", GIB)],
        [],
    ),
}


def read(name):
    tree, path = {}, ""
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("=== "):
            path = line[4:].strip()
            tree[path] = ""
        else:
            tree[path] += line
    return tree


def written(changes):
    return "".join(f"=== {path}\n{GONE if text is None else text}" for path, text in sorted(changes.items()))


@pytest.mark.parametrize("family", sorted(SOURCES))
def test_the_tree_of_a_source(family):
    filesystems, swaps = SOURCES[family]
    sizes = [40 * GIB]
    layout = plan_layout(sizes, same_schema(filesystems, swaps, sizes, "efi"), filesystems, VM, "efi")
    before = read(f"{family}.before.txt")
    context = Context(nics=NICS, layout=layout, key_marker="reduced.footprint-migrate-master")
    changes = plan_fixups(before, context)
    golden = FOLDER / f"{family}.after.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(written(changes), encoding="utf-8")
    assert written(changes) == golden.read_text(encoding="utf-8")
    after = {path: text for path, text in {**before, **changes}.items() if text is not None}
    assert plan_fixups(after, context) == {}
    # no disk and no card of the old machine is spoken of any more, but where it says so
    spoken = "".join(line for text in after.values() for line in text.splitlines(keepends=True) if not line.startswith("#"))
    assert not [
        name
        for name in ("nvme0n1p", "02:ab:00:00:00:02", "02:cc:00:00:00:09", "0b1c2d3e-1111", "rd.lvm", "mapper/", "LABEL=system", "/dev/sdb", "/dev/sdc")
        if name in spoken.lower()
    ]
