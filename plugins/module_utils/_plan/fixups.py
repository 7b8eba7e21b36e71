# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to change in the copy so that it boots as a VM and stays who it was (F19).

Pure text: a tree (path → text of the source's files) and a :class:`Context` give the changed
files. The same function makes the diff of check mode and the change of the real run.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model.disk import DiskLayout, PlannedMount
from ansible_collections.reduced.footprint.plugins.module_utils._plan import fixups_boot, fixups_machine, fixups_network, raw_devices

# Globs of the files the functions below want to see; read on the source and on the copy alike.
PATTERNS = (
    (
        "/etc/fstab",
        "/etc/systemd/system/*.mount",
        "/etc/debian_version",
        "/etc/redhat-release",
        "/root/.ssh/authorized_keys",
        raw_devices.RULES,
    )
    + fixups_boot.PATTERNS
    + fixups_machine.PATTERNS
    + fixups_network.PATTERNS
)

MARK = fixups_boot.MARK
_DISK_SPEC = re.compile(r"\A(/dev/|UUID=|LABEL=|PARTUUID=|PARTLABEL=)", re.IGNORECASE)
_NO_DISK = re.compile(r"\A/dev/(shm|pts|mqueue|hugepages|fuse)\b")
# keys of the boot loader lie there
_PRIVATE = "umask=0077"
_SECRET = re.compile(r"(?im)^(\s*[\w.-]*(?:psk|password|passwd|secret|private[-_]?key|presharedkey|privatekey|wep-key\d?)[\w.-]*\s*[=:]\s*)(\S.*)$")


@dataclasses.dataclass(frozen=True)
class Context:
    """What the fix-ups need to know besides the files.

    :arg nics: the cards whose place a card of the VM takes.
    :arg layout: of the new disks.
    :arg key_marker: comment of the one-time ssh key, which must not travel; nothing drops nothing.
    """

    nics: tuple[fixups_network.NicChange, ...]
    layout: DiskLayout
    key_marker: str


def plan_fixups(tree: t.Mapping[str, str], context: Context) -> dict[str, str | None]:
    """The files that change: path → new text, ``None`` takes the file away."""
    changes: dict[str, str | None] = {}
    changes["/etc/fstab"] = fix_fstab(tree.get("/etc/fstab", ""), context.layout)
    for path, text in tree.items():
        if path.startswith("/etc/systemd/system/") and path.endswith(".mount"):
            changes[path] = fix_mount_unit(text, context.layout)
    changes.update(fixups_boot.fix_boot(tree, context.layout))
    changes.update(fixups_machine.fix_machine(tree))
    if "/root/.ssh/authorized_keys" in tree and context.key_marker:
        changes["/root/.ssh/authorized_keys"] = drop_key(tree["/root/.ssh/authorized_keys"], context.key_marker)
    changes.update(fixups_network.fix_network(tree, context.nics))
    changes.update(raw_devices.raw_rules(context.layout))
    return {path: text for path, text in changes.items() if text != tree.get(path)}


def fix_fstab(text: str, layout: DiskLayout) -> str:
    """fstab for the new disks: their file systems by UUID, old disks commented out, everything else untouched."""
    homes = {each.mount: each for each in layout.mounts}
    swaps = {f"uuid={each.uuid}".lower(): each for each in layout.partitions if each.fs == "swap"}
    # what an earlier run wrote stays as it is
    ours = {f"uuid={each.uuid}".lower() for each in layout.partitions}
    seen: set[str] = set()
    lines = []
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0].startswith("#") or len(fields) < 3 or not _is_disk(fields[0]):
            lines.append(line)
            continue
        mount = fields[1].rstrip("/") or "/"
        if fields[0].lower() in ours:
            seen.add(fields[0].lower() if fields[0].lower() in swaps else mount)
            lines.append(line)
            continue
        home = homes.get(mount)
        if home is None or mount in seen:
            lines.append(f"{MARK} the old disk stayed behind: {line}")
            continue
        seen.add(mount)
        lines.append(_fstab_line(home, fields))
    lines += [_fstab_line(each, []) for each in layout.mounts if each.mount not in seen]
    lines += [f"UUID={each.uuid} none swap sw 0 0" for spec, each in swaps.items() if spec not in seen]
    return "\n".join(lines) + "\n"


def _is_disk(spec: str) -> bool:
    return bool(_DISK_SPEC.match(spec)) and not _NO_DISK.match(spec)


def _fstab_line(home: PlannedMount, fields: t.Sequence[str]) -> str:
    fs = home.partition.fs
    # ext3 and its elders are read by the same driver and take the same options
    same = len(fields) > 3 and (fields[2] == fs or (fs == "ext4" and fields[2] in ("ext2", "ext3")))
    options = fields[3].split(",") if same else [_PRIVATE if fs == "vfat" else "defaults"]
    if fs == "btrfs":
        # the numbers of subvolumes are new
        options = [each for each in options if not each.startswith(("subvol=", "subvolid="))]
        options += [f"subvol=/{home.subvolume}"] if home.subvolume is not None else []
    check = "0" if fs in ("xfs", "btrfs") else "1" if home.mount == "/" else "2"
    return f"UUID={home.partition.uuid} {home.mount} {fs} {','.join(options) or 'defaults'} 0 {check}"


def fix_mount_unit(text: str, layout: DiskLayout) -> str:
    """A mount unit of systemd for one of the new file systems; all others are left alone."""
    where = re.search(r"(?m)^\s*Where\s*=\s*(\S+)\s*$", text)
    what = re.search(r"(?m)^\s*What\s*=\s*(\S+)\s*$", text)
    homes = {each.mount: each for each in layout.mounts}
    home = homes.get(where.group(1).rstrip("/") or "/") if where else None
    if home is None or what is None or not _is_disk(what.group(1)):
        return text
    text = re.sub(r"(?m)^(\s*What\s*=).*$", rf"\g<1>/dev/disk/by-uuid/{home.partition.uuid}", text)
    return re.sub(r"(?m)^(\s*Type\s*=).*$", rf"\g<1>{home.partition.fs}", text)


def drop_key(text: str, marker: str) -> str:
    """authorized_keys without the lines that end in the marker."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(f" {marker}"))


def mask_secrets(text: str) -> str:
    """Configuration text with passwords and keys blotted out, fit for a diff."""
    return _SECRET.sub(r"\1********", text)


def fixups_diff(tree: t.Mapping[str, str], changes: t.Mapping[str, str | None]) -> str:
    """The changes as one unified diff, secrets blotted out."""
    parts = []
    for path in sorted(changes):
        before = mask_secrets(tree.get(path, "")).splitlines(keepends=True)
        after = mask_secrets(changes[path] or "").splitlines(keepends=True)
        parts.extend(difflib.unified_diff(before, after, f"source:{path}", f"master VM:{path}", n=2))
    return "".join(line if line.endswith("\n") else line + "\n" for line in parts)
