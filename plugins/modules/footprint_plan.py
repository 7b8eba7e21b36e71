#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: footprint_plan
short_description: Plan which virtual machine stands on which server, and what each server's loss would cost
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Places VMs on servers so that they fit (memory after the host's reserve, vCPUs, bytes of storage pools, hypervisor type,
    bridges) and stand where the loss of a server hurts least.
  - Tells for every VM why it stands where it stands, for every server what its loss costs, how high the availability is, and
    what is short when something finds no server, with the smallest change that would help.
  - "What is better is decided in this order: fewer VMs without a server; quorums that survive the loss of more servers; fewer
    members of a group side by side; fewer moves; VMs of one role spread out; memory used evenly. RV(optimal) tells which of
    these are proven to be the best there is."
  - Fills wishes for whole physical servers from a pool as well; a server is never split.
  - Looks at nothing but its parameters and changes nothing, so it can run anywhere, before the first server is bought too.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
attributes:
  platform:
    support: full
    platforms: posix
    description: Systems the module runs on; it needs Python's standard library alone.
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  servers:
    description:
      - The physical servers, a list of mappings with a C(name), a mapping by name, or that as JSON text. The filter
        P(reduced.footprint.plan_servers#filter) makes it from the inventory, facts and results of other modules.
      - "What it has: C(memory) (a number counts in GiB), C(cpus), C(arch), C(disk), C(pools) (name to size, or to C(capacity) and
        C(available)), C(hypervisors) (those that are usable, or what M(reduced.footprint.virt_node) proved), C(bridges),
        C(networks), or C(capacity) as M(reduced.footprint.virt_node) returns it. What nobody told is taken for granted, with a
        warning; only a server without memory and CPUs carries no VM."
      - "What is kept from VMs: C(memory_reserve), C(others_memory), C(others_vcpus); C(vcpu_ratio) beats O(vcpu_ratio)."
      - "C(roles): only a server with the role V(virt), which is the default, carries VMs. C(vms) are VM details whose VMs stand
        there now, C(runs) the ids of such."
    type: raw
    default: []
  vms:
    description:
      - VM details that stand on no server yet, or on the one O(current) names; a list or JSON text.
      - Besides the usual keys, C(host) pins a VM to a server, and C(anti_affinity) names one group or several whose members are
        kept apart.
      - A VM with the role V(compute) is refused unless its details say C(nested=true).
    type: raw
    default: []
  current:
    description: Where VMs stand now, id to server. It beats what O(servers) tell.
    type: dict
    default: {}
  wanted:
    description:
      - Whole physical servers somebody wants, a list of mappings with C(name) and any of C(cpu), C(ram) and C(disk) (numbers
        count in GiB), C(arch), C(roles), C(host) (this server and no other) and C(count).
      - C(match) is V(exact) (as much as asked and no more, the default) or V(at_least). The kernel shows a little less memory
        than is built in, so 95% of the ask count as all of it.
      - A server that is wanted whole carries VMs only when C(roles) name V(virt).
    type: raw
    default: []
  profile:
    description:
      - V(reduced) plans three controllers and the master, unless O(vms) name other VMs.
      - A number of nodes plans the dedicated nodes of the reference architecture of that size, instead of O(wanted).
    type: str
    choices: [reduced, '100', '300', '500', '1000']
  memory_reserve:
    description: Memory kept for each host; a number counts in GiB, a unit can be given.
    type: str
    default: 1 GiB
  vcpu_ratio:
    description: How many vCPUs of guests one CPU of a host carries.
    type: float
    default: 4.0
  pool:
    description: The storage pool for disks that name none.
    type: str
    default: default
  pool_reserve:
    description: Bytes kept free in each pool; a number counts in GiB, a unit can be given.
    type: str
    default: '0'
  thin_ratio:
    description: How many bytes may be promised to disks per byte a pool holds. Above 1 it relies on disks staying sparse.
    type: float
    default: 1.0
  quorum_roles:
    description: Roles whose members need a majority. They are kept apart, and their survival is what RV(ha_grade) tells.
    type: list
    elements: str
    default: [controller]
  apart_roles:
    description: More roles whose members are kept apart where that is possible.
    type: list
    elements: str
    default: []
  strict_groups:
    description: Roles or C(anti_affinity) groups of which two never stand together; one rather stays without a server.
    type: list
    elements: str
    default: []
  allow_moves:
    description: Whether a VM that stands somewhere may be planned on another server. One that is pinned elsewhere may in any case.
    type: bool
    default: true
  ha_required:
    description: Fail unless RV(ha_grade) is V(quorum).
    type: bool
    default: false
  unplaced:
    description: Whether a VM or a wish without a server makes the module fail. The report is returned in either case.
    type: str
    choices: [fail, report]
    default: fail
  svg:
    description: Whether to draw RV(svg).
    type: bool
    default: false
seealso:
  - module: reduced.footprint.virt_node
  - plugin: reduced.footprint.plan_servers
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Three controllers and the master on two servers that are not bought yet
  reduced.footprint.footprint_plan:
    cluster: home
    profile: reduced
    servers:
      - {name: metal1, memory: 64, cpus: 16, pools: {default: 500 GiB}}
      - {name: metal2, memory: 64, cpus: 16, pools: {default: 500 GiB}}
  register: plan
  delegate_to: localhost

- name: Show it
  ansible.builtin.debug:
    msg: "{{ plan.text }}"

- name: A third server comes; refuse anything but full high availability
  reduced.footprint.footprint_plan:
    cluster: home
    servers:
      metal1: {memory: 64, cpus: 16, vms: [{id: c1, ram: 8, roles: [controller]}, {id: c2, ram: 8, roles: [controller]}]}
      metal2: {memory: 64, cpus: 16, vms: [{id: c3, ram: 8, roles: [controller]}]}
      metal3: {memory: 64, cpus: 16}
    ha_required: true

- name: A compute server of exactly 16 GiB from the pool
  reduced.footprint.footprint_plan:
    cluster: home
    servers:
      - {name: small, memory: 16, cpus: 8}
      - {name: large, memory: 128, cpus: 64}
    wanted:
      - {name: compute1, ram: 16, roles: [compute]}

- name: What a cloud of 300 nodes wants
  reduced.footprint.footprint_plan:
    cluster: big
    profile: '300'
    unplaced: report
"""

RETURN = r"""
feasible:
  description: Whether every VM and every wish has a server.
  returned: when the input is right, also when the plan fails
  type: bool
  sample: true
ha_grade:
  description:
    - V(quorum) when any one server can be lost and every quorum is kept, V(restart) when only some can, V(none) when none can
      or nothing needs a majority. With several quorums the worst counts.
  returned: as RV(feasible)
  type: str
  sample: restart
ha:
  description: The grade in plain words, and which single server's loss stops the control plane.
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
       anti_affinity: [], reason: 'apart from c2 and c3'}
unplaced:
  description: The VMs that have none, with what keeps them off each server.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{id: c3, name: c3, memory_mib: 8192, vcpus: 2, reasons: ['metal1 is short of 1 GiB of memory (asked 8 GiB, free 7 GiB)']}]
changes:
  description:
    - Changes each of which alone would give every VM a server, the least trouble first. They were tried out; C(least) tells that
      less of the same is not enough, C(moves) and C(ha_grade) what the plan would be then. Those that lower the availability
      come last.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{kind: memory, target: metal1, amount: 1024, unit: MiB, text: give metal1 1 GiB more memory, least: true, moves: 0, ha_grade: none}]
moves:
  description: VMs that stand on another server now, and why they are to move.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{id: c2, name: c2, previous: metal1, server: metal3, reason: moves away from c1 on metal1}]
servers:
  description:
    - The servers, what they carry, how full they are, and in C(lost) what their loss costs. C(severity) is V(red) when a quorum is
      lost, V(amber) when a service is down or there is no room to start its VMs again, else V(green).
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
wanted:
  description: The wishes for whole servers.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{name: compute1, server: small, match: exact, roles: [compute], reason: it is what was asked for}]
overcommit:
  description: Where more vCPUs or bytes are promised than there are, in words.
  returned: as RV(feasible)
  type: list
  elements: str
labels:
  description: Servers that are controller and compute directly, which is another way to save servers.
  returned: as RV(feasible)
  type: list
  elements: str
assumptions:
  description: What the plan takes for granted, and what to know before it is carried out.
  returned: as RV(feasible)
  type: list
  elements: str
services:
  description: The table of O(profile), empty for V(reduced) and without one.
  returned: as RV(feasible)
  type: list
  elements: dict
  sample: [{name: mysqld-server, instances: 3, dedicated: 3, shares: true, balanced: true}]
optimal:
  description: For each part of the objective, in its order, whether it is proven that nothing can be better.
  returned: as RV(feasible)
  type: dict
  sample: {unplaced: true, quorum: true, quorums: true, apart: true, moves: true, spread: true, balance: false}
cluster:
  description: Name of the cluster.
  returned: as RV(feasible)
  type: str
  sample: home
disclaimer:
  description: What a reduced footprint costs in performance, isolation and availability.
  returned: as RV(feasible)
  type: str
text:
  description: The plan as lines for the console.
  returned: as RV(feasible)
  type: list
  elements: str
svg:
  description: The plan as a picture, the text of an SVG file that needs nothing else; nothing without O(svg=true).
  returned: as RV(feasible)
  type: str
error:
  description: What was wrong.
  returned: failure
  type: dict
  contains:
    path:
      description: Where the bad value stands.
      type: str
      returned: always
    message:
      description: What is wrong.
      type: str
      returned: always
    hint:
      description: What to do about it.
      type: str
      returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_quiet_module import quiet
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
    try:
        result = plan_footprint(PlanRequest(**given))
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for warning in result.report["warnings"]:
        module.warn(warning)
    if result.error:
        module.fail_json(**result.as_dict())
    module.exit_json(**result.as_dict())


if __name__ == "__main__":
    main()
