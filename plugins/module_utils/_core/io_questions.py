# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask several questions at once, each for a limited time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError

Question = t.Callable[[], t.Any]
_BLOCK = 65536


def answers(questions: t.Mapping[str, Question], seconds: float) -> dict[str, dict[str, t.Any]]:
    """Return for each question its ``value``, or the ``error`` that says why there is none.

    Each runs in a process of its own, because a library or a file system that hangs cannot be interrupted otherwise. It changes nothing in this process.

    :arg questions: name → function with a result that JSON can represent.
    :arg seconds: limit for all of them together.
    """
    end = time.monotonic() + seconds
    asked = {name: _ask(question) for name, question in questions.items()}
    return {name: _answer(*process, end) or {"error": f"no answer within {seconds:g} s"} for name, process in asked.items()}


def _ask(question: Question) -> tuple[int, int]:
    """Start a process; return its ID, and the pipe in which it answers."""
    receiver, sender = os.pipe()
    pid = os.fork()
    if pid:
        os.close(sender)
        return pid, receiver
    try:
        # a group of its own, which ends with it
        os.setsid()
        # the caller of this one waits until no process has its output open any more
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        with os.fdopen(sender, "wb") as stream_out:
            stream_out.write(json.dumps(_result(question)).encode())
    finally:
        os._exit(0)


def _result(question: Question) -> dict[str, t.Any]:
    try:
        return {"value": question()}
    except FootprintError as error:
        return {"error": str(error)}
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        return {"error": f"cannot be read: {error!r}"}


def _answer(pid: int, receiver: int, end: float) -> dict[str, t.Any] | None:
    """Return what a process answers, ``None`` if it does not until the end; the process is ended then."""
    content, complete = b"", False
    while not complete and select.select([receiver], [], [], max(0.0, end - time.monotonic()))[0]:
        block = os.read(receiver, _BLOCK)
        content, complete = content + block, not block
    os.close(receiver)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    # one that waits for a disk cannot be ended, and is not waited for
    os.waitpid(pid, 0 if complete else os.WNOHANG)
    return (json.loads(content) if content else {"error": "ended without an answer"}) if complete else None
