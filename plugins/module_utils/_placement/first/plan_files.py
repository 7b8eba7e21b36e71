# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the first inventory, and the playbooks to run with it."""

from __future__ import annotations

import json
import math
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.first import plan_machines
from ansible_collections.reduced.footprint.plugins.module_utils._placement.first.model_answers import (
    CLOUD,
    CONTROL_PLANE,
    FLOATING,
    MOVE,
    TEMPORARY,
    VIRTUAL,
    VMS,
    Answers,
    addresses,
)

NODES, VARIABLES, CONFIGURATION = "inventory/nodes.yml", "inventory/group_vars/all.yml", "ansible.cfg"
#: What VMs have, by what is wanted: image, size of the disk, role.
_SIZES = {VMS: ("debian-12", "12GiB", ""), CONTROL_PLANE: ("debian-12", "12GiB", "controller"), CLOUD: ("debian-13", "20GiB", "controller")}
_RAM = 4
#: Texts that YAML reads as such without quotes: names, paths and addresses; and names that it reads as something else.
_PLAIN = re.compile(r"\A([A-Za-z_/][\w./-]*|[0-9]+(\.[0-9]+){3}(/[0-9]+)?|[0-9]+GiB)\Z")
_WORDS = re.compile(r"\A(y|n|yes|no|on|off|true|false|null)\Z", re.IGNORECASE)
_CONFIGURATION = """\
[defaults]
inventory = inventory
stdout_callback = reduced.footprint.brief
[inventory]
enable_plugins = reduced.footprint.nodes, ansible.builtin.yaml, ansible.builtin.ini
any_unparsed_is_failed = true
"""

Variables = t.Mapping[str, t.Any]


def connection(answers: Answers) -> dict[str, t.Any]:
    """Return the variables with which Ansible connects to all machines."""
    more = {} if answers.user == "root" else {"ansible_become": True}
    return {"ansible_user": answers.user, **more, "ansible_python_interpreter": "auto_silent"}


def variables(answers: Answers, found: plan_machines.Found, key: str) -> dict[str, t.Any]:
    """Return the variables of all hosts.

    :arg key: path of the public ssh key that VMs accept.
    """
    used, network = addresses(answers), found.network
    result: dict[str, t.Any] = {"expert_mode": answers.expert, **connection(answers)}
    if answers.vms:
        result["virt_guests_images"] = [{"name": _SIZES[answers.wanted][0]}]
        result["virt_guests_authorized_keys"] = [f"{{{{ lookup('ansible.builtin.file', '{key}') }}}}"]
    if VIRTUAL in used:
        result["load_balancer_virtual_address"] = used[VIRTUAL]
    if FLOATING in used:
        subnet = {"cidr": str(network.network), "gateway": network.gateway, "pool": [used[FLOATING], str(answers.last)]}
        result["footprint_cloud"] = True
        result["ovn_chassis_bridge_mappings"] = {"provider": "br-ex"}
        result["ovn_chassis_uplinks"] = {"br-ex": network.bridge}
        result["cloud_bootstrap_networks"] = [{"name": "public", "type": "flat", "external": True, "subnets": [subnet]}]
    if answers.source:
        facts, name = found.facts[answers.source.name], answers.source.name
        moved = {"ram": plan_machines.memory_gib(facts), "name": f"{name}-vm"} if answers.wanted == MOVE else {}
        # room for what is written during the migration, a boot loader and swap
        size = max(8, math.ceil(plan_machines.used_gib(facts) * 1.3) + 4)
        more = {"source": name, "temporary_address": used[TEMPORARY], "services": "all", **moved, "disk_size": f"{size}GiB", "bridge": network.bridge}
        result |= {f"master_migrate_{option}": value for option, value in more.items()}
    return result


def nodes(answers: Answers, found: plan_machines.Found, places: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return the file of the inventory plugin.

    :arg places: VM → server; VMs without one are left out.
    """
    used, network = addresses(answers), found.network
    result: dict[str, t.Any] = {"plugin": "reduced.footprint.nodes", "cluster": answers.cluster}
    if VIRTUAL in used:
        # it moves between the controllers, so that it identifies none of them
        result["exclude_addresses"] = [used[VIRTUAL]]
    if answers.vms:
        image, size, role = _SIZES[answers.wanted]
        has_role = {"roles": [role]} if role else {}
        devices = {"nics": [{"bridge": network.bridge}], "disks": [{"size": size, "image": image}]}
        ways = {"gateway": network.gateway, "nameservers": list(network.nameservers)}
        result["vm_defaults"] = {"cpu": 2, "ram": _RAM, **has_role, **devices, **ways}
    servers: dict[str, t.Any] = {}
    for one in answers.servers:
        bridge = {"name": network.bridge, "port": found.ports[one.name]}
        roles = ["virt", "compute"] if answers.wanted == CLOUD else ["virt"]
        servers[one.name] = {"ansible_host": one.address, "roles": roles, "virt_host_bridges": [bridge]}
        vms = [{"id": name, "address": f"{used[name]}/{network.network.prefixlen}"} for name in answers.vms if places.get(name) == one.name]
        servers[one.name] |= {"vms": vms} if vms else {}
    if answers.source:
        servers[answers.source.name] = {"ansible_host": answers.source.address, "roles": ["master"]}
    return {**result, "servers": servers}


def texts(answers: Answers, common: Variables, config: Variables) -> dict[str, str]:
    """Return the text of each file by its path, in the order in which they are written: an inventory is complete when its servers are there.

    :arg common: of :func:`variables`.
    :arg config: of :func:`nodes`.
    """
    notes = {
        "expert_mode": "confirms that you have read the disclaimer in the README" if answers.expert else "set it to true when you have read the disclaimer",
        "load_balancer_virtual_address": "moves between the controllers",
        "master_migrate_temporary_address": "of the source after the migration",
        "master_migrate_services": "are stopped in the pause; better a list of those that write data",
        "master_migrate_ram": "in GiB, from the memory that it uses now",
        "master_migrate_disk_size": "from the space that its files take now",
    }
    lines = [f"{name}: {_flow(value)}{f'  # {notes[name]}' if name in notes else ''}" for name, value in common.items()]
    return {
        CONFIGURATION: _CONFIGURATION,
        VARIABLES: "\n".join(["---", "# Variables of all hosts; the README of each role lists its own.", *lines, ""]),
        NODES: "\n".join(["---", "# Servers and their VMs.", *_block(config, ("vm_defaults", "servers")), ""]),
    }


def _block(values: t.Mapping[str, t.Any], open_keys: t.Sequence[str], indent: str = "") -> t.Iterator[str]:
    """Yield lines of YAML: a line for each key, and mappings below some keys, and VMs, in lines of their own."""
    for key, value in values.items():
        if key == "vms":
            yield f"{indent}vms:"
            yield from (f"{indent}  - {_flow(one)}" for one in value)
        elif key in open_keys:
            yield f"{indent}{key}:"
            yield from _block(value, list(value) if key == "servers" else (), f"{indent}  ")
        else:
            yield f"{indent}{key}: {_flow(value)}"


def _flow(value: t.Any) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, t.Mapping):
        return f"{{{', '.join(f'{key}: {_flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    return value if isinstance(value, str) and _PLAIN.match(value) and not _WORDS.match(value) else json.dumps(value)


def commands(answers: Answers) -> list[str]:
    """Return the playbooks to run next."""
    names = {VMS: ["provision_virt", "spawn_vms"], MOVE: ["provision_virt", "migrate_master --check --diff", "migrate_master"]}
    return [f"ansible-playbook reduced.footprint.{name}" for name in names.get(answers.wanted, ["site --check --diff", "site"])]
