# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pools and networks of a node, and its end."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of virt_node that belong together."""

    STORAGE = r"""
options:
  pools:
    description:
      - Storage pools besides O(pool); an entry with that name describes it in place of O(pool_path).
      - An entry with a name alone is a pool that is there and is used as it is, whatever its type.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the pool.
        type: str
        required: true
      type:
        description: What to make where there is none; follows from O(pools[].path) or O(pools[].source) when left out.
        type: str
        choices: [dir, logical]
      path:
        description: Folder of a V(dir) pool, made where it is missing.
        type: str
      source:
        description: Volume group of a V(logical) pool. It must be there; no disk is ever formatted here. Needs lvm2 on the host.
        type: str
      mounted:
        description:
          - V(true) refuses a pool of files that is on the root file system. V(false) lets it be there, also where it was on a file system
            of its own before; that holds until V(true).
          - When left out, the mount point a pool is on is remembered once it was seen (here, and by M(reduced.footprint.vm_define)), and a pool
            whose file system is not mounted is refused from then on, before its folder is made or anything is written to it.
        type: bool
      reserve:
        description: Bytes kept free in this pool, in place of O(pool_reserve).
        type: str
  networks:
    description: Networks of libvirt that lead to a bridge of the host. They are made, started, and start with the host.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the network, that of the bridge when left out.
        type: str
      bridge:
        description: The bridge, which must be there. In check mode those of O(bridges) count as made.
        type: str
        required: true
"""

    REMOVAL = r"""
options:
  confirm:
    description: With O(state=absent), the O(name) of the node once more.
    type: str
  remove_vms:
    description:
      - With O(state=absent), shut down and undefine the VMs of O(cluster). Protected ones and those of somebody else are never touched.
      - Without it VMs run on; they no longer start with the host.
    type: bool
    default: false
  erase:
    description: With O(remove_vms), what to delete besides - V(none), or the V(disks) of the removed VMs, but for protected ones.
    type: str
    choices: [none, disks]
    default: none
  quorums:
    description:
      - With O(state=absent), the members of each quorum on all servers, a list of mappings with C(name), C(server) and C(alive) for each
        name of a quorum. P(reduced.footprint.quorum_members#filter) makes it.
      - With O(remove_vms) it is refused that fewer than a majority of all members go on.
    type: dict
  quorum_roles:
    description: Roles of VMs whose quorum must be known. A VM that has one is not removed as long as O(quorums) does not tell the others.
    type: list
    elements: str
    default: [controller]
  break_quorum:
    description: Go on although a quorum breaks.
    type: bool
    default: false
  shutdown_timeout:
    description: Seconds a VM that is removed gets to shut down.
    type: float
    default: 120.0
  force:
    description: Cut the power of a VM that does not shut down in time.
    type: bool
    default: false
"""
