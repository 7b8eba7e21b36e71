# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the maintenance of a server: whether it may be emptied now, what happens to its VMs, and what an interrupted run left."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

MOVE, STOP = "move", "stop"
# stages of the unfinished server: its VMs may be moved or off; its management controller may have switched it off; only its VMs have to come back
EMPTYING, RESTARTING, RESTARTED = "emptying", "restarting", "restarted"
_PREFIX = "maintain_virt_node"
_RUNNING = ("running", "paused", "suspended")


@dataclasses.dataclass(frozen=True)
class Policy:
    """The options of the operator.

    :arg destinations: VM → the server it is moved to while its server is maintained.
    :arg restart_elsewhere: whether a VM that cannot be moved live may be restarted at its destination.
    :arg accept_outage: whether a service may lose its majority meanwhile.
    :arg control_macs: the MACs of the control node, which may be one of the VMs.
    """

    destinations: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    restart_elsewhere: bool = False
    accept_outage: bool = False
    control_macs: t.Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Step:
    """What happens to a running VM: it is moved to a destination, or stopped and started again.

    :arg id: of a VM that is moved, with its ``cluster``.
    """

    name: str
    action: str
    destination: str = ""
    id: str = ""
    cluster: str = ""

    @property
    def text(self) -> str:
        """Return the step as text."""
        return f"{self.name} is moved to {self.destination}, and back" if self.action == MOVE else f"{self.name} is shut down, and started again"


def order_servers(asked: t.Sequence[str], known: t.Sequence[str], journal: t.Mapping[str, t.Any] | None) -> list[str]:
    """Return the servers in the order of their maintenance; the one that an interrupted run left unfinished comes first."""
    for number, name in enumerate(asked):
        if name not in known:
            raise model_errors.InputError(f"{name} is not a virt host.", f"{_PREFIX}_servers[{number}]", f"Use some of {', '.join(known)}.")
    servers = list(dict.fromkeys(asked or known))
    unfinished = str((journal or {}).get("server") or "")
    done = set((journal or {}).get("done") or ())
    if unfinished and unfinished not in servers:
        raise model_errors.RefusedError(
            f"the maintenance of {unfinished} is unfinished ({(journal or {}).get('stage')}).",
            f"{_PREFIX}_servers",
            f"Finish it with -e {_PREFIX}_servers={unfinished}, or discard its journal with -e {_PREFIX}_forget=true after you started its VMs.",
        )
    return sorted((name for name in servers if name not in done), key=lambda name: (name != unfinished, servers.index(name)))


def failure(result: t.Mapping[str, t.Any]) -> str:
    """Return why a task failed. The message of a loop says only that an item failed.

    :arg result: of the task, as registered; for a loop with the ``results`` of its items.
    """
    texts = []
    for one in result.get("results") or ():
        if one.get("failed"):
            item = one.get(one.get("ansible_loop_var") or "item")
            name = item.get("name") if isinstance(item, t.Mapping) else item
            texts.append(f"{name}: {one.get('msg') or 'failed'}")
    return " ".join(texts) or str(result.get("msg") or "failed")


def switched_off(journal: t.Mapping[str, t.Any] | None) -> str:
    """Return the server that an interrupted run may have left switched off, which is then off in the next run as well; empty if there is none."""
    return str((journal or {}).get("server") or "") if (journal or {}).get("stage") == RESTARTING else ""


def check_destinations(destinations: t.Mapping[str, str], known: t.Sequence[str], details: t.Sequence[t.Any], names: t.Sequence[str]) -> None:
    """Check the destinations of VMs: a VM with a misspelled ID would be shut down instead.

    :arg details: the VM details of each server. IDs are not checked if some of them are not a list of mappings.
    :arg names: further names of VMs.
    """
    complete = all(isinstance(vms, (list, tuple)) and all(isinstance(vm, t.Mapping) for vm in vms) for vms in details)
    ids = {str(vm[key]) for vms in details for vm in vms for key in ("id", "name") if vm.get(key)} | set(names) if complete else set()
    for name, server in destinations.items():
        path = f"{_PREFIX}_destinations.{name}"
        if server not in known:
            raise model_errors.InputError(f"{server!r} is not a virt host.", path, f"Use one of {', '.join(known)}.")
        if ids and name not in ids:
            raise model_errors.InputError("no virt host has this VM in its VM details.", path, f"Use some of {', '.join(sorted(ids))}.")


def plan(
    server: str,
    vms: t.Sequence[t.Mapping[str, t.Any]],
    environments: t.Mapping[str, plan_controlplane.Members],
    looks: plan_controlplane.Looks,
    places: t.Mapping[str, str],
    policy: Policy,
    journal: t.Mapping[str, t.Any] | None = None,
    instances: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    """Decide whether a server may be maintained now, and what happens to its VMs.

    :arg vms: the VMs of this server, as returned by ``vm_info``.
    :arg environments: environment → its members; each must keep its majorities.
    :arg places: host → its server, as far as the inventory knows it.
    :arg journal: of an interrupted run; its VMs are those of the unfinished server.
    :arg instances: result of ``compute_instances`` in check mode, as registered; empty or skipped for other servers.
    """
    begun = (journal or {}).get("server") == server
    stage = str((journal or {}).get("stage") or "") if begun else ""
    steps = [Step(**one) for one in (journal or {}).get("steps") or ()] if begun else []
    members = {host for members in environments.values() for names in members.values() for host in names}
    here = _members_here(server, members, vms, places) | members & {step.name for step in steps}
    record = (journal or {}).get("instances") or {} if begun else {}
    why: list[str] = []
    if stage != RESTARTED:
        record = (instances or {}).get("record") or record
        # what was started after an interrupted run began would be lost with the restart as well
        recorded = {step.name for step in steps} | _migrated(vms, record)
        more, why = _steps(server, [vm for vm in vms if str(vm["name"]) not in recorded], policy)
        steps += more
        if instances and not instances.get("skipped") and "record" not in instances:
            why.insert(0, f"its instances: {instances.get('msg') or 'no result'}".rstrip("."))
        why += _control_node(vms, steps, policy)
        why += _quorums(server, here, begun, plan_controlplane.reports_of(environments, looks), policy)
    lines = [f"{server}: {'continues, ' + stage if begun else 'maintenance'}"]
    texts = [*((instances or {}).get("lines") or () if stage != RESTARTED else ()), *(step.text for step in steps)]
    lines += [f"  {text}" for text in texts] or ["  it has no running VMs"]
    return {
        "ok": not why, "why": why, "lines": lines, "begun": begun, "stage": stage, "members": sorted(here),
        "steps": [dataclasses.asdict(step) for step in steps],
        "journal": {"server": server, "stage": stage or EMPTYING, "steps": [dataclasses.asdict(step) for step in steps],
                    "done": list((journal or {}).get("done") or ()), "instances": record},
    }  # fmt: skip


def _members_here(server: str, members: set[str], vms: t.Sequence[t.Mapping[str, t.Any]], places: t.Mapping[str, str]) -> set[str]:
    """Return the members that the server would take with it: what it reports itself counts, whatever the inventory says of a VM that was moved."""
    running = {str(vm["name"]) for vm in vms if not vm.get("moved") and vm.get("state") in _RUNNING}
    left = {str(vm["name"]) for vm in vms if vm.get("moved") not in (None, "", server)}
    return {host for host in members if host in running or (places.get(host) or host) == server and host not in left}


def _migrated(vms: t.Sequence[t.Mapping[str, t.Any]], record: t.Mapping[str, t.Any]) -> set[str]:
    """Return the names of the domains that are instances which leave the server."""
    ids = {str(step["id"]) for step in record.get("steps") or ()}
    return {str(vm["name"]) for vm in vms if vm.get("instance") and str(vm.get("uuid")) in ids}


def _steps(server: str, vms: t.Sequence[t.Mapping[str, t.Any]], policy: Policy) -> tuple[list[Step], list[str]]:
    steps: list[Step] = []
    why = []
    for vm in vms:
        name = str(vm["name"])
        if vm.get("moved") or vm.get("state") not in _RUNNING:
            continue
        if vm.get("instance"):
            why.append(f"{name} is an instance of a cloud, but not one that Nova has on {server} and this playbook migrates: migrate or delete it first")
            continue
        vm_id = str(vm.get("id") or "")
        destination = policy.destinations.get(vm_id or name)
        if destination is None:
            steps.append(Step(name, STOP))
        elif not vm_id:
            why.append(f"{name} is not managed by this collection, so it cannot be moved. Adopt it, or remove it from {_PREFIX}_destinations")
        elif any(step.id == vm_id for step in steps):
            why.append(f"several VMs of {server} have the id {vm_id} in different clusters. Move them with move_vm, one at a time, and confirm each move")
        elif destination == server:
            why.append(f"{_PREFIX}_destinations.{name}: {server} is the server that is maintained. Use another one")
        elif vm.get("hypervisor") == "lxc" and not policy.restart_elsewhere:
            why.append(f"{name} is a container, which cannot be moved live. Restart it on {destination} with -e {_PREFIX}_restart_elsewhere=true")
        else:
            steps.append(Step(name, MOVE, destination, vm_id, str(vm.get("cluster") or "")))
    return steps, why


def _control_node(vms: t.Sequence[t.Mapping[str, t.Any]], steps: t.Sequence[Step], policy: Policy) -> t.Iterator[str]:
    """Yield the reason against shutting down the VM that runs the playbook: nothing would start it and the other VMs again."""
    own = {str(mac).lower() for mac in policy.control_macs}
    stopped = {step.name for step in steps if step.action == STOP}
    for vm in vms:
        if vm["name"] in stopped and own & {str(mac).lower() for mac in vm.get("macs") or ()}:
            yield (
                f"{vm['name']} runs this playbook, which would end with its shutdown. Run it on another machine, or move it to another server meanwhile with "
                f"-e '{{\"{_PREFIX}_destinations\": {{\"{vm.get('id') or vm['name']}\": SERVER}}}}'"
            )


def _quorums(server: str, here: set[str], begun: bool, reports: t.Iterable[tuple[str, plan_controlplane.Report]], policy: Policy) -> list[str]:
    """Return the reasons of the control plane against losing the members on a server."""
    why = []
    for name, report in reports:
        voters = (*report.members, *report.witnesses)
        # an interrupted run may have left those on this server stopped, which may be the reason of the problems of the service
        why += [] if begun else [f"{name}: {text}" for text in report.why]
        why += [f"{name} on {one.text}" for one in report.unhealthy if not (begun and one.host in here)]
        lost = [one.host for one in voters if one.host in here]
        left = sum(1 for one in voters if one.state == plan_controlplane.OK and one.host not in here)
        if lost and left < report.needed and not policy.accept_outage:
            why.append(
                f"without {server} ({', '.join(lost)}) {name} would have {left} of {report.votes} members left and needs {report.needed}. Move a member "
                f"to another server first, or accept the interruption with -e {_PREFIX}_accept_outage=true"
            )
    return why
