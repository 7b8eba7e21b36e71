# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection profiles of NetworkManager, as far as a change of the network needs them."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class NmProfile:
    """The profile a link is brought up by.

    ``bound`` tells that it is for this link alone, ``saved`` that it is on the disk. ``settings`` are those of
    its addresses, in the words ``nmcli`` both prints and takes.
    """

    uuid: str
    name: str
    kind: str
    bound: bool = True
    saved: bool = True
    autoconnect: bool = True
    priority: int = 0
    settings: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class NmState:
    """Profiles by the link they bring up; ``names`` are those of all profiles, and whether each is in use.

    ``script`` is the program that speaks to NetworkManager about its checkpoints. ``robber`` is a file that
    takes a bond's ports away whenever a link changes its profile.
    """

    profiles: t.Mapping[str, NmProfile]
    names: t.Mapping[str, bool]
    script: str
    robber: str | None = None
