# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service on a standby: starts a VM by itself when it, and all witnesses, have claimed it: ``python3 -m …run_takeover``.

A killed instance leaves at most claims: the next one withdraws them, or completes the start that was recorded.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import takeover_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_grants, plan_lease, plan_standby, run_grantor, run_start
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import CLAIMING, WAIT, Grants, Watch
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import STARTED, Voter

_POLL = 2.0
_ASK = 15.0
# after an attempt that ended without a start, and after a start that failed
_AGAIN, _FAILED = 10.0, 60.0

PROOF: t.Mapping[str, str] = {"by": plan_standby.LEASE_PROOF}


class Claimant(RemoteSource):
    """The ssh connection to a witness, with the key of the standby."""

    agent = run_grantor.MODULE

    def __init__(self, watch: Watch, voter: Voter, directory: pathlib.Path) -> None:
        super().__init__(takeover_key(watch.cluster, watch.id), directory, [voter.host], voter.port, voter.host_keys, io_units.keep_code())
        self.known_hosts = f"known_hosts.{voter.name}"
        self.who = voter.name
        self._installed = True


class Takeover:
    """One VM that this server starts by itself."""

    def __init__(self, cluster: str, vm_id: str) -> None:
        self.cluster, self.vm_id = cluster, vm_id
        self.grants, self.store = io_grants.GrantStore(cluster, vm_id), io_grants.WatchStore(cluster, vm_id)
        self.copies = io_copies.CopyStore(cluster, vm_id)

    def step(self, watch: Watch) -> float:
        """Do what is due; returns the seconds until the next step.

        :raises FootprintError: the start failed; it is repeated.
        """
        record = self.copies.record()
        if record.get("state") == STARTED:
            return self._started(watch, record)
        with self.grants.locked():
            now = io_grants.clock()
            grants, seen = self.grants.grants(), self.grants.seen(now)
        progress = self.store.progress()
        if grants.claim is not None or progress.get("claiming"):
            # of an instance that was killed
            self._abandon(watch, "it was interrupted")
            return _AGAIN
        self._inform(watch, "withdraw", "withdrawing")
        heard = plan_lease.silence(seen, now) < WAIT
        if heard and progress.get("problem"):
            # of an attempt while its server was not heard here
            self.store.write_progress({**self.store.progress(), "problem": None})
        if heard or unready(watch, grants, self.copies) is not None:
            return _POLL
        return self._claim(watch, grants)

    # claims

    def _claim(self, watch: Watch, grants: Grants) -> float:
        begun, progress = io_grants.clock(), self.store.progress()
        number = plan_lease.next_number(time.time(), progress.get("number"), grants.withdrawn)
        names = [each.name for each in watch.witnesses]
        # before anything is claimed, so that all of it can be withdrawn
        self.store.write_progress({**progress, "number": number, "claiming": True, "withdrawing": []})
        with self.grants.locked():
            reason = run_grantor.claim(self.grants, grants.arm, number, watch.name)
        refused = {watch.name: reason} if reason else self._ask_all(watch, {"do": "claim", "arm": grants.arm, "number": number, "by": watch.name})
        if not refused and io_grants.clock() - begun > CLAIMING:
            refused = {watch.name: "it took too long"}
        if refused:
            self._abandon(watch, "; ".join(f"{name}: {why}" for name, why in sorted(refused.items())))
            return _AGAIN
        self._log(f"its server is lost: {', '.join(names)} and this server have granted no lease for {WAIT:.0f} s, and claimed it")
        self.store.write_progress({**self.store.progress(), "taking": names, "problem": None})
        return self._start(watch)

    def _ask_all(self, watch: Watch, asked: t.Mapping[str, t.Any]) -> dict[str, str]:
        """Send a request to all witnesses at once; returns those that refuse it, or do not answer, with the reason."""
        refused: dict[str, str] = {each.name: "no answer" for each in watch.witnesses}

        def ask(voter: Voter) -> None:
            try:
                answer = Claimant(watch, voter, self.store.directory).ask(run_grantor.CLAIMING, asked, timeout=_ASK)
            except FootprintError as error:
                refused[voter.name] = error.message
                return
            if answer.get("granted"):
                del refused[voter.name]
            else:
                refused[voter.name] = str(answer.get("reason"))

        threads = [threading.Thread(target=ask, args=(voter,), daemon=True) for voter in watch.witnesses]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return refused

    def _abandon(self, watch: Watch, problem: str) -> None:
        """Withdraw all claims; a witness that does not answer gets it later."""
        progress = self.store.progress()
        if problem != progress.get("problem"):
            self._log(f"not started: {problem}")
        rest = {key: value for key, value in progress.items() if key not in ("claiming", "taking")}
        with self.grants.locked():
            grants = self.grants.grants()
            number = max(int(progress.get("number") or 0), grants.claim or 0)
            self.store.write_progress({**rest, "number": number, "withdrawing": [each.name for each in watch.witnesses], "problem": problem})
            if number:
                self.grants.keep(plan_lease.withdrawn(grants, number))
        self._inform(watch, "withdraw", "withdrawing")

    def _inform(self, watch: Watch, what: str, key: str, **more: t.Any) -> None:
        """Send it to the witnesses that do not know it yet."""
        progress = self.store.progress()
        names = progress.get(key) or []
        if names:
            some = watch._replace(witnesses=tuple(each for each in watch.witnesses if each.name in names))
            left = self._ask_all(some, {"do": what, "number": progress["number"], **more}) if some.witnesses else {}
            self.store.write_progress({**progress, key: sorted(left)})

    # the start

    def _start(self, watch: Watch) -> float:
        try:
            done = run_start.start({"cluster": self.cluster, "id": self.vm_id, "proof": PROOF}, check_mode=False)
        except (FootprintError, OSError) as error:
            record = self.copies.record()
            if record.get("state") == STARTED and (record.get("proof") or {}).get("by") == plan_standby.LEASE_PROOF:
                # it belongs to this server; the start is completed
                self.store.write_progress({**self.store.progress(), "problem": str(error)})
                self._log(str(error))
            else:
                self._abandon(watch, str(error))
            return _FAILED
        self.store.write_progress({**self.store.progress(), "problem": None, "taken": utc(time.time())})
        self._log(f"started from the copy {done['copy_id']}, {done['lost_seconds']} s are lost")
        return 0.0

    def _started(self, watch: Watch, record: t.Mapping[str, t.Any]) -> float:
        """After the start: complete it, and let the witnesses record it."""
        progress = self.store.progress()
        by_lease = (record.get("proof") or {}).get("by") == plan_standby.LEASE_PROOF
        if not by_lease:
            # a person has started it meanwhile
            if progress.get("claiming"):
                self._abandon(watch, "it was started by a person")
            self._inform(watch, "withdraw", "withdrawing")
        elif record.get("phase") and record.get("phase") != run_start.RUNNING:
            return self._start(watch)
        elif progress.get("claiming"):
            self._inform(watch, "taken", "taking", source=record.get("from"))
            progress = self.store.progress()
            if not progress.get("taking"):
                self.store.write_progress({key: value for key, value in progress.items() if key not in ("claiming", "taking")})
        return _POLL

    def run(self) -> None:
        """Until this server does not watch the VM any more."""
        while True:
            wait = _AGAIN
            try:
                watch = self.store.watch()
                if watch is None:
                    return
                # a note that cannot be written must not prevent a start
                with contextlib.suppress(OSError):
                    self.store.report()
                wait = self.step(watch)
            except (FootprintError, OSError) as error:
                self._log(str(error))
            time.sleep(max(wait, 0.1))

    def _log(self, message: str) -> None:
        sys.stderr.write(f"{self.vm_id} of {self.cluster}: {message}\n")
        sys.stderr.flush()


def unready(watch: Watch, grants: Grants, copies: io_copies.CopyStore) -> str | None:
    """Return why this server would not start a VM now, however long the other one is silent; ``None`` if it would."""
    reason = plan_lease.unready(grants)
    if reason is not None:
        return reason
    lacking = plan_lease.lacking([watch.name, *(each.name for each in watch.witnesses)], grants)
    if lacking:
        return f"{', '.join(lacking)} may grant leases, but this server does not know it as a witness"
    return None if copies.copies() else "it has no verified copy"


def main(unused: t.Sequence[str]) -> int:
    """Entry point: a thread for each VM."""
    threads: dict[tuple[str, str], threading.Thread] = {}
    while True:
        for each in io_grants.watches():
            if each not in threads or not threads[each].is_alive():
                threads[each] = threading.Thread(target=Takeover(*each).run, daemon=True)
                threads[each].start()
        time.sleep(_POLL)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
