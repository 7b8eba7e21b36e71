# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the command of a one-time key's session as long as the key is accepted, and log denied commands.

sshd checks a key when a connection is opened. The connection may stay open and carry further commands, so each of them is checked again.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import syslog
import time
import traceback
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, model_one_time_key

#: Environment variable of the collection's programs when a one-time key runs them: name and public part of the key.
VARIABLE = "REDUCED_FOOTPRINT_KEY"
# seconds between two checks of a running command, from its SIGTERM to its SIGKILL, and for a command to end that has withdrawn the key
_CHECK = 1.0
_GRACE = 1.0
_COMPLETING = 30.0


def require() -> None:
    """Check that the key that runs this program, if any, is still accepted."""
    name, _space, key = os.environ.get(VARIABLE, "").partition(" ")
    if name and not io_authorized_keys.accepts(name, key):
        raise RefusedError(f"the key of {name} was withdrawn or has expired.", hint="Place it again, with one_time_key.")


def serve(answer: t.Callable[[dict[str, t.Any]], t.Any], command: str) -> int:
    """Answer a command of another machine, a JSON mapping on standard input, with ``{"ok": …}``, or ``{"error": …}`` and exit code 1."""
    try:
        given = json.loads(sys.stdin.read() or "{}")
        require()
        sys.stdout.write(json.dumps({"ok": answer(given)}) + "\n")
        return 0
    except FootprintError as error:
        problem = {"message": error.message, "hint": error.hint}
    except OSError as error:
        problem = {"message": f"{error.filename or command}: {error.strerror or error}.", "hint": None}
    sys.stdout.write(json.dumps({"error": problem}) + "\n")
    return 1


def run(work: t.Callable[[], int], name: str, until: float, *, withdraws: bool = False) -> int:
    """Do the work in a process of its own session, which ends with the key, renewing the key meanwhile; returns the exit code.

    :arg withdraws: the work withdraws the key, and then has some time to complete.
    :raises RefusedError: the key was withdrawn or has expired; all processes of the session were ended.
    """
    require()
    renew(name, until)
    # an ignored one would be inherited
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        _work(work, mask)
    renewed, left = time.monotonic(), _COMPLETING if withdraws else 0.0
    try:
        while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            signal.sigtimedwait({signal.SIGCHLD}, _CHECK)
            try:
                require()
            except RefusedError:
                left -= _CHECK
                if left < 0:
                    raise
            if time.monotonic() - renewed > model_one_time_key.RENEW_EVERY:
                renewed = time.monotonic()
                renew(name, until)
    except BaseException:
        # also after an error of the check: nothing runs on without it
        _end(child)
        raise
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def execute(command: t.Sequence[str]) -> t.NoReturn:
    """Replace this process by a program."""
    # Python ignores it, which the program would inherit
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(command[0], list(command))


def _work(work: t.Callable[[], int], mask: t.Iterable[int]) -> t.NoReturn:
    """Do the work in the child, as the leader of a new session, and exit."""
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.setsid()
        code = work()
        sys.stdout.flush()
    except BaseException:  # nothing may leave this process
        traceback.print_exc()
    os._exit(code)  # pylint: disable=protected-access  # the parent's clean-up is not that of this process


def _end(leader: int) -> None:
    """End all processes of a session; its leader is not reaped before, so the number is still its own."""
    for number, pause in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, 0.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, number)
        time.sleep(pause)
    os.waitpid(leader, 0)


def renew(name: str, until: float) -> None:
    """Extend the key's expiry; a failed attempt is repeated later."""
    # a full disk must not prevent a rollback
    with contextlib.suppress(FootprintError, OSError):
        io_authorized_keys.renew(name, until)


def refuse(name: str, message: str) -> None:
    """Write a denied command to the system log."""
    syslog.openlog("reduced.footprint", 0, syslog.LOG_AUTH)
    syslog.syslog(syslog.LOG_WARNING, f"one-time key {name}: {message[:300]}")
