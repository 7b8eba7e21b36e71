# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide on TLS between Galera members, without I/O: the current stage of a member, and the steps of a running cluster to another one.

A member that uses TLS only cannot connect to one that uses plain text only. A member at stage ``both`` connects to either, so a running
cluster passes through that stage, one member at a time, without losing quorum.
"""

from __future__ import annotations

import re
import typing as t

STAGES = ("off", "both", "on")
#: First Galera version with ``socket.dynamic``, which allows stage ``both``.
DYNAMIC_SINCE = (4, 8)


def tls_stage(options: str) -> str:
    """Return the TLS stage in a ``wsrep_provider_options`` string: ``off``, ``both`` or ``on``."""
    found = {key.strip(): value.strip().lower() for key, _equals, value in (part.partition("=") for part in options.split(";"))}
    if found.get("socket.ssl") not in ("yes", "true", "1", "on"):
        return "off"
    return "both" if found.get("socket.dynamic") in ("yes", "true", "1", "on") else "on"


def tls_steps(live: t.Iterable[str | None], wanted: bool) -> tuple[str, ...]:
    """Return the stages that all members must pass one after the other; the wanted stage is last.

    :arg live: stage of each member, ``None`` for members that are not running.
    """
    goal, opposite = ("on", "off") if wanted else ("off", "on")
    return ("both", goal) if opposite in set(live) else (goal,)


def tls_changing(live: t.Iterable[str | None], wanted: bool) -> bool:
    """Return whether a running member must still reach the wanted stage. Until then, no witness may be connected.

    A witness uses TLS or plain text, never both, so it could not connect to some of the members: these would have too few votes.

    :arg live: stage of each member, ``None`` for members that are not running.
    """
    return bool(set(live) - {None, "on" if wanted else "off"})


def tls_wanted(asked: bool | None, looks: t.Iterable[t.Mapping[str, t.Any] | None]) -> bool:
    """Return whether the members must use TLS: the operator's setting, else the current state of the cluster, else (new cluster) true.

    Members at stage ``both`` are in transition. Both directions are safe; plain text is kept if any member still uses it exclusively.

    :arg looks: result of ``galera_info`` per member, empty or ``None`` for a member that does not answer.
    """
    if asked is not None:
        return asked
    known = [facts for facts in looks if facts]
    used = {facts.get("tls") for facts in known} - {None}
    written = {facts.get("tls_written") for facts in known} - {None}
    return "off" not in (used or written)


def speaks_both(version: str) -> bool:
    """Return whether this Galera version (``26.4.23(r...)``, or ``4.23`` without the interface number) supports stage ``both``."""
    found = re.match(r"(?:\d+\.)?(\d+)\.(\d+)(?:\(|$)", version.strip())
    return bool(found) and (int(found.group(1)), int(found.group(2))) >= DYNAMIC_SINCE


def decide(looks: t.Iterable[t.Mapping[str, t.Any] | None], asked: t.Any = None) -> dict[str, t.Any]:
    """Return ``wanted``, ``steps`` and ``changing``; see :func:`tls_wanted`, :func:`tls_steps` and :func:`tls_changing`."""
    known = list(looks)
    wanted = tls_wanted(None if asked is None else bool(asked), known)
    live = [(facts or {}).get("tls") for facts in known]
    return {"wanted": wanted, "steps": list(tls_steps(live, wanted)), "changing": tls_changing(live, wanted)}
