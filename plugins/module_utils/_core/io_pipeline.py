# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands that feed one another without a shell, from and into files."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError

_WORDS = 20000


def pipeline(
    commands: t.Sequence[t.Sequence[str]],
    *,
    source: str | os.PathLike[str] | None = None,
    target: str | os.PathLike[str] | None = None,
    hint: str | None = None,
) -> tuple[str, ...]:
    """Run commands, each with what the one before it prints as its input; returns what each said on standard error.

    :arg source: a file the first one reads.
    :arg target: a file the last one writes, 0600; it is created, must not be there, and is on the disk in the end.
    :raises CommandError: one of them failed; the last of those that did is named, with the words of all of them.
    """
    environment = dict(os.environ, LC_ALL="C", LANG="C")
    running: list[t.Any] = []
    with contextlib.ExitStack() as stack:
        said = [stack.enter_context(tempfile.TemporaryFile()) for unused in commands]
        reader: t.Any = stack.enter_context(open(source, "rb")) if source else subprocess.DEVNULL
        last: t.Any = subprocess.DEVNULL
        if target:
            last = stack.enter_context(os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"))
        try:
            for number, argv in enumerate(commands):
                writer = last if number == len(commands) - 1 else subprocess.PIPE
                try:
                    # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
                    one = subprocess.Popen(list(argv), stdin=reader, stdout=writer, stderr=said[number], env=environment)
                except FileNotFoundError as error:
                    raise CommandError(argv, 127, f"{argv[0]} is not installed", hint=hint) from error
                if number and hasattr(reader, "close"):
                    # its reader alone holds it, so that a writer whose reader dies is told
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
        words = tuple(_end(file) for file in said)
        failed = [number for number, code in enumerate(codes) if code]
        if failed:
            # who lost its reader fails too, before the one that is to blame; both have their say
            raise CommandError(commands[failed[-1]], codes[failed[-1]], "\n".join(words[number].strip() for number in failed), hint=hint)
        return words


def _end(file: t.IO[bytes]) -> str:
    """The last words in a file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _WORDS))
    return file.read().decode("utf-8", "replace")
