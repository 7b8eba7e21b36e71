# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluate the console output of a booting machine, and derive the names of a rehearsal."""

from __future__ import annotations

import hashlib
import re
import typing as t
import uuid

# console output of a failed boot, and its meaning
_STUCK: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Kernel panic - not syncing[^\n]*"), "its kernel panicked"),
    (re.compile(r"You are in (emergency|rescue) mode"), "it came up in emergency mode"),
    (re.compile(r"ALERT!\s+\S+ does not exist\.\s+Dropping to a shell"), "its initramfs does not find the root file system"),
    (re.compile(r"dracut-initqueue\S* (?:Warning: )?(?:Timeout|Could not boot)"), "its initramfs does not find a required device"),
    (re.compile(r"Entering emergency mode\. Exit the shell to continue"), "its initramfs does not find a required device"),
    (re.compile(r"grub rescue>|Minimal BASH-like line editing is supported"), "GRUB found nothing to start"),
    (re.compile(r"No bootable device|BdsDxe: No bootable option"), "its firmware found nothing to start"),
)
# cursor movements of a drawn screen count as line breaks
_MOVE = re.compile(r"\x1b\[[0-9;]*[Hf]")
_FRAME = re.compile(r"[\s|+_=-]*")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>cM78])")
_INVISIBLE = re.compile(r"[^\t\n\x20-\x7e\u00a0-\uffff]")
_WIDTH = 200


def clean(console: str) -> str:
    """Return a console's text as displayed: without escape sequences, and only the final content of each line."""
    text = _ESCAPE.sub("", _MOVE.sub("\n", console)).replace("\r\n", "\n")
    return "\n".join(_INVISIBLE.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in text.split("\n"))


def tail(console: str, lines: int) -> list[str]:
    """Return the last lines with text (without frames), each shortened to 200 characters."""
    found = [line.strip()[:_WIDTH] for line in clean(console).split("\n") if not _FRAME.fullmatch(line)]
    return found[-lines:] if lines > 0 else []


def stuck(console: str) -> str | None:
    """Return the reason of a failed boot, ``None`` while it may succeed."""
    text = clean(console)
    return next((reason for pattern, reason in _STUCK if pattern.search(text)), None)


def stand_in_name(name: str) -> str:
    """Name of a VM's rehearsal domain."""
    return f"{name}-rehearsal"


def stand_in_uuid(vm: str) -> str:
    """UUID of a VM's rehearsal domain: the same in every rehearsal, so that a leftover is found again."""
    return str(uuid.uuid5(uuid.UUID(vm), "rehearsal"))


def tap_names(vm: str, count: int) -> list[str]:
    """Return unique interface names for the host ends of the network cards, within the kernel's length limit."""
    return [f"rfr{hashlib.sha256(vm.encode('ascii')).hexdigest()[:8]}{index}" for index in range(count)]


def neighbour(own: str | None, fallback: str, admin: str) -> str:
    """Return the source address of the checks: this host's own on the admin network, as at the cutover, else a free one."""
    return fallback if own is None or own == admin else own


def admin_vlan(interfaces: t.Sequence[t.Mapping[str, t.Any]], name: str | None) -> int | None:
    """Return the VLAN of an interface of the source, ``None`` for untagged frames.

    :arg name: the interface with the admin address: a card, a VLAN, or a bridge or bond on top of one.
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
