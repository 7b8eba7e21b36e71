# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fix-ups: changes of the copy that let it boot as a VM with the source's identity.

Text only: a tree (path → text of the source's files) and a :class:`Context` give the changed
files. The same function is used for the diff of check mode and for the real run.
"""

from __future__ import annotations

import difflib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import (
    plan_fixups_boot,
    plan_fixups_machine,
    plan_fixups_macs,
    plan_fixups_network,
)
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_fstab import fix_fstab, fix_mount_unit
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import plan_raw_devices
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout

# Globs of the files that the functions below need; read on the source and on the copy.
PATTERNS = (
    (
        "/etc/fstab",
        "/etc/systemd/system/*.mount",
        "/etc/debian_version",
        "/etc/redhat-release",
        "/root/.ssh/authorized_keys",
        plan_raw_devices.RULES,
    )
    + plan_fixups_boot.PATTERNS
    + plan_fixups_machine.PATTERNS
    + plan_fixups_network.PATTERNS
)

MARK = plan_fixups_boot.MARK


class Context(t.NamedTuple):
    """Input of the fix-ups in addition to the files.

    :arg nics: network cards of the source that are replaced by a card of the VM.
    :arg key_marker: comment of the one-time ssh key, which is removed from the copy; empty removes none.
    :arg stacked: interfaces on top of those cards that have their own MAC.
    """

    nics: tuple[plan_fixups_network.NicChange, ...]
    layout: DiskLayout
    key_marker: str
    stacked: tuple[plan_fixups_macs.StackChange, ...] = ()


def plan_fixups(tree: t.Mapping[str, str], context: Context) -> dict[str, str | None]:
    """Return the files that change: path → new text, ``None`` for a file to remove."""
    changes: dict[str, str | None] = {}
    changes["/etc/fstab"] = fix_fstab(tree.get("/etc/fstab", ""), context.layout)
    for path, text in tree.items():
        if path.startswith("/etc/systemd/system/") and path.endswith(".mount"):
            changes[path] = fix_mount_unit(text, context.layout)
    changes.update(plan_fixups_boot.fix_boot(tree, context.layout))
    changes.update(plan_fixups_machine.fix_machine(tree))
    if "/root/.ssh/authorized_keys" in tree and context.key_marker:
        changes["/root/.ssh/authorized_keys"] = drop_key(tree["/root/.ssh/authorized_keys"], context.key_marker)
    changes.update(plan_fixups_network.fix_network(tree, context.nics, context.stacked))
    changes.update(plan_raw_devices.raw_rules(context.layout))
    return {path: text for path, text in changes.items() if text != tree.get(path)}


def drop_key(text: str, marker: str) -> str:
    """Return authorized_keys without the lines that end in the marker."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(f" {marker}"))


def fixups_diff(tree: t.Mapping[str, str], changes: t.Mapping[str, str | None]) -> str:
    """Return the changes as a unified diff with masked secrets."""
    parts = []
    for path in sorted(changes):
        before = mask_text(tree.get(path, ""), path).splitlines(keepends=True)
        after = mask_text(changes[path] or "", path).splitlines(keepends=True)
        parts.extend(difflib.unified_diff(before, after, f"source:{path}", f"master VM:{path}", n=2))
    return "".join(line if line.endswith("\n") else line + "\n" for line in parts)
