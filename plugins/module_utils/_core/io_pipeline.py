# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pipelines of commands without a shell, optionally from and to files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError

_MOST_STDERR = 20000


def pipeline(
    commands: t.Sequence[t.Sequence[str]],
    *,
    source: str | os.PathLike[str] | None = None,
    target: str | os.PathLike[str] | None = None,
    hint: str | None = None,
) -> tuple[str, ...]:
    """Run commands as a pipeline and return the standard error of each, at most the last 20000 bytes.

    :arg target: output file of the last command, created with mode 0600 and synced; it must not exist.
    :raises CommandError: a command failed. The error names the last failed command and contains the standard error of all failed ones.
    """
    environment = dict(os.environ, LC_ALL="C", LANG="C")
    running: list[t.Any] = []
    with contextlib.ExitStack() as stack:
        errors = [stack.enter_context(tempfile.TemporaryFile()) for unused in commands]
        reader: t.Any = stack.enter_context(open(source, "rb")) if source else subprocess.DEVNULL
        last: t.Any = subprocess.DEVNULL
        if target:
            last = stack.enter_context(os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"))
        try:
            for number, argv in enumerate(commands):
                writer = last if number == len(commands) - 1 else subprocess.PIPE
                try:
                    # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
                    one = subprocess.Popen(list(argv), stdin=reader, stdout=writer, stderr=errors[number], env=environment)
                except FileNotFoundError as error:
                    raise CommandError(argv, 127, f"{argv[0]} is not installed", hint=hint) from error
                if number and hasattr(reader, "close"):
                    # only the reader keeps the pipe open, so that the writer gets SIGPIPE when the reader ends
                    reader.close()
                running.append(one)
                reader = one.stdout
            codes = [one.wait() for one in running]
        except BaseException:
            for one in running:
                one.kill()
                one.wait()
            raise
        if target:
            os.fsync(last.fileno())
        messages = tuple(_end(file) for file in errors)
        failed = [number for number, code in enumerate(codes) if code]
        if failed:
            # a command whose reader has failed fails too; its message comes before that of the reader
            raise CommandError(commands[failed[-1]], codes[failed[-1]], "\n".join(messages[number].strip() for number in failed), hint=hint)
        return messages


def _end(file: t.IO[bytes]) -> str:
    """Return the end of a file as text."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _MOST_STDERR))
    return file.read().decode("utf-8", "replace")
