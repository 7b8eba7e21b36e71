# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: what one host contributes to the status, all questions at once and each for a limited time."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_clock, io_cloud, io_probe
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.model_probe import parse_probe
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_controlplane import LookRequest, look
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import meminfo
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_questions import Question, answers
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import run_look
from ansible_collections.reduced.footprint.plugins.module_utils._ovn import run_ovn
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.plan_ovn import NORTHBOUND
from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_standby_info import standbys
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms

_PROBE, _SERVICE = "probe ", "service "


def gather(given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the parts of the status that this host knows, as documented in ``status_info``.

    :arg given: the options of that module.
    """
    probes = {name: parse_probe(value, f"probes.{name}") for name, value in given["probes"].items()}
    seconds = float(given["query_timeout"])
    found = answers(_questions(given, seconds - 1), seconds)
    parts = {name: part for name, part in found.items() if not name.startswith((_PROBE, _SERVICE))}
    if given["services"]:
        parts["controlplane"] = {"value": _controlplane(given["services"], found)}
    if probes:
        parts["probes"] = {"value": {name: found[_PROBE + name].get("value", found[_PROBE + name].get("error")) for name in probes}}
    return parts


def _questions(given: t.Mapping[str, t.Any], timeout: float) -> dict[str, Question]:
    found: dict[str, Question] = {"clock": io_clock.read_clock}
    if given["server"]:
        found["vms"] = functools.partial(read_vms, InfoRequest(drift=True))
        found["migrations"] = functools.partial(run_look.look, None, 0)
        found["standbys"] = functools.partial(standbys, None, given["cluster"])
        found |= {"memory": _memory, "pools": _pools}
    if given["checks"]:
        # not imported for the status
        from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_checks

        found |= run_checks.questions(given["server"], given["cluster"])
    for name in given["services"]:
        # one question for each: one that hangs on the loss of a peer must not hide the others
        found[_SERVICE + name] = functools.partial(look, LookRequest((name,), query_timeout=timeout, cluster=given["environment"]))
    if given["cloud"] and "galera" in given["services"]:
        found["compute"] = functools.partial(io_cloud.compute_services, timeout)
    if given["cloud"] and "ovn_database" in given["services"]:
        found["chassis"] = functools.partial(_chassis, timeout)
    for name, value in given["probes"].items():
        found[_PROBE + name] = functools.partial(io_probe.problem, parse_probe(value, f"probes.{name}"), timeout)
    return found


def _memory() -> dict[str, int]:
    sizes = meminfo()
    return {"size_bytes": sizes["MemTotal"], "free_bytes": sizes["MemAvailable"]}


def _pools() -> list[dict[str, t.Any]]:
    # imported in the process of the question only
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_checks

    return run_checks.pools()


def _chassis(timeout: float) -> list[dict[str, t.Any]] | None:
    """Only the leader asks, so that each chassis is asked once."""
    database = run_ovn.look(run_ovn.local_databases())["databases"][NORTHBOUND]
    return io_cloud.chassis(timeout) if database.get("role") == "leader" else None


def _controlplane(services: t.Sequence[str], found: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the services as ``controlplane_info`` does for all at once; those without an answer have ``unknown``, the reason."""
    values = [found[_SERVICE + name].get("value") for name in services]
    parts: dict[str, t.Any] = {}
    for name, value in zip(services, values):
        late = {"units": {"": {"state": "unknown"}}, "facts": None, "unknown": found[_SERVICE + name].get("error")}
        parts[name] = value["services"][name] if value else {**late, "problems": [str(late["unknown"])]}
    first = next((value for value in values if value), {"addresses": []})
    return {"addresses": first["addresses"], "services": parts}
