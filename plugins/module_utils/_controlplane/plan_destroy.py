# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the removal of an environment from one server: what is removed, in which order, and what is refused before any change."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan

#: Actions of steps: a VM is not started by itself any more; a server leaves the cluster that did that; a machine
#: forgets the key, the copies and the record of a VM.
DISARM, LEAVE, FORGET = "disarm", "leave", "forget"
_PREFIX = "destroy_environment"
_LOST = f"{_PREFIX}_lost"
Result = t.Mapping[str, t.Any]


class Wanted(t.NamedTuple):
    """The wishes of the operator.

    :arg lost: machines that are off and do not return, as typed by a person who made sure of it.
    """

    cluster: str
    keep_protected: bool = False
    remove_master: bool = False
    lost: t.Sequence[str] = ()


class Known(t.NamedTuple):
    """What the inventory contains.

    :arg clusters: those of all servers of the run.
    :arg members: VMs of the control plane on the server.
    :arg controllers: those that are servers themselves.
    """

    server: str
    clusters: t.Collection[str]
    members: t.Sequence[str]
    controllers: t.Sequence[str]


class Found(t.NamedTuple):
    """Results of the modules on the server, as registered: also those that failed, or did not reach it.

    :arg removal: of ``virt_node`` in check mode.
    :arg standbys: of ``vm_standby_info``.
    :arg records: of ``vm_standby_info`` on the machines that accept keys of copies, each with the key ``item``, the name of the machine.
    :arg vms: of ``vm_info``.
    :arg control: of ``setup`` on the control node.
    """

    removal: Result
    standbys: Result
    records: t.Sequence[Result]
    vms: Result
    control: Result


def plan(wanted: Wanted, known: Known, found: Found) -> Plan:
    """Decide about the removal of an environment from a server."""
    several = _several_clusters(known)
    if found.removal.get("unreachable"):
        text = f"the server does not answer: repair it, or leave it out with --limit '!{known.server}'."
        return Plan((), problems=(*several, FootprintError(text)))
    removal = found.removal.get("removal") or {}
    vms = [vm for vm in removal.get("vms") or () if vm["fate"] in ("removed", "protected")]
    removed = [vm["name"] for vm in vms if vm["fate"] == "removed"]
    copies = [one for one in found.standbys.get("standbys") or () if one["cluster"] == wanted.cluster]
    sources = [one for one in copies if one["part"] == "source"]
    kept = [one["id"] for one in copies if one["part"] == "standby"]
    # those of a lost machine are out of reach
    elsewhere = [(one["id"], name) for one in sources for name in _machines(one, known.server) if name not in wanted.lost]
    problems = [*several, *_not_removable(found.removal), *_masters(vms, wanted), *_own(removed, found), *_protected(vms, wanted)]
    problems += [*_unknown(sources, wanted, known.server, found), *_started(copies, wanted, known.server, found)]
    lines = [*(removal.get("lines") or ()), *(found.removal.get("actions") or ())]
    lines += [f"remove the copies of {one['id']} on its standby" for one in sources]
    lines += [f"remove the copies and the record of {vm_id} on this server" for vm_id in kept]
    lines += [f"withdraw the key and the record of {vm_id} on {name}" for vm_id, name in elsewhere]
    automatic = [one for one in sources if one.get("automatic")]
    steps: list[dict[str, t.Any]] = [{"action": DISARM, "id": one["id"], "host": known.server} for one in automatic]
    pair = dict.fromkeys([*(one["standby"] for one in automatic), known.server]) if automatic else {}
    steps += [{"action": LEAVE, "id": None, "host": name} for name in pair if name not in wanted.lost]
    steps += [{"action": FORGET, "id": vm_id, "host": name} for vm_id, name in [*elsewhere, *((vm_id, known.server) for vm_id in kept)]]
    return Plan(
        [f"{known.server}: {line}" for line in lines],
        steps,
        problems,
        locks=[host for host in known.members if host in removed],
        report=[f"The services of {host}, which is a server, and their data are kept." for host in known.controllers],
    )


def _machines(source: Result, server: str) -> list[str]:
    """Return the machines other than the server that may have copies, a record of their start, or their key."""
    return [name for name in source.get("key_accepted_by") or () if name != server]


def _several_clusters(known: Known) -> t.Iterator[FootprintError]:
    if len(known.clusters) > 1:
        names = ", ".join(sorted(known.clusters))
        yield FootprintError(f"the servers are those of several clusters ({names}).", hint="Select the servers of one with --limit.")


def _not_removable(result: Result) -> t.Iterator[FootprintError]:
    """Yield the refusal of the module, whose options have the prefix of the playbook here."""
    error = result.get("error")
    if error:
        path, hint = error.get("path"), error.get("hint")
        if path in ("erase", "force", "leave_instances", "shutdown_timeout"):
            path, hint = f"{_PREFIX}_{path}", (hint or "").replace(f"{path}: true", f"{_PREFIX}_{path}=true")
        yield FootprintError(str(error["message"]), path, hint)
    elif "removal" not in result:
        yield FootprintError(f"the state of the server is unknown: {_reason(result)}")


def _masters(vms: t.Sequence[Result], wanted: Wanted) -> t.Iterator[FootprintError]:
    names = [vm["name"] for vm in vms if vm.get("origin") == "migration" or "master" in (vm.get("roles") or ())]
    if names and not wanted.remove_master:
        path = f"{_PREFIX}_remove_master"
        hint = f"If it is the master, move its services elsewhere. Then run this playbook on another machine with {path}=true."
        yield InputError(f"{', '.join(names)} was created for the master.", path, hint)


def _own(removed: t.Collection[str], found: Found) -> t.Iterator[FootprintError]:
    """Yield an error if the playbook runs in a VM that is removed, or if that is unknown."""
    if not removed:
        return
    for result, key in ((found.vms, "vms"), (found.control, "ansible_facts")):
        if result.get(key) is None:
            yield FootprintError(f"it is unknown whether one of {', '.join(removed)} runs this playbook: {_reason(result)}")
            return
    cards = found.control["ansible_facts"].values()
    own = {str(card["macaddress"]).lower() for card in cards if isinstance(card, t.Mapping) and card.get("macaddress")}
    names = [vm["name"] for vm in found.vms["vms"] if vm["name"] in removed and own & {str(mac).lower() for mac in vm.get("macs") or ()}]
    if names:
        text = f"{', '.join(names)} runs this playbook, which would end with it, and its disks contain the secrets and the inventory."
        yield FootprintError(text, hint="Run the playbook on another machine.")


def _protected(vms: t.Sequence[Result], wanted: Wanted) -> t.Iterator[FootprintError]:
    names = [vm["name"] for vm in vms if vm["fate"] == "protected"]
    if names and not wanted.keep_protected:
        path = f"{_PREFIX}_keep_protected"
        yield InputError(f"{', '.join(names)} is protected.", path, f"Remove protected from its VM details, or keep it with {path}=true.")


def _unknown(sources: t.Sequence[Result], wanted: Wanted, server: str, found: Found) -> t.Iterator[FootprintError]:
    """Yield an error for each machine that may run a VM from its copy without anyone knowing."""
    if found.standbys.get("standbys") is None:
        yield FootprintError(f"it is unknown whether VMs of this server run from their copies elsewhere: {_reason(found.standbys)}")
    records = {str(one["item"]): one for one in found.records}
    for name in dict.fromkeys(name for one in sources for name in _machines(one, server)):
        answered = (records.get(name) or {}).get("standbys") is not None
        if name in wanted.lost and answered:
            yield InputError(f"{name} answers, so it is not lost.", _LOST, f"Remove {name} from it.")
        elif name not in wanted.lost and not answered:
            ids = ", ".join(one["id"] for one in sources if name in _machines(one, server))
            reason = _reason(records[name]) if name in records else "it is not in the inventory."
            hint = f"Repair it, or make sure that it is off and does not return, then set {_LOST}={name}."
            yield InputError(f"{name} may run {ids} from a copy, or know that it runs: {reason}", _LOST, hint)


def _started(copies: t.Sequence[Result], wanted: Wanted, server: str, found: Found) -> t.Iterator[FootprintError]:
    """Yield an error if a start is recorded: the run would stop half-way, because the record keeps the VM off on its first server."""
    mine = {one["id"] for one in copies if one["part"] == "source"}
    listed = [(server, one) for one in copies]
    listed += [(str(each["item"]), one) for each in found.records for one in each.get("standbys") or () if one["id"] in mine]
    where = [
        f"{one['id']} on {name}"
        for name, one in listed
        if one["part"] == "standby" and one["cluster"] == wanted.cluster and (one["state"] == "started" or one.get("phase") == "starting")
    ]
    if where:
        text = f"the start of a copy is recorded: {', '.join(where)}. The VM may run there, and its old disks be on its first server."
        yield FootprintError(text, hint="Move it back with move_vm, or end that record as docs/standby.md describes, then run this again.")


def _reason(result: Result) -> str:
    """Return why a result has not what it should have, as a sentence."""
    return "it does not answer." if result.get("unreachable") else f"{str(result.get('msg') or 'no result').rstrip('.')}."
