# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Features of file systems that the programs of an older source do not know: its boot loader, kernel and fsck read the new file systems."""

from __future__ import annotations

import re
import typing as t

Version = tuple[int, ...]


class Feature(t.NamedTuple):
    """A feature that some version of mkfs enables by default.

    ``off`` are the arguments of mkfs without it, which mkfs accepts from version ``known`` on; ``needs`` are the versions that the source must have.
    """

    fs: str
    off: tuple[str, str]
    known: Version
    needs: t.Mapping[str, Version]


FEATURES = (
    Feature("ext4", ("-O", "^64bit"), (1, 43), {"e2fsprogs": (1, 43)}),
    Feature("ext4", ("-O", "^metadata_csum"), (1, 43), {"e2fsprogs": (1, 43), "kernel": (3, 18)}),
    Feature("ext4", ("-O", "^metadata_csum_seed"), (1, 43), {"e2fsprogs": (1, 43), "kernel": (4, 4), "grub": (2, 12)}),
    Feature("ext4", ("-O", "^orphan_file"), (1, 47), {"e2fsprogs": (1, 47), "kernel": (5, 15)}),
    Feature("xfs", ("-i", "sparse=0"), (4, 2), {"kernel": (4, 2), "grub": (2, 4)}),
    Feature("xfs", ("-m", "reflink=0"), (4, 9), {"kernel": (4, 9)}),
    Feature("xfs", ("-m", "rmapbt=0"), (4, 8), {"kernel": (4, 8)}),
    Feature("xfs", ("-m", "bigtime=0"), (5, 10), {"kernel": (5, 10), "grub": (2, 6)}),
    Feature("xfs", ("-m", "inobtcount=0"), (5, 10), {"kernel": (5, 10)}),
    Feature("xfs", ("-i", "nrext64=0"), (5, 19), {"kernel": (5, 19), "grub": (2, 14)}),
    Feature("xfs", ("-i", "exchange=0"), (6, 13), {"kernel": (6, 10), "grub": (2, 14)}),
    Feature("xfs", ("-n", "parent=0"), (6, 13), {"kernel": (6, 10), "grub": (2, 14)}),
    Feature("btrfs", ("-O", "^block-group-tree"), (6, 7), {"kernel": (6, 1)}),
)


def version_in(text: str) -> Version:
    """The first version in a text; empty, which is older than any other, if there is none."""
    found = re.search(r"(?<![\d.])(\d+)\.(\d+)", text)
    return (int(found.group(1)), int(found.group(2))) if found else ()


def lacking(fs: str, source: t.Mapping[str, t.Any]) -> tuple[tuple[str, str], ...]:
    """The arguments of mkfs without the features that the source does not support, or whose support is unknown.

    :arg source: facts of the source; the oldest of its kernels counts.
    """
    kernels = [version for version in map(version_in, source.get("kernels", [])) if version]
    versions = {name: version_in(text or "") for name, text in source.get("versions", {}).items()}
    versions["kernel"] = min(kernels, default=())
    return tuple(each.off for each in FEATURES if each.fs == fs and any(versions.get(name, ()) < needed for name, needed in each.needs.items()))


def arguments(fs: str, off: t.Collection[tuple[str, str]], version: Version) -> list[str]:
    """Arguments of a mkfs program of this version, which does not know newer features and does not enable them either."""
    wanted: dict[str, list[str]] = {}
    for each in FEATURES:
        if each.fs == fs and each.off in off and version >= each.known:
            wanted.setdefault(each.off[0], []).append(each.off[1])
    return [argument for option, values in wanted.items() for argument in (option, ",".join(values))]
