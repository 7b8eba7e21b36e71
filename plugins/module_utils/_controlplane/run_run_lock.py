# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: one run at a time may restart members of the control plane. Each host keeps which one, until it ends or the host is restarted."""

from __future__ import annotations

import json
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_playbook_run
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, io_lock, model_errors, model_schema, model_time

#: In the folder of locks, which is empty after a start of the host.
FILE = "controlplane-run.json"
TIMEOUT = 30

this_run, run_ended = io_playbook_run.this_run, io_playbook_run.run_ended


def take(run: t.Mapping[str, str], ended: t.Mapping[str, str] | None = None, *, takeover: bool, check_mode: bool) -> dict[str, str]:
    """Record a run on this host, if no other one is recorded; returns the run that is recorded now.

    :arg run: see ``this_run``, and ``playbook``, its name.
    :arg ended: a run that is known to have ended, and may be replaced.
    :arg takeover: replace any other run.
    """
    with io_lock.host_lock("controlplane", TIMEOUT):
        found = _read()
        if found and not takeover and not same(found, run) and not (ended and same(found, ended)):
            return found
        mine = {**run, "since": found["since"] if found and same(found, run) else model_time.utc()}
        if not check_mode:
            io_files.write_atomic(_path(), json.dumps(model_schema.CONTROLPLANE_RUN.mark(mine)) + "\n")
        return mine


def release(run: t.Mapping[str, str], *, check_mode: bool) -> None:
    """Remove the record of a run on this host; that of another one is kept."""
    with io_lock.host_lock("controlplane", TIMEOUT):
        found = _read()
        if found and same(found, run) and not check_mode:
            _path().unlink()


def recorded() -> dict[str, str]:
    """Return the run that is recorded on this host, empty if there is none."""
    return _read() or {}


def same(one: t.Mapping[str, str], other: t.Mapping[str, str]) -> bool:
    """Whether two records are of the same run, whatever it does and since when."""
    return all(one.get(key) == other.get(key) for key in {*one, *other} - {"playbook", "since"})


def refusal(found: t.Mapping[str, str], host: str) -> model_errors.RefusedError:
    """Return the error of a run that must wait for another one.

    :arg found: the other run.
    :arg host: where the other run is recorded.
    """
    return model_errors.RefusedError(
        f"{found.get('playbook')} of {found.get('user')} on {found.get('node')} (process {found.get('process')}) has been restarting members of the control "
        f"plane since {found.get('since')}, according to {host}. Two runs at the same time could stop too many members.",
        hint="Wait until it has ended. If it was killed on a control node other than this one, continue with -e footprint_takeover=true.",
    )


def _path() -> pathlib.Path:
    return io_lock.lock_folder() / FILE


def _read() -> dict[str, str] | None:
    text = io_files.read_text(_path())
    try:
        return model_schema.CONTROLPLANE_RUN.load(text, _path()) if text else None
    except ValueError:  # not by this collection, which writes it at once
        return None
