# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all steps of a move share: request, journal, the way to the other host, the fence on this one."""

from __future__ import annotations

import dataclasses
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_agent, run_channel
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_copy import Copier
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore, OtherHost, key_name
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item, MoveSpec
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_moved
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.xml_moved import NAMESPACE, PREFIX, mark_text, strip_mark
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse, text_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import Moved

_SAVE_EVERY = 1.0
_LOCK = 300.0


@dataclasses.dataclass
class Context:
    """One worker's view of its move."""

    spec: MoveSpec
    params: t.Mapping[str, t.Any]
    store: MoveStore
    journal: MoveJournal
    remote: OtherHost
    saved: float = 0.0

    @property
    def vm(self) -> dict[str, t.Any]:
        """The VM as it was found."""
        return self.journal.facts["vm"]

    @property
    def uuid(self) -> str:
        """Its UUID, on both hosts."""
        return str(self.vm["uuid"])

    @property
    def uri(self) -> str:
        """The connection the VM is defined at here."""
        return str(self.vm["uri"])

    @property
    def there(self) -> str:
        """The connection it is to be defined at there."""
        return self.spec.destination_uri or self.uri

    @property
    def items(self) -> list[Item]:
        """Its files and folders."""
        return [Item(**each) for each in self.vm["items"]]

    @property
    def copier(self) -> Copier:
        """rsync to and from the other host."""
        return Copier(self.remote.ssh_argv(), self.remote.address, self.spec.bandwidth_limit)

    def ask(self, command: str, timeout: float = 120, **given: t.Any) -> dict[str, t.Any]:
        """A command of the other host's agent."""
        return self.remote.ask(command, {"uri": self.there, "uuid": self.uuid, **given}, timeout=timeout)

    def way_to(self, which: str) -> list[str]:
        """What connects its standard input and output to a socket of the other host (``_move.io_channel``)."""
        return self.remote.program(run_channel.MODULE, which)

    def log(self, message: str) -> None:
        """A line into the log."""
        self.store.log(f"{self.journal.phase}: {message}")

    def save(self) -> None:
        """Keep the journal."""
        self.store.write(self.journal)

    def progress(self, **what: t.Any) -> None:
        """Tell how far it is, not more often than anybody looks."""
        self.journal.progress = {"phase": self.journal.phase, **what}
        if time.monotonic() - self.saved > _SAVE_EVERY:
            self.saved = time.monotonic()
            self.save()

    def note(self, state: str, to: str | None = None) -> Moved:
        """The note about the VM for either host."""
        return Moved(self.spec.id, self.spec.cluster, self.vm["name"], self.uuid, to or self.spec.destination.name, utc(), state)

    def fence(self, state: str) -> None:
        """From now on nobody starts the VM here: a note for us, no autostart, a mark for whoever reads its definition."""
        with host_lock("domains", _LOCK):
            note = self.note(state)
            io_moved.write(note)
            with DomainHost(self.uri) as host:
                if host.domain(self.uuid) is not None:
                    host.set_autostart(self.uuid, False)
                    host.set_metadata(self.uuid, NAMESPACE, PREFIX, mark_text(note.to, note.at))

    def unfence(self, running: bool) -> None:
        """The VM is at home here again: as it was, with its autostart.

        :arg running: start it, or let it go on where it was halted.
        """
        held = self.journal.facts.get("held") or {}
        with host_lock("domains", _LOCK):
            with DomainHost(self.uri) as host:
                record = host.domain(self.uuid)
                if record is None:
                    raise BackendError(f"the VM {self.vm['name']} is not defined here any more.", hint="Define it with vm_define; its disks are here.")
                if NAMESPACE in record.config_xml:
                    host.set_metadata(self.uuid, NAMESPACE, PREFIX, None)
                host.set_autostart(self.uuid, bool(held.get("autostart", self.vm["autostart"])))
                if running and record.state == "paused":
                    host.resume(self.uuid)
                elif running and not record.active:
                    host.start(self.uuid)
            io_moved.forget(self.uuid)

    def definition(self) -> str:
        """The VM's definition for the other host: as it is here, without the mark."""
        with DomainHost(self.uri) as host:
            document = parse(host.config_xml(self.uuid))
        strip_mark(document)
        return text_of(document)


def other_host(spec: MoveSpec, store: MoveStore, code: pathlib.Path) -> OtherHost:
    """ssh to the host the VM goes to."""
    where = spec.destination
    # named by the module itself, so that it is among the code that goes to the other host
    return OtherHost(run_agent.MODULE, key_name(spec.id), store.directory, [where.host], where.port, where.host_keys, code)
