# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the removal of a virt node: what is refused before any change, and what ends on other machines with its VMs."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan

#: Actions of steps: a VM is not started by itself any more; a server leaves the cluster that did that; a machine forgets the key of copies; they end.
DISARM, LEAVE, WITHDRAW, END = "disarm", "leave", "withdraw", "end"
_STARTING = ("active", "activating", "reloading")
Result = t.Mapping[str, t.Any]


class Wanted(t.NamedTuple):
    """The wishes of the operator.

    :arg confirmed: otherwise nothing is changed, so nothing is refused.
    """

    server: str
    cluster: str
    confirmed: bool = False
    remove_vms: bool = False
    leave_instances: bool = False
    migrate_instances: bool = False


class Found(t.NamedTuple):
    """Results of the modules, as registered: also those that failed.

    :arg standbys: of ``vm_standby_info`` on the server.
    :arg compute: of ``systemctl is-active nova-compute``.
    :arg impact: of ``footprint_plan`` with all servers.
    :arg volumes: what the loss of the server means for volumes.
    """

    standbys: Result
    compute: Result
    impact: Result
    volumes: t.Sequence[str] = ()


def plan(wanted: Wanted, found: Found, hosts: t.Container[str], quorums: t.Mapping[str, t.Any]) -> Plan:
    """Decide about the removal of a server; what its VMs are is checked by ``virt_node``.

    :arg quorums: the members of each quorum, for ``virt_node``.
    """
    lines = [str(server["lost"]["sentence"]) for server in found.impact.get("servers") or () if server["name"] == wanted.server]
    lines += found.volumes
    problems = [*_unknown(found.standbys), *_watching(wanted.server, found.standbys), *_computing(wanted, found.compute)] if wanted.confirmed else []
    steps = _steps(wanted, found.standbys, hosts) if wanted.confirmed and wanted.remove_vms else []
    return Plan(lines, list(steps), problems, values={"quorums": quorums})


def _unknown(standbys: Result) -> t.Iterator[FootprintError]:
    if standbys.get("standbys") is None:
        yield FootprintError(f"it is unknown whether the server starts VMs of others by itself, and which of its own are copied: {_reason(standbys)}.")


def _reason(result: Result) -> str:
    return str(result.get("stderr") or result.get("msg") or "no result").rstrip(".")


def _watching(server: str, standbys: Result) -> t.Iterator[FootprintError]:
    """Yield an error if it would start VMs afterwards, or fail to when it is needed, because its pools are gone."""
    watched = sorted(one["id"] for one in standbys.get("standbys") or () if one["part"] == "standby" and one.get("automatic"))
    if watched:
        yield FootprintError(
            f"{server} would start {', '.join(watched)} by itself when its server is lost.",
            hint="Set standby in its VM details to another server and run spawn_vms twice, or remove standby and run spawn_vms. If it runs here already, "
            "move it back with move_vm before. If its server is lost for good, remove its copies here with the module vm_standby and state absent.",
        )


def _computing(wanted: Wanted, compute: Result) -> t.Iterator[FootprintError]:
    if wanted.leave_instances:
        return
    # systemctl prints a state also for a unit that does not exist
    if not compute.get("stdout"):
        yield FootprintError(f"it is unknown whether nova-compute runs on {wanted.server}: {_reason(compute)}.")
    elif compute["stdout"] in _STARTING and not wanted.migrate_instances:
        yield FootprintError(
            f"nova-compute runs on {wanted.server}, so the cloud could start instances there during and after the removal.",
            hint="Disable its compute service and migrate or delete its instances, then run on it: systemctl disable --now nova-compute.service. "
            "docs/servers.md describes what remains in the cloud.",
        )


def _steps(wanted: Wanted, standbys: Result, hosts: t.Container[str]) -> t.Iterator[dict[str, t.Any]]:
    """Yield what ends with the VMs of the server, all of one action before the next; the server forgets them last."""
    sources = [one for one in standbys.get("standbys") or () if one["part"] == "source" and one["cluster"] == wanted.cluster]
    automatic = [one for one in sources if one.get("automatic")]
    yield from ({"action": DISARM, "id": one["id"], "host": wanted.server} for one in automatic)
    # with a VM of the other server the cluster continues, and its removal is refused before
    others = dict.fromkeys(one["standby"] for one in automatic if one["standby"] in hosts)
    yield from ({"action": LEAVE, "id": None, "host": host} for host in [*others, *([wanted.server] if automatic else [])])
    for one in sources:
        for name in one["key_accepted_by"] if one["public_key"] else ():
            if name in hosts:
                yield {"action": WITHDRAW, "id": one["id"], "host": name, "public_key": one["public_key"]}
    # no later run is here to withdraw the others
    yield from ({"action": END, "id": one["id"], "host": wanted.server, "withdrawn_from": list(one["key_accepted_by"])} for one in sources)
