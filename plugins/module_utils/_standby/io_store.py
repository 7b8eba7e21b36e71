# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a VM's copies on its server: job, journal, key; and the connections to the standby and to witnesses."""

from __future__ import annotations

import hashlib
import json
import pathlib
import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import REQUEST
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import standby_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Ended, Job, StandbyJournal, parse_job

HOME = pathlib.Path("/var/lib/reduced.footprint/standby")
#: What is known of copies that ended; a file for each key.
ENDED = pathlib.Path("/var/lib/reduced.footprint/standby-ended")
_PAUSED = "paused"
_RELEASED = "released"


def _clock() -> float:
    """Seconds since the boot of this machine, also those in which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot_id() -> str:
    return (read_text("/proc/sys/kernel/random/boot_id") or "").strip()


class StandbyStore(JournalStore):
    """The folder of the copies of one VM; mode 0700, its files 0600."""

    kind = StandbyJournal
    hint = "Wait until the copy is complete; vm_standby_info shows its progress."

    def __init__(self, vm_id: str, home: pathlib.Path | None = None) -> None:
        super().__init__(vm_id, home or HOME)

    def job(self) -> Job | None:
        """Return the request, ``None`` if there is none."""
        data = self.read_job()
        return parse_job(data) if data else None

    def pause(self) -> None:
        """Record that the VM is about to be moved; see :meth:`paused_seconds`."""
        # not the time of day, which may be set meanwhile
        write_atomic(self.directory / _PAUSED, f"{_boot_id()} {_clock()}")

    def resume(self) -> None:
        """Record that the VM was not moved, or has returned."""
        (self.directory / _PAUSED).unlink(missing_ok=True)

    def paused_seconds(self) -> float | None:
        """Return for how long the copies have been paused for a move, at most since the boot of this server; ``None`` if they are not."""
        text = read_text(self.directory / _PAUSED)
        boot, _space, at = (text or "").partition(" ")
        return None if text is None else _clock() - (float(at) if boot == _boot_id() else 0.0)

    def mark_released(self, released: bool) -> None:
        """Record that the VM, which was started on its standby, is being removed here, or that it is not any more; with the lock ``domains``."""
        if released:
            write_atomic(self.directory / _RELEASED, "")
        else:
            (self.directory / _RELEASED).unlink(missing_ok=True)

    def is_released(self) -> bool:
        """Whether the VM is being removed here."""
        return (self.directory / _RELEASED).exists()


class StandbyHost(RemoteSource):
    """The ssh connection to the standby or a witness, with the permanent key of the VM."""

    who = "standby"

    def __init__(self, agent: str, job: Job, voter: Machine, store: StandbyStore, library: pathlib.Path) -> None:
        super().__init__(standby_key(job.cluster, job.id), store.directory, [voter.host], voter.port, voter.host_keys, library)
        self.agent = agent
        self.known_hosts = f"known_hosts.{voter.name}"
        self.who = voter.name
        # with the permanent key the code was installed as well
        self._installed = True


def names(home: pathlib.Path | None = None) -> list[str]:
    """Return the VMs of this server that have a standby."""
    home = home or HOME
    return sorted(each.name for each in home.iterdir() if (each / "job.json").exists()) if home.is_dir() else []


def write_ended(ended: Ended, home: pathlib.Path | None = None) -> None:
    """Record on which machines a key has to be withdrawn, durably; without one, remove the record."""
    path = (home or ENDED) / f"{hashlib.sha256(ended.public_key.encode()).hexdigest()[:32]}.json"
    if ended.machines:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, json.dumps(REQUEST.mark({**ended._asdict(), "machines": list(ended.machines)}), indent=1, sort_keys=True) + "\n")
    else:
        path.unlink(missing_ok=True)


def read_ended(home: pathlib.Path | None = None) -> list[Ended]:
    """Return the copies of this server that ended while machines may accept their key."""
    home = home or ENDED
    found = []
    for path in sorted(home.glob("[0-9a-f]*.json")) if home.is_dir() else ():
        data = REQUEST.load(read_text(path) or "{}", path)
        if data:
            found.append(Ended(str(data["id"]), str(data["cluster"]), str(data["public_key"]), tuple(map(str, data["machines"]))))
    return sorted(found)
