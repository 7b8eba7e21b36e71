# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Exceptions of the collection.

All code below the modules raises one of these; a module catches
``FootprintError`` and passes :meth:`FootprintError.as_result` to
``fail_json``. Invalid input must not raise any other exception.
"""

from __future__ import annotations

import typing as t

_SHOWN = 80


def shown(value: t.Any) -> str:
    """Return a value for a message: its ``repr``, shortened if it is long."""
    try:
        text = repr(value)
    except ValueError:
        return "a number with thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def kind_of(value: t.Any) -> str:
    """Return the type of a value for a message, as a user of YAML would name it."""
    if value is None:
        return "nothing"
    # bool is also an int
    kinds = (("text", (str, bytes)), ("a mapping", (t.Mapping,)), ("a list", (list, tuple)), ("a boolean", (bool,)), ("a number", (int, float)))
    return next((name for name, types in kinds if isinstance(value, types)), type(value).__name__)


#: The Python libraries that modules about VMs use.
VM_LIBRARIES = ("libvirt", "lxml", "jinja2", "yaml")


class FootprintError(Exception):
    """Base class of all exceptions that this collection raises on purpose.

    :arg message: the problem, with the relevant numbers or names.
    :arg path: path of the invalid value in the user's input, e.g. ``vms[2].ram``.
    :arg hint: how to fix it, one imperative sentence.
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
        """Return the error as keyword arguments for ``fail_json``."""
        return {"msg": str(self), "error": {"path": self.path, "message": self.message, "hint": self.hint}}


class InputError(FootprintError):
    """A value in the user's input is invalid; nothing was changed."""


class TemplateError(FootprintError):
    """A libvirt XML template cannot be rendered, or libvirt refuses the document."""


class CapacityError(FootprintError):
    """A host has too few resources for a request; the message contains the numbers."""


class RefusedError(FootprintError):
    """A valid request is refused (ownership, protection, expert gate)."""


class BackendError(FootprintError):
    """libvirt, a command or a remote host failed."""


class LostWriteError(BackendError):
    """Written data did not reach the disk; a later read returns other data."""


class CommandError(BackendError):
    """A command failed with a non-zero exit code or timed out.

    :arg rc: exit code, ``None`` after a timeout.
    :arg stderr: error output; the message contains the last lines.
    :arg what: description of the failure, replaces program and exit code.
    """

    def __init__(self, argv: t.Sequence[str], rc: int | None, stderr: str, hint: str | None = None, what: str | None = None) -> None:
        lines = stderr.strip().splitlines()[-5:]
        how = "timed out" if rc is None else f"ended with exit code {rc}"
        super().__init__(f"{what or f'{argv[0]} {how}'}: {' | '.join(lines) or 'no output'}", hint=hint)
        self.argv = list(argv)
        self.rc = rc
        self.stderr = stderr


class Problems:
    """Collects errors, so that a user corrects all of them before the next run."""

    def __init__(self) -> None:
        self.found: list[FootprintError] = []

    def call(self, function: t.Callable[..., t.Any], *args: t.Any) -> t.Any:
        """Return what a function returns, ``None`` after an error."""
        try:
            return function(*args)
        except FootprintError as error:
            self.found.append(error)
            return None

    def check(self) -> None:
        """Raise the error, or one :class:`InputError` with a line for each."""
        lines = list(dict.fromkeys(str(error) for error in self.found))
        if len(lines) == 1:
            raise self.found[0]
        if lines:
            raise InputError("\n  ".join([f"{len(lines)} errors:", *lines]))


class Unique:
    """Values that may be used once each; the error of a second use has the path of the first one."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, t.Any], str] = {}

    def check(self, value: t.Any, path: str, hint: str, kind: str = "") -> None:
        """Refuse a value that was used at another path; ``None`` is none."""
        first = path if value is None else self._first.setdefault((kind, value), path)
        if first != path:
            raise InputError(f"{shown(value)} is already used at {first}.", path, hint)


def missing_libraries(*libraries: str) -> BackendError:
    """Return the error about Python libraries that cannot be imported: all that are missing, and for which interpreter."""
    # imported only before an error: each import slows down every run
    import importlib.util
    import sys

    # one that is present may be broken, if no other is missing
    absent = [each for each in libraries if importlib.util.find_spec(each) is None] or libraries
    hint = f"Install {', '.join(f'python3-{each}' for each in absent)} (the role virt_host does so on virt hosts)"
    if sys.executable != "/usr/bin/python3":
        # a virtual environment, or a second version of Python: the packages may be installed, but for another one
        hint += ", and set ansible_python_interpreter to /usr/bin/python3, for which these packages are"
    return BackendError(f"the Python interpreter of this host, {sys.executable}, cannot import {', '.join(absent)}.", hint=f"{hint}.")
