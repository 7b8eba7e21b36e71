# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of NetworkManager connection profiles that a network change needs."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class NmProfile:
    """The active profile of a link.

    ``bound``: it is for this link only. ``saved``: it is on disk. ``settings`` are its address settings,
    with names and values as in ``nmcli``.
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
    """Profiles by link; ``names`` maps the names of all profiles to whether each is in use.

    ``script`` is the source of the program that manages checkpoints. ``detaching_script`` is the path of a script that
    detaches the ports of a bond whenever a link changes its profile.
    """

    profiles: t.Mapping[str, NmProfile]
    names: t.Mapping[str, bool]
    script: str
    detaching_script: str | None = None
