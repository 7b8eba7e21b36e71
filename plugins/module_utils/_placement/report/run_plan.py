# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: plan the placement of VMs on servers. Changes nothing."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_redaction
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_report import build_report
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_svg import plan_svg
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_text import plan_text
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request import plan_profiles
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import as_list, parse_placement_policy, parse_wanted
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_server import parse_question
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_reasons import listing
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_cloud_init import without_secrets

FAIL, REPORT = "fail", "report"


@dataclasses.dataclass(frozen=True)
class PlanRequest:
    """The parameters of the module; raw values, checked by the use case."""

    cluster: t.Any
    servers: t.Any = None
    vms: t.Any = None
    wanted: t.Any = None
    current: t.Any = None
    profile: str | None = None
    memory_reserve: t.Any = "1 GiB"
    vcpu_ratio: t.Any = 4
    pool: t.Any = "default"
    pool_reserve: t.Any = None
    thin_ratio: t.Any = 1
    quorum_roles: t.Sequence[str] = ("controller",)
    apart_roles: t.Sequence[str] = ()
    strict_groups: t.Sequence[str] = ()
    allow_moves: bool = True
    ha_required: bool = False
    unplaced: str = FAIL
    svg: bool = False


@dataclasses.dataclass(frozen=True)
class PlanResult:
    """The report, and the error of the plan if there is one; both are returned to the user."""

    report: dict[str, t.Any]
    error: FootprintError | None

    def as_dict(self) -> dict[str, t.Any]:
        """Return the result of the module; ``warnings`` is reserved by Ansible, which would show them again."""
        found = {key: value for key, value in self.report.items() if key != "warnings"}
        return {**found, "assumptions": self.report["warnings"], "changed": False, **(self.error.as_result() if self.error else {})}


def hidden_values(params: t.Mapping[str, t.Any]) -> set[str]:
    """Return the secrets in raw VM details, for a module to remove from its output."""
    found: set[str] = set()
    for key in ("vms", "servers"):
        found |= model_redaction.hidden_values(params.get(key))
    return found


def shown_parameters(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the parameters without cloud-init data and other secrets, for the result."""
    return {**params, "vms": without_secrets(params.get("vms")), "servers": _shown_servers(params.get("servers"))}


def _shown_servers(servers: t.Any) -> t.Any:
    if isinstance(servers, str):
        return without_secrets(servers)
    if isinstance(servers, t.Mapping):
        return {name: _shown_server(server) for name, server in servers.items()}
    return [_shown_server(server) for server in servers] if isinstance(servers, (list, tuple)) else servers


def _shown_server(server: t.Any) -> t.Any:
    return {**server, "vms": without_secrets(server["vms"])} if isinstance(server, t.Mapping) and "vms" in server else server


def plan_footprint(request: PlanRequest) -> PlanResult:
    """Plan the footprint."""
    vms, wanted = request.vms, request.wanted
    table = None
    if request.profile is not None:
        table = plan_profiles.services(request.profile)
        if request.profile == plan_profiles.REDUCED:
            # those that are listed count
            given = as_list(vms, "vms")
            on_servers = [entry.get("vms") for entry in as_list(request.servers, "servers") if isinstance(entry, t.Mapping)]
            listed = [vm for entries in on_servers for vm in as_list(entries, "servers.vms")]
            vms = [*given, *plan_profiles.reduced_vms(listed=[*given, *listed])]
        elif as_list(wanted, "wanted"):
            raise InputError("is mutually exclusive with wanted.", "profile", "Give one of the two.")
        else:
            wanted = plan_profiles.wanted_servers(request.profile)
    # its parameters have the names of the options
    policy = parse_placement_policy(**{name: getattr(request, name) for name in parse_placement_policy.__kwdefaults__})
    question = parse_question(request.cluster, request.servers, vms, parse_wanted(wanted), policy, request.current)
    report = build_report(plan_placement(question))
    report["services"] = [dataclasses.asdict(service) for service in table or ()]
    report["text"] = plan_text(report)
    report["svg"] = plan_svg(report) if request.svg else None
    return PlanResult(report, _error(report, request))


def _error(report: t.Mapping[str, t.Any], request: PlanRequest) -> FootprintError | None:
    if not report["feasible"] and request.unplaced == FAIL:
        return _no_room(report)
    if request.ha_required and report["ha_grade"] != "quorum":
        return RefusedError(
            f"high availability of the plan is {report['ha_grade']}, but quorum is required: {'; '.join(report['ha'][1:]) or report['ha'][0]}.",
            "ha_required",
            f"{_more_available(report, request)} Or set ha_required to false.",
        )
    return None


def _more_available(report: t.Mapping[str, t.Any], request: PlanRequest) -> str:
    if report["advice"]:
        return " ".join(report["advice"])
    members = [one for one in (*report["placements"], *report["servers"]) if set(one["roles"]) & set(request.quorum_roles)]
    able = [server for server in report["servers"] if server["carries"] or server in members]
    if len(able) >= 3 > len(members):
        return f"Request three {' or '.join(request.quorum_roles)} VMs, so that each of three servers has one."
    return "Add servers, so that each controller has its own server."


def _no_room(report: t.Mapping[str, t.Any]) -> CapacityError:
    """Return an error with the VMs and requests without a server, the reasons, and changes that would help."""
    parts = []
    for one in report["unplaced"][:3]:
        parts.append(f"VM {one['name']} has no server ({'; '.join(one['reasons'])})")
    if len(report["unplaced"]) > 3:
        parts.append(f"VMs {listing([one['name'] for one in report['unplaced'][3:]])} have no server either")
    parts += [f"no server matches {one['name']} ({one['reason']})" for one in report["wanted"] if not one["server"]][:3]
    path = "vms" if report["unplaced"] else "wanted"
    hint = report["changes"]
    if not hint:
        return CapacityError(f"{'; '.join(parts)}.", path, " ".join(report["advice"]) or "Add servers, request less, or set match: at_least.")
    others = f" Or: {'; or: '.join(hint[1:])}." if hint[1:] else ""
    return CapacityError(f"{'; '.join(parts)}.", path, f"A change that is sufficient: {hint[0]}.{others}")
