# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory and settings of kolla-ansible for the hosts of a footprint. No I/O.

The groups of services come from the sample inventory of the installed kolla-ansible, so they fit its version.
"""

from __future__ import annotations

import re
import shlex
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._topology import model_networks, plan_address

#: The groups of the sample that contain hosts.
TOP = ("control", "network", "compute", "monitoring", "storage")
#: What the collection can keep, and kolla-ansible then does not deploy.
KEEP = ("database", "load_balancer")
#: Releases that kolla-ansible 22 supports, by distribution.
SUPPORTED: t.Mapping[str, tuple[str, ...]] = {"Debian": ("bookworm", "trixie"), "Ubuntu": ("noble",)}
#: The account of the database that kolla-ansible uses to create those of the services.
DATABASE_USER = "kolla"
EXTERNAL = "export_kolla_external_interface"
_SECTION = re.compile(r"\[([\w:.-]+)\]\s*\Z")
_CONNECTION = (
    "ansible_host", "ansible_user", "ansible_port", "ansible_ssh_private_key_file", "ansible_ssh_common_args", "ansible_ssh_extra_args", "ansible_become",
    "ansible_python_interpreter",
)  # fmt: skip


class Wish(t.NamedTuple):
    """What the operator sets.

    :arg members: hosts by group of kolla-ansible, see :data:`TOP`.
    :arg keep: some of :data:`KEEP`.
    :arg settings: additional global settings, which win.
    :arg python: the interpreter of kolla-ansible, for its tasks on the control node.
    """

    members: t.Mapping[str, t.Sequence[str]]
    keep: tuple[str, ...] = ()
    virtual_address: str = ""
    external_name: str = ""
    virt_type: str = "kvm"
    settings: t.Mapping[str, t.Any] = {}
    python: str = ""


def inventory(sample: str, wish: Wish, hostvars: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    """Return the inventory: the sample with the hosts of the footprint.

    :arg sample: text of the inventory ``multinode`` of kolla-ansible.
    :raises InputError: a host that kolla-ansible cannot use, with the reason; a sample without the expected groups.
    """
    missing = [group for group in TOP if f"[{group}]" not in sample]
    if missing:
        raise InputError(f"the sample inventory has no group {missing[0]}.", "export_kolla_environment", "Install kolla-ansible 22 in this environment.")
    if not wish.members.get("control"):
        raise InputError("there are no controllers.", "groups.controller", "Add hosts to the group controller.")
    if not wish.members.get("compute"):
        raise InputError("there are no compute servers.", "groups.compute", "Give a server the role compute.")
    known: set[str] = set()
    lines: list[str] = []
    section = ""
    for line in sample.splitlines():
        found = _SECTION.match(line)
        section = found.group(1) if found else section
        if section not in TOP:
            own = wish.python and section == "deployment" and line.startswith("localhost ")
            lines.append(f"{line} ansible_python_interpreter={shlex.quote(wish.python)}" if own else line)
        elif found:
            lines.append(line)
            for host in wish.members.get(section, ()):
                lines.append(host if host in known else _host(host, hostvars[host], host in _external(wish)))
                known.add(host)
            lines.append("")
    return "\n".join(lines) + "\n"


def _external(wish: Wish) -> set[str]:
    """Return the hosts that are connected to the networks of tenants: gateways and compute servers."""
    return {*wish.members.get("network", ()), *wish.members.get("compute", ())}


def _host(host: str, own: t.Mapping[str, t.Any], external: bool) -> str:
    """Return the line of a host with its connection and interfaces."""
    facts = own.get("ansible_facts") or {}
    _check_system(host, facts)
    values = {name: str(own[name]) for name in _CONNECTION if own.get(name) not in (None, "")}
    values["network_interface"] = _interface(host, own, facts, "kolla_address", model_networks.MANAGEMENT)
    networks = own.get(model_networks.NETWORKS) or {}
    for name, variable, service in (("overlay", "tunnel_interface", "ovn_chassis_address"), ("storage", "storage_interface", "")):
        if name in networks and (service or name in (own.get(model_networks.ADDRESSES) or {})):
            values[variable] = _interface(host, own, facts, service, name)
    if external:
        values["neutron_external_interface"] = _external_interface(host, own, facts)
    return " ".join([host, *(f"{name}={shlex.quote(value)}" for name, value in values.items())])


def _check_system(host: str, facts: t.Mapping[str, t.Any]) -> None:
    if not facts.get("interfaces"):
        raise InputError(f"the facts of {host} are unknown.", host, "Start the host, and check that Ansible can connect to it.")
    name, release = str(facts.get("distribution")), str(facts.get("distribution_release"))
    if release not in SUPPORTED.get(name, ()):
        have = "; ".join(f"{one} {', '.join(releases)}" for one, releases in SUPPORTED.items())
        raise InputError(f"{host} runs {name} {release}, which kolla-ansible 22 does not support.", host, f"Use one of: {have}.")


def _interface(host: str, own: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], variable: str, network: str) -> str:
    """Return the interface with the address of a host in a network."""
    if variable:
        address = plan_address.member_address(host, own, variable)
    else:
        address = str(own[model_networks.ADDRESSES][network])
    carried = addresses(facts)
    found = next((name for name, mine in carried.items() if address in mine), None)
    if not found:
        have = ", ".join(f"{name} {' '.join(mine)}" for name, mine in carried.items() if mine) or "none"
        where = f"{host}.{model_networks.ADDRESSES}.{network}"
        raise InputError(f"no interface of {host} has {address}, its address in the network {network}.", where, f"It has {have}.")
    return found


def addresses(facts: t.Mapping[str, t.Any]) -> dict[str, list[str]]:
    """Return the IPv4 addresses of each interface of a host."""
    found: dict[str, list[str]] = {}
    for name in facts.get("interfaces") or ():
        fact = facts.get(str(name).replace("-", "_").replace(".", "_")) or {}
        listed = [fact.get("ipv4") or {}, *(fact.get("ipv4_secondaries") or ())]
        found[str(name)] = [str(one["address"]) for one in listed if isinstance(one, t.Mapping) and one.get("address")]
    return found


def _external_interface(host: str, own: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> str:
    carried = addresses(facts)
    free = [name for name, mine in carried.items() if not mine and name != "lo"]
    wanted = own.get(EXTERNAL)
    path = f"{host}.{EXTERNAL}"
    if not wanted:
        raise InputError(
            f"{host} needs an interface for the networks of tenants.", path, f"Set it to an interface without addresses: {', '.join(free) or 'there is none'}."
        )
    if wanted not in carried:
        raise InputError(f"{host} has no interface {wanted!r}.", path, did_you_mean(wanted, carried, f"Use one of {', '.join(free) or 'none'}."))
    if carried[wanted]:
        raise InputError(
            f"{wanted} has the address {carried[wanted][0]}, and kolla-ansible takes the interface into a bridge without addresses.",
            path,
            f"Use an interface without addresses: {', '.join(free) or 'there is none'}.",
        )
    return str(wanted)


def settings(wish: Wish, hostvars: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the global settings."""
    for index, name in enumerate(wish.keep):
        if name not in KEEP:
            raise InputError(f"{name!r} cannot be kept.", f"export_kolla_keep[{index}]", did_you_mean(name, KEEP, f"Use some of {', '.join(KEEP)}."))
    if not wish.virtual_address:
        raise InputError("is not set.", "load_balancer_virtual_address", "Set a free address of the network management; kolla-ansible needs it, too.")
    taken = next((host for host in hostvars if str(hostvars[host].get("ansible_host")) == wish.virtual_address), None)
    if taken:
        raise InputError(f"{wish.virtual_address} is the address of {taken}.", "load_balancer_virtual_address", "Use a free address.")
    found: dict[str, t.Any] = {
        "workaround_ansible_issue_8743": True,
        "kolla_base_distro": "debian",
        "kolla_internal_vip_address": wish.virtual_address,
        "neutron_plugin_agent": "ovn",
        "nova_compute_virt_type": wish.virt_type,
        # the distribution's Docker instead of that of another repository
        "enable_docker_repo": False,
        "docker_apt_package": "docker.io",
    }
    if wish.external_name:
        found["kolla_external_fqdn"] = wish.external_name
    if "database" in wish.keep:
        # the accounts and databases of the services are created by kolla-ansible with this account
        found.update(enable_mariadb=False, database_address=wish.virtual_address, database_port="3306", database_user=DATABASE_USER)
    if "load_balancer" in wish.keep:
        found.update(enable_haproxy=False, enable_keepalived=False)
    found.update(wish.settings)
    return found
