# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is no file system, copied block by block beside the files: in every pass, and proven in the pause."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks, run_block_agent
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import PlannedPartition, RawDevice
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_rsync

# how often a device is read again in the pause before whoever writes to it counts as an error
_ATTEMPTS = 2

Told = t.Callable[[int, int], object]


def bring_all(context: Context, kind: str, told: t.Callable[[int, int], object]) -> tuple[int, int]:
    """Bring all devices up to date; returns the bytes that came and the bytes that were looked at.

    :arg told: called with the bytes looked at and brought so far, of all devices.
    """
    moved = seen = 0
    for partition, raw in context.layout().raws:

        def further(read: int, came: int, seen: int = seen, moved: int = moved) -> None:
            told(seen + read, moved + came)

        brought = _bring(context, partition, raw, live=kind == "live", told=further)
        moved += brought.bytes
        seen += raw.size
        read = f"{brought.read} bytes read" if brought.read else "nothing written to it since it was read"
        context.log(f"{raw.path}: {brought.changed} blocks brought, {read}")
    return moved, seen


def verify(context: Context) -> None:
    """Make sure that source and copy of every device are equal, now that nobody writes there.

    :raises BackendError: somebody does.
    """
    for partition, raw in context.layout().raws:
        for attempt in range(_ATTEMPTS + 1):
            brought = _bring(context, partition, raw, live=False)
            if not brought.changed:
                break
            if attempt == _ATTEMPTS:
                raise BackendError(
                    f"{raw.path} differs between source and copy after the services were stopped: {brought.changed} blocks were written to.",
                    hint="List what writes to it in services, so that it is stopped for the last copy.",
                )
            context.log(f"{raw.path}: {brought.changed} blocks fetched anew")


def forget(context: Context) -> None:
    """The disks are made anew: what is known of them holds no more."""
    context.journal.facts.pop("blocks", None)
    for partition, _raw in context.layout().raws:
        _target(context, partition, 0).forget()


def _target(context: Context, partition: PlannedPartition, size: int, node: str = "") -> io_blocks.Target:
    return io_blocks.Target(node, size, context.store.directory / f"blocks-{partition.disk}-{partition.number}")


def _bring(context: Context, partition: PlannedPartition, raw: RawDevice, *, live: bool, told: Told | None = None) -> io_blocks.Brought:
    noted = context.journal.facts.setdefault("blocks", {})
    before = noted.get(raw.path, {})
    disk = context.disk()
    disk.attach()
    target = _target(context, partition, raw.size, disk.node(partition))
    given = {"device": raw.path, "counter": before.get("counter"), "boot_id": before.get("boot_id"), "nice": live}
    try:
        brought = io_blocks.fetch(context.source.program(run_block_agent.MODULE), given, target, limit=context.spec.bandwidth_limit if live else 0, told=told)
    except OSError as error:
        image = context.journal.facts["vm"]["disks"][partition.disk]
        told_by_disk = CommandError(["write"], None, error.strerror or str(error))
        raise io_rsync.full_disk(told_by_disk, raw.path, os.path.dirname(image), image) or BackendError(f"{raw.path} cannot be copied: {error}.") from error
    noted[raw.path] = {"counter": brought.counter, "boot_id": brought.boot_id, "sha256": brought.root}
    return brought
