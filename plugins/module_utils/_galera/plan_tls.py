# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encryption between Galera members, pure: what a member speaks, and by which steps a cluster that lives comes to another.

A member that speaks TLS alone and one that speaks plain text alone do not hear each other. One that speaks ``both`` hears
either, so a cluster that lives passes through it, one member at a time, and never loses its quorum.
"""

from __future__ import annotations

import re
import typing as t

STAGES = ("off", "both", "on")
#: The first Galera whose members can speak both, ``socket.dynamic``.
DYNAMIC_SINCE = (4, 8)


def tls_stage(options: str) -> str:
    """What a member speaks, by its ``wsrep_provider_options``: ``off``, ``both`` or ``on``."""
    found = {key.strip(): value.strip().lower() for key, _equals, value in (part.partition("=") for part in options.split(";"))}
    if found.get("socket.ssl") not in ("yes", "true", "1", "on"):
        return "off"
    return "both" if found.get("socket.dynamic") in ("yes", "true", "1", "on") else "on"


def tls_steps(live: t.Iterable[str | None], wanted: bool) -> tuple[str, ...]:
    """The stages all members have to pass one after the other, the wanted one last.

    :arg live: what the members of the cluster that lives speak, nothing for those that do not run.
    """
    goal, opposite = ("on", "off") if wanted else ("off", "on")
    return ("both", goal) if opposite in set(live) else (goal,)


def tls_wanted(asked: bool | None, looks: t.Iterable[t.Mapping[str, t.Any] | None]) -> bool:
    """Whether the members are to speak TLS: what the operator says; else what the cluster does already; else, being new, they are.

    Some that speak both are between two stages. Both ways out are safe, and plain text is kept where somebody still speaks it alone.

    :arg looks: what ``galera_info`` returns of each member, nothing for one that does not answer.
    """
    if asked is not None:
        return asked
    known = [facts for facts in looks if facts]
    spoken = {facts.get("tls") for facts in known} - {None}
    written = {facts.get("tls_written") for facts in known} - {None}
    return "off" not in (spoken or written)


def speaks_both(version: str) -> bool:
    """Whether a Galera of this version (``26.4.23(r...)``, or ``4.23`` without the interface's number) can speak both."""
    found = re.match(r"(?:\d+\.)?(\d+)\.(\d+)(?:\(|$)", version.strip())
    return bool(found) and (int(found.group(1)), int(found.group(2))) >= DYNAMIC_SINCE
