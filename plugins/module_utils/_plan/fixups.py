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

from ansible_collections.reduced.footprint.plugins.module_utils._model.disk import PlannedPartition
from ansible_collections.reduced.footprint.plugins.module_utils._plan import fixups_network

# Globs of the files the functions below want to see; read on the source and on the copy alike.
PATTERNS = (
    "/etc/fstab",
    "/etc/crypttab",
    "/etc/mdadm/mdadm.conf",
    "/etc/mdadm.conf",
    "/etc/debian_version",
    "/etc/redhat-release",
    "/etc/default/grub",
    "/etc/default/grub.d/*.cfg",
    "/etc/initramfs-tools/initramfs.conf",
    "/etc/initramfs-tools/conf.d/*",
    "/etc/dracut.conf",
    "/etc/cloud/cloud.cfg",
    "/etc/cloud/cloud-init.disabled",
    "/boot/grub/device.map",
    "/boot/grub2/device.map",
    "/root/.ssh/authorized_keys",
) + fixups_network.PATTERNS

MARK = "# reduced.footprint:"
_DISK_SPEC = re.compile(r"\A(/dev/|UUID=|LABEL=|PARTUUID=|PARTLABEL=)", re.IGNORECASE)
_NO_DISK = re.compile(r"\A/dev/(shm|pts|mqueue|hugepages|fuse)\b")
# what a kernel command line may say about disks that stay behind
_OLD_DISK_ARGUMENT = re.compile(r"(?<![\w.=-])(resume|resume_offset|root|cryptdevice|rd\.luks\.\w+|rd\.lvm\.\w+|rd\.md\.\w+|rd\.dm\.\w+)=[^\s\"']*\s?")
_SECRET = re.compile(r"(?im)^(\s*[\w.-]*(?:psk|password|passwd|secret|private[-_]?key|presharedkey|privatekey|wep-key\d?)[\w.-]*\s*[=:]\s*)(\S.*)$")


@dataclasses.dataclass(frozen=True)
class Context:
    """What the fix-ups need to know besides the files.

    :arg nics: the cards whose place a card of the VM takes.
    :arg partitions: of the new disk.
    :arg key_marker: comment of the one-time ssh key, which must not travel.
    """

    nics: tuple[fixups_network.NicChange, ...]
    partitions: tuple[PlannedPartition, ...]
    key_marker: str


def plan_fixups(tree: t.Mapping[str, str], context: Context) -> dict[str, str | None]:
    """The files that change: path → new text, ``None`` takes the file away."""
    changes: dict[str, str | None] = {}
    changes["/etc/fstab"] = fix_fstab(tree.get("/etc/fstab", ""), context.partitions)
    for path in ("/etc/crypttab", "/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"):
        if path in tree:
            changes[path] = comment_out(tree[path], r"ARRAY\b" if "mdadm" in path else r"\S+\s+(/dev/|UUID=|LABEL=|PARTUUID=)")
    for path in ("/boot/grub/device.map", "/boot/grub2/device.map"):
        if path in tree:
            changes[path] = None
    changes.update(_boot_files(tree))
    if "/etc/cloud/cloud.cfg" in tree:
        changes["/etc/cloud/cloud-init.disabled"] = f"{MARK} this machine was moved, not made\n"
    if "/root/.ssh/authorized_keys" in tree:
        changes["/root/.ssh/authorized_keys"] = drop_key(tree["/root/.ssh/authorized_keys"], context.key_marker)
    changes.update(fixups_network.fix_network(tree, context.nics))
    return {path: text for path, text in changes.items() if text != tree.get(path)}


def fix_fstab(text: str, partitions: t.Sequence[PlannedPartition]) -> str:
    """fstab for the new disk: its file systems by UUID, old disks commented out, everything else untouched."""
    homes = {each.mount: each for each in partitions if each.mount}
    # what an earlier run wrote stays as it is
    ours = {f"uuid={each.uuid}".lower(): each for each in partitions}
    seen: set[str] = set()
    lines = []
    for line in text.splitlines():
        fields = line.split()
        if not fields or fields[0].startswith("#") or len(fields) < 3 or not _is_disk(fields[0]):
            lines.append(line)
            continue
        if fields[0].lower() in ours:
            seen.add(ours[fields[0].lower()].mount or fields[0].lower())
            lines.append(line)
            continue
        mount = fields[1].rstrip("/") or "/"
        home = homes.get(mount)
        if home is None or mount in seen:
            lines.append(f"{MARK} the old disk stayed behind: {line}")
            continue
        seen.add(mount)
        lines.append(_fstab_line(home, fields))
    for each in partitions:
        if each.mount is not None and each.mount not in seen:
            lines.append(_fstab_line(each, []))
        elif each.mount is None and f"uuid={each.uuid}".lower() not in seen:
            lines.append(f"UUID={each.uuid} none swap sw 0 0")
    return "\n".join(lines) + "\n"


def _is_disk(spec: str) -> bool:
    return bool(_DISK_SPEC.match(spec)) and not _NO_DISK.match(spec)


def _fstab_line(home: PlannedPartition, fields: t.Sequence[str]) -> str:
    same = len(fields) > 3 and fields[2] == home.fs
    options = fields[3] if same else "defaults"
    check = "1" if home.mount == "/" else "2"
    return f"UUID={home.uuid} {home.mount} {home.fs} {options} 0 {'0' if home.fs == 'xfs' else check}"


def comment_out(text: str, pattern: str) -> str:
    """Lines that begin with ``pattern`` become comments that say why."""
    wanted = re.compile(rf"\A\s*{pattern}", re.IGNORECASE)
    return "".join(f"{MARK} the old disk stayed behind: {line}" if wanted.match(line) else line for line in text.splitlines(keepends=True))


def drop_key(text: str, marker: str) -> str:
    """authorized_keys without the lines that end in the marker."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(f" {marker}"))


def _boot_files(tree: t.Mapping[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    grub = tree.get("/etc/default/grub")
    console = "console=tty0 console=ttyS0,115200"
    for path in [each for each in tree if each == "/etc/default/grub" or each.startswith("/etc/default/grub.d/")]:
        changes[path] = clean_command_line(tree[path])
    if "/etc/debian_version" in tree:
        changes["/etc/default/grub.d/zz-reduced-footprint.cfg"] = (
            f"{MARK} a VM is watched through its serial console and comes up without waiting for a key\n"
            f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {console}"\n'
            'GRUB_TERMINAL="console serial"\n'
            'GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"\n'
            "GRUB_TIMEOUT=1\nGRUB_RECORDFAIL_TIMEOUT=1\n"
            "GRUB_DISABLE_OS_PROBER=true\n"
        )
        changes["/etc/initramfs-tools/conf.d/resume"] = "RESUME=none\n"
        changes["/etc/initramfs-tools/conf.d/zz-reduced-footprint"] = f"{MARK} the drivers of the new machine, not those of the old\nMODULES=most\n"
    elif grub is not None:
        changes["/etc/default/grub"] = _append_argument(clean_command_line(grub), console)
        changes["/etc/dracut.conf.d/90-reduced-footprint.conf"] = (
            f"{MARK} the drivers of the new machine, not those of the old\n"
            'hostonly="no"\nadd_drivers+=" virtio_blk virtio_scsi virtio_net virtio_pci "\n'
        )
    return changes


def clean_command_line(text: str) -> str:
    """/etc/default/grub without kernel arguments that name disks of the old machine."""
    lines = []
    for line in text.splitlines(keepends=True):
        lines.append(_OLD_DISK_ARGUMENT.sub("", line) if re.match(r"\s*GRUB_CMDLINE_LINUX\w*=", line) else line)
    return "".join(lines)


def _append_argument(text: str, argument: str) -> str:
    if argument in text:
        return text
    changed, count = re.subn(r'(?m)^(GRUB_CMDLINE_LINUX=")([^"]*)"', rf'\1\2 {argument}"', text, count=1)
    return changed if count else f'{text.rstrip()}\nGRUB_CMDLINE_LINUX="{argument}"\n'


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
