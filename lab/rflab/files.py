# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files for the machines, kept as trees under ``lab/files``."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import typing as t

from .say import LabError
from .settings import FILES


def fill(text: str, words: t.Mapping[str, str], where: object = "") -> str:
    """Replace every ``@WORD@``; an unknown one is an error, not an empty string."""

    def one(match: re.Match) -> str:
        if match.group(1) not in words:
            raise LabError(f"{where}: unknown variable {match.group(0)}")
        return words[match.group(1)]

    return re.sub(r"@([A-Z]+)@", one, text)


def put(root: pathlib.Path, path: str, text: str, mode: int = 0o644) -> None:
    """Write one file below ``root``, never through a symbolic link."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.exists():
        target.unlink()
    target.write_text(text)
    os.chmod(target, mode)


def lay(tree: str, root: pathlib.Path, words: t.Mapping[str, str]) -> None:
    """Copy ``lab/files/<tree>`` over ``root``; executable bits and links are kept."""
    base = FILES / tree
    for source in sorted(base.rglob("*")):
        relative = source.relative_to(base)
        target = root / relative
        if source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.is_symlink() or target.exists():
                target.unlink()
            os.symlink(os.readlink(source), target)
        elif source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            mode = 0o755 if os.access(source, os.X_OK) and source.stat().st_mode & 0o111 else 0o644
            put(root, str(relative), fill(source.read_text(), words, relative), mode)


def enable(root: pathlib.Path, *units: str, target: str = "multi-user.target") -> None:
    """Create the links that ``systemctl enable`` would create, without running it."""
    wants = root / "etc/systemd/system" / f"{target}.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for unit in units:
        home = next((f"/{d}/systemd/system/{unit}" for d in ("etc", "usr/lib", "lib")
                     if (root / d / "systemd/system" / unit).exists()), None)
        if home is None:
            raise LabError(f"{root} has no unit {unit}")
        link = wants / unit
        if not link.is_symlink():
            os.symlink(home, link)


def mask(root: pathlib.Path, *units: str) -> None:
    home = root / "etc/systemd/system"
    home.mkdir(parents=True, exist_ok=True)
    for unit in units:
        link = home / unit
        if not link.is_symlink():
            os.symlink("/dev/null", link)


def remove(path: pathlib.Path) -> None:
    """Remove a file or tree.

    :raises LabError: a file system is mounted below it.
    """
    if not path.exists() and not path.is_symlink():
        return
    prefix = str(path.resolve()) + "/"
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            point = line.split()[1].replace("\\040", " ")
            if (point + "/").startswith(prefix):
                raise LabError(f"cannot remove {path}: {point} is mounted", f"run: umount {point}")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
