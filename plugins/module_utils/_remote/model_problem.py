# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Problems that prevent a migration or a move, found before anything is changed."""

from __future__ import annotations

import typing as t

#: The path of problems with the tools of the destination host, which are resolved by installing a package.
TOOLS_PATH = "destination.tools"


class Problem(t.NamedTuple):
    """One problem, with a hint how to resolve it."""

    message: str
    hint: str
    path: str | None = None


def without_tools(problems: t.Iterable[Problem]) -> tuple[list[Problem], list[str]]:
    """Return the problems except missing tools, and warnings about those: check mode installs no packages."""
    found = list(problems)
    return [each for each in found if each.path != TOOLS_PATH], [f"{each.message} {each.hint}" for each in found if each.path == TOOLS_PATH]


def as_text(problems: t.Sequence[Problem]) -> str:
    """Return all problems as one message."""
    lines = [f"{number}. {f'{each.path}: ' if each.path else ''}{each.message} {each.hint}" for number, each in enumerate(problems, start=1)]
    return f"Nothing was changed. {len(lines)} problem(s): " + " ".join(lines)
