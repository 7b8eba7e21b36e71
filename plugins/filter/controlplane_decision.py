# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: decisions about the control plane and the servers below it."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import decision_module, imported

DOCUMENTATION = r"""
name: controlplane_decision
short_description: Decide what a playbook does next with the control plane
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Makes the decisions of the playbooks that restart, move and replace members of the control plane and their servers.
  - For internal use; the functions in its file document the arguments and results of each decision.
positional: decision
options:
  _input:
    description:
      - Each host of the control plane with RV(reduced.footprint.controlplane_info#module:controlplane), empty for a host that does not answer. With
        V(add_server) the result of M(reduced.footprint.footprint_plan), with V(replace_controller) and V(replace_server) the request.
    type: dict
    required: true
  decision:
    description: V(gate) decides whether a member may be changed now, each other decision what the playbook of its name does.
    type: str
    required: true
    choices: [add_server, answers, clocks, failure, gate, machines, maintain_virt_node, moves_report, replace_controller, replace_server, rolling_restart]
"""

EXAMPLES = r"""
- name: Continue only if all members of the database are healthy
  ansible.builtin.assert:
    that: (looks | reduced.footprint.controlplane_decision('gate', members, ['galera'])).ok
  vars:
    looks: "{{ dict(found.results | map(attribute='item') | zip(found.results | map(attribute='controlplane', default={}))) }}"
    members: "{{ hostvars | reduced.footprint.controlplane_members(groups) }}"
"""

RETURN = r"""
_value:
  description: The decision, which has V(why), the reasons against it.
  type: dict
"""

Values = t.Mapping[str, t.Any]
Looks = t.Mapping[str, t.Union[Values, None]]
Members = t.Mapping[str, t.Sequence[str]]


def add_server(
    plan: Values,
    vms: t.Mapping[str, t.Sequence[Values]],
    moves: t.Mapping[str, t.Sequence[Values]],
    controllers: t.Mapping[str, str | None],
    cluster: str,
    witnesses: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the moves of controllers in order, see :func:`plan_add_server.steps`, and ``listed``, those that the inventory lists under another server.

    :arg plan: of the placement; an empty one returns the current state only.
    :arg vms: each server with the VMs of ``vm_info``.
    :arg moves: each server with the moves of ``vm_move_info``.
    :arg controllers: each with its server in the inventory, empty for one that is a server.
    :arg witnesses: machines that vote and are not controllers.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import listed_elsewhere, steps

    todo = steps(plan, vms, moves, list(controllers), cluster, witnesses)
    return {**todo, "listed": listed_elsewhere(todo["places"], controllers)}


def gate(
    looks: Looks, members: Members, services: t.Sequence[str] = (), skipped: t.Sequence[str] = (), wanted: Values | None = None, spare: bool = False
) -> dict[str, t.Any]:
    """Return whether a member may be changed now; see :func:`plan_gate.check_gate`.

    :arg services: to check, in addition to the load balancer; empty means all.
    :arg skipped: hosts on which these services may be unhealthy.
    :arg wanted: conditions beyond health: ``sizes``, ``cluster_uuid``, ``position`` and ``frontends`` of ``controlplane_info``.
    :arg spare: whether each of the services must keep serving without one more member.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_gate import check_gate
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import parse_wanted

    return check_gate(members, looks, services, skipped, parse_wanted(wanted or {}), spare).as_dict()


def maintain_virt_node(
    looks: Looks,
    known: t.Sequence[str],
    asked: t.Any = (),
    server: str = "",
    environments: t.Mapping[str, Members] | None = None,
    vms: t.Sequence[Values] = (),
    places: t.Mapping[str, str] | None = None,
    destinations: t.Mapping[str, str] | None = None,
    restart_elsewhere: bool = False,
    accept_outage: bool = False,
    journal: str = "",
    details: t.Sequence[t.Any] = (),
    names: t.Sequence[str] = (),
    control_macs: t.Sequence[str] = (),
    instances: Values | None = None,
) -> dict[str, t.Any]:
    """Return the plan of a server, see :func:`plan_maintenance.plan`; without ``server`` their order.

    The order has ``servers``, ``done`` (what an interrupted run has completed), ``switched_off`` (the server that it may have left switched off),
    ``instances`` (its record of those of each server) and ``error``.

    :arg known: the virt hosts of the inventory.
    :arg asked: the servers to maintain, a list or names separated by commas; empty means all.
    :arg environments: the members of each environment.
    :arg vms: those of ``vm_info`` on the server.
    :arg places: each host with its server, empty for one that is a server.
    :arg destinations: IDs of VMs with the server they are moved to meanwhile; all others are shut down, and started again.
    :arg journal: the text of an interrupted run's journal.
    :arg details: without ``server``, the VM details of each server, with which the IDs in ``destinations`` are checked.
    :arg names: of further VMs.
    :arg control_macs: of the control node; a VM with one of them runs the playbook and is not shut down.
    :arg instances: the result of ``compute_instances`` for the server in check mode.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_maintenance
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import MAINTENANCE

    try:
        kept = _journal(MAINTENANCE, journal, "maintain_virt_node_journal")
        if not server:
            chosen = [name.strip() for name in asked.split(",") if name.strip()] if isinstance(asked, str) else [str(name) for name in asked or ()]
            plan_maintenance.check_destinations(destinations or {}, known, details, names)
            servers = plan_maintenance.order_servers(chosen, known, kept)
            begun = {kept["server"]: kept.get("instances") or {}} if kept and kept.get("server") else {}
            done, off = list((kept or {}).get("done") or ()), plan_maintenance.switched_off(kept)
            return {"servers": servers, "done": done, "switched_off": off, "instances": begun}
        policy = plan_maintenance.Policy(destinations or {}, restart_elsewhere, accept_outage, control_macs)
        found = plan_maintenance.plan(server, vms, environments or {}, looks, places or {}, policy, kept, instances)
        return {**found, "journal": MAINTENANCE.mark(found["journal"])}
    except (InputError, RefusedError) as error:
        return {"error": str(error), "servers": [], "ok": False, "why": [str(error)], "lines": [], "steps": []}


def replace_controller(
    wanted: Values,
    members: Members,
    places: t.Mapping[str, str],
    servers: t.Sequence[str] = (),
    looks: Looks | None = None,
    found: t.Mapping[str, Values] | None = None,
    answering: t.Sequence[str] = (),
    now: str = "",
) -> dict[str, t.Any]:
    """Return the plan of a replacement, see :func:`plan_replacement.plan`; without ``found`` whether the request is valid.

    :arg wanted: ``name``, ``server``, ``stop``, ``confirm`` and ``again``, as the variables of the playbook, and ``id`` of the VM if that is not its name.
    :arg places: each controller with its server, empty for one that is a server.
    :arg servers: the virt hosts of the inventory.
    :arg found: each virt host with ``vms`` of ``vm_info`` and ``replacements`` of ``vm_replacement_info``, empty for a server that does not answer.
    :arg answering: hosts whose ssh port answers although Ansible cannot use them.
    :arg now: time of a new replacement (UTC).
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_replacement

    request = plan_replacement.Request(
        *(str(wanted.get(key) or "") for key in ("name", "server")), bool(wanted.get("stop")), str(wanted.get("confirm") or ""), bool(wanted.get("again")),
        str(wanted.get("id") or ""),
    )  # fmt: skip
    known = plan_replacement.Known(members, places, servers, members.get("witness", ()))
    try:
        plan_replacement.check_request(request, known)
    except InputError as error:
        return {"ok": False, "why": [str(error)], "lines": [], "action": plan_replacement.NONE}
    if found is None:
        return {"ok": True, "why": [], "lines": [], "action": plan_replacement.NONE}
    return plan_replacement.plan(request, known, plan_replacement.Found(looks or {}, found, answering), now).as_dict()


def replace_server(
    wanted: Values,
    known: Values,
    looks: Looks | None = None,
    found: t.Mapping[str, Values] | None = None,
    answering: t.Sequence[str] = (),
    power: str = "",
    now: str = "",
    errors: t.Mapping[str, str] | None = None,
    power_uuid: str = "",
) -> dict[str, t.Any]:
    """Return whether another machine may take over the name of a server, and what becomes of each of its VMs; without ``found`` whether the request is valid.

    :arg wanted: ``name``, ``confirm``, ``bmc`` and ``recreate``, as the variables of the playbook.
    :arg known: the inventory, see :class:`model_server_replacement.Known`; without an address of a server its name is used.
    :arg found: each virt host with ``vms`` of ``vm_info``, ``standbys`` of ``vm_standby_info`` and ``identity`` of ``server_identity_info``, empty for a
        server that does not answer.
    :arg answering: addresses of earlier machines at which something answers.
    :arg power: the state that the management controller ``bmc`` reports, or its error.
    :arg power_uuid: UUID of the machine that it manages, empty if unknown.
    :arg now: time of a new replacement (UTC).
    :arg errors: the reason for each virt host that could not be read.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import model_server_replacement, plan_server_replacement

    try:
        request = model_server_replacement.Request(
            *(str(wanted.get(key) or "").strip() for key in ("name", "confirm", "bmc")), [str(one) for one in wanted.get("recreate") or ()]
        )
        inventory = model_server_replacement.Known(
            known.get("environments") or {},
            known.get("places") or {},
            {name: str(address or name) for name, address in known["servers"].items()},
            known.get("hosts") or (),
            known.get("vms"),
            known.get("extra"),
            str(known.get("cluster") or "default"),
            str(known.get("master") or ""),
        )
        if found is None:
            plan_server_replacement.check_request(request, inventory)
            return model_server_replacement.Plan(model_server_replacement.NONE).as_dict()
        machine = ((found.get(request.name) or {}).get("identity") or {}).get("here") or {}
        seen = model_server_replacement.Found(looks or {}, found, machine, answering, power, errors or {}, power_uuid)
        result = plan_server_replacement.plan(request, inventory, seen, now).as_dict()
    except InputError as error:
        return model_server_replacement.Plan(model_server_replacement.NONE, (str(error),)).as_dict()
    gone, addresses = plan_server_replacement.gone(request, result["ways"]), plan_server_replacement.old_addresses(request, inventory, seen)
    return {**result, "name": request.name, "gone": gone, "machine": machine, "addresses": addresses}


def rolling_restart(
    looks: Looks,
    members: Members,
    action: str,
    components: t.Any = (),
    journal: str = "",
    now: str = "",
    accept_outage: bool = False,
    forget: bool = False,
) -> dict[str, t.Any]:
    """Return the plan, see :func:`plan_rolling.plan`; ``error`` if the action or a component is unknown.

    :arg action: ``restart`` or ``update``.
    :arg components: services, a list or names separated by commas; empty means all.
    :arg journal: of an interrupted run, JSON.
    :arg now: the current time, recorded in the journal.
    :arg forget: whether to discard the journal.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_rolling import parse_request, plan
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import ROLLING_RESTART

    try:
        request = parse_request(action, components, accept_outage, forget)
        return plan(request, members, looks, _journal(ROLLING_RESTART, journal, "rolling_restart_journal"), now).as_dict()
    except (InputError, RefusedError) as error:
        return {"ok": False, "error": str(error), "why": [str(error)], "lines": [], "steps": []}


def _journal(schema: t.Any, text: str, variable: str) -> dict[str, t.Any] | None:
    try:
        return schema.load(text, "the file of the journal") if text else None
    except ValueError as error:
        raise RefusedError(f"cannot parse the journal: {error}.", hint=f"Remove the file set by {variable}.") from None


FilterModule = decision_module(
    "controlplane_decision",
    add_server=add_server,
    answers=imported("_controlplane.plan_controlplane", "answers"),
    clocks=imported("_controlplane.plan_clock", "clock_skew"),
    failure=imported("_controlplane.plan_maintenance", "failure"),
    gate=gate,
    machines=imported("_controlplane.model_server_replacement", "machines"),
    maintain_virt_node=maintain_virt_node,
    moves_report=imported("_controlplane.plan_add_server", "report"),
    replace_controller=replace_controller,
    replace_server=replace_server,
    rolling_restart=rolling_restart,
)
