# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forced command of a one-time key: runs the commands the key is for, without a shell, and refuses all others.

``python3 -m …key_dispatch PURPOSE NAME UNTIL``; the requested command is in SSH_ORIGINAL_COMMAND. While a key is in use
its expiry is extended, so that a copy may take days, but never beyond ``UNTIL`` (Unix seconds).
"""

from __future__ import annotations

import os
import re
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_key_session, model_one_time_key

_MAX_ARGUMENTS = 64 * 1024
# commands that may take hours, so that the key must be renewed meanwhile
_LONG = ("run", "quiesce")


def command_of(purpose: str, name: str, text: str, read: t.Callable[[], bytes]) -> list[str]:
    """Return the command line to run for the requested command; empty if there is nothing to run.

    :arg text: the requested command, as in SSH_ORIGINAL_COMMAND.
    :arg read: returns the next byte of standard input, where rsync sends its arguments.
    :raises InputError: the command is not allowed.
    """
    wanted = model_one_time_key.parse_command(purpose, name, text)
    if isinstance(wanted, model_one_time_key.Installed):
        return []
    if isinstance(wanted, model_one_time_key.Program):
        return [sys.executable, "-m", wanted.module, *wanted.arguments]
    options = wanted.options
    if wanted.protected:
        options = model_one_time_key.check_rsync(purpose, [*options, *_protected(read)])
    return ["rsync", *options]


def _protected(read: t.Callable[[], bytes]) -> list[str]:
    """Read the arguments that rsync sends before its protocol: each ends with a zero byte, an empty one ends the list."""
    content = b""
    while not content.endswith(b"\0\0"):
        byte = read()
        content += byte
        if not byte or len(content) > _MAX_ARGUMENTS:
            raise InputError("rsync sent no arguments.")
    words = [os.fsdecode(each) for each in content[:-2].split(b"\0")]
    if words[0] != "rsync":
        raise InputError("rsync sent no arguments.")
    return words[1:]


def _is_short(purpose: str, name: str, requested: str) -> bool:
    """Whether a command runs in this process: short ones of the source's agent, because a new process would add to the downtime, and
    those of a standby and a witness, whose keys need no renewal."""
    wanted = model_one_time_key.parse_command(purpose, name, requested)
    if not isinstance(wanted, model_one_time_key.Program):
        return False
    if wanted.module.endswith(("._standby.run_agent", "._standby.run_grantor")):
        return True
    return wanted.module.endswith("._migrate.source.run_agent") and wanted.arguments[0] not in _LONG


def _answer(name: str, until: float, wanted: t.Any) -> int:
    """Run a command of an agent in this process."""
    if wanted.module.endswith("._standby.run_grantor"):
        from ansible_collections.reduced.footprint.plugins.module_utils._standby import run_grantor

        return run_grantor.main(list(wanted.arguments))
    if wanted.module.endswith("._standby.run_agent"):
        from ansible_collections.reduced.footprint.plugins.module_utils._standby import run_agent as standby_agent

        return standby_agent.main(list(wanted.arguments))
    from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import run_agent

    io_key_session.renew(name, until)
    os.environ[io_key_session.VARIABLE] = name
    return run_agent.main(list(wanted.arguments))


def main(argv: t.Sequence[str]) -> int:
    """Entry point; returns the exit code of the command."""
    if len(argv) != 3 or argv[0] not in model_one_time_key.PURPOSES or not re.match(r"\A[0-9]+\Z", argv[2]):
        sys.stderr.write("usage: key_dispatch PURPOSE NAME UNTIL\n")
        return 2
    purpose, name, until = argv[0], argv[1], float(argv[2])
    requested = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    try:
        if _is_short(purpose, name, requested):
            return _answer(name, until, model_one_time_key.parse_command(purpose, name, requested))
        command = command_of(purpose, name, requested, lambda: os.read(0, 1))
    except FootprintError as error:
        io_key_session.refuse(name, error.message)
        sys.stderr.write(f"{error}\n")
        return 126
    return io_key_session.run(command, name, until)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
