# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``failover_member``: one of the two servers of a cluster, or the witness that votes in it."""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._service import run_service_files
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, plan_cluster, run_guard, xml_cib
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import check_authkey, parse_cluster
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

if t.TYPE_CHECKING:
    # the program of the resource agent must be part of the code that is kept on this host
    from ansible_collections.reduced.footprint.plugins.module_utils._standby import run_resource

    _CODE = run_resource

WITNESS = "witness"
_VOTE = "corosync-qnetd.service"
_UNITS = ("pacemaker.service", "corosync-qdevice.service", "corosync.service", "sbd.service")
_STATE = (plan_cluster.HOME, "/etc/corosync/qdevice/net/nssdb", "/var/lib/pacemaker/cib", "/var/lib/pacemaker/pengine")
_DROP_INS = ("pacemaker.service.d", "corosync-qdevice.service.d", "resource-agents-deps.target.d")


def apply(params: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Make this machine a part of the cluster, or end that; returns keyword arguments for ``exit_json``."""
    if params["part"] == WITNESS:
        return _end_votes(check_mode) if params["state"] == "absent" else _vote(params, check_mode)
    if params["state"] == "absent":
        return _leave(check_mode)
    return _join(params, check_mode)


def _vote(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Give the clusters of an environment the vote of this machine, whose certificate is that of the environment's authority."""
    parse_name(params["cluster"], "cluster")
    other = (read_text(plan_cluster.ENVIRONMENT) or params["cluster"]).strip()
    if other != params["cluster"]:
        raise RefusedError(
            f"this machine has a vote in the clusters of the environment {other}, with a certificate of that.",
            "cluster",
            f"Name another machine in standby_witnesses. If {other} does not exist any more, use part: witness and state: absent here first.",
        )
    if read_text(plan_cluster.ENVIRONMENT) is None and io_units.unit_active(_VOTE):
        raise RefusedError("corosync-qnetd runs here for others, with another certificate.", "part", "Name another machine in standby_witnesses.")
    files, units = plan_cluster.witness_files(params), plan_cluster.witness_units()
    return _done(run_service_files.configure({"files": files, "units": units}, check_mode=check_mode))


def _end_votes(check_mode: bool) -> dict[str, t.Any]:
    """Give no vote any more."""
    if read_text(plan_cluster.ENVIRONMENT) is None:
        return {"changed": False, "actions": [], "diff": []}
    active = io_units.unit_active(_VOTE)
    served = re.findall(r'(?m)^Cluster "(.+)":', run(["corosync-qnetd-tool", "-l"], timeout=30).stdout) if active else []
    if served:
        raise RefusedError(f"this machine has a vote in {', '.join(sorted(served))}.", "state", "Remove automatic from the details of their VMs first.")
    if not check_mode:
        _stop(_VOTE)
        (io_units.UNITS / f"{_VOTE}.d" / "reduced-footprint.conf").unlink(missing_ok=True)
        for folder in (plan_cluster.VOTES, plan_cluster.WITNESS_HOME):
            shutil.rmtree(folder, ignore_errors=True)
    return {"changed": True, "actions": ["end the votes of this machine"], "diff": [{"before": "a vote\n", "after": ""}]}


def _stop(unit: str) -> None:
    run_service_files.configure({"files": [], "units": [{"name": unit, "enabled": False, "started": False}]}, check_mode=False)


def _done(result: dict[str, t.Any]) -> dict[str, t.Any]:
    return {key: result[key] for key in ("changed", "actions", "diff")}


def _join(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    cluster = parse_cluster(params)
    check_authkey(params["authkey"])
    before = read_text(plan_cluster.COROSYNC) or ""
    known = "reduced.footprint" in before
    if before and not known and io_units.unit_active("corosync.service"):
        raise RefusedError(
            f"this server is in a cluster that was formed otherwise, see {plan_cluster.COROSYNC}.",
            "members",
            "Use another server as standby, or remove automatic.",
        )
    name = "".join(_values(before, "cluster_name")) or cluster.name
    if known and name != cluster.name:
        raise RefusedError(
            f"this server is in the cluster {name}, which is that of another environment.",
            "cluster",
            "Remove automatic in one of both environments, and run spawn_vms there.",
        )
    others = sorted(each for each in _values(before, "name") if each not in [member.name for member in cluster.members]) if known else []
    if others:
        raise RefusedError(
            f"this server is in a cluster with {', '.join(others)}, and a server is in one only.",
            "members",
            f"Name {others[0]} as the standby of its automatic VMs, or end that cluster first: remove automatic there, and run spawn_vms.",
        )
    code = io_units.code_path() if check_mode else io_units.keep_code()
    files = plan_cluster.member_files(cluster, params, str(code), sys.executable)
    hook = run_guard.install_hook(check_mode=check_mode)
    result = _done(run_service_files.configure({"files": files, "units": plan_cluster.member_units(cluster)}, check_mode=check_mode))
    if known and not check_mode and before != plan_cluster.corosync(cluster):
        io_cluster.reload_corosync()
    return {**result, "changed": result["changed"] or hook}


def _values(text: str, key: str) -> list[str]:
    return re.findall(rf"(?m)^\s*{key}: (\S+)$", text)


def _leave(check_mode: bool) -> dict[str, t.Any]:
    """Stop the cluster on this server, once it has no VM."""
    if "reduced.footprint" not in (read_text(plan_cluster.COROSYNC) or ""):
        return {"changed": False, "actions": [], "diff": []}
    # Pacemaker itself counts, should the file of its configuration be missing
    left = sorted(xml_cib.vms_of(io_cluster.stored())) if io_cluster.answers() or io_cluster.is_formed() else []
    if left:
        return {"changed": False, "actions": [], "diff": [], "warnings": [f"The cluster continues, because it may start {', '.join(left)}."]}
    if not check_mode:
        # in this order: a VM that is not in the cluster continues
        for unit in _UNITS:
            if unit != "sbd.service" or pathlib.Path(plan_cluster.SBD).exists():
                _stop(unit)
        # corosync-qdevice ends with an error
        run(["systemctl", "reset-failed", *_UNITS], timeout=30, ok=range(256))
        for path in (plan_cluster.AUTHKEY, plan_cluster.AGENT, plan_cluster.COROSYNC):
            pathlib.Path(path).unlink(missing_ok=True)
        for name in _DROP_INS:
            (io_units.UNITS / name / "reduced-footprint.conf").unlink(missing_ok=True)
        for folder in _STATE:
            shutil.rmtree(folder, ignore_errors=True)
    text = "corosync.conf: a cluster of two servers\n"
    return {"changed": True, "actions": ["end the cluster on this server"], "diff": [{"before": text, "after": ""}]}
