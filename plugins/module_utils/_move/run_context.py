# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The context that all steps of a move share: request, journal, connection to the destination, fencing on the source."""

from __future__ import annotations

import dataclasses
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_agent
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_copy import Copier
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore, key_name
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item, MoveSpec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import LINK_LOST, RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import OWNER, Record, record_from
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event

_SAVE_EVERY = 1.0
_LOCK = 300.0
_POLL = 5.0


@dataclasses.dataclass
class Context:
    """The state of one worker.

    ``unanswered`` is the message of ssh if the destination could not be reached by the last request, or did not answer in time.
    """

    spec: MoveSpec
    params: t.Mapping[str, t.Any]
    store: MoveStore
    journal: MoveJournal
    remote: RemoteSource
    saved: float = 0.0
    unanswered: str | None = None

    @property
    def vm(self) -> dict[str, t.Any]:
        """The VM as it was found."""
        return self.journal.facts["vm"]

    @property
    def uuid(self) -> str:
        """The UUID of the domain, the same on both hosts."""
        return str(self.vm["uuid"])

    @property
    def here(self) -> str:
        """The name of the source."""
        return str(self.vm["host"]["name"])

    @property
    def uri(self) -> str:
        """The connection URI of the VM on the source."""
        return str(self.vm["uri"])

    @property
    def there(self) -> str:
        """The connection URI of the VM at the destination."""
        return self.spec.destination_uri or self.uri

    @property
    def items(self) -> list[Item]:
        """The files and folders of the VM."""
        return [Item(**each) for each in self.vm["items"]]

    @property
    def data(self) -> list[dict[str, t.Any]]:
        """Those that only the VM uses, for a command of the destination's agent."""
        return [item._asdict() for item in self.items if not item.base]

    @property
    def copier(self) -> Copier:
        """rsync to and from the destination."""
        return Copier(self.remote.ssh_argv(), self.remote.address, self.spec.bandwidth_limit)

    def ask(self, command: str, timeout: float = 120, **given: t.Any) -> dict[str, t.Any]:
        """Run a command of the agent at the destination and return its answer.

        :raises BackendError: the destination does not answer (see ``unanswered``), or reports an error.
        """
        self.unanswered = None
        try:
            known = {"uri": self.there, "uuid": self.uuid, "source": self.here, "record": self.record.values()}
            return self.remote.ask(command, {**known, **given}, timeout=timeout)
        except CommandError as error:
            self.unanswered = error.message if error.rc in (LINK_LOST, None) else None
            raise

    def log(self, message: str) -> None:
        """Write a line to the log."""
        self.store.log(f"{self.journal.phase}: {message}")

    def save(self) -> None:
        """Write the journal."""
        self.store.write(self.journal)

    def decide(self, **values: t.Any) -> None:
        """Set what decides which copy is the VM, and write the journal; if that fails, the context has what the disk has, and nothing was decided.

        :raises OSError: the journal cannot be written.
        """
        before = {name: getattr(self.journal, name) for name in values}
        vars(self.journal).update(values)
        try:
            self.save()
        except OSError:
            vars(self.journal).update(before)
            vars(self.journal).update({name: getattr(self.store.journal(), name) for name in values})
            raise

    def progress(self, **what: t.Any) -> None:
        """Record the progress in the journal, at most once per second."""
        self.journal.progress = {"phase": self.journal.phase, **what}
        if time.monotonic() - self.saved > _SAVE_EVERY:
            self.saved = time.monotonic()
            self.save()

    @property
    def record(self) -> Record:
        """The record of the VM here."""
        owner = Record(self.spec.cluster, self.spec.id, self.uuid, self.vm["name"], to=self.here)
        return io_owner.known(self.uuid) or owner

    def change(self, name: str, answer: t.Mapping[str, t.Any] | None = None, **values: t.Any) -> None:
        """Change the record here by an event.

        :arg answer: of the destination, with its record.
        """
        where = self.spec.destination.name
        there = answer["record"] if answer is not None else None
        answers = {where: record_from(there, f"{where}/{self.uuid}.json")} if there is not None else {}
        with host_lock("domains", _LOCK):
            run_owner.change(self.uuid, Event(name, here=self.here, answers=answers, **values), owner=self.record)

    def keep_off(self) -> None:
        """Disable autostart, so that libvirt does not try at each boot what its hook refuses."""
        with host_lock("domains", _LOCK), DomainHost(self.uri) as host:
            if host.domain(self.uuid) is not None:
                host.set_autostart(self.uuid, False)

    def release(self, running: bool) -> None:
        """Let the VM run here again: end the operation in its record, restore autostart.

        :arg running: also start the VM, or resume it if it is paused.
        :raises BackendError: it is not defined here any more.
        """
        held = self.journal.facts.get("held") or {}
        if self.record.role == OWNER:
            self.change("cancelled")
        with host_lock("domains", _LOCK), DomainHost(self.uri) as host:
            record = host.domain(self.uuid)
            if record is None:
                message = f"VM {self.vm['name']} is not defined on the source any more."
                raise BackendError(message, hint="Define it with vm_define; its disks are on the source.")
            host.set_autostart(self.uuid, bool(held.get("autostart", self.vm["autostart"])))
            if running and record.state == "paused":
                host.resume(self.uuid)
            elif running and not record.active:
                host.start(self.uuid)

    def refuse_taken(self) -> None:
        """Refuse to continue with a VM that was started on its standby, after this host had lost its power: it belongs to that server."""
        if "vm" not in self.journal.facts:
            return
        record = self.record
        if record.is_taken:
            raise RefusedError(f"the VM was started on its standby {record.to} from a copy, so it is not moved from here.", "id", f"Move it from {record.to}.")

    def await_permit(self) -> bool:
        """Wait until the guard of a VM with a standby, if it has one, has allowed its start after a restart of this host; returns whether it had to.

        :raises RefusedError: it was started on its standby meanwhile.
        """
        waited = False
        while io_owner.is_guarded(self.uuid) and (not io_owner.is_permitted(self.uuid) or io_owner.is_start_due(self.uuid)):
            self.refuse_taken()
            if not waited:
                self.log("waiting for the standby of the VM, or a witness, to confirm that it was not started there")
            waited = True
            time.sleep(_POLL)
        return waited

    def definition(self) -> str:
        """Return the VM's definition."""
        with DomainHost(self.uri) as host:
            return host.config_xml(self.uuid)


def other_host(spec: MoveSpec, store: MoveStore, code: pathlib.Path) -> RemoteSource:
    """Create the ssh connection to the destination."""
    where = spec.destination
    host = RemoteSource(key_name(spec.id), store.directory, [where.host], where.port, where.host_keys, code)
    # referenced by the imported module, so that its code is sent to the destination
    host.agent, host.who = run_agent.MODULE, "destination"
    return host
