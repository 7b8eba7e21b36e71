# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Raw devices, which are copied block by block: selection, checks, notes, and udev rules for their previous names."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, Partition, RawDevice

RSYNC_DD = "rsync_dd"
RULES = "/etc/udev/rules.d/61-reduced-footprint-raw.rules"

# Partition types that are never copied, because the VM gets its own or needs none: partitions for boot loaders
# (GPT: BIOS boot, PReP, Microsoft reserved), and on MBR extended partitions and PReP.
_NOT_COPIED = frozenset(
    (
        "21686148-6449-6e6f-744e-656564454649",
        "9e1a2d38-c612-4316-aa26-8b49521e5a8b",
        "e3c9e316-0b5c-4db8-817d-f92df00215ae",
        "0x5",
        "0xf",
        "0x85",
        "0x41",
    )
)
# blkid's usages of known content: a file system that is not mounted, a volume that is not open
_KNOWN_USAGES = ("filesystem", "raid", "crypto")
_SWAP = ("swap", "swsuspend")
_SAFE = re.compile(r"\A[A-Za-z0-9#+.:=@_/-]+\Z")
_LABEL = re.compile(r"\A[A-Za-z0-9#+.:=@_ -]{1,36}\Z")
_UUID = re.compile(r"\A[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z")
# names that have another meaning in the VM, or that udev's own rules create
_NOT_RESTORED = re.compile(r"\A/dev/(?:disk/(?!by-partlabel/)|vd[a-z]|dm-\d|loop\d|md\d|block/)")

Block = t.Mapping[str, t.Any]


def raw_of(block: Block) -> RawDevice:
    """A raw device from an entry of the source's facts."""
    uuid = str(block.get("partuuid") or "").lower()
    label = str(block.get("label") or "")
    return RawDevice(
        path=block["path"],
        size=int(block["size"]),
        disks=tuple(block.get("disks") or ()),
        links=tuple(block.get("links") or ()),
        label=label if _LABEL.match(label) else None,
        partuuid=uuid if _UUID.match(uuid) else None,
        owner=int(block.get("owner", 0)),
        group=int(block.get("group", 6)),
        mode=int(block.get("mode", 0o660)),
    )


def why_left(block: Block) -> str | None:
    """Why a device is not copied by default: a predicate, empty if no note is needed; ``None`` if it is copied."""
    if block.get("kind") in _NOT_COPIED or block.get("loop"):
        return ""
    content = block.get("content") or ""
    if content in _SWAP:
        return "is swap that is not in use"
    if block.get("usage") in _KNOWN_USAGES:
        return f"contains {content} that is not in use"
    if block.get("whole") and not block.get("open"):
        return "" if block.get("table") or block.get("removable") else "is a whole disk with unknown content that no program has open"
    return None


def found(source: t.Mapping[str, t.Any]) -> tuple[RawDevice, ...]:
    """The devices that are copied by default: partitions and volumes with unknown content, and whole disks of that kind that are open."""
    return tuple(raw_of(each) for each in source.get("blocks", []) if why_left(each) is None)


def resolved(schema: t.Sequence[Partition], source: t.Mapping[str, t.Any]) -> tuple[Partition, ...]:
    """A schema with the facts of its raw devices; a device without a size is as large as on the source."""
    partitions = []
    for each in schema:
        if each.raw is not None:
            block = named(each.raw.path, source)
            raw = raw_of(block) if block else each.raw
            size = each.size if each.size or each.percent else max(raw.size, MIB)
            each = each._replace(raw=raw, size=size)
        partitions.append(each)
    return tuple(partitions)


def named(path: str, source: t.Mapping[str, t.Any]) -> Block | None:
    """The source's device with this name; ``None`` if there is none."""
    return next((each for each in source.get("blocks", []) if path == each["path"] or path in each.get("links", ())), None)


def raw_problems(layout: DiskLayout, source: t.Mapping[str, t.Any]) -> list[str]:
    """One sentence for every device that cannot be copied as requested."""
    problems = []
    for partition, raw in layout.raws:
        if named(raw.path, source) is None:
            others = ", ".join(each["path"] for each in source.get("blocks", []) if why_left(each) != "") or "none"
            problems.append(f"{raw.path} does not exist on the source, or its file system or a volume on it is in use (available: {others}).")
        elif partition.size < raw.size:
            problems.append(f"{raw.path} has {size_text(raw.size)} on the source, but its partition in the VM only {size_text(partition.size)}.")
    return problems


def raw_notes(schema: t.Sequence[Partition], sync: str, source: t.Mapping[str, t.Any]) -> list[str]:
    """Notes on the devices that are copied block by block, and on those that are not copied."""
    notes = []
    requested = [each.raw.path for each in schema if each.raw]
    for each in source.get("blocks", []):
        size, wanted = size_text(int(each["size"])), any(path == each["path"] or path in each.get("links", ()) for path in requested)
        left = why_left(each)
        program = ", a program has it open" if each.get("open") else ""
        if wanted or (left is None and sync == RSYNC_DD and not schema):
            notes.append(f"{each['path']} ({size}{program}) is copied block by block.")
        elif left is None:
            how = f"add {{raw: {each['path']}}} to disk_schema" if schema else f"set sync: {RSYNC_DD}"
            notes.append(f"{each['path']} ({size}{program}) contains no file system and is not copied; to copy it, {how}.")
        elif left:
            notes.append(f"{each['path']} ({size}) {left}; it is not copied. If it is needed, mount it before, or name it in disk_schema as raw.")
    return notes


def raw_rules(layout: DiskLayout) -> dict[str, str]:
    """The file of udev rules that gives raw devices their previous names, owners and modes in the VM: path → text."""
    lines = []
    for partition, raw in layout.raws:
        links = [each[len("/dev/") :] for each in dict.fromkeys((*raw.links, raw.path)) if _SAFE.match(each) and not _NOT_RESTORED.match(each)]
        given = f'SYMLINK+="{" ".join(links)}", ' if links else ""
        lines.append(
            f'SUBSYSTEM=="block", ENV{{ID_PART_ENTRY_UUID}}=="{partition.partuuid}", {given}OWNER="{raw.owner}", GROUP="{raw.group}", MODE="{raw.mode:04o}"'
        )
    if not lines:
        return {}
    return {RULES: "# reduced.footprint: previous names of devices that were copied block by block\n" + "\n".join(lines) + "\n"}
