# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the replacement of a server: whether another machine may take over its name now, and what becomes of each of its VMs."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.model_server_replacement import (
    BMC,
    CONTROLLER,
    ELSEWHERE,
    LOST,
    NONE,
    PERSON,
    PREFIX,
    RECREATE,
    REPLACE,
    RETURN,
    STANDBY,
    Found,
    Known,
    Plan,
    Request,
    Way,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.model_identity import REPLACING, same_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms


def check_request(request: Request, known: Known) -> tuple[VmDetails, ...]:
    """Check the names of a request, before any host is contacted; returns the VMs of the server."""
    path, servers = f"{PREFIX}_name", sorted(known.servers)
    if not request.name:
        raise model_errors.InputError("is required.", path, f"Use one of {', '.join(servers)}.")
    if len(request.name.replace(",", " ").split()) > 1:
        raise model_errors.InputError(f"{model_errors.shown(request.name)} names several servers.", path, "Replace one server at a time.")
    if any(request.name in members.get("witness", ()) for members in known.environments.values()):
        raise model_errors.InputError(
            f"{request.name} is a witness.", path, "It keeps no data: run remove_controller, install the new machine, then run deploy_controllers."
        )
    if request.name not in known.servers:
        shown = model_errors.shown(request.name).strip("'")
        if known.places.get(request.name):
            raise model_errors.InputError(f"{shown} is a VM, not a server.", path, "Use replace_controller.")
        raise model_errors.InputError(
            f"{shown} is not a virt host.", path, did_you_mean(request.name, servers, f"Use one of {', '.join(servers) or 'none'}.")
        )
    if any(request.name in hosts for members in known.environments.values() for hosts in members.values()):
        raise model_errors.InputError(
            f"the controller of {request.name} is the server itself, not a VM.", path, "Install it again, run provision_virt, then deploy_controllers."
        )
    if request.bmc and request.bmc not in known.hosts:
        raise model_errors.InputError(
            f"{model_errors.shown(request.bmc)} is not a host of the inventory.",
            f"{PREFIX}_bmc",
            "Keep the earlier machine in the inventory under another name, with its bmc, and use that name.",
        )
    vms = parse_vms(known.vms, f"{request.name}.vms", cluster=known.cluster)
    vms += parse_vms(known.extra, f"{request.name}.standby_extra", cluster=known.cluster)
    names = [vm.name for vm in vms]
    for one in request.recreate:
        if one in known.places:
            raise model_errors.InputError(f"{one} is a controller.", f"{PREFIX}_recreate", "Omit it: it gets its data from its peers.")
        if one not in names:
            hint = did_you_mean(one, names, f"Use some of {', '.join(names) or 'none'}.")
            raise model_errors.InputError(f"{model_errors.shown(one)} is not a VM of {request.name}.", f"{PREFIX}_recreate", hint)
    return vms


def records_of(request: Request, found: Found) -> list[t.Mapping[str, t.Any]]:
    """Return what the other servers know about it, the one that decides first; without any other server, what it knows itself.

    A replacement by this machine that one of them has as unfinished is unfinished. Otherwise the last record decides, except for one of this
    machine that did not take over from the machine that another server has recorded: provision_virt wrote it where no record was.
    """
    servers = [name for name in found.servers if name != request.name] or [request.name]
    records = [one for server in servers for one in ((found.servers.get(server) or {}).get("identity") or {}).get("records") or ()]
    mine = [record for record in records if record["name"] == request.name]
    here = found.machine.get("machine_id")
    succeeded = {old["machine_id"] for record in mine for old in record["old"]}
    rival = any(record["machine_id"] not in (here, *succeeded) for record in mine)

    def rank(record: t.Mapping[str, t.Any]) -> tuple[bool, bool, str]:
        # a machine that was itself replaced continues nothing
        is_here = record["machine_id"] == here and here not in succeeded
        return is_here and record["state"] == REPLACING, not (is_here and rival), str(record["at"])

    return sorted(mine, key=rank, reverse=True)


def old_addresses(request: Request, known: Known, found: Found) -> list[str]:
    """Return the addresses of earlier machines that no host of the inventory has now."""
    machine_id = found.machine.get("machine_id")
    addresses = [one["address"] for record in records_of(request, found)[:1] for one in (record, *record["old"]) if one["machine_id"] != machine_id]
    return [address for address in dict.fromkeys(addresses) if address and address not in known.servers.values()]


def plan(request: Request, known: Known, found: Found, now: str) -> Plan:
    """Decide about a replacement; see :class:`Plan`."""
    vms = check_request(request, known)
    name, here = request.name, found.machine.get("machine_id") or ""
    if not here:
        return Plan(
            NONE,
            (
                f"{PREFIX}_name: {name} does not answer at {known.servers[name]}{_reason(name, found)}. Install the new machine, let the inventory point "
                f"to its address, and give its ssh host key with {PREFIX}_host_key",
            ),
        )
    record = next(iter(records_of(request, found)), None)
    mine = [vm.name for vm in vms]
    if record is None and any(_is_here(one, mine) for one in (found.servers.get(name) or {}).get("vms") or ()):
        return Plan(NONE, lines=(f"{name} has its VMs, and no other server knows another machine of this name: nothing to replace",))
    if record is not None and record["machine_id"] == here and record["state"] != REPLACING:
        return Plan(NONE, lines=_same(name, record))
    begun = record is not None and record["machine_id"] == here
    why = _other_identity(name, here, record, found) + _others(request, known, found)
    proof, refused = _proof(request, known, found, record)
    if begun and record is not None:
        # it is not required again, but the earlier machine may be on again
        proof, refused = str(record["proof"]), refused if found.answering or request.bmc else []
    ways = tuple(_way(vm, request, known, found) for vm in _with_copies(vms, request, found))
    why += refused + _quorum(known, found, [way.name for way in ways if way.way == CONTROLLER]) + _unwanted(request, ways) + _arriving(request, ways, found)
    at = str(record["at"]) if begun and record is not None else now
    lost = _master(known, found, ways)
    was = f"the machine {record['machine_id']}" if record else "a machine that no other server has recorded"
    first = f"{name}: the machine {here} continues to take over" if begun else f"{name}: the machine {here} takes over from {was}"
    return Plan(REPLACE, tuple(why), (first, "  it becomes a virt host", *(f"  {way.text}" for way in ways), *(f"  {one}" for one in lost)), at, proof, ways)


def gone(request: Request, ways: t.Sequence[t.Mapping[str, t.Any]]) -> list[str | int]:
    """Return the IDs of the VMs that are not on the new machine afterwards, as the inventory may write them."""
    ids = [str(way["id"]) for way in ways if way["way"] in (LOST, ELSEWHERE) and way["server"] != request.name]
    return [*ids, *(int(one) for one in ids if one.isascii() and one.isdigit())]


def _master(known: Known, found: Found, ways: t.Sequence[Way]) -> list[str]:
    """Return what the list of the server does not contain: the migrated master."""
    elsewhere = any(_is_here(vm, (known.master,)) for facts in found.servers.values() for vm in (facts or {}).get("vms") or ())
    if not known.master or elsewhere or known.master in [way.name for way in ways]:
        return []
    text = "this server is the destination of its migration. If it was migrated, it is LOST, because it has no standby: restore it from a backup"
    return [f"{known.master}: {text}"]


def _same(name: str, record: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    before = record["old"][0]["machine_id"] if record["old"] else ""
    since = f"which took over from {before} at {record['at']}" if before else f"as recorded at {record['at']}"
    return (
        f"{name} is the machine {record['machine_id']}, {since}: nothing to replace",
        "  a lost controller on it comes back with replace_controller; a server that is to be retired is emptied with move_vm, removed with "
        "remove_virt_node, and powered off before it is replaced",
    )


def _is_here(vm: t.Mapping[str, t.Any], names: t.Collection[str]) -> bool:
    return (vm.get("id") in names or vm.get("name") in names) and not vm.get("moved")


def _other_identity(name: str, here: str, record: t.Mapping[str, t.Any] | None, found: Found) -> list[str]:
    """Return why the machine that answers as the server is not a new one: another server has its machine-id, or it was replaced before."""
    known = [((facts or {}).get("identity") or {}, server) for server, facts in found.servers.items()]
    same = [one["name"] for identity, _server in known for one in identity.get("records") or () if one["machine_id"] == here]
    same += [server for identity, server in known if (identity.get("here") or {}).get("machine_id") == here]
    other = next((server for server in same if server != name), None)
    if other:
        return [
            f"{name} has the same machine-id as {other}, because its system was copied. Remove /etc/machine-id on {name} and run systemd-machine-id-setup there"
        ]
    if record is not None and here in [one["machine_id"] for one in record["old"]]:
        return [
            f"the machine that answers as {name} was itself replaced at {record['at']}, by {record['machine_id']}. "
            "Power it off; its VMs must not start again"
        ]
    return []


def _reason(server: str, found: Found) -> str:
    """Return the last line of why a server could not be read, which may also have answered with an error."""
    lines = [line.strip() for line in str(found.errors.get(server) or "").splitlines() if line.strip()]
    return f" ({lines[-1].rstrip('.')})" if lines else ""


def _others(request: Request, known: Known, found: Found) -> list[str]:
    down = [server for server in known.servers if server != request.name and not found.servers.get(server)]
    why = [f"{server} does not answer{_reason(server, found)}: it may have VMs of {request.name}, or copies of them. Repair it first" for server in down]
    for facts in found.servers.values():
        for record in ((facts or {}).get("identity") or {}).get("records") or ():
            if record["state"] == REPLACING and record["name"] != request.name and record["name"] in known.servers:
                why.append(f"{PREFIX}_name: the replacement of {record['name']} is unfinished. Finish it first, with {PREFIX}_name={record['name']}")
    return list(dict.fromkeys(why))


def _proof(request: Request, known: Known, found: Found, record: t.Mapping[str, t.Any] | None) -> tuple[str, list[str]]:
    """Return the proof that the earlier machine is off, and the reasons against the replacement without one."""
    name = request.name
    if found.answering:
        return "", [
            f"the earlier machine of {name} is not off: {', '.join(found.answering)} answers. As long as the inventory points to it, empty it "
            "with move_vm and remove it with remove_virt_node; then power it off"
        ]
    if request.bmc:
        if found.power != "off":
            return "", [f"{PREFIX}_bmc: the management controller of {request.bmc} reports {found.power or 'nothing'}, not off. Power the earlier machine off"]
        other = _other_machine(request, found, record)
        return ("", [other]) if other else (f"{BMC} {request.bmc}", [])
    if request.confirm != name:
        wrong = f"{request.confirm!r} is not the server whose loss must be confirmed. " if request.confirm else ""
        who = f"the earlier machine ({record['machine_id']}, last at {record['address'] or 'an unknown address'})" if record else "the earlier machine"
        return "", [
            f"{PREFIX}_confirm: {wrong}If {who} still runs, two machines use the names and addresses of its VMs. Make sure that it is off, then set "
            f"{PREFIX}_confirm={name}, or name the host with its management controller in {PREFIX}_bmc"
        ]
    return f"{PERSON} {name}", []


def _other_machine(request: Request, found: Found, record: t.Mapping[str, t.Any] | None) -> str:
    """Return why the machine of the management controller is not the earlier one, according to their UUIDs; firmware may give several machines the same."""
    if not found.power_uuid:
        return ""
    here = found.machine.get("machine_id")
    earlier = next((one for one in (record, *record["old"]) if one["machine_id"] != here), {}) if record else {}
    recorded = str(earlier.get("product_uuid") or "")
    if recorded and not same_uuid(recorded, found.power_uuid):
        return (
            f"{PREFIX}_bmc: the management controller of {request.bmc} manages the machine with the UUID {found.power_uuid}, but the earlier machine "
            f"of {request.name} had {recorded}. Name the host with the management controller of the earlier machine, or prove it with {PREFIX}_confirm instead"
        )
    if not recorded and same_uuid(str(found.machine.get("product_uuid") or ""), found.power_uuid):
        return f"{PREFIX}_bmc: the management controller of {request.bmc} is that of the new machine. Name the host with that of the earlier one"
    return ""


def _with_copies(vms: t.Sequence[VmDetails], request: Request, found: Found) -> list[VmDetails | str]:
    """Return the VMs of the server, and the names of others of which there are copies from it, such as the migrated master."""
    ids = {str(vm.id) for vm in vms}
    copied = [
        str(entry["id"])
        for server, facts in found.servers.items()
        for entry in (facts or {}).get("standbys") or ()
        if server != request.name and entry["part"] == "standby" and any(copy["source"] == request.name for copy in entry["copies"])
    ]
    return [*vms, *(one for one in dict.fromkeys(copied) if one not in ids)]


def _way(given: VmDetails | str, request: Request, known: Known, found: Found) -> Way:
    vm_id, name = (given, given) if isinstance(given, str) else (str(given.id), given.name)
    wanted = None if isinstance(given, str) or given.standby is None else given.standby.server
    there = [server for server, facts in found.servers.items() if any(_is_here(one, (vm_id, name)) for one in (facts or {}).get("vms") or ())]
    others = [server for server in there if server != request.name]
    copies = {
        server: entry
        for server, facts in found.servers.items()
        for entry in (facts or {}).get("standbys") or ()
        if server != request.name and entry["part"] == "standby" and str(entry["id"]) == vm_id
    }
    # those that keep it until the end of its move to this server
    left = [
        server
        for server, facts in found.servers.items()
        if any(vm_id in (one.get("id"), one.get("name")) and one.get("moved") == request.name for one in (facts or {}).get("vms") or ())
    ]
    # a witness has recorded the start on another server, without a phase
    started = next((server for server, entry in copies.items() if entry["state"] == "started" and entry.get("phase")), "")
    if others and started not in (*there, *left):
        # it was moved to a third server afterwards
        started = ""
    if started and started not in left and copies[started].get("phase") == "claimed":
        text = f"{name}: its start on {started} was interrupted and is continued, then it is moved to {request.name}"
        return Way(vm_id, name, STANDBY, text, started, witnesses=tuple(copies[started].get("witnesses") or ()))
    begun = started or next((server for server in copies if server in left), "")
    if begun:
        return Way(vm_id, name, RETURN, f"{name} was started on its standby {begun}, and is moved to {request.name}", begun)
    if others:
        return Way(vm_id, name, ELSEWHERE, f"{name} is on {others[0]}, and stays there", others[0])
    if known.places.get(name) == request.name:
        return Way(vm_id, name, CONTROLLER, f"{name} is created again, and gets its data from its peers")
    if there:
        # an interrupted run has created it, or moved it here
        return Way(vm_id, name, RECREATE if name in request.recreate or _empty(given) else ELSEWHERE, f"{name} is already on the new machine", request.name)
    # a server that was its standby before may still have older ones
    mine = [(str(copy["copied"]), server, str(copy["id"])) for server, entry in copies.items() for copy in entry["copies"] if copy["source"] == request.name]
    if mine:
        copied, server, copy_id = max(mine)
        text = f"{name} is started on {server} from its copy of {copied}, then moved to {request.name}"
        return Way(vm_id, name, STANDBY, text, server, copy_id, tuple(copies[server].get("witnesses") or ()))
    if name in request.recreate:
        return Way(vm_id, name, RECREATE, f"{name} is created with empty disks, as requested")
    if _empty(given):
        return Way(vm_id, name, RECREATE, f"{name} is created again: it has no disk")
    if left:
        return Way(vm_id, name, LOST, f"{name} is LOST, and not created, but {left[0]} has what it was before its move: see destination_lost of vm_move")
    reason = f"its standby {wanted} has no verified copy of it" if wanted else "it has no standby"
    return Way(vm_id, name, LOST, f"{name} is LOST, and not created: {reason}. Restore it from a backup, or create it with empty disks: {PREFIX}_recreate")


def _empty(given: VmDetails | str) -> bool:
    return not isinstance(given, str) and not given.disks


def _unwanted(request: Request, ways: t.Sequence[Way]) -> list[str]:
    return [
        f"{PREFIX}_recreate: {way.name} would lose what its copy on {way.server} contains. Omit it"
        for way in ways
        if way.way in (STANDBY, RETURN) and way.name in request.recreate
    ]


def _arriving(request: Request, ways: t.Sequence[Way], found: Found) -> list[str]:
    """Return the VMs that a server received by a move when theirs was lost: they may be complete and run there."""
    why = []
    for way in ways:
        names = {way.id, way.name}
        for server, facts in found.servers.items():
            for vm in (facts or {}).get("vms") or ():
                # the destination of a move records itself
                mine = vm.get("moved") == server != request.name and names & {vm.get("id"), vm.get("name")}
                if mine and way.way in (STANDBY, CONTROLLER, RECREATE):
                    why.append(
                        f"{way.name} was being moved to {server}, which has it ({vm.get('state')}): with another one it could run twice. docs/standby.md "
                        "describes how such a move ends"
                    )
    return why


def _quorum(known: Known, found: Found, lost: t.Sequence[str]) -> list[str]:
    """Return the reasons of the other members against a replacement: they must serve without those of the server, and all be healthy."""
    why = []
    absent = [name for name in lost if not found.looks.get(name)]
    for service, report in plan_controlplane.reports_of(known.environments, {**found.looks, **dict.fromkeys(absent)}):
        voters = (*report.members, *report.witnesses)
        left = sum(1 for one in voters if one.state == plan_controlplane.OK)
        others = [one for one in report.unhealthy if one.host not in lost]
        if left < report.needed:
            names = ", ".join(one.text for one in report.unhealthy)
            # a backup is older than the data of a member that is left
            last = any(found.looks.get(one.host) for one in report.members if one.host not in lost)
            way = "docs/replace-server.md describes how it starts from the last member" if last else "it comes back from a backup with restore_database"
            hint = f"; if they are lost as well, {way}" if report.name == "galera" else ""
            why.append(f"{service} has {left} of {report.votes} members and needs {report.needed}: {names}. Repair the others first{hint}")
        else:
            why += [f"{service} on {one.text}. {left} of {report.votes} members serve; repair it first" for one in others]
    if len(lost) > 1:
        why.append(f"{' and '.join(lost)} were on the same server, and only one controller is replaced with its server. Replace them with replace_controller")
    return why
