# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of the host's network, and the little one must read of ifupdown's language."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of the network.

    ``trial`` are files that a reboot forgets, ``keep`` those that make the change last; both map
    path to text. ``apply`` and ``revert`` are commands.
    """

    manager: str
    trial: t.Mapping[str, str]
    keep: t.Mapping[str, str]
    apply: tuple[tuple[str, ...], ...]
    revert: tuple[tuple[str, ...], ...]


def has_stanza(text: str, name: str) -> bool:
    """Whether an interfaces file configures a link."""
    return any(line.split()[:2] == ["iface", name] for line in text.splitlines())


def sourced_patterns(text: str) -> list[str]:
    """The files and folders an interfaces file takes in."""
    words = (line.split() for line in text.splitlines())
    return [parts[1] for parts in words if len(parts) > 1 and parts[0] in ("source", "source-directory")]
