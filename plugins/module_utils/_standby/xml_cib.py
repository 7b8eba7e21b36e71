# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of Pacemaker (CIB), and what it reports: options, fencing, VMs. No input and output."""

from __future__ import annotations

import copy
import difflib
import typing as t
import xml.etree.ElementTree as ET

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import Cluster, Vm

OPTIONS, STATE = "footprint-options", "footprint-state"
# the last one is the name that Pacemaker requires
_FENCE, _VM, _WATCHDOG = "footprint-fence-", "vm-", "watchdog"
_MANAGED = "is-managed"

Parts = t.Mapping[str, t.Sequence[ET.Element]]


class Seen(t.NamedTuple):
    """What Pacemaker reports.

    :arg quorum: whether this server is in the majority.
    :arg unclean: servers that must be fenced before anything is started elsewhere.
    :arg running: VM → server on which it runs.
    :arg unmanaged: VMs that are left alone.
    :arg fencing: server → whether something can fence it at present.
    :arg failures: VM or device → the last problem, with its server.
    """

    quorum: bool
    online: frozenset[str]
    unclean: frozenset[str]
    running: t.Mapping[str, str]
    unmanaged: frozenset[str]
    fencing: t.Mapping[str, bool]
    failures: t.Mapping[str, str]


def resource_id(vm_id: str) -> str:
    """Return the name of a VM in Pacemaker."""
    return f"{_VM}{vm_id}"


def owner_name(vm_id: str) -> str:
    """Return the name of the attribute that names the server with the valid disks of a VM."""
    return f"footprint-owner-{vm_id}"


def _set(tag: str, name: str, values: t.Mapping[str, t.Any]) -> ET.Element:
    found = ET.Element(tag, id=name)
    for key, value in values.items():
        ET.SubElement(found, "nvpair", id=f"{name}-{key}", name=key, value=str(value))
    return found


def _operations(name: str, *operations: t.Mapping[str, str]) -> ET.Element:
    found = ET.Element("operations")
    for each in operations:
        ET.SubElement(found, "op", id=f"{name}-{each['name']}", **each)
    return found


def _location(name: str, resource: str, node: str, score: str) -> ET.Element:
    return ET.Element("rsc_location", id=name, rsc=resource, node=node, score=score)


def cluster_parts(cluster: Cluster, systems: t.Mapping[str, str], password: t.Callable[[str], str]) -> dict[str, list[ET.Element]]:
    """Return section → elements for the options and the fencing.

    :arg systems: server → path of its system at its controller.
    :arg password: returns the program that prints the password of a server's controller.
    """
    options: dict[str, t.Any] = {
        "stonith-enabled": "true",
        "stonith-action": "reboot",
        # without a majority a VM continues until its server is really fenced; the watchdog does that by itself
        "no-quorum-policy": "stop" if cluster.watchdog else "freeze",
        # a server that is shut down keeps its VMs
        "shutdown-lock": "true",
        "start-failure-is-fatal": "false",
        "stonith-timeout": "60s",
        # otherwise a server whose controller was dead for a while is never fenced
        "stonith-max-attempts": "INFINITY",
        # a VM that is taken out of the cluster continues
        "stop-orphan-resources": "false",
    }
    resources: list[ET.Element] = []
    constraints: list[ET.Element] = []
    levels: list[ET.Element] = []
    if cluster.watchdog:
        options["stonith-watchdog-timeout"] = "30s"
        resources.append(ET.Element("primitive", {"id": _WATCHDOG, "class": "stonith", "type": "fence_watchdog"}))
    for member in cluster.members:
        name = f"{_FENCE}{member.name}"
        if member.bmc is not None:
            resources.append(_fence(name, member.name, member.bmc, systems[member.name], password(member.name), cluster.watchdog))
            constraints.append(_location(f"{name}-elsewhere", name, member.name, "-INFINITY"))
        devices = [name] * (member.bmc is not None) + [_WATCHDOG] * cluster.watchdog
        if cluster.watchdog:
            for index, device in enumerate(devices, 1):
                levels.append(ET.Element("fencing-level", id=f"{name}-{index}", target=member.name, index=str(index), devices=device))
    return {
        "crm_config": [_set("cluster_property_set", OPTIONS, options)],
        "resources": resources,
        "constraints": constraints,
        "fencing-topology": levels,
    }


def _fence(name: str, server: str, bmc: t.Any, system: str, password: str, watchdog: bool) -> ET.Element:
    found = ET.Element("primitive", {"id": name, "class": "stonith", "type": "fence_redfish"})
    values: dict[str, t.Any] = {
        "ip": f"[{bmc.host}]" if ":" in bmc.host else bmc.host,
        "ipport": bmc.port,
        "systems_uri": system,
        "username": bmc.user,
        "password_script": password,
        **({"ssl_insecure": "1"} if bmc.verify_ca is False else {}),
        # one that cannot be powered on again was fenced nevertheless
        "disable_timeout": "0",
        "power_timeout": "15",
        "pcmk_host_list": server,
        # the agent waits for a controller without a time limit
        **({"pcmk_reboot_timeout": "20s"} if watchdog else {}),
    }
    found.append(_set("instance_attributes", f"{name}-params", values))
    # the device of a dead controller must not be restarted forever, which delays the start of VMs
    found.append(_set("meta_attributes", f"{name}-meta", {"migration-threshold": 1, "failure-timeout": "5min"}))
    found.append(_operations(name, {"name": "monitor", "interval": "60s", "timeout": "20s"}))
    return found


def vm_parts(vm: Vm, home: str, managed: bool) -> dict[str, list[ET.Element]]:
    """Return section → elements for a VM.

    :arg home: the server where a start is tried first.
    :arg managed: ``False`` for a VM that is about to be moved: it is neither started nor stopped.
    """
    name = resource_id(vm.id)
    found = ET.Element("primitive", {"id": name, "class": "ocf", "provider": "footprint", "type": "vm"})
    found.append(_set("instance_attributes", f"{name}-params", vm._asdict()))
    meta = {"resource-stickiness": "INFINITY", "migration-threshold": 3, "failure-timeout": "10min", **({} if managed else {_MANAGED: "false"})}
    found.append(_set("meta_attributes", f"{name}-meta", meta))
    found.append(
        _operations(
            name,
            {"name": "start", "interval": "0s", "timeout": "3600s"},
            # a server is not fenced because a VM does not stop
            {"name": "stop", "interval": "0s", "timeout": "600s", "on-fail": "block"},
            {"name": "monitor", "interval": "10s", "timeout": "20s"},
        )
    )
    return {"resources": [found], "constraints": [_location(f"{name}-home", name, home, "100")]}


def is_of_vm(vm_id: str) -> t.Callable[[str], bool]:
    """Return whether an element belongs to a VM."""
    return lambda name: name in (resource_id(vm_id), f"{resource_id(vm_id)}-home")


def is_of_cluster(name: str) -> bool:
    """Whether an element belongs to the options and the fencing."""
    return name in (OPTIONS, _WATCHDOG) or name.startswith(_FENCE)


def vms_of(document: ET.Element) -> dict[str, dict[str, str]]:
    """Return VM → its parameters and meta attributes."""
    found = {}
    for each in document.iterfind("configuration/resources/primitive"):
        if str(each.get("id")).startswith(_VM):
            values = {str(pair.get("name")): str(pair.get("value")) for pair in each.iter("nvpair")}
            found[str(each.get("id"))[len(_VM) :]] = values
    return found


def has_history(document: ET.Element, vm_id: str) -> bool:
    """Whether Pacemaker remembers something of a VM."""
    return any(each.get("id") == resource_id(vm_id) for each in document.iter("lrm_resource"))


def is_managed(values: t.Mapping[str, str]) -> bool:
    """Whether Pacemaker starts and stops a VM, from its values."""
    return values.get(_MANAGED) != "false"


def owner_of(document: ET.Element, vm_id: str) -> str | None:
    """Return the server with the valid disks of a VM."""
    for each in document.iterfind("configuration/crm_config/cluster_property_set/nvpair"):
        if each.get("name") == owner_name(vm_id):
            return each.get("value")
    return None


def changed(document: ET.Element, parts: Parts, is_ours: t.Callable[[str], bool]) -> ET.Element | None:
    """Return the document with our elements replaced by others, ``None`` if it has exactly these.

    :arg is_ours: whether this collection manages an element with this ID; those that are not wanted any more are removed.
    """
    after = copy.deepcopy(document)
    configuration = after.find("configuration")
    if configuration is None:
        raise BackendError("the configuration of Pacemaker has no section 'configuration'.")
    sections = {each.tag for each in configuration} | set(parts)
    for tag in sorted(sections):
        place = configuration.find(tag)
        if place is None:
            if not parts.get(tag):
                continue
            place = ET.SubElement(configuration, tag)
        wanted = {str(each.get("id")): each for each in parts.get(tag, ())}
        for index, each in enumerate(list(place)):
            name = str(each.get("id"))
            if name in wanted:
                if text(each) != text(wanted[name]):
                    place[list(place).index(each)] = wanted[name]
                del wanted[name]
            elif is_ours(name):
                place.remove(each)
        place.extend(wanted.values())
    if configuration_text(after) == configuration_text(document):
        return None
    after.set("epoch", str(int(document.get("epoch") or 0) + 1))
    after.set("num_updates", "0")
    return after


def text(element: ET.Element) -> str:
    """Return an element as text that does not depend on spaces and the order of attributes."""
    found = copy.deepcopy(element)
    ET.indent(found)
    for each in found.iter():
        each.attrib = dict(sorted(each.attrib.items()))
    return ET.tostring(found, encoding="unicode")


def configuration_text(document: ET.Element) -> str:
    """Return the configuration as text, for differences."""
    found = document.find("configuration")
    return f"{text(found)}\n" if found is not None else ""


def difference(before: ET.Element, after: ET.Element) -> str:
    """Return the changed lines of the configuration."""
    texts = [configuration_text(each).splitlines(keepends=True) for each in (before, after)]
    return "".join(list(difflib.unified_diff(*texts, n=0))[2:])


def seen(report: str) -> Seen:
    """Return what the XML output of ``crm_mon`` says."""
    try:
        root = ET.fromstring(report)
    except ET.ParseError as error:
        raise BackendError(f"the report of Pacemaker cannot be read: {error}.") from error
    dc = root.find("summary/current_dc")
    nodes = list(root.iterfind("nodes/node"))
    running: dict[str, str] = {}
    fencing: dict[str, bool] = {}
    unmanaged = set()
    for each in root.iterfind("resources/resource"):
        name, where = str(each.get("id")), each.find("node")
        works = each.get("active") == "true" and each.get("failed") != "true"
        if name.startswith(_VM):
            if works and where is not None:
                running[name[len(_VM) :]] = str(where.get("name"))
            if each.get("managed") == "false":
                unmanaged.add(name[len(_VM) :])
        elif name.startswith(_FENCE):
            fencing[name[len(_FENCE) :]] = works
    failures = {}
    for each in root.iterfind("failures/failure"):
        # vm-master_start_0
        name = str(each.get("op_key")).rsplit("_", 2)[0]
        failures[name] = f"{each.get('node')}: {each.get('exitreason') or each.get('exitstatus')}"
    return Seen(
        quorum=dc is not None and dc.get("with_quorum") == "true",
        online=frozenset(str(each.get("name")) for each in nodes if each.get("online") == "true"),
        unclean=frozenset(str(each.get("name")) for each in nodes if each.get("unclean") == "true"),
        running=running,
        unmanaged=frozenset(unmanaged),
        fencing=fencing,
        failures=failures,
    )


def problem(found: Seen, vm_id: str, here: str, other: str, vote: bool) -> str | None:
    """Return why a VM would not be started on the other server at present, ``None`` if it would.

    :arg here: its server; ``vote``: whether the witness votes.
    """
    if not found.quorum:
        return "its server has no majority: neither the other server nor the witness votes with it"
    if other not in found.online:
        return f"{other} is not in the cluster"
    if not vote:
        return "the witness does not vote"
    if found.fencing.get(here) is False:
        why = found.failures.get(f"{_FENCE}{here}")
        return f"{here} cannot be fenced{f' by {why}' if why else ''}"
    if vm_id in found.unmanaged:
        return "the cluster leaves it alone, because it is being moved"
    if vm_id not in found.running:
        return f"it does not run{_why(found, vm_id)}"
    return None


def _why(found: Seen, vm_id: str) -> str:
    why = found.failures.get(resource_id(vm_id))
    return f": {why}" if why else ""
