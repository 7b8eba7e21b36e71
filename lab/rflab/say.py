# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages and errors of the lab."""

from __future__ import annotations

import subprocess
import sys
import time
import typing as t
from contextlib import contextmanager


class LabError(Exception):
    """An error for the user; ``hint`` describes the fix."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


_BEGIN = time.monotonic()


def say(text: str) -> None:
    """Print a line with the seconds since the start of the command."""
    print(f"[{time.monotonic() - _BEGIN:6.1f}s] {text}", flush=True)


@contextmanager
def step(text: str) -> t.Iterator[None]:
    """Print a step and, at its end, its duration."""
    begin = time.monotonic()
    say(f"{text} ...")
    yield
    say(f"{text}: {time.monotonic() - begin:.1f} s")


def run(argv: t.Sequence[str], *, check: bool = True, quiet: bool = True, **kwargs: t.Any) -> subprocess.CompletedProcess:
    """Run a command; its output is only shown if it fails.

    :raises LabError: with the last lines of the output.
    """
    if quiet:
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.STDOUT)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    try:
        done = subprocess.run(list(argv), text=True, check=False, **kwargs)
    except FileNotFoundError as exc:
        raise LabError(f"command not found: {argv[0]}", "run: lab/lab prepare") from exc
    if check and done.returncode != 0:
        tail = "\n".join((done.stdout or "").strip().splitlines()[-12:])
        raise LabError(f"{' '.join(argv[:6])} failed with exit code {done.returncode}\n{tail}")
    return done


def complain(error: LabError) -> None:
    print(f"lab: {error}", file=sys.stderr)
    if error.hint:
        print(f"lab: hint: {error.hint}", file=sys.stderr)
