#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_move
short_description: Move a VM with its disks to another virt host, never running twice, with a way back
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Runs on the virt host that has the VM (the source). A detached systemd unit carries the move out over ssh, live through
    libvirt where storage and CPU allow, else with a graceful shutdown, a copy that is compared by content, and a start at the
    destination. UUID, MACs, disks, definition and ownership stay the same.
  - Until the destination has everything the VM is the one here; from then on it is the one there. A journal says which, so the
    module can be run again after a kill, a lost connection or a power loss, and goes on where it was.
  - The old copy stays on the source, off, until O(state=confirmed) removes it or O(state=returned) takes the VM back.
    M(reduced.footprint.vm_define) neither starts nor makes anew a VM that left.
  - The tasks file C(playbooks/tasks/move_vm.yml) and the playbook C(reduced.footprint.move_vm) place the one-time ssh
    key and read the destination's host keys.
extends_documentation_fragment:
  - reduced.footprint.attributes.libvirt
attributes:
  check_mode:
    description:
      - Touches nothing. With O(destination_facts) it finds everything that stands in the way and says how the VM would go.
    support: full
  diff_mode:
    description: In check mode, with O(destination_facts), shows from where to where the VM goes.
    support: partial
    details:
      - The real run does not repeat it.
options:
  id:
    description: Id of the VM.
    type: str
    required: true
    aliases: [name]
  cluster:
    description: Name of the cluster. Needed for O(state=moved) and O(state=looked).
    type: str
  state:
    description:
      - V(looked) only looks. It returns the VM (RV(vm_facts)); with O(vm_facts), run on the destination, it returns what that
        host is like (RV(destination_facts)).
      - V(prepared) makes the one-time ssh key of the move and returns its public half. Every run of V(moved), V(confirmed) and
        V(returned) needs one, placed with M(reduced.footprint.one_time_key); its worker withdraws it at its end.
      - V(moved) moves the VM, or goes on with that.
      - V(confirmed) removes the old copy with its disks, once the VM runs at the destination and its copy was verified. Images
        and what another VM needs stay.
      - V(returned) takes the VM back. It is shut down at the destination, what it wrote there is brought back and compared, then
        it is started here and its copy there removed. A VM whose move failed and that is here anyway is left as it is.
      - For V(confirmed) and V(returned) the O(id) is enough.
    type: str
    choices: [looked, prepared, moved, confirmed, returned]
    default: moved
  destination:
    description: The virt host the VM goes to. Required for O(state=moved).
    type: dict
    suboptions:
      host:
        description: Name or address for ssh from this host.
        type: str
        required: true
      name:
        description: What people call that host, e.g. its name in the inventory. Default is O(destination.host).
        type: str
      port:
        description: Port of its ssh server.
        type: int
        default: 22
      host_keys:
        description: Its public ssh host keys, as in C(/etc/ssh/ssh_host_*_key.pub). Needed outside of check mode.
        type: list
        elements: str
  uri:
    description: Address of the hypervisor here. Found when left out.
    type: str
  destination_uri:
    description: Address of the hypervisor there. Default is the one the VM has here.
    type: str
  method:
    description:
      - V(live) moves the running VM and refuses where that cannot be. V(copy) shuts it down for the last part of the copy.
        V(auto) takes V(live) where it can be and says in RV(move.live_blockers) why not.
      - Containers and VMs that do not run are always copied.
    type: str
    choices: [auto, live, copy]
    default: auto
  shutdown_timeout:
    description: Seconds the guest gets to shut down.
    type: int
    default: 120
  force:
    description: Cut the power of a guest that does not shut down in time. Without it the move fails and the VM stays as it was.
    type: bool
    default: false
  max_downtime:
    description:
      - Live, the seconds libvirt may halt the guest for. Copied, the passes over a running VM's files end when one takes no longer.
    type: float
    default: 1.0
  max_passes:
    description: At most so many copies of a running VM's files before it is shut down.
    type: int
    default: 5
  bandwidth_limit:
    description: MiB per second, V(0) for no limit.
    type: int
    default: 0
  live_timeout:
    description: Seconds a live migration may take before it is given up and the VM stays here.
    type: int
    default: 3600
  start_timeout:
    description: Seconds the VM gets to run at the destination.
    type: int
    default: 60
  discard_changes:
    description:
      - With O(state=returned), take the VM back as it was before its move. B(Everything it wrote at the destination is missing
        then); its disks stay there and are named in RV(move.kept).
    type: bool
    default: false
  destination_lost:
    description:
      - With O(state=returned) and O(discard_changes), do not ask the destination. B(You vouch that it is off for good), or the VM
        runs twice.
    type: bool
    default: false
  vm_facts:
    description: What O(state=looked) returned on the source; for O(state=looked) on the destination.
    type: dict
  destination_facts:
    description: What O(state=looked) returned on the destination; used in check mode alone.
    type: dict
  wait:
    description: Wait for the end. Without it the module returns once the unit runs.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait at most; the move itself goes on.
    type: int
    default: 7200
notes:
  - Disks are files and folders in storage pools that have the same path on both hosts. VMs with devices of their host, block
    devices, snapshots or saved memory are refused.
  - The pause of a copied VM ends when it runs; its system still has to boot.
seealso:
  - module: reduced.footprint.one_time_key
  - module: reduced.footprint.vm_define
  - module: reduced.footprint.vm_info
"""

EXAMPLES = r"""
- name: Make the one-time key
  reduced.footprint.vm_move:
    id: controller2
    state: prepared
  register: prepared

- name: Place it
  reduced.footprint.one_time_key:
    name: controller2
    purpose: move
    public_key: "{{ prepared.public_key }}"
    allowed_from: [192.0.2.12]
  delegate_to: metal3

- name: Move controller2 to metal3
  reduced.footprint.vm_move:
    id: controller2
    cluster: lab
    destination:
      name: metal3
      host: 192.0.2.13
      host_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"]

# for these the key is made and placed again, as above
- name: Remove the old copy
  reduced.footprint.vm_move:
    id: controller2
    state: confirmed

- name: Or take it back with all it wrote meanwhile
  reduced.footprint.vm_move:
    id: controller2
    state: returned
"""

RETURN = r"""
vm_facts:
  description: The VM and what has to go with it; null when it is not on this host.
  returned: O(state=looked) without O(vm_facts)
  type: dict
destination_facts:
  description: What this host is like for the VM.
  returned: O(state=looked) with O(vm_facts)
  type: dict
public_key:
  description: The public half of the one-time key; null in check mode when there is none yet.
  returned: O(state=prepared)
  type: str
key_marker:
  description: The comment at the end of that key.
  returned: O(state=prepared)
  type: str
method:
  description: V(live) or V(copy); null before it is known.
  returned: O(state=moved), O(state=confirmed), O(state=returned), also on failure
  type: str
downtime_seconds:
  description: Seconds from the halt of the guest, or the request to shut down, until it ran again.
  returned: O(state=moved), O(state=confirmed), O(state=returned)
  type: float
bytes:
  description: Bytes copied; in check mode what is to be copied.
  returned: O(state=moved), O(state=confirmed), O(state=returned)
  type: int
move:
  description: The move.
  returned: O(state=moved), O(state=confirmed), O(state=returned), also on failure
  type: dict
  contains:
    id: {description: Id of the VM., type: str}
    name: {description: Name of its domain., type: str}
    uuid: {description: Its UUID., type: str}
    macs: {description: Its MACs., type: list, elements: str}
    state:
      description: One of new, running, failed, moved, confirmed, returned.
      type: str
    phase: {description: The phase it is in or ended with., type: str}
    attempt: {description: Number of the attempt., type: int}
    method: {description: How it goes., type: str}
    live_blockers: {description: Why it cannot go while it runs., type: list, elements: str}
    from: {description: The host it left., type: str}
    to: {description: The host it went to., type: str}
    started:
      description: When it began, in Unix seconds.
      type: float
    ended:
      description: When it ended, in Unix seconds.
      type: float
    phases:
      description: State, start, end and seconds of every phase that was begun.
      type: dict
    passes:
      description: Every copy with its path, kind, seconds, files and bytes.
      type: list
      elements: dict
    bytes: {description: Bytes copied by all passes together., type: int}
    downtime_seconds:
      description: As RV(downtime_seconds).
      type: float
    verified:
      description: Whether the copy was found equal, or libvirt brought everything over.
      type: bool
    volumes: {description: Files and folders of the VM., type: list, elements: str}
    kept: {description: Files that were not removed although the VM left them., type: list, elements: str}
    reason: {description: Why it failed., type: str}
    warnings: {description: What a person should know., type: list, elements: str}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_move import move


def arguments() -> dict:
    """The module's options."""
    return {
        "id": {"type": "str", "required": True, "aliases": ["name"]},
        "cluster": {"type": "str"},
        "state": {"type": "str", "choices": ["looked", "prepared", "moved", "confirmed", "returned"], "default": "moved"},
        "destination": {
            "type": "dict",
            "options": {
                "host": {"type": "str", "required": True},
                "name": {"type": "str"},
                "port": {"type": "int", "default": 22},
                "host_keys": {"type": "list", "elements": "str", "no_log": False},
            },
        },
        "uri": {"type": "str"},
        "destination_uri": {"type": "str"},
        "method": {"type": "str", "choices": ["auto", "live", "copy"], "default": "auto"},
        "shutdown_timeout": {"type": "int", "default": 120},
        "force": {"type": "bool", "default": False},
        "max_downtime": {"type": "float", "default": 1.0},
        "max_passes": {"type": "int", "default": 5, "no_log": False},
        "bandwidth_limit": {"type": "int", "default": 0},
        "live_timeout": {"type": "int", "default": 3600},
        "start_timeout": {"type": "int", "default": 60},
        "discard_changes": {"type": "bool", "default": False},
        "destination_lost": {"type": "bool", "default": False},
        "vm_facts": {"type": "dict"},
        "destination_facts": {"type": "dict"},
        "wait": {"type": "bool", "default": True},
        "wait_timeout": {"type": "int", "default": 7200},
    }


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec=arguments(), supports_check_mode=True, required_if=[("state", "moved", ["cluster", "destination"]), ("state", "looked", ["cluster"])]
    )
    try:
        result = move(module.params, check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for warning in result.pop("warnings", []):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
