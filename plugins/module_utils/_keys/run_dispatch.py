# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The forced command of a one-time key: runs what the key is for, without a shell, and refuses everything else.

``python3 -m …key_dispatch PURPOSE NAME UNTIL``; what is asked for is in SSH_ORIGINAL_COMMAND. While a key is in use
its expiry is put off, so that a copy may take days; never beyond ``UNTIL``.
"""

from __future__ import annotations

import os
import re
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_key_session, model_one_time_key

_MOST = 64 * 1024
# what may take hours, so that the key is renewed meanwhile
_LONG = ("run", "quiesce")


def command_of(purpose: str, name: str, text: str, read: t.Callable[[], bytes]) -> list[str]:
    """The command line to run for what was asked; empty when there is nothing to do.

    :arg read: gives the next byte of standard input; rsync sends its arguments that way.
    :raises InputError: it is not allowed.
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
    """The arguments that rsync sends ahead of its protocol: each ends with a zero byte, an empty one ends them."""
    content = b""
    while not content.endswith(b"\0\0"):
        byte = read()
        content += byte
        if not byte or len(content) > _MOST:
            raise InputError("rsync sent no arguments.")
    words = [os.fsdecode(each) for each in content[:-2].split(b"\0")]
    if words[0] != "rsync":
        raise InputError("rsync sent no arguments.")
    return words[1:]


def _short(purpose: str, name: str, asked: str) -> bool:
    """Whether this is a question to the source that is answered at once: in the pause everybody waits for it."""
    wanted = model_one_time_key.parse_command(purpose, name, asked)
    return isinstance(wanted, model_one_time_key.Program) and wanted.module.endswith("._migrate.source.run_agent") and wanted.arguments[0] not in _LONG


def _answer(name: str, until: float, wanted: t.Any) -> int:
    """Answer in this process, which is there already."""
    from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import run_agent

    io_key_session.renew(name, until)
    os.environ[io_key_session.VARIABLE] = name
    return run_agent.main(list(wanted.arguments))


def main(argv: t.Sequence[str]) -> int:
    """Entry point; the exit code is that of what was run."""
    if len(argv) != 3 or argv[0] not in model_one_time_key.PURPOSES or not re.match(r"\A[0-9]+\Z", argv[2]):
        sys.stderr.write("usage: key_dispatch PURPOSE NAME UNTIL\n")
        return 2
    purpose, name, until = argv[0], argv[1], float(argv[2])
    asked = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    try:
        if _short(purpose, name, asked):
            return _answer(name, until, model_one_time_key.parse_command(purpose, name, asked))
        command = command_of(purpose, name, asked, lambda: os.read(0, 1))
    except FootprintError as error:
        io_key_session.refuse(name, error.message)
        sys.stderr.write(f"{error}\n")
        return 126
    return io_key_session.run(command, name, until)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
