# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one error tree of the collection.

Every part below the modules raises one of these; a module catches
``FootprintError`` once and hands :meth:`FootprintError.as_result` to
``fail_json``. Nothing else may escape on bad input.
"""

from __future__ import annotations

import typing as t

_SHOWN = 80


def shown(value: t.Any) -> str:
    """A value for a message: as Python writes it, shortened where it is long."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


class FootprintError(Exception):
    """Base of all errors this collection raises on purpose.

    :arg message: what is wrong, with the numbers or names a person needs.
    :arg path: where the bad value stands in the user's input, e.g. ``vms[2].ram``.
    :arg hint: what to do about it, one imperative sentence.
    """

    def __init__(self, message: str, path: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text} {self.hint}" if self.hint else text

    def as_result(self) -> dict[str, t.Any]:
        """The error as keyword arguments for ``fail_json``."""
        return {"msg": str(self), "error": {"path": self.path, "message": self.message, "hint": self.hint}}


class InputError(FootprintError):
    """A value the user gave is wrong; nothing was touched."""


class TemplateError(FootprintError):
    """A libvirt XML template cannot be rendered or is refused by libvirt."""


class CapacityError(FootprintError):
    """A host cannot carry what it is asked to; the message names the numbers."""


class RefusedError(FootprintError):
    """The request is understood and deliberately not done (ownership, protection, expert gate)."""


class BackendError(FootprintError):
    """libvirt, a command or a remote host failed."""


class LostWriteError(BackendError):
    """What was written did not reach its disk, and whoever reads it there later finds something else."""


class CommandError(BackendError):
    """A command ended with a non-zero exit code or ran out of time.

    :arg argv: the command as it was run.
    :arg rc: its exit code, ``None`` when it ran out of time.
    :arg stderr: what it said, last lines only.
    :arg what: what that means, where it is known, instead of program and exit code.
    """

    def __init__(self, argv: t.Sequence[str], rc: int | None, stderr: str, hint: str | None = None, what: str | None = None) -> None:
        said = stderr.strip().splitlines()[-5:]
        how = "ran out of time" if rc is None else f"ended with exit code {rc}"
        super().__init__(f"{what or f'{argv[0]} {how}'}: {' | '.join(said) or 'it said nothing'}", hint=hint)
        self.argv = list(argv)
        self.rc = rc
        self.stderr = stderr
