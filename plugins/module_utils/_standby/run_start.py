# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start a VM from its copy on the standby.

The disks are made from the copy and compared with its digests first, under temporary names. Then the start is recorded, which ends
the copies and keeps the VM off on its first server; only after that the VM is defined and started. A killed run is completed by the next.
"""

from __future__ import annotations

import base64
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_nbd, plan_standby, xml_backup
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import CHUNK, STARTED, Copy, CopyDisk
from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_fit import refuse_unfit
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, DomainRecord
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse, text_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import CONFIRMED, MOVED, Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import remove_path, with_us
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore

URI = "qemu:///system"
CLAIMED, RUNNING = "claimed", "running"
_LOCK = 300.0
_STEADY = 2.0


def start(params: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Start the VM here.

    :arg params: of the module; ``own`` is called before the start is recorded, and fails if another server may have the VM. With it, only the cluster
        manager starts the VM from then on.
    :returns: keyword arguments for ``exit_json``.
    :raises FootprintError: refused, or the copy is damaged; nothing was changed. A later error is completed by the next run.
    """
    store = io_copies.CopyStore(str(params["cluster"]), str(params["id"]))
    record = store.record()
    begun = _begun(record, store.vm_id)
    copies = store.copies()
    copy = _recorded(record, copies) if begun else _allowed(params, copies)
    uri = str(params.get("uri") or URI)
    with DomainHost(uri) as host:
        found = host.domain(copy.uuid)
        if begun and io_owner.away(copy.uuid) is not None:
            raise RefusedError(f"{copy.vm} was started here, and then moved to another server.", "id", "Complete that move, with move_vm.")
        if begun and found is not None and found.active:
            if record.get("phase") != RUNNING and not check_mode:
                # an interrupted run has started it, or a person
                store.write_record({**record, "phase": RUNNING})
            return _result(copy, record, False)
        if not begun:
            _refuse_obstacles(copy, found, uri)
        if check_mode:
            return _result(copy, {**record, "at": time.time()}, True)
        with store.locked(starting=True):
            if not begun:
                # another run may have started it since: its disks must not be replaced by those of the copy
                if store.record().get("state") == STARTED:
                    raise RefusedError(f"{copy.vm} was started here by another run meanwhile.", "id", "Run it again, which completes an interrupted start.")
                _refuse_obstacles(copy, host.domain(copy.uuid), uri)
                _make_disks(store, copy, params.get("own"))
                # from now on a record is that of a later move
                io_owner.forget(copy.uuid)
                record = _claim(store, copy, params)
            _place(copy)
            warnings = _run(host, copy, store.cluster if "own" in params else None)
            record = {**record, "phase": RUNNING}
            store.write_record(record)
    return {**_result(copy, record, True), "warnings": warnings}


def _begun(record: t.Mapping[str, t.Any], vm_id: str) -> bool:
    """Whether the start has begun here."""
    if record.get("state") == STARTED and not record.get("phase"):
        raise RefusedError(
            f"this server has recorded as a witness that {vm_id} was started on another one.",
            "id",
            "Find out where it runs. If that start was interrupted before it ran there, use state: returned here first.",
        )
    return record.get("state") == STARTED


def _recorded(record: t.Mapping[str, t.Any], copies: t.Sequence[Copy]) -> Copy:
    copy = next((each for each in copies if each.id == record.get("copy")), None)
    if copy is None:
        raise BackendError(f"the copy {record.get('copy')} with which the start began is missing.", hint="Move the VM back, or define it by hand.")
    return copy


def _allowed(params: t.Mapping[str, t.Any], copies: t.Sequence[Copy]) -> Copy:
    return plan_standby.check_start(
        str(params["id"]), copies, params.get("copy"), params.get("source"), params.get("confirmed"), params.get("proof") or {}
    )


def obstacle(copy: Copy) -> str | None:
    """Return why a copy cannot be started here at present, ``None`` if nothing prevents it."""
    try:
        with DomainHost(URI) as host:
            _refuse_obstacles(copy, host.domain(copy.uuid), URI)
        return None
    except FootprintError as error:
        return f"{error.message} {error.hint or ''}".strip()
    except OSError as error:
        return f"{error.filename}: {error.strerror}."


def _refuse_obstacles(copy: Copy, found: DomainRecord | None, uri: str) -> None:
    record = io_owner.away(copy.uuid)
    if record is not None and record.state == MOVED and not record.is_taken:
        hint = "Confirm it with move_vm and move_vm_state=confirmed, which removes the old disks here."
        raise RefusedError(f"the move of {copy.vm} to {record.where} is not confirmed.", "id", hint)
    if found is not None:
        raise RefusedError(f"a domain with the UUID of {copy.vm} is already on this server, {found.state}.", "id", "Find out which of them is valid.")
    if record is not None and not _left_before(record, copy):
        hint = f"Find out whether it runs on {record.where}." if record.state == CONFIRMED else "Complete that move first, with move_vm."
        raise RefusedError(f"this server has a record that {copy.vm} was moved from or to it.", "id", hint)
    refuse_unfit(copy, uri)
    _refuse_existing(copy)
    for disk in copy.disks:
        io_copies.check_room(os.path.dirname(disk.path), min(disk.capacity, _allocated(disk)), copy.vm)


def _refuse_existing(copy: Copy) -> None:
    for disk in copy.disks:
        if os.path.lexists(disk.path):
            hint = f"Remove it if no VM needs it. If this server shares its storage with {copy.source}, it is the disk itself: do not remove it."
            raise RefusedError(f"{disk.path} already exists on this server.", "id", hint)
    for path, text in copy.files.items():
        if os.path.lexists(path) and not _holds(path, text):
            raise RefusedError(f"{path} already exists on this server, with other content.", "id", "Remove it if no VM needs it.")


def _holds(path: str, text: str) -> bool:
    """Whether a small file has the content that it has in the copy."""
    with open(path, "rb") as stream:
        return stream.read() == base64.b64decode(text)


def _left_before(record: Record, copy: Copy) -> bool:
    """Whether the VM was moved away for good before it was copied, or to the server that makes the copies: its way back after a start here."""
    return record.state == CONFIRMED and bool(record.at) and (record.to == copy.source or record.at < utc(copy.at))


def _allocated(disk: CopyDisk) -> int:
    """Return at most what the disk needs: the sum of its layers."""
    return sum(os.stat(path).st_blocks * 512 for path in (disk.file, *io_copies.CopyStore.layers(disk.file)))


def _temporary(path: str) -> str:
    final = pathlib.Path(path)
    return str(final.with_name(f".{final.name}.starting"))


def _make_disks(store: io_copies.CopyStore, copy: Copy, own: t.Callable[[], None] | None) -> None:
    """Make the disks from the copy, and compare each chunk with its digest.

    :arg own: is called at the end, before they get their names.
    """
    made = []
    try:
        for disk in copy.disks:
            wanted = store.digests(copy, disk)
            if wanted is None:
                raise BackendError(f"the digests of {disk.target} in the copy {copy.id} are missing.", hint="Start another copy, with copy.")
            target = _temporary(disk.path)
            remove_path(pathlib.Path(target))
            made.append(target)
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            run([*with_us(), "qemu-img", "create", "-q", "-f", disk.format, target, str(disk.capacity)])
            _fill(disk, target, wanted, copy.id)
        # that may have taken hours, in which others used the pool
        _refuse_existing(copy)
        if own is not None:
            own()
    except BaseException:
        for target in made:
            remove_path(pathlib.Path(target))
        raise


def _fill(disk: CopyDisk, target: str, wanted: t.Sequence[bytes], copy_id: str) -> None:
    with io_nbd.served(disk.file, "qcow2") as here, io_nbd.served(target, disk.format, writable=True) as there:
        with io_nbd.NbdDisk().connect_socket(here) as source, io_nbd.NbdDisk().connect_socket(there) as new:
            zeros = plan_standby.inside_only(source.zeros(), disk.capacity)
            for block in plan_standby.blocks(range(len(wanted)), zeros, io_nbd.BLOCK // CHUNK):
                lengths = [plan_standby.length_of(index, disk.capacity) for index in block]
                content = None if block[0] in zeros else source.read(block[0] * CHUNK, sum(lengths))
                digests = [plan_standby.zero_digest(length) for length in lengths] if content is None else io_nbd.digests_of(content)
                wrong = next((index for index, digest in zip(block, digests) if digest != wanted[index]), None)
                if wrong is not None:
                    raise BackendError(
                        f"the copy {copy_id} of {disk.target} is damaged at byte {wrong * CHUNK}.", hint="Start another copy, with copy."
                    )
                if content is not None:
                    new.write(block[0] * CHUNK, content)
            new.flush()


def _claim(store: io_copies.CopyStore, copy: Copy, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Record the start; from here the VM belongs to this server."""
    proof = dict(params.get("proof") or {}) or {"by": "person", "confirmed": params.get("confirmed")}
    record = {"state": STARTED, "phase": CLAIMED, "at": time.time(), "copy": copy.id, "from": copy.source, "uuid": copy.uuid, "name": copy.name, "proof": proof}
    store.write_record(record)
    return record


def _place(copy: Copy) -> None:
    """Give the disks their names, and write the small files; nothing is replaced."""
    for disk in copy.disks:
        if os.path.lexists(_temporary(disk.path)):
            try:
                rename(_temporary(disk.path), disk.path, new=True)
            except FileExistsError as error:
                hint = "Find out which VM needs it, and move it away. Then run again, which completes the start."
                raise RefusedError(f"{disk.path} was created on this server while {copy.vm} was being started.", "id", hint) from error
        elif not os.path.lexists(disk.path):
            raise BackendError(f"{disk.path} is missing.", hint="It was removed after the start began; define the VM by hand from its copy.")
    for path, text in copy.files.items():
        if not os.path.lexists(path):
            os.makedirs(os.path.dirname(path), mode=0o711, exist_ok=True)
            write_atomic(path, base64.b64decode(text), new=True)


def _run(host: DomainHost, copy: Copy, clustered: str | None) -> list[str]:
    """Define and start the VM, and wait until it runs; returns warnings.

    :arg clustered: name of its cluster, if from now on only the cluster manager starts it.
    """
    document = parse(copy.xml)
    gone = xml_backup.eject(document, os.path.exists)
    if clustered is not None:
        io_owner.admit(Record(clustered, copy.vm, copy.uuid, copy.name))
    else:
        # as long as it runs here it needs no confirmation
        io_owner.release(copy.uuid)
    VolumeStore(host).refresh()
    with host_lock("domains", _LOCK):
        host.define(text_of(document))
        host.set_autostart(copy.uuid, copy.autostart)
        record = host.domain(copy.uuid)
        if record is None or not record.active:
            host.start(copy.uuid)
    until = time.monotonic() + _STEADY
    while time.monotonic() < until:
        record = host.domain(copy.uuid)
        if record is None or not record.active:
            raise BackendError(f"{copy.name} ended immediately after its start; check its log in /var/log/libvirt.")
        time.sleep(0.2)
    return [f"{path} does not exist on this server, its drive is empty now." for path in gone]


def _result(copy: Copy, record: t.Mapping[str, t.Any], changed: bool) -> dict[str, t.Any]:
    at = float(record.get("at") or time.time())
    return {
        "changed": changed,
        "copy_id": copy.id,
        "source": copy.source,
        "started": utc(at),
        "lost_seconds": round(at - copy.at, 1),
        "diff": {"before": f"{copy.name}: off on this server\n" if changed else "", "after": f"{copy.name}: started from {copy.id}\n" if changed else ""},
    }
