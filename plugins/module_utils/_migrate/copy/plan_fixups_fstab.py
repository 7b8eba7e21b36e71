# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fix-ups of fstab and mount units: the new file systems instead of the old disks. Text only."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, PlannedMount

MARK = "# reduced.footprint:"
_BEHIND = f"{MARK} the old disk stayed behind:"
_DISK_SPEC = re.compile(r"\A(/dev/|UUID=|LABEL=|PARTUUID=|PARTLABEL=)", re.IGNORECASE)
_NO_DISK = re.compile(r"\A/dev/(shm|pts|mqueue|hugepages|fuse)\b")
# the EFI system partition may hold keys of the boot loader
_PRIVATE = "umask=0077"
# getmntent(3): fields are separated by spaces and tabs only, other characters are escaped in octal
_BLANKS = " \t"
_ESCAPED = re.compile(rb"\\([0-3][0-7]{2})")
# glibc decodes only these four
_TO_ESCAPE = re.compile(r"[ \t\n\\]")


def encode(field: str) -> str:
    """Escape a field for fstab: a space is ``\\040``, a tab ``\\011``, a line feed ``\\012``, a backslash ``\\134``."""
    return _TO_ESCAPE.sub(lambda found: f"\\{ord(found.group()):03o}", field)


def decode(field: str) -> str:
    """Unescape a field of fstab."""
    raw = _ESCAPED.sub(lambda found: bytes([int(found.group(1), 8)]), field.encode("utf-8", errors="surrogateescape"))
    return raw.decode("utf-8", errors="surrogateescape")


def fields_of(line: str) -> list[str]:
    """Return the fields of a line, still escaped; empty for a comment or an empty line."""
    fields = [each for each in re.split(f"[{_BLANKS}]+", line.rstrip("\r").strip(_BLANKS)) if each]
    return [] if fields and fields[0].startswith("#") else fields


def fix_fstab(text: str, layout: DiskLayout) -> str:
    """Return fstab for the new disks: their file systems by UUID, old disks commented out, all other lines unchanged."""
    homes = {each.mount: each for each in layout.mounts}
    swaps = {f"uuid={each.uuid}".lower(): each for each in layout.partitions if each.fs == "swap"}
    # lines of an earlier run are kept
    new_specs = {f"uuid={each.uuid}".lower() for each in layout.partitions}
    seen: set[str] = set()
    lines = []
    for line in text.removesuffix("\n").split("\n") if text else []:
        fields = fields_of(line)
        if len(fields) < 3 or not is_disk(fields[0]):
            lines.append(line)
            continue
        mount = _mount_point(fields[1])
        if fields[0].lower() in new_specs:
            seen.add(fields[0].lower() if fields[0].lower() in swaps else mount)
            lines.append(line)
            continue
        home = homes.get(mount)
        if home is None or mount in seen:
            lines.append(f"{_BEHIND} {line}")
            continue
        seen.add(mount)
        lines.append(_fstab_line(home, fields))
    lines += [_fstab_line(each, []) for each in layout.mounts if each.mount not in seen]
    lines += [f"UUID={each.uuid} none swap sw 0 0" for spec, each in swaps.items() if spec not in seen]
    return "\n".join(lines) + "\n"


def is_disk(spec: str) -> bool:
    """Whether the first field of fstab, or ``What=`` of a mount unit, names a disk."""
    return bool(_DISK_SPEC.match(spec)) and not _NO_DISK.match(spec)


def _mount_point(field: str) -> str:
    return decode(field).rstrip("/") or "/"


def _fstab_line(home: PlannedMount, fields: t.Sequence[str]) -> str:
    fs = home.partition.fs
    # ext2 and ext3 use the same driver and options
    same = len(fields) > 3 and (fields[2] == fs or (fs == "ext4" and fields[2] in ("ext2", "ext3")))
    options = fields[3].split(",") if same else [_PRIVATE if fs == "vfat" else "defaults"]
    if fs == "btrfs":
        # subvolume IDs are new
        options = [each for each in options if not each.startswith(("subvol=", "subvolid="))]
        options += [f"subvol={encode('/' + home.subvolume)}"] if home.subvolume is not None else []
    check = "0" if fs in ("xfs", "btrfs") else "1" if home.mount == "/" else "2"
    return f"UUID={home.partition.uuid} {encode(home.mount)} {fs} {','.join(options) or 'defaults'} 0 {check}"


def fix_mount_unit(text: str, layout: DiskLayout) -> str:
    """Return a systemd mount unit with the new file system for its mount point; all other units are unchanged."""
    where = re.search(r"(?m)^[ \t]*Where[ \t]*=[ \t]*(\S[^\n]*)$", text)
    what = re.search(r"(?m)^[ \t]*What[ \t]*=[ \t]*(\S[^\n]*)$", text)
    homes = {each.mount: each for each in layout.mounts}
    # a percent sign is doubled; specifiers occur in template units only
    home = homes.get(where.group(1).rstrip().replace("%%", "%").rstrip("/") or "/") if where else None
    if home is None or what is None or not is_disk(what.group(1)):
        return text
    text = re.sub(r"(?m)^([ \t]*What[ \t]*=).*$", rf"\g<1>/dev/disk/by-uuid/{home.partition.uuid}", text)
    return re.sub(r"(?m)^([ \t]*Type[ \t]*=).*$", rf"\g<1>{home.partition.fs}", text)
