# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``failover_cluster``: options and fencing of the cluster of two servers, and what only a person can state."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import io_redfish
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, plan_cluster, xml_cib
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import Cluster, parse_cluster

_REQUEST = 15


def apply(params: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Bring options and fencing to the wanted state, or state that a server is off; returns keyword arguments for ``exit_json``."""
    if params["state"] == "present":
        return _present(params, check_mode)
    return _off(str(params["lost"]), check_mode) if params["state"] == "lost" else _alone(str(params["lost"]), check_mode)


def _present(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    cluster = parse_cluster(params)
    systems = _systems(cluster, params)
    parts = xml_cib.cluster_parts(cluster, systems, plan_cluster.password_script)
    if check_mode and not io_cluster.answers():
        return {"changed": True, "actions": [], "diff": {"before": "", "after": f"{cluster.name}: a cluster of two servers\n"}}
    io_cluster.wait_formed([each.name for each in cluster.members], float(params["wait_timeout"]))
    difference, actions = io_cluster.apply(parts, xml_cib.is_of_cluster, check_mode=check_mode)
    return {"changed": bool(difference), "actions": actions, "diff": {"prepared": difference}}


def _systems(cluster: Cluster, params: t.Mapping[str, t.Any]) -> dict[str, str]:
    """Return server → path of its system, which also shows that this server reaches the controller with this password."""
    found = {}
    given = {str(each["name"]): each for each in params["members"]}
    for member in cluster.members:
        entry = given[member.name]
        if member.bmc is None:
            continue
        bmc = member.bmc._replace(verify_ca=plan_cluster.BUNDLE) if entry.get("bmc_authority") else member.bmc
        try:
            found[member.name] = io_redfish.RedfishServer(bmc, entry["bmc"]["password"], member.addresses, _REQUEST).system_path()
        except FootprintError as error:
            hint = f"Each of the two servers must reach the controller of the other one. {error.hint or ''}".strip()
            raise BackendError(f"{member.name} cannot be fenced by its bmc: {error.message}", f"{member.name}.bmc", hint) from error
    return found


def _known(name: str) -> tuple[str, xml_cib.Seen]:
    """Return the other server of the cluster, whose name a person typed."""
    here, nodes = io_cluster.here(), {each.get("uname") for each in io_cluster.cib().iterfind("configuration/nodes/node")}
    (other,) = nodes - {here} or {None}
    if name != other:
        raise RefusedError(f"{name!r} is not the other server of this cluster, {other}.", "lost", "Type its name after you made sure that it is off.")
    seen = io_cluster.seen()
    if name in seen.online:
        raise RefusedError(f"{name} is in the cluster.", "lost", "It is not lost.")
    return here, seen


def _off(name: str, check_mode: bool) -> dict[str, t.Any]:
    """State that the other server is off, so that its VMs are started here."""
    unused, seen = _known(name)
    due = name in seen.unclean
    if due and not check_mode:
        io_cluster.confirm_off(name)
    return {"changed": due, "actions": [f"{name} is off"] if due else [], "diff": {"before": f"{name}: not fenced\n" if due else "", "after": ""}}


def _alone(name: str, check_mode: bool) -> dict[str, t.Any]:
    """After both servers were off: do not wait for the other one, which is off, on the server that had the VMs last."""
    here, seen = _known(name)
    owners = sorted(vm for vm in xml_cib.vms_of(io_cluster.cib()) if io_cluster.owner(vm) != here)
    if owners:
        raise RefusedError(f"{', '.join(owners)} ran on {name} last, whose disks are newer.", "lost", f"Switch {name} on.")
    due = not seen.quorum
    if due and not check_mode:
        run(["corosync-cmapctl", "-s", "quorum.cancel_wait_for_all", "u8", "1"], timeout=30)
    return {"changed": due, "actions": [f"continue without {name}"] if due else [], "diff": {"before": f"waits for {name}\n" if due else "", "after": ""}}
