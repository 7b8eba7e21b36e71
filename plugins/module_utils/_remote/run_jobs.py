# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job of a detached worker, around its phases: one-time key, start, wait, failure."""

from __future__ import annotations

import pathlib
import time
import traceback
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source, io_units
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

#: How often the other host is asked to forget a key.
ATTEMPTS = 3
_PAUSE = 3.0
_POLL = 0.5
#: The other host may be unreachable: three attempts of ssh.
_ENDING = 150.0


class OtherSide(t.Protocol):
    """The part of a connection to the other host that is used here."""

    def ask(self, command: str, given: t.Mapping[str, t.Any]) -> t.Any:
        """Run a command of the agent there."""


def prepare_key(directory: pathlib.Path, name: str, *, check_mode: bool) -> dict[str, t.Any]:
    """Create the one-time key of a job, unless it exists; returns keyword arguments for ``exit_json``."""
    exists = io_remote_source.has_key(directory)
    public = None if check_mode and not exists else io_remote_source.ensure_key(directory, name)
    return {"changed": not exists, "public_key": public, "key_marker": io_remote_source.key_marker(name)}


def await_ending(store: JournalStore, unit: str) -> None:
    """Wait until a worker whose result is in the journal has ended, because the last thing it does is to delete the one-time key.

    A worker that still works keeps its key.
    """
    until = time.monotonic() + _ENDING
    while time.monotonic() < until and (store.directory / "id_ed25519").exists():
        journal = store.read()
        if journal is None or journal.state in ("new", "running") or not io_units.unit_active(unit):
            return
        time.sleep(_POLL)


def start(store: JournalStore, action: str, params: t.Mapping[str, t.Any], module: str, unit: str, **more: t.Any) -> None:
    """Store a job and start its worker, also after a restart of this host.

    :arg module: the worker's Python module; ``more`` are further arguments of ``io_units.start_unit``.
    :raises RefusedError: a worker of this name runs.
    """
    with store.locked():
        store.write_job({"action": action, "params": dict(params)})
    try:
        io_units.start_unit(store.name, io_units.keep_code(), module, [store.name], store.directory / "output", unit=unit, at_boot=True, **more)
    except CommandError:
        # a concurrent call has started the unit, which does the work
        if not io_units.unit_active(unit):
            raise


def ended(unit: str, params: t.Mapping[str, t.Any], enough: t.Callable[[], bool] = lambda: False) -> bool:
    """Wait for the end of a unit if requested (``wait``), or until it has done ``enough``; false if it still runs after ``wait_timeout``."""
    until = time.monotonic() + float(params.get("wait_timeout", 7200))
    while params.get("wait", True) and io_units.unit_active(unit) and not enough():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL)
    return True


def log_unexpected(store: JournalStore, error: Exception) -> None:
    """Write the traceback of an error that is not one of this collection to the log."""
    if not isinstance(error, FootprintError):
        store.log("".join(traceback.format_exception(type(error), error, error.__traceback__)))


def record_failure(store: JournalStore, journal: Journal, error: Exception) -> None:
    """Set the journal of a failed worker, which is not written, and write the error to the log."""
    log_unexpected(store, error)
    store.log(f"{journal.phase}: failed: {error}")
    journal.state, journal.ended, journal.reason = "failed", time.time(), f"{journal.phase}: {error}"


def withdraw_key(
    other: OtherSide, directory: pathlib.Path, command: str, given: t.Mapping[str, t.Any], *, attempts: int = ATTEMPTS
) -> FootprintError | None:
    """Withdraw the one-time key on the other host, and delete its private key here in any case.

    :arg command: the command of the other host's agent, with ``given``.
    :returns: the error if the other host does not answer: the entry there is useless without the private key, and expires.
    """
    failure: FootprintError | None = None
    for attempt in range(attempts):
        if attempt:
            time.sleep(_PAUSE)
        try:
            other.ask(command, given)
            failure = None
            break
        except FootprintError as error:
            failure = error
    io_remote_source.drop_key_files(directory)
    return failure
