# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs of a node to remove, and the quorums of which they are members."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import mapping, sequence
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_bool, parse_name

_HINT = "Use {controller: [{name: controller1, server: metal1, alive: true}, ...]}, one entry for each member."


class Guest(t.NamedTuple):
    """A VM on the node; ``cluster`` and ``id`` are ``None`` if it is not managed by this collection.

    ``active``: it has a process. ``instance``: the instance of Nova that it is, as text.
    ``moved_to``: the server that runs the VM, if this is the old copy of an unconfirmed move.
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
    instance: str = ""

    @property
    def active(self) -> bool:
        """Whether it has a process, which uses memory."""
        return self.state != "shutdown"

    @property
    def owner(self) -> str:
        """The owner as text."""
        if self.instance:
            return self.instance
        if self.cluster is None:
            return "unmanaged"
        return f"cluster {self.cluster}" + ("" if self.origin in (None, "vm_define") else f" ({self.origin})")

    def as_dict(self) -> dict[str, t.Any]:
        """Return what all results contain of it."""
        names = ("name", "id", "uuid", "cluster", "origin", "owner", "protected", "state")
        return {**{name: getattr(self, name) for name in names}, "roles": list(self.roles)}


class Member(t.NamedTuple):
    """A member of a quorum: its server, and whether it is healthy now."""

    name: str
    server: str
    alive: bool


def parse_quorums(value: t.Any) -> dict[str, tuple[Member, ...]]:
    """Parse the members of each quorum, on all servers.

    :arg value: mapping of lists, or ``None``.
    """
    found = {}
    for quorum, given in mapping(value, "quorums", _HINT).items():
        where = f"quorums.{quorum}"
        entries = sequence(given, where, _HINT)
        members: list[Member] = []
        for index, entry in enumerate(entries):
            place = f"{where}[{index}]"
            if not isinstance(entry, t.Mapping) or set(entry) - {"name", "server", "alive"}:
                raise InputError("is not a valid member.", place, _HINT)
            name = parse_name(entry.get("name"), f"{place}.name")
            if any(member.name == name for member in members):
                raise InputError(f"{name!r} is listed twice.", f"{place}.name", "List each member once.")
            alive = parse_bool(entry.get("alive", True), f"{place}.alive")
            members.append(Member(name, parse_name(entry.get("server"), f"{place}.server"), alive))
        found[str(quorum)] = tuple(members)
    return found
