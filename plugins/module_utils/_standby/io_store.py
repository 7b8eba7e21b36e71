# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a VM's copies on its server: job, journal, key; and the connections to the standby and to witnesses."""

from __future__ import annotations

import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, StandbyJournal, Voter, key_name, parse_job

HOME = pathlib.Path("/var/lib/reduced.footprint/standby")


class StandbyStore(JournalStore):
    """The folder of the copies of one VM; mode 0700, its files 0600."""

    kind = StandbyJournal
    hint = "Wait until the copy is complete; vm_standby_info shows its progress."

    def __init__(self, vm_id: str, home: pathlib.Path | None = None) -> None:
        super().__init__(vm_id, home or HOME)

    def journal(self) -> StandbyJournal:
        """Return the journal, a new one if none exists."""
        found = self.read()
        return found if isinstance(found, StandbyJournal) else StandbyJournal(name=self.name)

    def job(self) -> Job | None:
        """Return the request, ``None`` if there is none."""
        data = self.read_job()
        return parse_job(data) if data else None


class StandbyHost(RemoteSource):
    """The ssh connection to the standby or a witness, with the permanent key of the VM."""

    who = "standby"

    def __init__(self, agent: str, vm_id: str, voter: Voter, store: StandbyStore, library: pathlib.Path) -> None:
        super().__init__(key_name(vm_id), store.directory, [voter.host], voter.port, voter.host_keys, library)
        self.agent = agent
        self.known_hosts = f"known_hosts.{voter.name}"
        self.who = voter.name
        # with the permanent key the code was installed as well
        self._installed = True


def names(home: pathlib.Path | None = None) -> list[str]:
    """Return the VMs of this server that have a standby."""
    home = home or HOME
    return sorted(each.name for each in home.iterdir() if (each / "job.json").exists()) if home.is_dir() else []
