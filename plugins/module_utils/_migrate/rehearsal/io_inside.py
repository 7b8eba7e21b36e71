# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions put inside the new master, where only its own programs know the answer; and the way in there."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource

# seconds one command inside gets
TIMEOUT = 30.0
_SAID = 200


class RemoteClone(RemoteSource):
    """ssh to the copy while it runs: at one address only, for the source has the same host keys and must not answer for it."""

    who = "VM"
    # of its own: the source's file is read at the same time, and names other addresses
    known_hosts = "known_hosts_vm"


def look(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """One question, put where it is to be answered: ``{"wrong": None}`` when all is well, or the reason.

    :arg given: ``unit``, or ``command`` as a list of words.
    """
    return {"wrong": _unit(given["unit"]) if given.get("unit") else _command(given["command"])}


def _unit(unit: str) -> str | None:
    try:
        # it reports a unit that is not there, or not active, by its exit code
        state = run(["systemctl", "is-active", "--", unit], timeout=TIMEOUT, ok=range(256)).stdout.strip()
    except CommandError as error:
        return error.message
    return None if state == "active" else f"is {state or 'unknown'}"


def _command(argv: t.Sequence[str]) -> str | None:
    try:
        done = run(argv, timeout=TIMEOUT, ok=range(256))
    except (CommandError, OSError) as error:
        return str(error)
    if done.rc == 0:
        return None
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"exit code {done.rc}{f': {said[-1][:_SAID]}' if said else ''}"
