# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run commands without a shell, in the C locale."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors


@dataclasses.dataclass(frozen=True)
class Completed:
    """A finished command with its exit code and decoded output."""

    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str


def run(
    argv: t.Sequence[str],
    *,
    stdin: str | None = None,
    timeout: float | None = None,
    ok: t.Container[int] = (0,),
    hint: str | None = None,
    variables: t.Mapping[str, str] | None = None,
) -> Completed:
    """Run a command and return its exit code and output.

    :arg stdin: text for its standard input; secrets go here, never into ``argv``.
    :arg timeout: seconds, ``None`` for no limit.
    :arg variables: additional environment variables; for secrets that a program accepts neither on standard input nor in a file.
    :raises CommandError: any other exit code, a missing program, or a timeout.
    """
    environment = {**os.environ, "LC_ALL": "C", "LANG": "C", **(variables or {})}
    environment.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    try:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        done = subprocess.run(
            list(argv),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            env=environment,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError as error:
        raise model_errors.CommandError(argv, 127, f"{argv[0]} is not installed", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise model_errors.CommandError(argv, None, f"not finished after {timeout} s", hint=hint) from error
    if done.returncode not in ok:
        raise model_errors.CommandError(argv, done.returncode, done.stderr or done.stdout, hint=hint)
    return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)
