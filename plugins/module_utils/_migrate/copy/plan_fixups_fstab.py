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
# neither disks of the old machine: memory, and disks on other machines
_NO_DISK = re.compile(r"\A/dev/(?:(?:shm|pts|mqueue|hugepages|fuse|rbd)\b|z?ram\d|nbd\d|rbd\d)")
# Mount options that need what a new file system does not have: a feature, another device, the old geometry, persistent memory.
_DEVICE = r"x-systemd\.(?:requires|wants|after|before|wanted-by|required-by)=(?:/dev/|dev-|systemd-cryptsetup).*|dax(?:=.*)?|verity\..*"
_MISSING = {
    "ext4": re.compile(rf"\A(?:{_DEVICE}|prjquota|journal_(?:path|dev)=.*|sb=.*)\Z"),
    "xfs": re.compile(rf"\A(?:{_DEVICE}|(?:logdev|rtdev|sunit|swidth)=.*)\Z"),
    "btrfs": re.compile(rf"\A(?:{_DEVICE}|device=.*|space_cache(?:=v1)?|nospace_cache)\Z"),
    "vfat": re.compile(rf"\A(?:{_DEVICE})\Z"),
}
# limits and projects are in the old file system, not in its files
_QUOTA = re.compile(r"\A(?:(?:usr|grp|prj|u|g|p)?quota|[ugp]qnoenforce)\Z")
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
        mount = decode(fields[1]).rstrip("/") or "/"
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


def _fstab_line(home: PlannedMount, fields: t.Sequence[str]) -> str:
    fs = home.partition.fs
    same = len(fields) > 3 and _type(fields[2]) == fs
    options = _options(home, fields[3] if same else _PRIVATE if fs == "vfat" else "defaults", encode)
    check = "0" if fs in ("xfs", "btrfs") else "1" if home.mount == "/" else "2"
    return f"UUID={home.partition.uuid} {encode(home.mount)} {fs} {options} 0 {check}"


def _type(fs: str) -> str:
    # ext2 and ext3 use the same driver and options
    return "ext4" if fs in ("ext2", "ext3") else fs


def _options(home: PlannedMount, options: str, escape: t.Callable[[str], str]) -> str:
    kept = _kept(home.partition.fs, options)
    if home.partition.fs == "btrfs":
        # subvolume IDs are new
        kept = [each for each in kept if not each.startswith(("subvol=", "subvolid="))]
        kept += [f"subvol={escape('/' + home.subvolume)}"] if home.subvolume is not None else []
    return ",".join(kept) or "defaults"


def _kept(fs: str, options: str) -> list[str]:
    return [each for each in options.split(",") if not _MISSING[fs].match(each)]


def option_warnings(tree: t.Mapping[str, str]) -> list[str]:
    """Warnings about mount options in fstab and mount units that a new file system cannot have, and about quotas."""
    mounts = [fields[:4] for fields in map(fields_of, tree.get("/etc/fstab", "").split("\n")) if len(fields) > 3]
    for path, text in tree.items():
        unit = {key: found.group(1).rstrip() for key in ("What", "Where", "Type", "Options") if (found := _value(key).search(text))}
        if path.endswith(".mount") and len(unit) == 4:
            mounts.append(list(unit.values()))
    warnings = []
    for spec, mount, kind, options in mounts:
        fs = _type(kind)
        if not is_disk(spec) or fs not in _MISSING:
            continue
        lost = [each for each in options.split(",") if each not in _kept(fs, options)]
        if lost:
            warnings.append(f"{decode(mount)}: the VM mounts it without {', '.join(lost)}, because its new file system does not have what this requires.")
        if any(_QUOTA.match(each) for each in options.split(",")):
            warnings.append(f"{decode(mount)}: limits of quotas and IDs of projects are not copied. Set them again in the VM, e.g. with setquota or xfs_quota.")
    return warnings


def _value(key: str) -> re.Pattern[str]:
    return re.compile(rf"(?m)^[ \t]*{key}[ \t]*=[ \t]*(\S[^\n]*)$")


def fix_mount_unit(text: str, layout: DiskLayout) -> str:
    """Return a systemd mount unit with the new file system for its mount point, an old disk commented out; all other units are unchanged."""
    where, what, kind, options = (_value(key).search(text) for key in ("Where", "What", "Type", "Options"))
    homes = {each.mount: each for each in layout.mounts}
    # a percent sign is doubled; specifiers occur in template units only
    home = homes.get(where.group(1).rstrip().replace("%%", "%").rstrip("/") or "/") if where else None
    if where is None or what is None or not is_disk(what.group(1)):
        return text
    if home is None:
        # systemd refuses the unit at once; otherwise it would wait for the disk at each boot
        return f"{text[: what.start()]}{_BEHIND} {text[what.start() :]}"
    fs = home.partition.fs
    if options:
        same = kind is None or _type(kind.group(1).rstrip()) == fs
        new = _options(home, options.group(1).rstrip() if same else "defaults", lambda each: each.replace("%", "%%"))
        text = f"{text[: options.start(1)]}{new}{text[options.end(1) :]}"
    text = re.sub(r"(?m)^([ \t]*What[ \t]*=).*$", rf"\g<1>/dev/disk/by-uuid/{home.partition.uuid}", text)
    return re.sub(r"(?m)^([ \t]*Type[ \t]*=).*$", rf"\g<1>{fs}", text)
