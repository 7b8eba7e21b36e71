# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The result of comparing the documents of one domain."""

from __future__ import annotations

import typing as t


class Difference(t.NamedTuple):
    """A path whose value must be corrected.

    ``path`` names a value (``memory``, ``vcpu/@current``), or a whole element with one line of XML as
    its value (``devices/disk[vdb]``). ``wanted`` is ``None`` for a value to remove, ``config`` and
    ``live`` for a missing value. ``outside``: it was changed outside the collection since it was applied.
    """

    path: str
    applied: str | None
    wanted: str | None
    config: str | None
    live: str | None
    outside: bool
    config_differs: bool
    live_differs: bool


class Comparison(t.NamedTuple):
    """The differences by path, and the paths owned by a BMC emulator that are kept as found."""

    differences: tuple[Difference, ...]
    kept: tuple[str, ...]
