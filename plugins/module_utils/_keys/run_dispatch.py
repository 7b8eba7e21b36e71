# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forced command of a one-time key: runs the commands the key is for, without a shell, and refuses all others.

``python3 -m …key_dispatch PURPOSE NAME UNTIL KEY``; the requested command is in SSH_ORIGINAL_COMMAND. KEY is the public part of the key: each
command is run only while its line is in authorized_keys, not only when the connection was opened. While a key is in use its expiry is
extended, so that a copy may take days, but never beyond ``UNTIL`` (Unix seconds).
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_key_session, model_one_time_key

_MAX_ARGUMENTS = 64 * 1024
_RSYNC = "rsync"


def command_of(purpose: str, name: str, text: str, read: t.Callable[[], bytes]) -> list[str]:
    """Return what to run for the requested command: rsync or a Python module, with its arguments; empty if there is nothing to run.

    :arg text: the requested command, as in SSH_ORIGINAL_COMMAND.
    :arg read: returns the next byte of standard input, where rsync sends its arguments.
    :raises InputError: the command is not allowed.
    """
    wanted = model_one_time_key.parse_command(purpose, name, text)
    if isinstance(wanted, model_one_time_key.Installed):
        return []
    if isinstance(wanted, model_one_time_key.Program):
        return [wanted.module, *wanted.arguments]
    options = wanted.options
    if wanted.protected:
        options = model_one_time_key.check_rsync(purpose, [*options, *_protected(read)])
    return [_RSYNC, *options]


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


def _carry_out(command: t.Sequence[str]) -> int:
    """Run the command in this process: starting Python again would add to a downtime."""
    if not command:
        return 0
    if command[0] == _RSYNC:
        io_key_session.execute(command)
    return int(importlib.import_module(command[0]).main(command[1:]))


def main(argv: t.Sequence[str]) -> int:
    """Entry point; returns the exit code of the command."""
    if len(argv) != 4 or argv[0] not in model_one_time_key.PURPOSES or not re.match(r"\A[0-9]+\Z", argv[2]):
        sys.stderr.write("usage: key_dispatch PURPOSE NAME UNTIL KEY\n")
        return 2
    purpose, name, until = argv[0], argv[1], float(argv[2])
    os.environ[io_key_session.VARIABLE] = f"{name} {argv[3]}"
    try:
        io_key_session.require()
        command = command_of(purpose, name, os.environ.get("SSH_ORIGINAL_COMMAND", ""), lambda: os.read(0, 1))
        # only the agents have commands; the first argument of another program is chosen by the other host
        withdraws = len(command) > 1 and command[0].endswith(".run_agent") and command[1] in model_one_time_key.WITHDRAWING
        return io_key_session.run(lambda: _carry_out(command), name, until, withdraws=withdraws)
    except FootprintError as error:
        io_key_session.refuse(name, error.message)
        sys.stderr.write(f"{error}\n")
        return 126


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
