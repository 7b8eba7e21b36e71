# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands on a node that is to go, and the quorums its VMs belong to."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_bool, parse_name

_HINT = "Write {controller: [{name: controller1, server: metal1, alive: true}, ...]}, one entry for each member."


@dataclasses.dataclass(frozen=True)
class Guest:
    """A VM as it stands on the node; ``cluster`` and ``id`` are ``None`` where it is none of this collection's.

    ``active``: it has a process. ``moved_to``: where its new copy runs, for the old copy of a move that nobody confirmed yet.
    """

    name: str
    uuid: str
    uri: str
    state: str
    autostart: bool
    persistent: bool = True
    id: str | None = None
    cluster: str | None = None
    origin: str | None = None
    protected: bool = False
    roles: tuple[str, ...] = ()
    moved_to: str | None = None
    memory_mib: int = 0
    cpu: int = 0

    @property
    def active(self) -> bool:
        """Whether it has a process, and memory with it."""
        return self.state != "shutdown"

    @property
    def owner(self) -> str:
        """Whose it is, in words."""
        if self.cluster is None:
            return "not ours"
        return f"cluster {self.cluster}" + ("" if self.origin in (None, "vm_define") else f" ({self.origin})")


@dataclasses.dataclass(frozen=True)
class Member:
    """A member of a quorum: where it stands, and whether it takes part now."""

    name: str
    server: str
    alive: bool


def parse_quorums(value: t.Any) -> dict[str, tuple[Member, ...]]:
    """Quorum → its members, on all servers.

    :arg value: mapping of lists, or nothing.
    :raises InputError: with the path of the bad value.
    """
    if value is None or value == "":
        return {}
    if not isinstance(value, t.Mapping):
        raise InputError(f"is {type(value).__name__}, not a mapping.", "quorums", _HINT)
    found = {}
    for quorum, entries in value.items():
        where = f"quorums.{quorum}"
        if isinstance(entries, (str, bytes, t.Mapping)) or not isinstance(entries, t.Sequence):
            raise InputError(f"is {type(entries).__name__}, not a list.", where, _HINT)
        members: list[Member] = []
        for index, entry in enumerate(entries):
            place = f"{where}[{index}]"
            if not isinstance(entry, t.Mapping) or set(entry) - {"name", "server", "alive"}:
                raise InputError("is no member.", place, _HINT)
            name = parse_name(entry.get("name"), f"{place}.name")
            if any(member.name == name for member in members):
                raise InputError(f"{name!r} is a member already.", f"{place}.name", "List each member once.")
            alive = parse_bool(entry.get("alive", True), f"{place}.alive")
            members.append(Member(name, parse_name(entry.get("server"), f"{place}.server"), alive))
        found[str(quorum)] = tuple(members)
    return found
