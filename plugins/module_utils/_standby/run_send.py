# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send one disk: compare it with the last copy, and write the chunks that differ to the standby."""

from __future__ import annotations

import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_nbd, plan_standby, run_channel
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import CHUNK, chunks_in

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_worker import Worker
    from ansible_collections.reduced.footprint.plugins.module_utils._standby.xml_backup import Disk

_AT_ONCE = io_nbd.BLOCK // CHUNK
_SAVE_EVERY = 2.0
# what a lost connection costs at most: qemu-nbd keeps its map of the image in memory until a flush
_FLUSH_EVERY = 5.0


def send(worker: Worker, disk: Disk, base: t.Sequence[bytes]) -> dict[int, bytes]:
    """Send a disk; returns chunk → digest of all that the partial copy contains afterwards.

    :arg base: the digests of the disk in the last copy.
    """
    with tempfile.TemporaryFile() as errors:

        def last_error() -> str:
            errors.seek(0)
            return (errors.read().decode(errors="replace").strip().splitlines() or [""])[-1]

        argv = worker.remote.program(run_channel.MODULE, disk.target)
        with io_nbd.NbdDisk().connect_command(argv, last_error) as target:
            if worker.socket is None:
                with io_nbd.served(disk.path, disk.format, locked=False) as address, io_nbd.NbdDisk().connect_socket(address) as source:
                    return _transfer(worker, disk, base, source, target)
            marked = worker.mode == plan_standby.INCREMENTAL and disk.format == "qcow2"
            with io_nbd.NbdDisk(f"qemu:dirty-bitmap:backup-{disk.target}" if marked else None).connect_socket(worker.socket, disk.target) as source:
                return _transfer(worker, disk, base, source, target)


def _transfer(worker: Worker, disk: Disk, base: t.Sequence[bytes], source: io_nbd.NbdDisk, target: io_nbd.NbdDisk) -> dict[int, bytes]:
    capacity, have = worker.capacities[disk.target], worker.have.get(disk.target, {})
    if worker.mode == plan_standby.INCREMENTAL and disk.format == "qcow2":
        candidates: t.Sequence[int] = sorted({*plan_standby.touched(source.dirty(), capacity), *have})
    else:
        candidates = range(chunks_in(capacity))
    zeros = plan_standby.inside_only(source.zeros(), capacity)
    sent: dict[int, bytes] = {}
    pace = _Pace(worker, disk, len(candidates))
    flushed = time.monotonic()
    for block in plan_standby.blocks(candidates, zeros, _AT_ONCE):
        first = block[0]
        size = sum(plan_standby.length_of(index, capacity) for index in block)
        content = None if first in zeros else source.read(first * CHUNK, size)
        digests = io_nbd.digests_of(content) if content is not None else [plan_standby.zero_digest(plan_standby.length_of(index, capacity)) for index in block]
        for run in plan_standby.to_write(block, digests, base, have, sent):
            start, length = run[0] * CHUNK, sum(plan_standby.length_of(index, capacity) for index in run)
            if content is None:
                target.zero(start, length)
            else:
                at = start - first * CHUNK
                target.write(start, content[at : at + length])
            pace.wrote(length)
        pace.passed(len(block))
        if time.monotonic() - flushed > _FLUSH_EVERY:
            target.flush()
            flushed = time.monotonic()
    target.flush()
    return sent


class _Pace:
    """Progress of a disk in the journal, and the limit of its bandwidth."""

    def __init__(self, worker: Worker, disk: Disk, chunks: int) -> None:
        self._worker, self._disk, self._chunks = worker, disk, chunks
        self._done = self._bytes = 0
        self._started = self._saved = time.monotonic()

    def wrote(self, length: int) -> None:
        """Count written bytes, and wait if that was too fast."""
        self._bytes += length
        self._worker.bytes += length
        limit = self._worker.job.bandwidth_limit
        early = self._bytes / limit - (time.monotonic() - self._started) if limit else 0
        if early > 0:
            time.sleep(early)

    def passed(self, chunks: int) -> None:
        """Count chunks, and write the journal sometimes."""
        self._done += chunks
        progress = {"phase": self._worker.journal.phase, "disk": self._disk.target, "chunks": self._done, "of": self._chunks, "bytes": self._worker.bytes}
        self._worker.journal.progress = progress
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self._saved = time.monotonic()
            self._worker.save()
