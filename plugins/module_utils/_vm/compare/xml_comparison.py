# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a comparison of the documents of one domain finds."""

from __future__ import annotations

import typing as t


class Difference(t.NamedTuple):
    """One path at which something has to be done.

    ``path`` names a value (``memory``, ``vcpu/@current``), or a whole element with one line of XML as
    its value (``devices/disk[vdb]``). ``wanted`` is ``None`` for what is to go, ``config`` and
    ``live`` for what is not there. ``outside``: somebody else changed it since it was applied.
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
    """The differences by path, and the paths of a BMC emulator that were left as found."""

    differences: tuple[Difference, ...]
    kept: tuple[str, ...]
