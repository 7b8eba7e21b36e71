# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of a VM that runs on a lease: a process of its own, which outlives the worker.

``python3 -m …migrate_guard NAME`` watches until there is nothing to guard; ``NAME ended`` is what
systemd runs when the worker has ended, however it did.
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
    """Watch from now on; a guard that watches already is fine.

    :raises CommandError: systemd refuses.
    """
    unit = unit_name(name)
    # one of an earlier attempt may be about to end, for it found nothing to guard
    if io_units.unit_active(unit) and run(["systemctl", "restart", unit], timeout=60, ok=range(256)).rc == 0:
        return
    # killed by whatever: it is never given up on, and it is the last to go when memory is short
    more = ("Restart=on-failure", "OOMScoreAdjust=-900")
    try:
        io_units.start_unit(name, code, MODULE, [name], output, unit=unit, description="Guard of the VM of the migration", restarts=None, more=more)
    except CommandError:
        if not io_units.unit_active(unit):
            raise


def watch(guard: VmGuard, worker: str) -> None:
    """Stop the VM when its time is over; ends when there is nothing to guard.

    :arg worker: its unit.
    """
    while guard.read() is not None:
        try:
            if guard.stop_if_due():
                _say("the source was not heard from in time, so the VM was stopped")
                # a worker that could work would have done that itself; the one that follows finds out how things stand
                run(["systemctl", "kill", "--kill-who=main", "--signal=KILL", worker], timeout=60, ok=range(256))
        except FootprintError as error:
            _say(str(error))
        time.sleep(_POLL)


def ended(guard: VmGuard, environment: t.Mapping[str, str]) -> None:
    """The worker has ended: without one that follows, nobody hands over a VM that the source has not let go for."""
    if started_again(environment.get("SERVICE_RESULT", ""), environment.get("EXIT_STATUS")):
        return
    try:
        if guard.stop_if_due(at_once=True):
            _say("the worker ended, so the VM was stopped: its source has not let go")
    except FootprintError as error:
        _say(str(error))


def _say(message: str) -> None:
    try:
        sys.stderr.write(f"guard: {message}\n")
        sys.stderr.flush()
    except OSError:
        # a full disk keeps nothing from being done
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
