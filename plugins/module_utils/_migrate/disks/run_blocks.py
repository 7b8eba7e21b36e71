# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copy raw devices block by block in every pass, and verify them in the pause."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks, run_block_agent
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import PlannedPartition, RawDevice
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_rsync

# how often a device is read again in the pause before a write to it is an error
_ATTEMPTS = 2

Progress = t.Callable[[int, int], object]


def bring_all(context: Context, kind: str, progress: Progress) -> tuple[int, int]:
    """Update the copies of all devices; returns the bytes transferred and the bytes checked.

    :arg kind: ``live`` for a pass before the pause, with the bandwidth limit.
    """
    moved = checked = 0
    for partition, raw in context.layout().raws:

        def add(read: int, received: int, checked: int = checked, moved: int = moved) -> None:
            progress(checked + read, moved + received)

        result = _bring(context, partition, raw, live=kind == "live", progress=add)
        moved += result.bytes
        checked += raw.size
        read = f"{result.read} bytes read" if result.read else "not written to since the last read"
        context.log(f"{raw.path}: {result.changed} blocks copied, {read}")
    return moved, checked


def verify(context: Context) -> None:
    """Make sure that source and copy of every device are equal after the services have stopped."""
    for partition, raw in context.layout().raws:
        for attempt in range(_ATTEMPTS + 1):
            result = _bring(context, partition, raw, live=False)
            if not result.changed:
                break
            if attempt == _ATTEMPTS:
                raise BackendError(
                    f"{raw.path} differs between source and copy after the services were stopped: {result.changed} blocks were written to.",
                    hint="List the service that writes to it in services, so that it is stopped for the last copy.",
                )
            context.log(f"{raw.path}: {result.changed} blocks copied again")


def forget(context: Context) -> None:
    """Discard the block lists and counters of all devices, because the disks are created again."""
    context.journal.facts.pop("blocks", None)
    for partition, _raw in context.layout().raws:
        _target(context, partition, 0).forget()


def _target(context: Context, partition: PlannedPartition, size: int, node: str = "") -> io_blocks.Target:
    return io_blocks.Target(node, size, context.store.directory / f"blocks-{partition.disk}-{partition.number}")


def _bring(context: Context, partition: PlannedPartition, raw: RawDevice, *, live: bool, progress: Progress | None = None) -> io_blocks.Fetched:
    known = context.journal.facts.setdefault("blocks", {})
    before = known.get(raw.path, {})
    disk = context.disk()
    disk.attach()
    target = _target(context, partition, raw.size, disk.node(partition))
    given = {"device": raw.path, "counter": before.get("counter"), "boot_id": before.get("boot_id"), "nice": live}
    limit = context.spec.bandwidth_limit if live else 0
    try:
        result = io_blocks.fetch(context.source.program(run_block_agent.MODULE), given, target, limit=limit, progress=progress)
    except OSError as error:
        image = context.journal.facts["vm"]["disks"][partition.disk]
        write_error = CommandError(["write"], None, error.strerror or str(error))
        raise io_rsync.full_disk(write_error, raw.path, os.path.dirname(image), image) or BackendError(f"Failed to copy {raw.path}: {error}.") from error
    known[raw.path] = {"counter": result.counter, "boot_id": result.boot_id, "sha256": result.root}
    return result
