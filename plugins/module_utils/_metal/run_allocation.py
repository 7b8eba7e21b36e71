# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: assign whole servers to requests, record and release them."""

from __future__ import annotations

import hashlib
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_redaction
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._metal import model_allocation, plan_allocation
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import (
    as_list,
    parse_names,
    parse_placement_policy,
    parse_wanted,
)
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_server import parse_question

ASSIGNED, RELEASED = "assigned", "released"
STATES = (ASSIGNED, RELEASED)


class AllocationResult(t.NamedTuple):
    """The assignments afterwards (in check mode after a real run), and the changes."""

    allocations: list[dict[str, t.Any]]
    actions: tuple[str, ...]
    before: str
    after: str

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of the module."""
        diff = {"before": self.before, "after": self.after}
        return {"changed": bool(self.actions), "allocations": self.allocations, "actions": list(self.actions), "diff": diff}


def hidden_values(params: t.Mapping[str, t.Any]) -> set[str]:
    """Return the secrets in the servers, for a module to remove from its output."""
    return set(model_redaction.hidden_values(params.get("servers")))


def shown(servers: t.Any) -> t.Any:
    """Return the servers without VM details, for the result."""
    if not isinstance(servers, (list, tuple)):
        return None
    return [{key: value for key, value in one.items() if key != "vms"} if isinstance(one, t.Mapping) else None for one in servers]


def _without_traits(value: t.Any, path: str) -> tuple[list[t.Any], dict[str, frozenset[str]]]:
    """Return entries without their traits, and the traits by the path of the entry."""
    plain, found = [], {}
    for index, entry in enumerate(as_list(value, path)):
        if isinstance(entry, t.Mapping) and "traits" in entry:
            found[f"{path}[{index}]"] = frozenset(parse_names(entry["traits"], f"{path}[{index}].traits"))
            entry = {key: given for key, given in entry.items() if key != "traits"}
        plain.append(entry)
    return plain, found


def allocate(params: t.Mapping[str, t.Any], check_mode: bool, now: t.Callable[[], str] = utc) -> AllocationResult:
    """Assign or release whole servers.

    :raises CapacityError: a request has no server; nothing was assigned.
    """
    path = pathlib.Path(params["record"])
    if not path.is_absolute():
        raise InputError(f"{str(path)!r} is not an absolute path.", "record", "Write a path outside of temporary folders.")
    plain, listed_traits = _without_traits(params["wanted"], "wanted")
    wanted = parse_wanted(plain)
    # count: 3 of an entry makes three requests of its path
    needs = {one.name: listed_traits[one.path] for one in wanted if one.path in listed_traits}
    plain, listed_traits = _without_traits(params["servers"], "servers")
    servers = parse_question("footprint", plain, [], wanted, parse_placement_policy()).servers
    has = {one.name: listed_traits[one.path] for one in servers if one.path in listed_traits}
    if params["state"] == RELEASED and not params["names"]:
        raise InputError("is required.", "names", "List the requests whose servers are no longer needed.")
    # the same file is one lock, whatever path leads to it
    name = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:16]
    with host_lock(f"allocation-{name}", params["lock_timeout"]):
        try:
            text = read_text(str(path))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.", "record", "Give the path of a file that this user may read.") from error
        assigned = model_allocation.parse_record(text, str(path))
        if params["state"] == RELEASED:
            plan = plan_allocation.release(params["names"], assigned)
        else:
            plan = plan_allocation.assign(servers, wanted, assigned, now(), needs, has)
        after = model_allocation.record_text(plan.assigned) if plan.actions else text or ""
        if plan.actions and not check_mode:
            try:
                write_atomic(path, after)
            except OSError as error:
                raise BackendError(f"the record {path} cannot be written: {error.strerror}.", "record", "Create its folder, or give another path.") from error
    listed = [{"name": one.name, "server": one.server, "since": one.since, "reason": plan.reasons.get(one.name)} for one in plan.assigned.values()]
    return AllocationResult(sorted(listed, key=lambda entry: str(entry["name"])), plan.actions, text or "", after)
