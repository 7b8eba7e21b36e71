#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_move
short_description: Move a VM with its disks to another virt host
version_added: 1.0.0
description:
  - Runs on the virt host that has the VM (the source). A detached systemd unit performs the move over ssh, as a live migration
    if storage and CPU allow it, else with a graceful shutdown, a copy that is compared by content, and a start at the
    destination. UUID, MACs, disks, definition and ownership stay the same. The VM never runs on both hosts.
  - Until the destination has all data the VM is the copy on the source, afterwards the copy on the destination. A journal records
    this, so the module can be run again after a kill, a lost connection or a power loss, and resumes the move.
  - The old copy is kept on the source, off, until O(state=confirmed) removes it or O(state=returned) moves the VM back.
    M(reduced.footprint.vm_define) neither starts nor defines again a VM that was moved away.
  - The tasks file C(playbooks/tasks/move_vm_steps.yml) and the playbook C(reduced.footprint.move_vm) place the one-time ssh
    key and read the host keys of the destination.
extends_documentation_fragment:
  - reduced.footprint.attributes.libvirt
  - reduced.footprint.attributes.changes_diff_in_check_mode
attributes:
  check_mode:
    details:
      - With O(destination_facts) it returns all obstacles and the method of the move.
      - For V(confirmed) and V(returned) of O(state) it does not contact the destination, so only obstacles on the source are found.
  diff_mode:
    details:
      - Requires O(destination_facts), and shows source and destination of the VM.
options:
  id:
    description: ID of the VM.
    type: str
    required: true
    aliases: [name]
  cluster:
    description: Name of the cluster. Required for O(state=moved) and O(state=looked).
    type: str
  state:
    description:
      - V(looked) only gathers facts. On the source it returns the VM (RV(vm_facts)); with O(vm_facts), on the destination, it
        returns the facts of that host (RV(destination_facts)).
      - V(prepared) creates the one-time ssh key of the move and returns its public key. Every run of V(moved), V(confirmed) and
        V(returned) requires one, placed with M(reduced.footprint.one_time_key); the worker removes it when it ends.
      - V(moved) moves the VM, or resumes an unfinished move.
      - V(confirmed) removes the old copy with its disks, if the VM runs at the destination and its copy was verified. Base images
        and files that another VM needs are kept.
      - V(returned) moves the VM back. It is shut down at the destination, its changes are copied back and compared, then
        it is started on the source and its copy at the destination is removed. If its changes cannot be copied back, it is started at
        the destination again. A VM that is still on the source because its move failed is not changed, unless it could not be started here
        then.
      - V(returned) is refused if the VM was moved on from the destination to a third server, because the copy at the destination is old then.
      - V(returned) is also refused, before anything changes, if the VM has other files at the destination than those that were moved,
        for example a new disk, or if it has snapshots or saved memory there, because they would not be copied back. With
        O(discard_changes) it is not.
      - V(confirmed) and V(returned) are refused while the file system of a pool with the VM's disks is not mounted on the source.
      - For V(confirmed) and V(returned) only O(id) is required.
    type: str
    choices: [looked, prepared, moved, confirmed, returned]
    default: moved
  destination:
    description: The virt host to which the VM is moved. Required for O(state=moved).
    type: dict
    suboptions:
      host:
        description: Name or address for ssh from the source.
        type: str
        required: true
      name:
        description: Display name of that host, e.g. its name in the inventory. Default is O(destination.host).
        type: str
      port:
        description: Port of its ssh server.
        type: int
        default: 22
      host_keys:
        description: Its public ssh host keys, as in C(/etc/ssh/ssh_host_*_key.pub). Required outside of check mode.
        type: list
        elements: str
  uri:
    description: Connection URI of libvirt on the source. Detected if omitted.
    type: str
  destination_uri:
    description: Connection URI of libvirt on the destination. Default is the one of the VM on the source.
    type: str
  method:
    description:
      - V(live) moves the running VM and fails if a live migration is not possible. V(copy) shuts it down for the last part of the
        copy. V(auto) uses V(live) where possible and reports the reasons against it in RV(move.live_blockers).
      - Containers and VMs that do not run are always copied.
    type: str
    choices: [auto, live, copy]
    default: auto
  shutdown_timeout:
    description: Seconds the guest has to shut down.
    type: int
    default: 120
  force:
    description: Power off a guest that does not shut down in time. Otherwise the move fails and the VM is not changed.
    type: bool
    default: false
  max_downtime:
    description:
      - Live, the seconds for which libvirt may pause the guest. Copy, the passes over the files of a running VM end when a pass is
        shorter than this.
    type: float
    default: 1.0
  max_passes:
    description: Maximum number of copy passes over the files of a running VM before it is shut down.
    type: int
    default: 5
  bandwidth_limit:
    description: Bandwidth limit of the copies or of the live migration, for example V(100 MiB/s). No limit by default.
    type: str
  live_timeout:
    description: Seconds after which a live migration is aborted and the VM stays on the source.
    type: int
    default: 3600
  start_timeout:
    description: Seconds within which the VM must be running at the destination.
    type: int
    default: 60
  discard_changes:
    description:
      - With O(state=returned), return to the state of the VM before its move. B(All data written at the destination is missing
        then); its files are kept there, also those that were added there, and listed in RV(move.kept).
    type: bool
    default: false
  destination_lost:
    description:
      - With O(state=returned) and O(discard_changes), the name of the destination (RV(move.to)) if it is lost, which is then not contacted.
        B(Make sure that it is off for good), otherwise the VM runs twice. A destination that answers with its ssh host keys is not lost, and
        refused. It replaces a running return that waits for the destination.
    type: str
  vm_facts:
    description: The RV(vm_facts) that O(state=looked) returned on the source; for O(state=looked) on the destination.
    type: dict
  destination_facts:
    description: The RV(destination_facts) that O(state=looked) returned on the destination; used in check mode only.
    type: dict
  wait:
    description: Wait until the move has ended. Otherwise the module returns when the unit is running.
    type: bool
    default: true
  wait_timeout:
    description: Maximum number of seconds to wait; the move itself continues. If it waits for the destination then, the error message says so.
    type: int
    default: 7200
notes:
  - If the destination does not answer while the VM is off on both servers (after the switch of a copy, or during O(state=returned)), the unit
    waits until it answers, then continues, also after a restart of the source. M(reduced.footprint.vm_move_info) shows that. A call with
    O(state=returned), O(discard_changes=true) and O(destination_lost) ends the wait.
  - Disks must be files or folders in storage pools that have the same path on both hosts. VMs with host devices, block
    devices, disks shared with other VMs, snapshots or saved memory are refused.
  - The reported downtime of a copied VM ends when its domain is running; the guest system still has to boot.
seealso:
  - module: reduced.footprint.one_time_key
  - module: reduced.footprint.vm_define
  - module: reduced.footprint.vm_info
"""

EXAMPLES = r"""
- name: Create the one-time key
  reduced.footprint.vm_move:
    id: controller2
    state: prepared
  register: prepared

- name: Place the key on the destination
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

# create and place a new key before each of these, as above
- name: Remove the old copy
  reduced.footprint.vm_move:
    id: controller2
    state: confirmed

- name: Or move the VM back, with the data written since the move
  reduced.footprint.vm_move:
    id: controller2
    state: returned
"""

RETURN = r"""
vm_facts:
  description: The VM with its files and requirements; null if it is not on this host.
  returned: O(state=looked) without O(vm_facts)
  type: dict
destination_facts:
  description: The facts of this host that matter for the VM.
  returned: O(state=looked) with O(vm_facts)
  type: dict
public_key:
  description: The public key of the one-time key; null in check mode if none exists yet.
  returned: O(state=prepared)
  type: str
key_marker:
  description: The comment of that key.
  returned: O(state=prepared)
  type: str
method:
  description: V(live) or V(copy); null before it is decided.
  returned: O(state=moved), O(state=confirmed), O(state=returned), also on failure
  type: str
downtime_seconds:
  description: Seconds from the pause of the guest, or the shutdown request, until it was running again.
  returned: O(state=moved), O(state=confirmed), O(state=returned)
  type: float
bytes:
  description: Bytes copied; in check mode the bytes to copy.
  returned: O(state=moved), O(state=confirmed), O(state=returned)
  type: int
move:
  description: The move.
  returned: O(state=moved), O(state=confirmed), O(state=returned), also on failure
  type: dict
  contains:
    id: {description: ID of the VM., type: str}
    name: {description: Name of its domain., type: str}
    uuid: {description: Its UUID., type: str}
    macs: {description: Its MACs., type: list, elements: str}
    state:
      description: One of new, running, failed, moved, confirmed, returned.
      type: str
    phase: {description: The current or last phase., type: str}
    attempt: {description: Number of the attempt., type: int}
    method: {description: The method of the move., type: str}
    live_blockers: {description: Reasons against a live migration., type: list, elements: str}
    from: {description: The source., type: str}
    to: {description: The destination., type: str}
    started:
      description: Start (UTC).
      type: str
    ended:
      description: End (UTC), null while it runs.
      type: str
    phases:
      description: State, start and end (UTC), and seconds of every phase that has started.
      type: dict
    passes:
      description: Every copy pass with its path, kind, seconds, files and bytes.
      type: list
      elements: dict
    bytes: {description: Bytes copied by all passes., type: int}
    downtime_seconds:
      description: Same as RV(downtime_seconds).
      type: float
    verified:
      description: Whether the copy was compared and is equal, or libvirt completed the migration.
      type: bool
    volumes: {description: Files and folders of the VM., type: list, elements: str}
    kept: {description: Files of the VM that were not removed., type: list, elements: str}
    reason:
      description: Why it failed, or what it waits for if RV(move.state) is V(running).
      type: str
    warnings: {description: Warnings of the move., type: list, elements: str}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_move import move, unfinished


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
        "bandwidth_limit": {"type": "str"},
        "live_timeout": {"type": "int", "default": 3600},
        "start_timeout": {"type": "int", "default": 60},
        "discard_changes": {"type": "bool", "default": False},
        "destination_lost": {"type": "str"},
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
        module.fail_json(**{**unfinished(module.params), **error.as_result()})
    for warning in result.pop("warnings", []):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
