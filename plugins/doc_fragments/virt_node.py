# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options for the details of a virt node, its storage pools and networks, and its removal."""

from __future__ import annotations


class ModuleDocFragment:
    """Groups of options of virt_node and virt_node_info."""

    DETAILS = r"""
options:
  roles:
    description:
      - Roles of the server. Only a server with the role V(virt) may have VM details; without the role nothing is proven and
        libvirt is not used.
    type: list
    elements: str
    default: []
  vms:
    description:
      - VM details, a list of mappings or the same list as JSON text.
      - A VM with the role V(compute) is refused unless its details contain C(nested=true).
    type: raw
    default: []
  pool:
    description: The libvirt storage pool for disks that do not name a pool.
    type: str
    default: default
  pool_path:
    description:
      - Folder of O(pool). If set, the pool is defined there if it does not exist, started, and its autostart is enabled.
      - If omitted, the existing pool is used unchanged.
    type: path
  bridges:
    description:
      - Bridges that the server must have, in addition to those in the VM details. Check mode and M(reduced.footprint.virt_node_info) assume
        that they exist.
    type: list
    elements: str
    default: []
  memory_reserve:
    description: Memory reserved for the host; a number without a unit is in GiB.
    type: str
    default: 1 GiB
  vcpu_ratio:
    description: Number of guest vCPUs per CPU of the host.
    type: float
    default: 4.0
  pool_reserve:
    description: Space kept free in each pool; a number without a unit is in GiB.
    type: str
    default: '0'
"""

    STORAGE = r"""
options:
  pools:
    description:
      - Storage pools in addition to O(pool). An entry with the name of O(pool) describes that pool instead of O(pool_path).
      - An entry with only a name is an existing pool of any type, which is used unchanged.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the pool.
        type: str
        required: true
      type:
        description: Type of a pool that does not exist yet; default depends on whether O(pools[].path) or O(pools[].source) is set.
        type: str
        choices: [dir, logical]
      path:
        description: Directory of a V(dir) pool, created if missing.
        type: str
      source:
        description: Existing volume group of a V(logical) pool; no disk is ever formatted. Requires lvm2 on the host.
        type: str
      mounted:
        description:
          - V(true) refuses a pool of files on the root file system. V(false) allows it, even if the pool was on a separate file system
            before; this remains in effect until V(true).
          - By default the mount point of a pool is recorded when it is first found (by this module or M(reduced.footprint.vm_define)). From then on
            a pool whose file system is not mounted is refused before its directory is created or anything is written to it.
        type: bool
      reserve:
        description: Space to keep free in this pool, overrides O(pool_reserve). A number without a unit is in GiB.
        type: str
  networks:
    description: libvirt networks that forward to a bridge of the host. They are created, started, and set to autostart.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the network, by default the name of the bridge.
        type: str
      bridge:
        description: An existing bridge. For check mode and M(reduced.footprint.virt_node_info) the bridges in O(bridges) count as existing.
        type: str
        required: true
"""

    REMOVAL = r"""
options:
  confirm:
    description: Required with O(state=absent), the O(name) of the node again.
    type: str
  remove_vms:
    description:
      - With O(state=absent), shut down and undefine the VMs of O(cluster). Protected VMs and unmanaged domains are never changed.
      - By default VMs continue to run, but no longer start with the host.
    type: bool
    default: false
  erase:
    description: With O(remove_vms), what else to delete - V(none), or the V(disks) of the removed VMs except protected disks.
    type: str
    choices: [none, disks]
    default: none
  quorums:
    description:
      - With O(state=absent), the members of each quorum on all servers - for each quorum name a list of mappings with C(name), C(server) and
        C(alive), as returned by M(reduced.footprint.remove_virt_node_plan).
      - With O(remove_vms), the removal is refused if less than a majority of all members would remain.
    type: dict
  quorum_roles:
    description: Roles of VMs that form a quorum. A VM with such a role is not removed unless O(quorums) contains the other members.
    type: list
    elements: str
    default: [controller]
  leave_instances:
    description:
      - Remove the node although it has instances of a cloud (OpenStack Nova). They are not changed, and neither are the services of the cloud.
    type: bool
    default: false
  break_quorum:
    description: Remove the node even if a quorum is lost.
    type: bool
    default: false
  shutdown_timeout:
    description: Seconds to wait for a removed VM to shut down.
    type: int
    default: 120
  force:
    description: Power off a VM that does not shut down in time.
    type: bool
    default: false
  keep_shared:
    description:
      - With O(state=absent), keep the node with its record, pools and networks if it has VMs of another cluster, or was recorded for another
        cluster. Only the VMs of O(cluster) are removed.
    type: bool
    default: false
"""
