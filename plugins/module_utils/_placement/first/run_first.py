# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: write the first inventory, and plan it. A file that exists is never changed."""

from __future__ import annotations

import difflib
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory
from ansible_collections.reduced.footprint.plugins.module_utils._placement.first import model_answers, plan_files, plan_machines
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.run_plan import PlanRequest, PlanResult, plan_footprint
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request import plan_facts


def machines(given: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the machines to inspect, as arguments of the module ``add_host``.

    :arg given: the answers, see :func:`model_answers.parse`.
    """
    answers = model_answers.parse(given)
    common = plan_files.connection(answers)
    return [{"name": one.name, "ansible_host": one.address, **common} for one in answers.machines]


def write(given: t.Mapping[str, t.Any], results: t.Sequence[t.Mapping[str, t.Any]], check: bool, diff: bool) -> Plan:
    """Write the files that do not exist, and return the plan.

    :arg given: the answers, and the ``directory`` of the files.
    :arg results: of the module ``setup`` in a loop over the machines.
    :arg diff: show how files that exist differ.
    :raises FootprintError: a machine does not answer, the VMs do not fit, an address is in use, or a file cannot be written. Nothing was written before.
    """
    answers = model_answers.parse(given)
    found = plan_machines.read(answers, results)
    common = plan_files.variables(answers, found, _public_key() if answers.vms else "")
    plan = _plan(answers, found, common)
    if plan.error:
        return Plan(plan.report["text"], problems=[plan.error])
    places = {entry["name"]: entry["server"] for entry in plan.report["placements"]}
    if answers.source:
        common["master_migrate_destination"] = places[common.get("master_migrate_name", "master")]
    config = plan_files.nodes(answers, found, places)
    servers = run_inventory.parse_servers(config["servers"], "servers", config.get("vm_defaults"))
    run_inventory.parse(answers.cluster, servers)
    return _files(pathlib.Path(given["directory"]), plan_files.texts(answers, common, config), plan, plan_files.commands(answers), check, diff)


def _plan(answers: model_answers.Answers, found: plan_machines.Found, common: t.Mapping[str, t.Any]) -> PlanResult:
    config = plan_files.nodes(answers, found, {})
    hosts = {
        name: {**common, **entry, "node_roles": entry["roles"], "ansible_facts": found.facts[name], "footprint_cluster": answers.cluster}
        for name, entry in config["servers"].items()
    }  # fmt: skip
    servers = plan_facts.servers_from_variables(hosts, list(hosts), {}, {})
    for entry in (one for one in servers if one["name"] in found.ports):
        entry.setdefault("pools", plan_machines.pool(found.facts[entry["name"]]))
    # those of an address concern no server
    details = {key: value for key, value in config.get("vm_defaults", {}).items() if key not in ("gateway", "nameservers")}
    vms = [{"id": name, **details} for name in answers.vms]
    return plan_footprint(PlanRequest(answers.cluster, servers, [*vms, *plan_facts.master_vm(hosts, list(hosts), {})]))


def _public_key() -> str:
    folder = pathlib.Path("~/.ssh").expanduser()
    keys = sorted(folder.glob("id_*.pub"), key=lambda path: (path.name != "id_ed25519.pub", path.name))
    if not keys:
        raise InputError(f"{folder} has no public key for the VMs.", None, "Create one: ssh-keygen -t ed25519")
    return f"~/.ssh/{keys[0].name}"


def _files(folder: pathlib.Path, wanted: t.Mapping[str, str], plan: PlanResult, commands: t.Sequence[str], check: bool, diff: bool) -> Plan:
    try:
        existing = {name: read_text(folder / name) for name in wanted}
    except OSError as error:
        raise BackendError(f"{error.filename} cannot be read: {error.strerror}.", "init_directory", "Use another directory.") from error
    lines, changes = [], []
    for name, text in wanted.items():
        before, path = existing[name], str(folder / name)
        if before is None:
            changes.append({"before": "", "after": text, "before_header": path, "after_header": path})
            lines.append(f"{path}: {'would be written' if check else 'written'}")
        elif before == text:
            lines.append(f"{path}: kept, as the answers require it")
        else:
            lines.append(f"{path}: kept; it differs from what the answers require{'' if diff else ', see --diff'}")
            lines += difflib.unified_diff(before.splitlines(), text.splitlines(), path, "as the answers require it", lineterm="") if diff else ()
    if not check:
        _write({folder / name: text for name, text in wanted.items() if existing[name] is None})
    differs = any(before not in (None, wanted[name]) for name, before in existing.items())
    # the plan would be that of other files
    lines += ["", *(["Plan of the files: ansible-playbook reduced.footprint.plan_placement"] if differs else plan.report["text"]), ""]
    lines += [f"Next: cd {folder}", *(f"      {command}" for command in commands)]
    return Plan(lines, values={"changed": bool(changes), "diff": changes})


def _write(texts: t.Mapping[pathlib.Path, str]) -> None:
    """Write all files, or none."""
    done: list[pathlib.Path] = []
    try:
        for path, text in texts.items():
            write_atomic(path, text, 0o644, new=True)
            done.append(path)
    except OSError as error:
        for each in done:
            each.unlink(missing_ok=True)
        raise BackendError(f"{path} cannot be written: {error.strerror}.", "init_directory", "Correct the cause, and run it again.") from error
