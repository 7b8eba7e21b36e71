# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the artifact of the collection may contain. All others are refused, so that no stray file reaches its users.

    artifact.py reduced-footprint-1.0.0.tar.gz
"""

from __future__ import annotations

import pathlib
import sys
import tarfile
import typing as t

#: Files in the root of the artifact.
FILES = frozenset({"CHANGELOG.md", "CONTRIBUTING.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "SECURITY.md", "bindep.txt"})
#: Folder → types of its files.
TYPES = {
    "awx": {".md", ".yml"},
    "changelogs": {".yaml", ".yml"},
    "docs": {".cfg", ".css", ".md", ".png", ".py", ".svg"},
    "meta": {".txt", ".yml"},
    "playbooks": {".j2", ".yml"},
    "plugins": {".asm", ".py"},
    "roles": {".j2", ".md", ".py", ".rules", ".yml"},
}
#: Bytes; the largest files are pictures.
LARGEST = 400_000


def refused(members: t.Iterable[tarfile.TarInfo]) -> list[str]:
    """Return a line for each member that the artifact must not contain."""
    found = []
    for member in members:
        path = pathlib.PurePosixPath(member.name)
        if member.isdir() and path.parts[0] in TYPES:
            continue
        if not member.isfile():
            found.append(f"{member.name}: not a regular file in a known folder")
        elif member.name not in FILES and path.suffix not in TYPES.get(path.parts[0], ()):
            found.append(f"{member.name}: files of this name or type do not belong to the artifact")
        elif member.size > LARGEST and member.name not in FILES:
            found.append(f"{member.name}: larger than {LARGEST} bytes")
    return found


def main(path: str) -> int:
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    lines = refused(members)
    print(*lines, f"{len(members)} members, {len(lines)} refused", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
