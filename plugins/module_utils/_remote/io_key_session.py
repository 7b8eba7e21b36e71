# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the command of a one-time key's session, and log denied commands."""

from __future__ import annotations

import contextlib
import os
import subprocess
import syslog
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, model_one_time_key

#: Environment variable of the collection's programs when a one-time key runs them.
VARIABLE = "REDUCED_FOOTPRINT_KEY"


def run(command: t.Sequence[str], name: str, until: float) -> int:
    """Run a command with this process's standard streams, renewing the key meanwhile; returns the exit code."""
    renew(name, until)
    if not command:
        return 0
    # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
    with subprocess.Popen(list(command), env={**os.environ, VARIABLE: name}) as process:
        while True:
            try:
                code = process.wait(timeout=model_one_time_key.RENEW_EVERY)
                return code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                renew(name, until)


def renew(name: str, until: float) -> None:
    """Extend the key's expiry; a failed attempt is repeated later."""
    # a full disk must not prevent a rollback
    with contextlib.suppress(FootprintError, OSError):
        io_authorized_keys.renew(name, until)


def refuse(name: str, message: str) -> None:
    """Write a denied command to the system log."""
    syslog.openlog("reduced.footprint", 0, syslog.LOG_AUTH)
    syslog.syslog(syslog.LOG_WARNING, f"one-time key {name}: {message[:300]}")
