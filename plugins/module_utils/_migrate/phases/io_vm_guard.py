# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a VM may run before its source has handed over: a record in memory, and the code that stops the VM.

The record is stored below ``/run``: it needs no disk space and disappears with a restart of the host, like
the running VM. The holder of its lock decides about the VM. The worker removes the record under that
lock once the source has handed over, so that the guard does not stop the VM afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import VM_GUARD
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import GUARD, stop_is_due
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_worker_starts import HOME, clock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost

PIDS = pathlib.Path("/run/libvirt/qemu")
# seconds for libvirtd to stop the VM before its process is killed; the shortest lease leaves six seconds
_PATIENCE = 3.0


class VmGuard:
    """The guard record of the VM of one migration."""

    def __init__(self, name: str, home: pathlib.Path | None = None) -> None:
        home = home or HOME
        self.file = home / f"migrate-{name}.guard"
        self._lock = home / f"migrate-{name}.guard-lock"

    @contextlib.contextmanager
    def _locked(self) -> t.Iterator[None]:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self._lock, "a", encoding="ascii") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def read(self) -> dict[str, t.Any] | None:
        """Return the record, ``None`` when no VM is guarded."""
        text = read_text(self.file)
        return VM_GUARD.load(text, self.file) if text else None

    def _write(self, note: t.Mapping[str, t.Any]) -> None:
        write_atomic(self.file, json.dumps(VM_GUARD.mark(note)))

    def begin(self, uri: str, uuid: str, vm: str, lease: float, heard: float) -> None:
        """Record that the VM is about to run on a lease; ``heard`` is the time of the last answer of the source, by :func:`clock`."""
        with self._locked():
            self._write({"uri": uri, "uuid": uuid, "vm": vm, "lease": lease, "heard": heard})

    def heard(self, when: float) -> None:
        """Record an answer of the source; no effect when no VM is guarded."""
        with self._locked():
            note = self.read()
            if note is not None and when > note["heard"]:
                self._write({**note, "heard": when})

    def end(self) -> None:
        """Remove the record: the source has handed over, or the VM does not run."""
        with self._locked():
            self.file.unlink(missing_ok=True)

    def stop_if_due(self, *, at_once: bool = False) -> bool:
        """Stop the VM when its lease has expired; returns whether it was stopped.

        :arg at_once: do not wait for the lease: no worker is left to renew it.
        :raises FootprintError: the VM still runs.
        """
        with self._locked():
            note = self.read()
            if note is None or not (at_once or stop_is_due(clock() - note["heard"], note["lease"], GUARD)):
                return False
            stop(note["uri"], note["uuid"], note["vm"])
            self.file.unlink(missing_ok=True)
            return True


def stop(uri: str, uuid: str, vm: str) -> None:
    """Power off a VM through libvirtd, or kill its process if libvirtd does not answer."""
    failure: list[Exception] = []

    def power_off() -> None:
        try:
            with DomainHost(uri) as host:
                record = host.domain(uuid)
                if record is not None and record.active:
                    host.shutdown(uuid, timeout=0, force=True)
        except FootprintError as error:
            failure.append(error)

    request = threading.Thread(target=power_off, name="stop", daemon=True)
    request.start()
    request.join(_PATIENCE)
    if not request.is_alive() and not failure:
        return
    for unused in range(20):
        if not kill(uuid, vm):
            return
        time.sleep(0.2)
    raise BackendError(f"{vm} could not be stopped{': ' + str(failure[0]) if failure else ''}.", hint="Kill its QEMU process.")


def kill(uuid: str, vm: str, pids: pathlib.Path | None = None) -> bool:
    """Kill the VM's process without libvirtd; returns whether there was one."""
    try:
        pid = int(read_text((pids or PIDS) / f"{vm}.pid") or 0)
        # the PID may belong to another process by now
        if not pid or uuid.encode() not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
            return False
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return False
    return True
