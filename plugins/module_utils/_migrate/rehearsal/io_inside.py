# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health checks inside the new master, by its own programs, and the ssh connection into it."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource

# seconds for one command inside the VM
TIMEOUT = 30.0
_MAX_OUTPUT = 200


class RemoteClone(RemoteSource):
    """ssh to the running copy, at one address only, because the source has the same host keys and must not answer instead."""

    who = "VM"
    # a separate file: the source's one is used at the same time, with other addresses
    known_hosts = "known_hosts_vm"


def look(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Run one check on this machine; returns ``{"wrong": None}`` when it passed, else the reason.

    :arg given: ``unit``, or ``command`` as a list of program and arguments.
    """
    return {"wrong": _unit(given["unit"]) if given.get("unit") else _command(given["command"])}


def _unit(unit: str) -> str | None:
    try:
        # a missing or inactive unit is reported by the exit code
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
    output = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return f"exit code {done.rc}{f': {output[-1][:_MAX_OUTPUT]}' if output else ''}"
