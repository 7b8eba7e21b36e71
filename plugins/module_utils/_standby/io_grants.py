# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a standby or witness keeps about the leases of a VM: durably in a file for each VM, and since the last boot below ``/run``."""

from __future__ import annotations

import contextlib
import json
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import RUN, private_folder, read_text, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import file_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import REQUEST, STANDBY_RECORD
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import Grants, Seen, Watch, parse_grants, parse_watch, watch_data

HOME = pathlib.Path("/var/lib/reduced.footprint/standby-leases")
#: On a standby: the VMs that it starts by itself.
WATCHES = pathlib.Path("/var/lib/reduced.footprint/standby-watches")
_NOTES = RUN / "standby-grants"
_LOCK = 20.0
# longer than a step of the service that starts VMs, except for a start
_STALE = 90.0


def clock() -> float:
    """Seconds since the boot of this machine, also those in which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """The name of this boot: notes of another one do not count."""
    return (read_text("/proc/sys/kernel/random/boot_id") or "").strip()


class GrantStore:
    """What this machine keeps about the leases of one VM of a cluster."""

    def __init__(self, cluster: str, vm_id: str) -> None:
        self.cluster, self.vm_id = cluster, vm_id
        self.file = HOME / cluster / f"{vm_id}.json"
        self._note = _NOTES / cluster / f"{vm_id}.json"

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Hold the lock of this VM's leases."""
        private_folder(RUN)
        private_folder(_NOTES)
        private_folder(self._note.parent)
        with file_lock(self._note.with_suffix(".lock"), _LOCK):
            yield

    def grants(self) -> Grants:
        """Return what is kept, by default nothing."""
        text = read_text(self.file)
        return parse_grants(STANDBY_RECORD.load(text, self.file)) if text else Grants()

    def keep(self, grants: Grants) -> None:
        """Store it durably, if it differs."""
        if grants != self.grants():
            self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomic(self.file, json.dumps(STANDBY_RECORD.mark(grants._asdict()), indent=1, sort_keys=True) + "\n")
            sync_path(self.file.parent)

    def seen(self, now: float) -> Seen:
        """Return what was seen since the boot of this machine; from now on if nothing was."""
        try:
            found = json.loads(read_text(self._note) or "{}")
        except ValueError:
            found = {}
        if found.get("boot") == boot_id() and found.get("since", now) <= now:
            return Seen(float(found["since"]), found["granted"])
        seen = Seen(now)
        self.note(seen)
        return seen

    def note(self, seen: Seen) -> None:
        """Note what was seen."""
        write_atomic(self._note, json.dumps({"boot": boot_id(), **seen._asdict()}))

    def remove(self) -> None:
        """Forget the VM."""
        self.file.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)


class WatchStore:
    """The files of a VM that this server starts by itself: witnesses, key, and what it did last."""

    def __init__(self, cluster: str, vm_id: str) -> None:
        self.directory = WATCHES / cluster / vm_id
        self._note = _NOTES / cluster / f"{vm_id}.watch"

    def report(self) -> None:
        """Note that the service on this server has the VM in view."""
        for each in (RUN, _NOTES, self._note.parent):
            private_folder(each)
        write_atomic(self._note, json.dumps({"boot": boot_id(), "at": clock()}))

    def idle(self) -> bool:
        """Whether this server shall start the VM by itself, and the service that does so has not reported it for some time."""
        try:
            found = json.loads(read_text(self._note) or "{}")
        except ValueError:
            found = {}
        return self.watch() is not None and not (found.get("boot") == boot_id() and 0 <= clock() - found["at"] < _STALE)

    def forget_report(self) -> None:
        """Remove the note of :meth:`report`."""
        self._note.unlink(missing_ok=True)

    def watch(self) -> Watch | None:
        """Return the request, ``None`` if there is none."""
        path = self.directory / "job.json"
        text = read_text(path)
        return parse_watch(REQUEST.load(text, path)) if text else None

    def write(self, watch: Watch) -> None:
        """Store the request durably."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(self.directory / "job.json", json.dumps(REQUEST.mark(watch_data(watch)), indent=1, sort_keys=True) + "\n")

    def progress(self) -> dict[str, t.Any]:
        """Return the notes about claims: ``number`` of the last one, witnesses that do not know its withdrawal or its end yet, the last problem."""
        path = self.directory / "progress.json"
        text = read_text(path)
        return REQUEST.load(text, path) if text else {}

    def write_progress(self, progress: t.Mapping[str, t.Any]) -> None:
        """Store the notes durably."""
        if self.directory.is_dir() and progress != self.progress():
            write_atomic(self.directory / "progress.json", json.dumps(REQUEST.mark(progress), indent=1, sort_keys=True) + "\n")


def watches() -> list[tuple[str, str]]:
    """Return cluster and ID of the VMs that this server starts by itself."""
    return sorted((each.parent.parent.name, each.parent.name) for each in WATCHES.glob("*/*/job.json"))
