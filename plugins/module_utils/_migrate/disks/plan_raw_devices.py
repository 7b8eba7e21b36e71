# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of the source is copied block by block: chosen, placed, told, and found again under its old names."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, Partition, RawDevice

RSYNC_DD = "rsync_dd"
RULES = "/etc/udev/rules.d/61-reduced-footprint-raw.rules"

# What is made anew for the VM: places for boot loaders (GPT: BIOS boot, PReP, what Windows keeps for itself), and of MBR
# the partitions that only hold others, PReP.
_MADE_ANEW = frozenset(
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
# what has a meaning that the programs of a machine give it; a file system that is not mounted, a volume that is not open
_UNDERSTOOD = ("filesystem", "raid", "crypto")
_SWAP = ("swap", "swsuspend")
_SAFE = re.compile(r"\A[A-Za-z0-9#+.:=@_/-]+\Z")
_LABEL = re.compile(r"\A[A-Za-z0-9#+.:=@_ -]{1,36}\Z")
_UUID = re.compile(r"\A[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z")
# names that mean something else in the VM, or that udev gives by itself
_OTHERS = re.compile(r"\A/dev/(?:disk/(?!by-partlabel/)|vd[a-z]|dm-\d|loop\d|md\d|block/)")

Block = t.Mapping[str, t.Any]


def raw_of(block: Block) -> RawDevice:
    """A device of the source's facts."""
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
    """Why a device is not taken unasked, nothing when that needs no word, ``None`` when it is taken."""
    if block.get("kind") in _MADE_ANEW or block.get("loop"):
        return ""
    content = block.get("content") or ""
    if content in _SWAP:
        return "is swap that is not in use"
    if block.get("usage") in _UNDERSTOOD:
        return f"holds {content} that is not in use"
    if block.get("whole") and not block.get("open"):
        return "" if block.get("table") or block.get("removable") else "is a whole disk without a known content, and no program has it open"
    return None


def found(source: t.Mapping[str, t.Any]) -> tuple[RawDevice, ...]:
    """What is taken unasked: partitions and volumes whose content nothing here knows, disks of that kind that are open."""
    return tuple(raw_of(each) for each in source.get("blocks", []) if why_left(each) is None)


def resolved(schema: t.Sequence[Partition], source: t.Mapping[str, t.Any]) -> tuple[Partition, ...]:
    """A schema with what the source tells of the devices it names; one without a size is as large as there."""
    partitions = []
    for each in schema:
        if each.raw is not None:
            block = named(each.raw.path, source)
            raw = raw_of(block) if block else each.raw
            size = each.size if each.size or each.percent else max(raw.size, MIB)
            each = dataclasses.replace(each, raw=raw, size=size)
        partitions.append(each)
    return tuple(partitions)


def named(path: str, source: t.Mapping[str, t.Any]) -> Block | None:
    """The source's device of a name."""
    return next((each for each in source.get("blocks", []) if path == each["path"] or path in each.get("links", ())), None)


def raw_problems(layout: DiskLayout, source: t.Mapping[str, t.Any]) -> list[str]:
    """One sentence for every device that cannot be copied as asked."""
    problems = []
    for partition, raw in layout.raws:
        if named(raw.path, source) is None:
            others = ", ".join(each["path"] for each in source.get("blocks", []) if why_left(each) != "") or "none"
            problems.append(f"{raw.path} is no block device of the source, or its file system or a volume on it is in use (not in use: {others}).")
        elif partition.size < raw.size:
            problems.append(f"{raw.path} has {size_text(raw.size)} on the source and gets {size_text(partition.size)}.")
    return problems


def raw_notes(schema: t.Sequence[Partition], sync: str, source: t.Mapping[str, t.Any]) -> list[str]:
    """What is taken block by block and what is left out, in plain words."""
    notes = []
    asked = [each.raw.path for each in schema if each.raw]
    for each in source.get("blocks", []):
        size, wanted = size_text(int(each["size"])), any(path == each["path"] or path in each.get("links", ()) for path in asked)
        left = why_left(each)
        program = ", a program has it open" if each.get("open") else ""
        if wanted or (left is None and sync == RSYNC_DD and not schema):
            notes.append(f"{each['path']} ({size}{program}) is copied block by block.")
        elif left is None:
            how = f"name it in disk_schema as {{raw: {each['path']}}}" if schema else f"sync: {RSYNC_DD} takes it along"
            notes.append(f"{each['path']} ({size}{program}) holds no file system and stays behind; {how}.")
        elif left:
            notes.append(f"{each['path']} ({size}) {left}; it stays behind. Mount it before, or name it in disk_schema as raw, where it is needed.")
    return notes


def raw_rules(layout: DiskLayout) -> dict[str, str]:
    """A file for the copy's udev, so that what was copied block by block is found under its old names, with its owner: path → text."""
    lines = []
    for partition, raw in layout.raws:
        links = [each[len("/dev/") :] for each in dict.fromkeys((*raw.links, raw.path)) if _SAFE.match(each) and not _OTHERS.match(each)]
        given = f'SYMLINK+="{" ".join(links)}", ' if links else ""
        lines.append(
            f'SUBSYSTEM=="block", ENV{{ID_PART_ENTRY_UUID}}=="{partition.partuuid}", {given}OWNER="{raw.owner}", GROUP="{raw.group}", MODE="{raw.mode:04o}"'
        )
    if not lines:
        return {}
    return {RULES: "# reduced.footprint: what was copied block by block, under the names it had\n" + "\n".join(lines) + "\n"}
