#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: footprint_plan
short_description: Plan the placement of virtual machines on servers, and the effect of losing each server
version_added: 1.0.0
description:
  - Places VMs on servers that have enough memory (after the host's reserve), vCPUs and storage, support the hypervisor type and
    have the bridges, so that the loss of a server has the least effect.
  - Returns the reason for the placement of each VM, the effect of losing each server and the grade of availability. If a VM
    cannot be placed, returns what each server lacks and changes that would help.
  - "Plans are compared in this order: fewer VMs without a server; quorums that survive the loss of more servers; fewer members
    of a group on the same server; fewer moves; VMs of one role spread out; memory used evenly."
  - Also assigns whole physical servers to requests; a server is never split.
  - Reads only its parameters and changes nothing, so it can run anywhere, also before the first server is bought.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
attributes:
  platform:
    support: full
    platforms: posix
    description: Systems the module runs on. Requires only Python's standard library.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  servers:
    description:
      - The physical servers, as a list of mappings with a C(name), a mapping by name, or either as JSON text. The filter
        P(reduced.footprint.plan_servers#filter) builds it from the inventory, facts and results of other modules.
      - "Resources: C(memory) (a number is in GiB), C(cpus), C(arch), C(disk), C(pools) (name to size, or to C(capacity) and
        C(available)), C(hypervisors) (the usable types, or what M(reduced.footprint.virt_node) proved), C(bridges),
        C(networks), or C(capacity) as M(reduced.footprint.virt_node) returns it. Missing values are assumed to be sufficient, with
        a warning. A server without memory and CPUs carries no VM."
      - "Not available to VMs: C(memory_reserve), C(others_memory), C(others_vcpus). C(vcpu_ratio) overrides
        O(vcpu_ratio). The reserve and the ratio in C(capacity) override the options as well."
      - "C(roles): only a server with the role V(virt), the default, carries VMs. C(vms) are the VM details of the VMs that
        are listed for the server, C(runs) the ids of those that exist there. Without C(runs), it is unknown which exist; with it, another
        server for a VM that does not exist yet is not a move. C(runs_memory) and C(runs_vcpus) are the memory and vCPUs of VMs in C(runs), ID to
        size; those of a VM that is not in the plan are not available to it. C(copies): the bytes of copies of VMs of other servers, ID to size."
    type: raw
    default: []
  vms:
    description:
      - VM details of VMs that are on no server yet, or on the server in O(current); a list or JSON text.
      - In addition to the usual keys, C(host) pins a VM to a server, and C(anti_affinity) names one or several groups whose
        members are placed on different servers. C(standby) names the server that gets copies of the VM's disks; the space of one copy
        and of the started VM is counted there, and the VM itself is placed elsewhere.
      - A VM with the role V(compute) is refused unless its details have C(nested=true).
    type: raw
    default: []
  current:
    description: The current server of each VM, id to server. Overrides O(servers).
    type: dict
    default: {}
  wanted:
    description:
      - Requests for whole physical servers, a list of mappings with C(name) and any of C(cpu), C(ram) and C(disk) (numbers
        are in GiB), C(arch), C(roles), C(host) (only this server) and C(count).
      - C(match) is V(exact) (as much as requested and no more, the default) or V(at_least). The kernel reports slightly less
        memory than is installed, so 95% of the requested memory is sufficient.
      - A server that is assigned whole carries VMs only if C(roles) contains V(virt).
    type: raw
    default: []
  profile:
    description:
      - V(reduced) plans three controllers and the master. VMs with these roles in O(vms) and O(servers) count; only the others are added.
      - A number of nodes requests the dedicated nodes of the reference architecture of that size, instead of O(wanted).
    type: str
    choices: [reduced, '100', '300', '500', '1000']
  memory_reserve:
    description: Memory reserved for each host that has no C(memory_reserve) in O(servers). A number is in GiB; a unit can be given.
    type: str
    default: 1 GiB
  vcpu_ratio:
    description: Maximum number of vCPUs per CPU of a host that has no C(vcpu_ratio) in O(servers).
    type: float
    default: 4.0
  pool:
    description: The storage pool of disks without C(pool).
    type: str
    default: default
  pool_reserve:
    description: Space kept free in each pool. A number is in GiB; a unit can be given.
    type: str
    default: '0'
  thin_ratio:
    description: Overcommit ratio of storage, the total size of disks per capacity of the pool. A ratio above 1 relies on sparse disks.
    type: float
    default: 1.0
  quorum_roles:
    description: Roles whose members need a majority. Members are placed on different servers, and RV(ha_grade) grades their availability.
    type: list
    elements: str
    default: [controller]
  apart_roles:
    description: Additional roles whose members are placed on different servers where possible.
    type: list
    elements: str
    default: []
  strict_groups:
    description: Roles or C(anti_affinity) groups whose members never share a server. A member is left without a server instead.
    type: list
    elements: str
    default: []
  allow_moves:
    description: Whether a VM may be moved from its current server. A VM that is pinned to another server is moved in any case.
    type: bool
    default: true
  ha_required:
    description: Fail unless RV(ha_grade) is V(quorum).
    type: bool
    default: false
  unplaced:
    description: Whether the module fails if a VM or a request has no server. The report is returned in either case.
    type: str
    choices: [fail, report]
    default: fail
  svg:
    description: Whether to return RV(svg).
    type: bool
    default: false
seealso:
  - module: reduced.footprint.virt_node
  - plugin: reduced.footprint.plan_servers
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Plan three controllers and the master on two servers that are not bought yet
  reduced.footprint.footprint_plan:
    cluster: home
    profile: reduced
    servers:
      - {name: metal1, memory: 64, cpus: 16, pools: {default: 500 GiB}}
      - {name: metal2, memory: 64, cpus: 16, pools: {default: 500 GiB}}
  register: plan
  delegate_to: localhost

- name: Show the plan
  ansible.builtin.debug:
    msg: "{{ plan.text }}"

- name: Add a third server, and require full high availability
  reduced.footprint.footprint_plan:
    cluster: home
    servers:
      metal1: {memory: 64, cpus: 16, vms: [{id: c1, ram: 8, roles: [controller]}, {id: c2, ram: 8, roles: [controller]}]}
      metal2: {memory: 64, cpus: 16, vms: [{id: c3, ram: 8, roles: [controller]}]}
      metal3: {memory: 64, cpus: 16}
    ha_required: true

- name: Select a compute server with exactly 16 GiB
  reduced.footprint.footprint_plan:
    cluster: home
    servers:
      - {name: small, memory: 16, cpus: 8}
      - {name: large, memory: 128, cpus: 64}
    wanted:
      - {name: compute1, ram: 16, roles: [compute]}

- name: List the servers that a cloud of 300 nodes requires
  reduced.footprint.footprint_plan:
    cluster: big
    profile: '300'
    unplaced: report
"""

RETURN = r"""
feasible:
  description: Whether every VM and every request has a server.
  returned: when the input is valid, also if the plan fails
  type: bool
  sample: true
ha_grade:
  description:
    - V(quorum) if every quorum survives the loss of any one server, V(restart) if it survives the loss of only some servers,
      V(none) if it survives no loss or no role needs a majority. With several quorums, the worst grade is returned.
  returned: as RV(feasible)
  type: str
  sample: restart
ha:
  description: The grade as text, and the servers whose loss stops the control plane.
  returned: as RV(feasible)
  type: list
  elements: str
placements:
  description: The VMs that have a server.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample:
    - {id: c1, name: c1, server: metal1, previous: null, action: place, hypervisor: kvm, memory_mib: 8192, vcpus: 2, roles: [controller],
       anti_affinity: [], reason: 'on a different server than c2 and c3'}
unplaced:
  description: The VMs without a server, with the reason for each server.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{id: c3, name: c3, memory_mib: 8192, vcpus: 2, reasons: ['metal1 is short of 1 GiB of memory (requested 8 GiB, free 7 GiB)']}]
changes:
  description:
    - Changes of which any one would give every VM a server, as text, in order of increasing effort. Each was verified by planning with it; its
      amount is sufficient and may be more than necessary. Changes that lower the availability come last.
  returned: as RV(feasible)
  type: list
  elements: str
  sample: [add 1 GiB of memory to metal1]
advice:
  description: How high availability can be improved without another virt host, as text. With a witness, the VMs that are superfluous.
  returned: as RV(feasible)
  type: list
  elements: str
moves:
  description: The VMs to move from their current server, with the reason.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{id: c2, name: c2, previous: metal1, server: metal3, reason: moves away from c1 on metal1}]
servers:
  description:
    - The servers, their VMs, their utilization, and in C(lost) the effect of losing the server. C(severity) is V(red) if a quorum
      is lost, V(amber) if a service is down or its VMs cannot be restarted on other servers, else V(green).
  returned: as RV(feasible)
  type: list
  elements: dict
  sample:
    - name: metal1
      roles: [virt, compute]
      carries: true
      wanted_by: null
      vms: [c1]
      memory_mib: {total: 65536, reserve: 1024, others: 0, limit: 64512, used: 8192, free: 56320}
      vcpus: {cpus: 16, limit: 64, used: 2, others: 0, per_cpu: 0.12}
      pools: {default: {capacity_bytes: 536870912000, available_bytes: 536870912000, asked_bytes: 0, promised_bytes: 0, ratio: 0.0}}
      lost: {severity: green, quorum_kept: true, quorums_lost: [], services_down: [], restartable: [c1], stuck: [], memory_left_mib: 120832,
             sentence: 'If metal1 is lost: ...'}
standbys:
  description: The VMs that are copied to another server, with the space that this needs there at most.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{id: master, name: master, server: metal2, interval_seconds: 900, copies: 2, needed_bytes: 85899345920}]
wanted:
  description: The requests for whole servers.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{name: compute1, server: small, match: exact, roles: [compute], reason: matches the request exactly}]
overcommit:
  description: Servers and pools on which vCPUs or storage are overcommitted, as text.
  returned: as RV(feasible)
  type: list
  elements: str
labels:
  description: Servers that are controller and compute without VMs, an alternative way to save servers.
  returned: as RV(feasible)
  type: list
  elements: str
assumptions:
  description: What the plan assumes, and warnings to read before it is carried out.
  returned: as RV(feasible)
  type: list
  elements: str
services:
  description: The services of O(profile), empty for V(reduced) and without a profile.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{name: mysqld-server, instances: 3, dedicated: 3, shares: true, balanced: true}]
cluster:
  description: Name of the cluster.
  returned: as RV(feasible)
  type: str
  sample: home
disclaimer:
  description: The limits of a reduced footprint in performance, isolation and availability.
  returned: as RV(feasible)
  type: str
text:
  description: The plan as lines of text for the console.
  returned: as RV(feasible)
  type: list
  elements: str
svg:
  description: The plan as the text of a self-contained SVG file; null without O(svg=true).
  returned: as RV(feasible)
  type: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.run_plan import (
    FAIL,
    REPORT,
    PlanRequest,
    hidden_values,
    plan_footprint,
    shown_parameters,
)


def main() -> None:
    """Entry point."""
    module = quiet(AnsibleModule)(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "servers": {"type": "raw", "default": []},
            "vms": {"type": "raw", "default": []},
            "current": {"type": "dict", "default": {}},
            "wanted": {"type": "raw", "default": []},
            "profile": {"type": "str", "choices": ["reduced", "100", "300", "500", "1000"]},
            "memory_reserve": {"type": "str", "default": "1 GiB"},
            "vcpu_ratio": {"type": "float", "default": 4.0},
            "pool": {"type": "str", "default": "default"},
            "pool_reserve": {"type": "str", "default": "0"},
            "thin_ratio": {"type": "float", "default": 1.0},
            "quorum_roles": {"type": "list", "elements": "str", "default": ["controller"]},
            "apart_roles": {"type": "list", "elements": "str", "default": []},
            "strict_groups": {"type": "list", "elements": "str", "default": []},
            "allow_moves": {"type": "bool", "default": True},
            "ha_required": {"type": "bool", "default": False},
            "unplaced": {"type": "str", "choices": [FAIL, REPORT], "default": FAIL},
            "svg": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(hidden_values(module.params))
    given = dict(module.params)
    module.params = shown_parameters(given)
    answer(module, lambda: plan_footprint(PlanRequest(**given)).as_dict())


if __name__ == "__main__":
    main()
