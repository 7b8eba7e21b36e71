# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service on the server of VMs that their standby starts by itself: renews their leases, and ends a VM that has none any more.

``python3 -m …run_lease``. Only the main thread decides, once a second, and it waits for nothing but the end of a guest. If it hangs nevertheless,
systemd kills it; the next instance continues with the times that the last one left below ``/run``.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._standby import (
    io_grants,
    io_lease,
    io_lease_units,
    io_session,
    io_store,
    plan_lease,
    run_grantor,
)
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import FRESH, RENEW, STOP
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, Voter
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner

_TICK = 1.0
_ANSWER = 10.0
_DISARM = 8.0
_KILL = 2.0
_MOST_WAIT = 8.0
# seconds between two questions of the guard, which ends when it has its answer
_GUARD = 10.0


class Held(t.NamedTuple):
    """A VM of this server that its standby starts by itself; ``number`` is ``None`` while it needs no lease."""

    job: Job
    number: int | None
    paused: bool


def host(job: Job, voter: Voter) -> io_store.StandbyHost:
    """Return the connection to a machine that grants leases."""
    return io_store.StandbyHost(run_grantor.MODULE, job, voter, io_store.StandbyStore(job.id), io_units.keep_code())


class Renewer(threading.Thread):
    """Renews the lease of one VM on one machine."""

    def __init__(self, service: Service, job: Job, voter: Voter) -> None:
        super().__init__(daemon=True)
        self._service, self._job, self.voter = service, job, voter
        self.ending = threading.Event()
        #: Set before :attr:`ending`, to end the automatic start that began with this number over the open connection.
        self.withdraws: int | None = None
        #: When the last renewal that was granted was sent.
        self.sent: float | None = None
        self.answered: float | None = None
        self.problem: str | None = "no answer yet"
        #: Why the machine would not start the VM, although it grants leases.
        self.idle: str | None = None
        #: The least number that the machine accepts.
        self.known = 0

    def run(self) -> None:
        """Until :attr:`ending`."""
        wait = 1.0
        while not self.ending.is_set():
            try:
                session = io_session.LeaseSession(host(self._job, self.voter).program(run_grantor.MODULE, run_grantor.LEASING))
                try:
                    while not self.ending.is_set():
                        self._renew(session)
                        wait = 1.0
                        self.ending.wait(RENEW)
                    self._withdraw(session)
                finally:
                    session.close()
            except (FootprintError, OSError, ValueError, TypeError) as error:
                self.problem = getattr(error, "message", str(error))
            self.ending.wait(wait)
            wait = min(2 * wait, _MOST_WAIT)

    def _renew(self, session: io_session.LeaseSession) -> None:
        asked = self._service.renewal(self._job.id)
        if asked is None:
            return
        sent = io_grants.clock()
        answer = session.ask({"do": "renew", **asked}, _ANSWER)
        self.known = max(int(answer.get("arm") or 0), int(answer.get("disarmed") or 0) + 1)
        self.answered = sent
        self.idle = str(answer["idle"]) if answer.get("idle") else None
        self.problem = str(answer.get("reason") or "refused") if not answer.get("granted") else None
        if answer.get("granted"):
            self.sent = sent

    def _withdraw(self, session: io_session.LeaseSession) -> None:
        if self.withdraws is not None and session.ask({"do": "disarm", "number": self.withdraws}, _DISARM).get("granted"):
            io_lease.disarm(self._job.uuid)


class Service:
    """The state of the service."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}
        self.renewers: dict[str, list[Renewer]] = {}
        # of an earlier instance in this boot
        self._left = {vm_id: vm.get("sent") for vm_id, vm in (io_lease.read_state().get("vms") or {}).items()}
        self._fencing: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._running: dict[str, bool | None] = {}
        self.stopping, self._loaded = threading.Event(), threading.Event()

    # decisions, in the main thread

    def until(self, vm_id: str) -> float | None:
        """Return when the lease of a VM ends."""
        return plan_lease.valid_until([self._left.get(vm_id), *(each.sent for each in self.renewers.get(vm_id, ()))])

    def tick(self) -> None:
        """Decide about each VM, and inform systemd if none runs without a lease."""
        proven = self._loaded.is_set()
        state: dict[str, dict[str, t.Any]] = {}
        for vm_id, held in list(self.held.items()):
            now, until = io_grants.clock(), self.until(vm_id)
            verdict = plan_lease.verdict(held.number is not None, until, now)
            if verdict == plan_lease.FENCES:
                proven = self._fence(held, now) and proven
                self._running[vm_id] = None
            else:
                self._fencing.pop(vm_id, None)
                undecided = not io_owner.is_permitted(held.job.uuid) or io_owner.is_start_due(held.job.uuid)
                self._running[vm_id] = bool(io_lease.processes(held.job.uuid)) or (None if undecided else False)
            silent = {each.voter.name: each.problem for each in self.renewers.get(vm_id, ()) if each.problem is not None}
            idle = {each.voter.name: each.idle for each in self.renewers.get(vm_id, ()) if each.problem is None and each.idle is not None}
            state[vm_id] = {"sent": until - plan_lease.LEASE if until is not None else None, "until": until, "silent": silent, "idle": idle}
        try:
            io_lease.write_state({**{each: {"sent": sent} for each, sent in self._left.items()}, **state})
        except OSError as error:
            _log(f"the state cannot be written: {error}")
        if proven:
            io_lease.notify("WATCHDOG=1")

    def _fence(self, held: Held, now: float) -> bool:
        """End a VM without a lease; returns whether it has ended."""
        job = held.job
        io_owner.revoke(job.uuid)
        if job.id not in self._fencing:
            self._fencing[job.id] = now
            if io_lease.processes(job.uuid):
                _log(f"{job.id}: neither its standby nor a witness has granted a lease in time; it is ended")
                io_lease.note_fenced(job.id)
        if io_lease.kill(job.uuid, _KILL):
            # one that libvirt was about to start has its time again
            self._fencing[job.id] = now
            return True
        if now - self._fencing[job.id] > STOP - _KILL:
            _log(f"{job.id}: cannot be ended; the server is reset")
            io_lease.reset_server()
        return False

    def renewal(self, vm_id: str) -> dict[str, t.Any] | None:
        """Return what is sent for a VM."""
        held = self.held.get(vm_id)
        if held is None:
            return None
        return {"arm": held.number, "running": self._running.get(vm_id), "grantors": [each.name for each in (held.job.standby, *held.job.witnesses)]}

    # what may wait for the disk, in another thread

    def refresh(self) -> None:
        """Read which VMs are automatic, and put those under leases that can be."""
        found: dict[str, Held] = {}
        for vm_id in io_store.names():
            with io_lease.locked(vm_id):
                store = io_store.StandbyStore(vm_id)
                job = store.job()
                if job is None:
                    continue
                number, paused = io_lease.armed(job.uuid), store.paused_seconds() is not None
                if not job.automatic and number is None:
                    continue
                known = max((each.known for each in self.renewers.get(vm_id, ())), default=0)
                if plan_lease.may_arm(job.automatic, paused, self.until(vm_id), io_grants.clock()) and (number is None or number < known):
                    number = plan_lease.next_number(time.time(), known, number)
                    io_lease.arm(job.uuid, number)
                    _log(f"{vm_id}: needs a lease from now on")
                found[vm_id] = Held(job, number, paused)
                # still locked: a run that ends it afterwards finds that it is known here
                self._take(vm_id, found[vm_id])
        missing = set(io_lease.all_armed()) - {held.job.uuid for held in found.values()}
        if missing:
            # their file system is not mounted: those that are held stay, and without them systemd ends this service
            raise BackendError(f"the requests of VMs that need a lease cannot be read: {', '.join(sorted(missing))}.")
        for vm_id in set(self.held) - set(found):
            self._drop(vm_id)
        for vm_id, held in found.items():
            # one that is away belongs to another server
            waits = held.number is not None and not io_owner.is_permitted(held.job.uuid) and io_owner.away(held.job.uuid) is None
            now = io_grants.clock()
            # also one that refuses a lease can give the guard its answer
            answered = any(each.answered is not None and now - each.answered < FRESH for each in self.renewers.get(vm_id, ()))
            if waits and answered and now - self._asked.get(vm_id, -_GUARD) >= _GUARD:
                self._asked[vm_id] = now
                io_lease_units.start_guard()

    def _take(self, vm_id: str, held: Held) -> None:
        known = self.held.get(vm_id)
        if known is None or known.job != held.job:
            until = self.until(vm_id)
            if until is not None:
                # the lease remains when only the request changes
                self._left[vm_id] = until - plan_lease.LEASE
            for each in self.renewers.get(vm_id, ()):
                each.ending.set()
            self.renewers[vm_id] = [Renewer(self, held.job, voter) for voter in (held.job.standby, *held.job.witnesses)]
            self.held[vm_id] = held
            for each in self.renewers[vm_id]:
                each.start()
        self.held[vm_id] = held

    def _drop(self, vm_id: str) -> None:
        for each in self.renewers.pop(vm_id, ()):
            each.ending.set()
        self.held.pop(vm_id, None)
        self._left.pop(vm_id, None)

    def watch(self) -> None:
        """Refresh until the end."""
        while not self.stopping.is_set():
            try:
                self.refresh()
                self._loaded.set()
            except (FootprintError, OSError, ValueError, KeyError) as error:
                _log(f"the VMs cannot be read: {error}")
            self.stopping.wait(_TICK)

    def stop(self, watcher: threading.Thread) -> bool:
        """End the automatic start of all VMs, and end those of which no machine confirms that; returns whether none runs without a lease."""
        self.stopping.set()
        # it may be about to put a VM under leases
        watcher.join(_KILL)
        held = [each for each in self.held.values() if each.number is not None]
        # over the open connections, and over new ones, which take seconds on a busy server
        asking: list[threading.Thread] = []
        for vm in held:
            for renewer in self.renewers.get(vm.job.id, ()):
                renewer.withdraws = vm.number
                renewer.ending.set()
                asking.append(renewer)
            asking.append(threading.Thread(target=_disarm, args=(vm.job,), daemon=True))
            asking[-1].start()
        until = time.monotonic() + _DISARM + 1
        while io_lease.all_armed() and any(each.is_alive() for each in asking) and time.monotonic() < until:
            time.sleep(0.1)
        left = {each.job.uuid: each.job for each in held}
        proven = True
        for uuid in io_lease.all_armed():
            _log(f"{left[uuid].id if uuid in left else uuid}: no machine confirms that it does not start it; it is ended here")
            if uuid in left:
                io_owner.revoke(uuid)
                io_lease.note_fenced(left[uuid].id)
            proven = io_lease.kill(uuid, STOP) and proven
        return proven


def disarm(job: Job, seconds: float) -> list[str]:
    """End the automatic start of a VM, whose request is changed or paused already; returns the machines that confirm it.

    One is sufficient, because the standby needs the claims of all; it must not have given the VM away already.
    """
    with io_lease.locked(job.id):
        number = io_lease.armed(job.uuid)
        if number is None:
            return [job.standby.name]
        confirmed: list[str] = []

        def ask(voter: Voter) -> None:
            try:
                if host(job, voter).ask(run_grantor.LEASING, {"do": "disarm", "number": number}, timeout=seconds).get("granted"):
                    confirmed.append(voter.name)
            except FootprintError as error:
                _log(f"{job.id}: {voter.name}: {error.message}")

        threads = [threading.Thread(target=ask, args=(voter,), daemon=True) for voter in (job.standby, *job.witnesses)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(seconds + 1)
        if confirmed:
            io_lease.disarm(job.uuid)
        return list(confirmed)


def _disarm(job: Job) -> None:
    try:
        disarm(job, _DISARM - 1)
    except FootprintError as error:
        _log(f"{job.id}: {error.message}")


def _log(message: str) -> None:
    # a log that cannot be written must not end the service
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()


def main(unused: t.Sequence[str]) -> int:
    """Entry point; exit code 0 after a stop, 1 if a VM may run without a lease."""
    io_lease.notify("READY=1\nWATCHDOG=1")
    service = Service()
    signal.signal(signal.SIGTERM, lambda *unused: service.stopping.set())
    watcher = threading.Thread(target=service.watch, daemon=True)
    watcher.start()
    while not service.stopping.is_set():
        service.tick()
        service.stopping.wait(_TICK)
    return 0 if service.stop(watcher) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
