# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator would check by hand: one line for each check that is healthy, and one for each problem, with what to do."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_clock, plan_doctor_finding, plan_doctor_machine
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_doctor_finding import NOTE, OK, REPAIR, UNKNOWN, Finding, Known
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_summary import action_of

#: In the order of the report.
CHECKS = ("hosts", "services", "copies", "VMs", "inventory", "jobs", "keys", "links", "MTU", "clocks", "space", "disks", "certificates", "units", "restarts")
#: Kind of a topic of the status → the check that has its findings.
_OF_STATUS = {"standby": "copies", "VM": "VMs", "migration": "jobs", "certificate": "certificates"}
_SOON_DAYS = 30
_WORDS = {OK: "ok      ", NOTE: "note    ", REPAIR: "REPAIR  ", UNKNOWN: "UNKNOWN "}
_WIDE = 200


class Declared(t.NamedTuple):
    """What the inventory says.

    :arg vms: VM → its server.
    :arg roles: server → its roles.
    :arg journals: files of unfinished runs of this control node → what they belong to.
    :arg excluded: hosts that --limit excludes.
    """

    vms: t.Mapping[str, str]
    roles: t.Mapping[str, t.Sequence[str]]
    cluster: str
    journals: t.Mapping[str, str] = {}
    excluded: t.Sequence[str] = ()


def examine(answers: Known, report: t.Mapping[str, t.Any], skew: plan_clock.Skew | None, declared: Declared) -> list[Finding]:
    """Return the findings in the order of :data:`CHECKS`.

    :arg answers: host → ``host`` as returned by ``status_info`` with ``checks``.
    :arg report: of :func:`plan_status.build_status` on the same answers.
    :arg skew: of the clocks on the same answers.
    """
    awake = {host: seen for host, seen in answers.items() if seen.get("reachable")}
    places = {str(vm["name"]): host for host, seen in awake.items() for vm in _value(seen, "vms") or () if not vm.get("moved")}
    missing = {name for name, server in declared.vms.items() if name not in places and _value(awake.get(server) or {}, "vms") is not None}
    found = [
        # one that does not exist does not answer either
        *_hosts({host: seen for host, seen in answers.items() if host not in missing or host in awake}, declared.excluded),
        *(Finding("hosts", NOTE, "excluded by --limit, so nothing is known", "", host) for host in declared.excluded),
        *_of_status(report),
        *_inventory(awake, declared, places, missing),
        *_jobs(awake, declared),
        *_keys(awake),
        *plan_doctor_machine.findings(awake),
        *_clocks(skew, awake),
        *_certificates(awake),
    ]
    bad = {one.check for one in found}
    found += [Finding(check, OK, text) for check, text in _healthy(awake, report, skew).items() if check not in bad]
    return sorted(found, key=lambda one: CHECKS.index(one.check))


def lines(findings: t.Sequence[Finding]) -> list[str]:
    """Return the report, one line for each problem; the same one of several hosts is one line."""
    merged: dict[tuple[str, str, str, str, bool], list[str]] = {}
    for one in findings:
        merged.setdefault((one.check, one.state, one.text, one.todo, bool(one.fix)), []).append(one.host)
    found = []
    for (check, state, text, todo, fixable), hosts in merged.items():
        where = f"{', '.join(host for host in hosts if host)}: " if any(hosts) else ""
        then = f". {todo}" if todo else ""
        line = f"{_WORDS[state]}{check}: {where}{text}{then}{' (doctor_fix=true does it)' if fixable else ''}"
        found.append(line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…")
    return found


def verdict(findings: t.Sequence[Finding]) -> str:
    """Return the last line."""
    counts = {state: len({(one.check, one.text) for one in findings if one.state == state}) for state in (REPAIR, UNKNOWN, NOTE)}
    if not counts[REPAIR] and not counts[UNKNOWN]:
        return f"healthy: nothing to repair{_more(counts[NOTE], 'note')}"
    first = next(one for one in findings if one.state in (REPAIR, UNKNOWN))
    return f"{counts[REPAIR]} to repair{_more(counts[UNKNOWN], 'unknown')}{_more(counts[NOTE], 'note')}. Begin with {first.check}: docs/operation.md#doctor"


def _more(count: int, word: str) -> str:
    return f", {count} {word}{'s' if count != 1 and word == 'note' else ''}" if count else ""


def _hosts(answers: Known, excluded: t.Sequence[str]) -> t.Iterator[Finding]:
    # without any sign of a host, the fault may be that of the network of the control node
    state, todo = REPAIR, "Restore the power or network, then run doctor again: nothing else is known"
    if not excluded and not any(seen.get("reachable") or seen.get("reason") for seen in answers.values()):
        state, todo = UNKNOWN, "Check the network of this control node, then run doctor again"
    for host, seen in answers.items():
        if not seen.get("reachable"):
            why = f"no answer: {seen['reason']}" if seen.get("reason") else "no answer"
            yield Finding("hosts", state, why, todo, host)
        elif not seen.get("parts"):
            yield Finding("hosts", UNKNOWN, str(seen.get("reason") or "the module did not answer"), "Run doctor with -vvv", host)
        for part, value in (seen.get("parts") or {}).items():
            # the status reports the first two
            if "error" in value and part not in ("vms", "controlplane", *plan_doctor_machine.CHECK_OF):
                yield Finding("hosts", UNKNOWN, f"{part} cannot be read: {value['error']}", "", host)


def _of_status(report: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    """What the status says as well: services in one line, because the status has their details."""
    bad: dict[bool, list[str]] = {}
    for one in report["findings"]:
        word = one["topic"].partition(" ")[0]
        check = _OF_STATUS.get(word)
        # another check has these with more detail
        if one["silent"] or one["topic"] == "clocks" or check == "certificates":
            continue
        problem = one["state"] not in ("ok", "wip")
        if check and (problem or one["note"]):
            yield Finding(check, REPAIR if problem else NOTE, f"{one['topic'].partition(' ')[2]} {one['text']}", action_of(one["topic"]) if problem else "")
        elif word == "server" and problem:
            known = one["state"] != UNKNOWN
            yield Finding("VMs", REPAIR if known else UNKNOWN, f"{one['topic']}: {one['text']}", action_of(one["topic"]) if known else "")
        elif problem and not word.startswith(("controller", "witness")) and " of " not in one["topic"]:
            bad.setdefault(one["state"] == UNKNOWN, []).append(one["topic"])
    if False in bad:
        yield Finding("services", REPAIR, f"{', '.join(bad[False])} not healthy", "Run status, which says what to do first")
    if True in bad:
        yield Finding("services", UNKNOWN, f"{', '.join(bad[True])}: no host that answers knows them")


def _inventory(awake: Known, declared: Declared, places: t.Mapping[str, str], missing: t.Container[str]) -> t.Iterator[Finding]:
    for name, server in declared.vms.items():
        there = places.get(name)
        if name in missing:
            yield Finding("inventory", REPAIR, f"the VM {name} does not exist on {server}", "Run spawn_vms, or remove it from the inventory")
        elif there not in (None, server):
            yield Finding("inventory", REPAIR, f"the VM {name} is on {there}, the inventory has it on {server}", f"Move its entry to {there} in nodes.yml")
    for host, seen in awake.items():
        for vm in _value(seen, "vms") or ():
            if vm["name"] not in declared.vms and vm.get("origin") == "vm_define" and vm.get("cluster") == declared.cluster and not vm.get("moved"):
                yield Finding("inventory", NOTE, f"the VM {vm['name']} is not in the inventory", "Add it, or remove it with vm_define and state: absent", host)
        record = _value(seen, "record") or {}
        wanted = {"name": host, "cluster": declared.cluster, "roles": sorted(declared.roles.get(host) or ())}
        other = {**record, "roles": sorted(record.get("roles") or ())}
        differs = [f"{key} {_text(other.get(key))}, here {_text(wanted[key])}" for key in wanted if record.get("name") and other.get(key) != wanted[key]]
        if differs:
            yield Finding("inventory", REPAIR, f"it has recorded {'; '.join(differs)}", "Run provision_virt, or correct the inventory", host)
    versions = {host: str(record["qemu"]) for host, seen in awake.items() if (record := _value(seen, "record")) and record.get("qemu")}
    if len(set(versions.values())) > 1:
        text = ", ".join(f"{version} on {host}" for host, version in versions.items())
        yield Finding("inventory", NOTE, f"QEMU is {text}", "VMs move live to the newer version only; upgrade with maintain_virt_node")


def _text(value: t.Any) -> str:
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _jobs(awake: Known, declared: Declared) -> t.Iterator[Finding]:
    runs: dict[str, list[str]] = {}
    for host, seen in awake.items():
        for move in _value(seen, "moves") or ():
            if move["state"] == "moving":
                waits = f", waits for {move['waiting']}" if move.get("waiting") else ""
                yield Finding("jobs", REPAIR, f"the move of {move['name']} to {move['to']} is not finished{waits}", "Run move_vm again", host)
        run = _value(seen, "run") or {}
        if run:
            runs.setdefault(f"{run.get('playbook')} of {run.get('user')} on {run.get('node')} restarts members since {run.get('since')}", []).append(host)
    for text, hosts in runs.items():
        todo = "If it has ended, run it again; from another control node with -e footprint_takeover=true"
        yield Finding("jobs", NOTE, f"{text}, according to {', '.join(hosts)}", todo)
    for path, playbook in declared.journals.items():
        yield Finding("jobs", REPAIR, f"a run of {playbook} is not complete ({path})", "Run it again, which continues it")


def _keys(awake: Known) -> t.Iterator[Finding]:
    for host, seen in awake.items():
        for key in _value(seen, "keys") or ():
            left = key["left_seconds"]
            if left is not None and left <= 0:
                yield Finding("keys", REPAIR, f"the key of {key['name']} has expired", "Remove it", host, plan_doctor_finding.remove_key(key))
            elif left is not None:
                todo = "It is withdrawn by the end of the migration or move: finish that"
                yield Finding("keys", NOTE, f"the key of {key['name']} is accepted for {left / 3600:.0f} hours", todo, host)


def _clocks(skew: plan_clock.Skew | None, awake: Known) -> t.Iterator[Finding]:
    if skew is not None and not skew.ok:
        yield Finding("clocks", REPAIR, skew.text, "Set the time of the one that differs, and synchronize them with the role chrony")
    for host in skew.free if skew is not None else ():
        services = (_value(awake.get(host) or {}, "units") or {}).get("time_services") or {}
        stopped = next((name for name, runs in services.items() if not runs), None)
        if stopped and not any(services.values()):
            yield Finding("clocks", REPAIR, f"{stopped} is enabled and does not run", "Start it", host, plan_doctor_finding.start_unit(stopped))
        else:
            yield Finding("clocks", NOTE, "no time service synchronizes it", "Use the role chrony, and check that its servers answer", host)


def _certificates(awake: Known) -> t.Iterator[Finding]:
    for days, name, host in _expiries(awake):
        if days < _SOON_DAYS:
            text = f"that of {name} has expired" if days < 0 else f"that of {name} expires in {days} days"
            yield Finding("certificates", REPAIR, text, "Run deploy_controllers, which renews it; replace one that you gave", host)


def _expiries(awake: Known) -> list[tuple[int, str, str]]:
    found = []
    for host, seen in awake.items():
        for name, part in ((_value(seen, "controlplane") or {}).get("services") or {}).items():
            days = (part.get("certificate") or {}).get("days")
            if days is not None:
                found.append((int(days), name, host))
    return sorted(found)


def _healthy(awake: Known, report: t.Mapping[str, t.Any], skew: plan_clock.Skew | None) -> dict[str, str]:
    """What is said of a check without a finding; nothing of one that no host has answered."""
    found = plan_doctor_machine.healthy(awake)
    found["hosts"] = f"{len(awake)} answer" if awake else ""
    found["services"] = ", ".join(report["services"]) if report["services"] else ""
    found["copies"] = f"{len(report['standbys'])} VMs with a standby" if report["standbys"] else ""
    found["VMs"] = f"{report['vms']['running']} of {report['vms']['all']} run" if _answered(awake, "vms") else ""
    found["inventory"] = "the servers have what it says" if _answered(awake, "vms") else ""
    found["jobs"] = "none is unfinished" if _answered(awake, "run") else ""
    found["keys"] = "no one-time key is left" if _answered(awake, "keys") else ""
    found["clocks"] = skew.text if skew is not None else ""
    expiries = _expiries(awake)
    found["certificates"] = f"the next one expires in {expiries[0][0]} days ({expiries[0][1]} on {expiries[0][2]})" if expiries else ""
    return {check: text for check, text in found.items() if text}


def _answered(awake: Known, part: str) -> bool:
    return any(_value(seen, part) is not None for seen in awake.values())


def _value(seen: t.Mapping[str, t.Any], part: str) -> t.Any:
    return ((seen.get("parts") or {}).get(part) or {}).get("value")
