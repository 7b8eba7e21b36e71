# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of a VM that runs on a lease: a separate process that outlives the worker.

``python3 -m …migrate_guard NAME`` watches until no VM is guarded; systemd runs ``NAME ended``
after the worker has ended for any reason.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import started_again
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_guard"
_POLL = 0.5


def unit_name(name: str) -> str:
    """The unit that guards the VM of a migration."""
    return f"reduced-footprint-guard-{name}.service"


def start(name: str, code: pathlib.Path, output: pathlib.Path) -> None:
    """Start the guard; a running guard is accepted.

    :raises CommandError: systemd does not start it.
    """
    unit = unit_name(name)
    # the guard of an earlier attempt may be about to end because no VM is guarded
    if io_units.unit_active(unit) and run(["systemctl", "restart", unit], timeout=60, ok=range(256)).rc == 0:
        return
    # restarted without limit, and the last candidate of the OOM killer
    more = ("Restart=on-failure", "OOMScoreAdjust=-900")
    try:
        io_units.start_unit(name, code, MODULE, [name], output, unit=unit, description="Guard of the VM of the migration", restarts=None, more=more)
    except CommandError:
        if not io_units.unit_active(unit):
            raise


def watch(guard: VmGuard, worker: str) -> None:
    """Stop the VM when its lease has expired; returns when no VM is guarded."""
    while guard.read() is not None:
        try:
            if guard.stop_if_due():
                _report("the source did not answer in time, so the VM was stopped")
                # a working worker would have stopped it; systemd starts another one, which determines the state
                run(["systemctl", "kill", "--kill-who=main", "--signal=KILL", worker], timeout=60, ok=range(256))
        except FootprintError as error:
            _report(str(error))
        time.sleep(_POLL)


def ended(guard: VmGuard, environment: t.Mapping[str, str]) -> None:
    """Stop the VM after the end of the worker, unless systemd restarts the worker to complete the hand-over."""
    if started_again(environment.get("SERVICE_RESULT", ""), environment.get("EXIT_STATUS")):
        return
    try:
        if guard.stop_if_due(at_once=True):
            _report("the worker ended, so the VM was stopped: its source has not handed over")
    except FootprintError as error:
        _report(str(error))


def _report(message: str) -> None:
    try:
        sys.stderr.write(f"guard: {message}\n")
        sys.stderr.flush()
    except OSError:
        # a full disk must not stop the guard
        pass


def main(argv: t.Sequence[str]) -> int:
    """Entry point of the unit, and of the worker's ``ExecStopPost``."""
    if len(argv) not in (1, 2) or argv[1:] not in ([], ["ended"]):
        sys.stderr.write("usage: migrate_guard NAME [ended]\n")
        return 2
    guard = VmGuard(argv[0])
    if argv[1:]:
        ended(guard, os.environ)
    else:
        watch(guard, io_units.unit_name(argv[0]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
