# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The worker: makes one copy of a VM's disks on its standby, ``python3 -m …run_worker ID``; started by a timer.

It runs on the server of the VM, because only libvirt there can export all disks at one point in time and knows which blocks changed.
A killed worker leaves no state that matters: the standby keeps what it received, and the next run continues with that.
"""

from __future__ import annotations

import base64
import contextlib
import os
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.run_phases import run_phase
from ansible_collections.reduced.footprint.plugins.module_utils._standby import (
    io_backup,
    io_store,
    plan_standby,
    run_agent,
    run_automatic,
    run_send,
    run_taken,
    xml_backup,
)
from ansible_collections.reduced.footprint.plugins.module_utils._standby import model_standby
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse, text_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header

_LONG = 3600.0
# seconds within which a move begins after the copies were paused
_BEFORE_MOVE = 120.0


class VmStarted(BackendError):
    """The VM was off when its copy began, and was started during it."""


class Worker:
    """The state of one run."""

    def __init__(
        self, job: model_standby.Job, store: io_store.StandbyStore, journal: model_standby.StandbyJournal, remote: io_store.StandbyHost, host: DomainHost
    ) -> None:
        self.job, self.store, self.journal, self.remote, self.host = job, store, journal, remote, host
        self.backup = io_backup.Backup(host, job.uuid, job.id)
        self.record, self.document = io_backup.domain_facts(host, job.uuid)
        self.disks, self.others = xml_backup.disks_of(self.document)
        self.capacities = {disk.target: io_disk_header.read_header(disk.path, "raw" if disk.format == "raw" else None).capacity for disk in self.disks}
        self.copies: list[dict[str, t.Any]] = []
        self.base: str | None = None
        self.copy_id, self.mode, self.at = "", plan_standby.FULL, 0.0
        self.have: dict[str, dict[int, bytes]] = {}
        self.digests: dict[str, bytes] = {}
        self.sent: dict[str, dict[int, bytes]] = {}
        self.socket: str | None = None
        self.stamps: dict[str, int] = {}
        #: Bytes sent, without those of an interrupted attempt.
        self.bytes = 0

    def save(self) -> None:
        """Write the journal."""
        self.store.write(self.journal)

    def log(self, message: str) -> None:
        """Write a line to the log."""
        self.store.log(f"{self.journal.phase}: {message}")

    def ask(self, command: str, timeout: float = 120.0, **given: t.Any) -> dict[str, t.Any]:
        """Run a command of the agent on the standby."""
        return self.remote.ask(command, given, timeout=timeout)

    # the phases

    def look(self) -> None:
        """Read what the standby has, and remove what a killed run left here."""
        try:
            self.backup.thaw()
        except BackendError as error:
            self.log(error.message)
        found = self.ask("look")
        if found["record"].get("state") == model_standby.STARTED:
            raise run_taken.Taken(found["record"])
        self.copies = found["copies"]
        self.backup.abort(self.disks)
        base = self.copies[-1] if self.copies else None
        if self.record.active:
            self.backup.forget(plan_standby.surplus_checkpoints(self.backup.checkpoints(), base["id"] if base else None))
        same = base is not None and {each[0]: each[2] for each in base["disks"]} == self.capacities
        self.base = base["id"] if base and same else None

    def unchanged(self) -> bool:
        """Whether the VM is off and its disks are those of the last copy."""
        kept = self.journal.facts.get("off")
        return not self.record.active and bool(kept) and kept["copy"] == self.base and kept["stamps"] == _stamps(self.disks)

    def begin(self) -> None:
        """Fix the point in time, and prepare the images on the standby."""
        self.at = time.time()
        self.copy_id = plan_standby.copy_id(self.at, [each["id"] for each in self.copies])
        bitmaps = [disk for disk in self.disks if disk.format == "qcow2"]
        since = None
        self.mode = plan_standby.COMPARED if self.base else plan_standby.FULL
        if self.record.active:
            old = f"{plan_standby.CHECKPOINT}{self.base}"
            since = old if self.base and bitmaps and old in self.backup.checkpoints() else None
            new = f"{plan_standby.CHECKPOINT}{self.copy_id}" if bitmaps else None
            self.socket = self._backup(since, new)
        else:
            self.stamps = _stamps(self.disks)
        self.at = time.time()
        described = [{"target": disk.target, "path": disk.path, "format": disk.format, "capacity": self.capacities[disk.target]} for disk in self.disks]
        needed = 0 if self.base else sum(os.stat(disk.path).st_blocks * 512 for disk in self.disks)
        given = {"copy": self.copy_id, "base": self.base, "disks": described, "needed": needed, **self._whose()}
        answer = self.ask("begin", witnesses=[each.name for each in self.job.witnesses], timeout=_LONG, **given)
        self.digests = {target: base64.b64decode(text) for target, text in answer["digests"].items()}
        self.have = {target: run_agent.decoded(text) for target, text in answer["have"].items()}
        if answer["resumed"]:
            self.log(f"continues an interrupted copy: {sum(map(len, self.have.values()))} chunks are there")

    def _whose(self) -> dict[str, t.Any]:
        """Return with what the standby finds out whether these disks continue those of its copies."""
        record = io_owner.known(self.job.uuid)
        return {"uuid": self.job.uuid, "machine": (read_text("/etc/machine-id") or "").strip(), "epoch": record.epoch if record is not None else 0}

    def _backup(self, since: str | None, new: str | None) -> str:
        if since:
            try:
                socket = self.backup.begin(self.disks, self.others, since=since, checkpoint=new, domain_name=self.record.name)
                self.mode = plan_standby.INCREMENTAL
                return socket
            except BackendError as error:
                # after a power loss the bitmaps are not valid
                self.log(f"the changed blocks are not known: {error.message}")
                self.backup.abort(self.disks)
                self.backup.forget(plan_standby.surplus_checkpoints(self.backup.checkpoints(), None))
        return self.backup.begin(self.disks, self.others, since=None, checkpoint=new, domain_name=self.record.name)

    def copy(self) -> None:
        """Send the chunks that differ from the last copy."""
        for disk in self.disks:
            base = model_standby.unpacked(self.digests[disk.target], self.capacities[disk.target]) if self.base else None
            self.sent[disk.target] = run_send.send(self, disk, base or plan_standby.blank(self.capacities[disk.target]))

    def finish(self) -> None:
        """Let the standby read everything back and compare it, which makes it a copy."""
        if not self.record.active:
            again, unused = io_backup.domain_facts(self.host, self.job.uuid)
            if again.active or _stamps(self.disks) != self.stamps:
                self.ask("discard")
                raise VmStarted("the VM was started during the copy.", hint="The next run copies it while it runs.")
        facts = {
            **self._whose(), "name": self.record.name, "source": self.job.source, "at": self.at, "frozen": self.backup.frozen, "mode": self.mode,
            "bytes": self.bytes, "seconds": round(time.time() - (self.journal.started or self.at), 3), "xml": text_of(parse(self.record.config_xml)),
            "files": {path: base64.b64encode(_content(path)).decode() for path in xml_backup.small_files(self.document)}, "autostart": self.record.autostart,
        }  # fmt: skip
        described = [{"target": disk.target, "path": disk.path, "format": disk.format, "capacity": self.capacities[disk.target]} for disk in self.disks]
        sent = {target: run_agent.encoded(values) for target, values in self.sent.items()}
        answer = self.ask("finish", copy=self.copy_id, disks=described, sent=sent, facts=facts, keep=self.job.copies, timeout=_LONG)
        self.journal.verified = True
        self.journal.facts.update(
            standby=self.job.standby.name, copy=self.copy_id, at=self.at, mode=self.mode, bytes=self.bytes, chunks=answer["verified"],
            frozen=self.backup.frozen, seconds=round(time.time() - (self.journal.started or self.at), 3),
            used=answer["used"], obstacle=answer["obstacle"], off=None if self.record.active else {"copy": self.copy_id, "stamps": self.stamps},
        )  # fmt: skip

    def prune(self) -> None:
        """Keep only the checkpoint of the new copy."""
        if self.record.active:
            self.backup.forget(plan_standby.surplus_checkpoints(self.backup.checkpoints(), self.copy_id))

    def end_job(self) -> None:
        """End the backup job."""
        if self.socket is not None:
            self.backup.abort(self.disks)
            self.socket = None


def _content(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def _stamps(disks: t.Iterable[xml_backup.Disk]) -> dict[str, int]:
    return {disk.path: os.stat(disk.path).st_mtime_ns for disk in disks}


def carry_out(worker: Worker) -> None:
    """Make one copy.

    :raises FootprintError: it failed.
    """
    run_phase(worker, model_standby.LOOK, worker.look)
    if worker.unchanged():
        worker.journal.verified = True
        worker.journal.facts.update(at=time.time(), standby=worker.job.standby.name, **worker.ask("check"))
        return
    try:
        run_phase(worker, model_standby.BEGIN, worker.begin)
        run_phase(worker, model_standby.COPY, worker.copy)
    finally:
        worker.end_job()
    run_phase(worker, model_standby.FINISH, worker.finish)
    run_phase(worker, model_standby.PRUNE, worker.prune)


def connect(job: model_standby.Job, store: io_store.StandbyStore) -> io_store.StandbyHost:
    """Create the connection to the standby."""
    return io_store.StandbyHost(run_agent.MODULE, job, job.standby, store, io_units.keep_code())


def main(argv: t.Sequence[str]) -> int:
    """Entry point; exit code 0 after a copy, 1 otherwise. With ``thaw`` after the ID, only ends what a killed run left in the guest."""
    store = io_store.StandbyStore(argv[0])
    job = store.job()
    if job is None:
        sys.stderr.write(f"{argv[0]} has no standby\n")
        return 2
    if argv[1:] == [model_standby.THAW]:
        return _thaw(job)
    try:
        with store.locked():
            return _main(job, store)
    except RefusedError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _thaw(job: model_standby.Job) -> int:
    try:
        with DomainHost(job.uri) as host:
            io_backup.Backup(host, job.uuid, job.id).thaw()
        return 0
    except FootprintError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _is_moving(job: model_standby.Job, store: io_store.StandbyStore) -> bool:
    """Whether the VM is about to be moved, for which the copies are paused, is being moved, or was moved and has not returned."""
    record, paused = io_owner.away(job.uuid), store.paused_seconds()
    # of one that was started on its standby, the standby is asked
    return record is not None and not record.is_taken or paused is not None and paused < _BEFORE_MOVE


def _let_begin(store: io_store.StandbyStore) -> None:
    """Make the VM automatic again, after a move that ended on this server. What prevents it is reported by ``vm_standby_info``."""
    job = store.job()
    if job is None or not job.automatic or store.paused_seconds() is not None:
        return
    try:
        run_automatic.begin(job)
    except FootprintError as error:
        store.log(f"not automatic: {error}")


def _main(job: model_standby.Job, store: io_store.StandbyStore) -> int:
    if _is_moving(job, store):
        sys.stderr.write(f"{job.id} is being moved, or was moved; it is not copied\n")
        return 0
    store.resume()
    # without it, a full disk ends the copy
    with contextlib.suppress(BackendError):
        store.reserve()
    journal = store.journal()
    journal.renew(time.time())
    try:
        with DomainHost(job.uri) as host:
            try:
                carry_out(Worker(job, store, journal, connect(job, store), host))
            except VmStarted:
                # as after a boot: the timer copies the VM while the guard starts it
                store.log("the VM was started, and is copied again while it runs")
                journal.renew(time.time())
                carry_out(Worker(job, store, journal, connect(job, store), host))
        journal.state, journal.ended, journal.reason = model_standby.COPIED, time.time(), None
        journal.facts["failures"] = 0
        store.write(journal)
        _let_begin(store)
        return 0
    except run_taken.Taken as error:
        run_taken.give_up(job, store)
        journal.state, journal.ended, journal.reason = "taken", time.time(), str(error)
    except (FootprintError, OSError) as error:
        run_jobs.record_failure(store, journal, error)
        journal.facts["failures"] = int(journal.facts.get("failures") or 0) + 1
    store.write(journal)
    sys.stderr.write(f"{journal.reason}\n")
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
