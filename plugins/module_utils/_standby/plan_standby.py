# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decisions about copies: what to send, what to keep, and who may run the VM. No input and output."""

from __future__ import annotations

import calendar
import hashlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import CHUNK, RECEIVING, STARTED, Copy, Job, chunks_in

CHECKPOINT = "reduced-footprint-"
_TIME = "%Y%m%dT%H%M%SZ"
INCREMENTAL, COMPARED, FULL = "incremental", "compared", "full"

#: The proof of the cluster manager, which starts a VM elsewhere only after it has fenced its server.
FENCED: t.Mapping[str, str] = {"by": "fenced"}

# answers of the boot guard
RUN, STAY, WAIT = "run", "stay", "wait"


def length_of(index: int, capacity: int) -> int:
    """Return the bytes of a chunk; the last one may be shorter."""
    return min(CHUNK, capacity - index * CHUNK)


def zero_digest(length: int) -> bytes:
    """Return the digest of a chunk of zeros."""
    if length not in _ZEROS:
        _ZEROS[length] = hashlib.sha256(bytes(length)).digest()
    return _ZEROS[length]


_ZEROS: dict[int, bytes] = {}


def touched(extents: t.Iterable[tuple[int, int]], capacity: int) -> list[int]:
    """Return the sorted chunks that some extents (offset, length) touch."""
    found: set[int] = set()
    for offset, length in extents:
        if length > 0:
            found.update(range(offset // CHUNK, min(chunks_in(capacity), (offset + length - 1) // CHUNK + 1)))
    return sorted(found)


def inside_only(extents: t.Iterable[tuple[int, int]], capacity: int) -> set[int]:
    """Return the chunks that lie completely inside the extents, which do not overlap."""
    covered: dict[int, int] = {}
    for offset, length in extents:
        end = min(offset + length, capacity)
        while offset < end:
            index = offset // CHUNK
            step = min(end, (index + 1) * CHUNK) - offset
            covered[index] = covered.get(index, 0) + step
            offset += step
    return {index for index, size in covered.items() if size == length_of(index, capacity)}


def blank(capacity: int) -> list[bytes]:
    """Return the digests of a disk of zeros."""
    return [zero_digest(length_of(index, capacity)) for index in range(chunks_in(capacity))]


def surplus_checkpoints(checkpoints: t.Iterable[str], keep: str | None) -> list[str]:
    """Return the checkpoints of this collection that no copy needs any more."""
    return sorted(name for name in checkpoints if name.startswith(CHECKPOINT) and name != f"{CHECKPOINT}{keep}")


def copy_id(now: float, existing: t.Iterable[str]) -> str:
    """Return the name of a new copy: its time, or after a clock was set back one second after the last copy, because names are sorted by age.

    :arg existing: names of the complete copies.
    """
    last = max((calendar.timegm(time.strptime(each, _TIME)) for each in existing), default=0)
    return time.strftime(_TIME, time.gmtime(max(int(now), last + 1)))


def surplus_copies(ids: t.Iterable[str], keep: int) -> list[str]:
    """Return the oldest copies beyond the number to keep, oldest first."""
    ordered = sorted(ids)
    return ordered[: max(0, len(ordered) - keep)]


def boot_verdict(answers: t.Sequence[t.Mapping[str, t.Any] | None]) -> str:
    """Decide whether the VM may start on its server after a boot.

    :arg answers: records of the standby, which is the first one, and of witnesses; ``None`` for a machine that does not answer.
    :returns: ``stay`` off if one of them knows of the VM's start on the standby; ``run`` if one of them knows that there was none, because a
        start is recorded on all of them first; otherwise ``wait``, also while the standby makes the disks of the VM, and if a witness knows of a
        start that the standby did not make: it is interrupted, or was refused.
    """
    known = [each for each in answers if each is not None]
    if any(each.get("state") == STARTED for each in known):
        standby = answers[0] or {}
        return WAIT if standby.get("state") == RECEIVING else STAY
    if any(each.get("starting") for each in known):
        return WAIT
    return RUN if any(each.get("state") == RECEIVING for each in known) else WAIT


def former(before: Job | None, job: Job, removed: t.Collection[str]) -> tuple[str, ...]:
    """Return the standbys that may still have copies, except the one of the new job, and the witnesses that may still accept the key.

    :arg removed: those whose copies were removed, and the key withdrawn.
    """
    witnesses = [each.name for each in before.witnesses if each.name not in job.accepting] if before else []
    known = (*before.former, before.standby.name, *witnesses) if before else ()
    return tuple(name for name in dict.fromkeys(known) if name != job.standby.name and name not in removed)


def check_start(vm_id: str, copies: t.Sequence[Copy], wanted: str | None, source: str | None, confirmed: str | None, proof: t.Mapping[str, t.Any]) -> Copy:
    """Return the copy with which the VM may be started.

    :arg source: the server that is lost, as the copies name it; ``confirmed``: the server's name that a person typed.
    :arg proof: ``{by: bmc, state: off}`` if its BMC confirmed that it is off, ``{by: fenced}`` by the cluster manager.
    :raises RefusedError: no verified copy, or no proof that the first server does not run the VM.
    """
    if not copies:
        raise RefusedError(f"a verified copy of {vm_id} does not exist on this server.", "id", "Use the server that standby names in the VM details.")
    copy = next((each for each in copies if each.id == wanted), None) if wanted else max(copies, key=lambda each: each.id)
    if copy is None:
        raise RefusedError(
            f"the verified copy {wanted} of {vm_id} does not exist on this server.", "copy", f"Use one of {', '.join(sorted(each.id for each in copies))}."
        )
    if source is not None and source != copy.source:
        raise RefusedError(f"the copies of {vm_id} are from the server {copy.source}, not from {source}.", "source", f"Use {copy.source}.")
    if proof.get("by") == FENCED["by"]:
        return copy
    if proof.get("by") == "bmc":
        if proof.get("state") != "off":
            raise RefusedError(f"the BMC of {copy.source} reports that it is {proof.get('state') or 'unknown'}, not off.", "proof", "Power it off first.")
        return copy
    if confirmed != copy.source:
        typed = f"{confirmed!r} is not the name of the server" if confirmed else "no one confirmed"
        raise RefusedError(
            f"{typed} whose loss must be confirmed: {copy.source}.", "confirmed", f"Make sure that {copy.source} is off, then give its name."
        )
    return copy


def blocks(candidates: t.Iterable[int], zeros: t.Collection[int], most: int) -> t.Iterator[list[int]]:
    """Return the candidates in blocks of adjacent chunks, which are either all of zeros or none."""
    block: list[int] = []
    for index in candidates:
        if block and (index != block[-1] + 1 or len(block) >= most or (index in zeros) != (block[0] in zeros)):
            yield block
            block = []
        block.append(index)
    if block:
        yield block


def to_write(
    block: t.Sequence[int], digests: t.Sequence[bytes], base: t.Sequence[bytes], have: t.Mapping[int, bytes], sent: dict[int, bytes]
) -> t.Iterator[list[int]]:
    """Return runs of adjacent chunks of a block that must be written.

    :arg base: digests in the last copy; ``have``: digests of what an interrupted attempt already wrote over it.
    :arg sent: gets the digest of each chunk that the partial copy contains.
    """
    run: list[int] = []
    for index, digest in zip(block, digests):
        there = have.get(index)
        if there is None and digest == base[index]:
            continue
        sent[index] = digest
        if there == digest:
            continue
        if run and index != run[-1] + 1:
            yield run
            run = []
        run.append(index)
    if run:
        yield run
