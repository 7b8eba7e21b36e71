# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the console of a machine that boots says about how it fares, and where a rehearsal puts its things."""

from __future__ import annotations

import hashlib
import re
import typing as t
import uuid

# how a machine says that it will not come up, and what that means
_STUCK: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Kernel panic - not syncing[^\n]*"), "its kernel panicked"),
    (re.compile(r"You are in (emergency|rescue) mode"), "it came up in emergency mode"),
    (re.compile(r"ALERT!\s+\S+ does not exist\.\s+Dropping to a shell"), "its initramfs does not find the root file system"),
    (re.compile(r"dracut-initqueue\S* (?:Warning: )?(?:Timeout|Could not boot)"), "its initramfs does not find what it needs"),
    (re.compile(r"Entering emergency mode\. Exit the shell to continue"), "its initramfs does not find what it needs"),
    (re.compile(r"grub rescue>|Minimal BASH-like line editing is supported"), "GRUB found nothing to start"),
    (re.compile(r"No bootable device|BdsDxe: No bootable option"), "its firmware found nothing to start"),
)
# a screen that is drawn: what stands elsewhere is another line
_MOVE = re.compile(r"\x1b\[[0-9;]*[Hf]")
_FRAME = re.compile(r"[\s|+_=-]*")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>cM78])")
_INVISIBLE = re.compile(r"[^\t\n\x20-\x7e\u00a0-\uffff]")
_WIDTH = 200


def clean(console: str) -> str:
    """A console's text as a person reads it: without escape sequences, only what was last on each line."""
    text = _ESCAPE.sub("", _MOVE.sub("\n", console)).replace("\r\n", "\n")
    return "\n".join(_INVISIBLE.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in text.split("\n"))


def tail(console: str, lines: int) -> list[str]:
    """The last lines that say something (frames do not), each shortened to what fits a terminal or two."""
    said = [line.strip()[:_WIDTH] for line in clean(console).split("\n") if not _FRAME.fullmatch(line)]
    return said[-lines:] if lines > 0 else []


def stuck(console: str) -> str | None:
    """Why the machine will not come up, ``None`` while it may."""
    text = clean(console)
    return next((reason for pattern, reason in _STUCK if pattern.search(text)), None)


def stand_in_name(name: str) -> str:
    """Name of the domain that stands in for a VM."""
    return f"{name}-rehearsal"


def stand_in_uuid(vm: str) -> str:
    """Its UUID: the same in every rehearsal of a VM, so that a leftover is found again."""
    return str(uuid.uuid5(uuid.UUID(vm), "rehearsal"))


def tap_names(vm: str, count: int) -> list[str]:
    """Names of the host ends of its cards, short enough for the kernel and nobody else's."""
    return [f"rfr{hashlib.sha256(vm.encode('ascii')).hexdigest()[:8]}{index}" for index in range(count)]


def neighbour(own: str | None, fallback: str, admin: str) -> str:
    """The address the questions come from: this host's own on the admin network, as at the cutover, or else a free one."""
    return fallback if own is None or own == admin else own


def admin_vlan(interfaces: t.Sequence[t.Mapping[str, t.Any]], name: str | None) -> int | None:
    """The VLAN whose tag the frames of an interface of the source carry, ``None`` for untagged ones.

    :arg name: the interface with the admin address: a card, a VLAN, or a bridge or bond above one.
    """
    known = {each["name"]: each for each in interfaces}
    seen: set[str] = set()
    waiting = [name] if name else []
    while waiting:
        each = known.get(waiting.pop(0), {})
        if each.get("kind") == "vlan" and each.get("vlan") is not None:
            return int(each["vlan"])
        lower = [below for below in each.get("lower", ()) if below not in seen]
        seen.update(lower)
        waiting += lower
    return None
