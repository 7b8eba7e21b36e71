# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The UEFI firmware of this host, from the firmware descriptors of its packages (QEMU's firmware.json)."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

# a descriptor in the first folder overrides one of the same name in the second
FOLDERS = ("/etc/qemu/firmware", "/usr/share/qemu/firmware")


def exists(path: str) -> bool:
    """Whether a firmware file exists."""
    return os.path.isfile(path)


def fitting(arch: str, features: t.Mapping[str, bool], folders: t.Sequence[str] = FOLDERS) -> bool:
    """Whether there is UEFI firmware for an architecture with the given features (name → present or absent)."""
    found: dict[str, pathlib.Path] = {}
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob("*.json")):
            found.setdefault(path.name, path)
    return any(_fits(path, arch, features) for path in found.values())


def _fits(path: pathlib.Path, arch: str, features: t.Mapping[str, bool]) -> bool:
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        mapping = description["mapping"]
        image = mapping["executable"]["filename"] if "executable" in mapping else mapping["filename"]
        return (
            "uefi" in description["interface-types"]
            and any(target["architecture"] == arch for target in description["targets"])
            and all((name in description["features"]) == wanted for name, wanted in features.items())
            and os.path.isfile(image)
        )
    except (OSError, ValueError, KeyError, TypeError):
        # an empty file masks one of the same name; invalid descriptors are ignored
        return False
