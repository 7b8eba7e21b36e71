# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start and confirm a network change that a dead-man switch protects."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import NETWORK_TRIAL
from ansible_collections.reduced.footprint.plugins.module_utils._network import io_deadman
from ansible_collections.reduced.footprint.plugins.module_utils._network.io_network import links
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Change, Layout
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_units import unit_active

RUN_DIR = "/run/reduced.footprint"
_UNIT = "reduced-footprint-network"
# seconds to wait for another run that starts a change
_LOCK = 60.0
_PENDING = (io_deadman.STATE_PLANNED, io_deadman.STATE_TRYING, io_deadman.STATE_APPLIED)


def current() -> io_deadman.Trial:
    """Return the network change of this host; its state is ``None`` if there is none."""
    return io_deadman.Trial(os.path.join(RUN_DIR, "network"))


def pending() -> bool:
    """Whether a change is neither confirmed nor reverted; one that was planned by a run that was killed before its unit started is not."""
    state = current().state
    return state in _PENDING and (state != io_deadman.STATE_PLANNED or unit_active(f"{_UNIT}.service"))


def start(change: Change, timeout: int, patience: float = 120) -> None:
    """Apply a change in a detached systemd unit and wait until it is active.

    :arg timeout: seconds after which the change is reverted unless it is confirmed.
    """
    # a second run must not replace the plan with which the first one returns to the old configuration
    with host_lock("network", _LOCK):
        if pending():
            raise BackendError("another network change is in progress.", hint="Run again in a minute.")
        trial = _start(change, timeout)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and trial.state in (io_deadman.STATE_PLANNED, io_deadman.STATE_TRYING):
        time.sleep(0.1)
    if trial.state == io_deadman.STATE_REVERTED:
        raise BackendError(f"the network was not changed, the old configuration is active: {trial.reason}.")


def _start(change: Change, timeout: int) -> io_deadman.Trial:
    trial = current()
    folder = pathlib.Path(trial.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    script = f"{folder}/deadman.py"
    # the module may be inside an archive that is removed before the unit runs
    write_atomic(script, io_deadman.__loader__.get_source(io_deadman.__name__))
    for name, text in change.scripts.items():
        write_atomic(folder / name, text, 0o700)
    python = sys.executable or "/usr/bin/python3"
    words = {"{folder}": str(folder), "{python}": python, "{timeout}": str(timeout)}
    plan = {
        "write": dict(change.trial),
        "keep": dict(change.keep),
        "modes": dict(change.modes),
        "apply": [_filled(argv, words) for argv in change.apply],
        "revert": [_filled(argv, words) for argv in change.revert],
        "confirm": [_filled(argv, words) for argv in change.confirm],
        "restore": {path: read_text(path) for path in (*change.trial, *change.keep)},
        "timeout": timeout,
        "connection": connection(),
    }
    write_atomic(folder / "plan.json", json.dumps(NETWORK_TRIAL.mark(plan)))
    trial.set_state(io_deadman.STATE_PLANNED)
    run(
        ["systemd-run", "--quiet", "--collect", f"--unit={_UNIT}", f"--property=ExecStopPost={python} {script} settle {folder}",
         python, script, "try", str(folder)],
        timeout=30,
        hint="Run this on a host with systemd; the network was not changed.",
    )  # fmt: skip
    return trial


def wait_until_live(layout: Layout, patience: float) -> str | None:
    """Wait until each device has its ports and the addresses it takes over; returns what is missing, or ``None``."""
    deadline = time.monotonic() + patience
    while True:
        missing = _missing(layout)
        if missing is None or time.monotonic() >= deadline:
            return missing
        time.sleep(0.2)


def confirm() -> bool:
    """Make the change permanent; returns whether there was a change to confirm."""
    trial = current()
    if trial.state is None:
        return False
    with trial:
        if trial.state == io_deadman.STATE_REVERTED:
            raise BackendError(
                f"the network change was reverted, the old configuration is active: {trial.reason}.",
                hint="Check the requested configuration and the switch, or raise confirm_timeout if the host is slow.",
            )
        if trial.state != io_deadman.STATE_APPLIED:
            return False
        before = NETWORK_TRIAL.values(trial.plan, trial.folder)["connection"]
        if before and before == connection():
            raise RefusedError(
                "a change cannot be confirmed over the SSH connection that started it.",
                "state",
                "Run meta: reset_connection before, or confirm in a new login session on the host.",
            )
        failed = trial.confirm()
        if failed:
            raise BackendError(f"the network change could not be made permanent, the old configuration is active: {failed}.")
        return True


def connection() -> str | None:
    """Return the SSH connection of this process, ``None`` if it is unknown.

    sudo removes the variable from the environment, so the parent processes are read as well.
    """
    process = os.getpid()
    while process > 1:
        try:
            environment = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            status = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return None
        for pair in environment:
            if pair.startswith(b"SSH_CONNECTION="):
                return pair.partition(b"=")[2].decode("ascii", "replace")
        # the program name is in parentheses and may contain any character
        process = int(status.rpartition(")")[2].split()[1])
    return None


def _filled(argv: t.Sequence[str], words: t.Mapping[str, str]) -> list[str]:
    filled = []
    for word in argv:
        for name, value in words.items():
            word = word.replace(name, value)
        filled.append(word)
    return filled


def _missing(layout: Layout) -> str | None:
    now = links()
    for device in layout.devices:
        if device.name not in now:
            return f"{device.name} does not exist"
        lower = (now[device.name].lower,) if now[device.name].lower else now[device.name].ports
        lost = sorted(set(device.ports) - set(lower))
        if lost:
            return f"{device.name} does not have the port {', '.join(lost)}"
        wanted = layout.links[device.inherits].own if device.inherits else ()
        gone = sorted(set(wanted) - set(now[device.name].addresses))
        if gone:
            return f"{device.name} does not have {', '.join(gone)}"
    return None
