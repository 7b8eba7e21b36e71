#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: master_migrate
short_description: Migrate a running machine into a VM of this host, with a short pause and rollback
version_added: 1.0.0
description:
  - Runs on the virt host that will run the master (the destination). It starts a detached systemd unit that copies the
    running source over ssh, stops the listed services, copies the rest, takes the admin address from the source and boots the
    VM with it. If the VM is not healthy in time, the migration is rolled back to the source automatically.
  - The unit keeps a journal. Run the module again at any time. It attaches to a running migration, resumes an interrupted
    one, and reports a finished one as unchanged.
  - The source holds a lease while it is set aside. If it does not hear from the destination for O(lease_timeout) seconds, it
    takes its address and services back, after it has checked that no other machine answers for the address.
  - The role P(reduced.footprint.master_migrate#role) places the one-time ssh key and gathers the source's facts.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes_diff_in_check_mode
  - reduced.footprint.migration.source_at_rest
  - reduced.footprint.migration.copying
  - reduced.footprint.migration.checks
  - reduced.footprint.migration.course
attributes:
  check_mode:
    details:
      - Runs all checks.
  diff_mode:
    details:
      - Requires O(source_facts), and shows the changes to the copy's configuration. The journal of a real run lists them.
options:
  name:
    description: Name of the migration and of the VM. The default is the name or the id in O(vm).
    type: str
  state:
    description:
      - V(prepared) creates the one-time ssh key of the migration, and returns the public key and the O(hooks) that the key may run on the source.
      - V(migrated) migrates the master, or resumes its migration.
      - V(rolled_back) stops the VM and lets the source serve again, also after a finished migration. Data written to the master
        since then stays on the VM's disk only, and another migration is refused without O(discard_vm_data).
      - V(retired) shuts the source down after a finished migration. No automatic rollback is possible after that.
      - V(rolled_back) and V(retired) require only O(name).
    type: str
    choices: [prepared, migrated, rolled_back, retired]
    default: migrated
  source:
    description: The machine to migrate.
    type: dict
    suboptions:
      address:
        description: Name or address for ssh from this host. The default is the admin address.
        type: str
      port:
        description: Port of its ssh server.
        type: int
        default: 22
      machine_id:
        description: Content of its C(/etc/machine-id); another machine is refused. The default is taken from O(source_facts).
        type: str
      host_keys:
        description:
          - Its public ssh host keys, as in C(/etc/ssh/ssh_host_*_key.pub). The default is taken from O(source_facts).
        type: list
        elements: str
  source_facts:
    description:
      - RV(reduced.footprint.master_source_info#module:source.facts) of the source.
    type: dict
  admin:
    description: The address that moves. Required for O(state=migrated).
    type: dict
    suboptions:
      address:
        description: The IPv4 address of the master, static in the source's network configuration.
        type: str
      interface:
        description: The source's interface with this address. Detected if omitted.
        type: str
      temporary_address:
        description: A free address of the same network for the source after the move.
        type: str
  vm:
    description:
      - VM details of the new master, as for M(reduced.footprint.vm_define). Requires at least one card and a first disk with a
        size, format raw and no image.
    type: dict
    default: {}
  cluster:
    description: Name of the cluster, from which the VM's UUID and MACs derive.
    type: str
    default: footprint
  uri:
    description: Connection URI of the hypervisor.
    type: str
    default: qemu:///system
  template:
    description: Content of a libvirt template, or the name of a packaged one.
    type: str
  pool:
    description: Storage pool for the disk.
    type: str
    default: default
  wait:
    description:
      - Wait until the migration has ended. With V(false) the module returns once the unit runs.
      - A waiting task prints the progress of the migration whenever it changes (pass, amount, rate, time left, predicted
        downtime) and a summary at its end. A task with C(async) prints nothing.
    type: bool
    default: true
  wait_timeout:
    description: Maximum number of seconds to wait; the migration itself continues.
    type: int
    default: 7200
notes:
  - The copy keeps hard links, ACLs, extended attributes, file capabilities, sparse files and numeric owners.
  - The source must have a static IPv4 admin address, a kernel, GRUB for the VM's firmware, rsync and Python 3.9 or newer.
  - The VM boots with UEFI firmware if the source does according to O(source_facts), unless O(vm) sets C(boot_firmware).
seealso:
  - module: reduced.footprint.one_time_key
  - module: reduced.footprint.master_migrate_info
  - module: reduced.footprint.master_source_info
  - module: reduced.footprint.vm_define
"""

EXAMPLES = r"""
- name: Create the one-time key
  reduced.footprint.master_migrate:
    name: master
    state: prepared
  register: prepared

- name: Place the key on the source
  reduced.footprint.one_time_key:
    name: master
    purpose: migrate
    public_key: "{{ prepared.public_key }}"
    allowed_from: [192.0.2.11]
    commands: "{{ prepared.commands }}"
  delegate_to: laptop

- name: Gather facts of the source
  reduced.footprint.master_source_info:
    services: [footprint-api, mariadb]
    address: 192.0.2.2
  delegate_to: laptop
  register: gathered

- name: Migrate the master into a VM of this host
  reduced.footprint.master_migrate:
    admin:
      address: 192.0.2.2
      temporary_address: 192.0.2.3
    source_facts: "{{ gathered.source.facts }}"
    services: [footprint-api, dnsmasq, mariadb]
    cluster: lab
    vm:
      id: master
      cpu: 2
      ram: 2
      nics: [{bridge: br-admin}]
      disks: [{size: 40GiB}]
    disk_schema:
      - {mount: /, size: 20GiB}
      - {mount: /srv, fs: xfs}
      - {fs: swap, size: 2GiB}
    health_checks:
      - {type: tcp, port: 3306}
      - {type: http, url: "http://192.0.2.2:8080/health"}

- name: Migrate the master, with disks exported over ssh by a bootstrap system that the VM boots over the network
  reduced.footprint.master_migrate:
    boot: pxe
    admin:
      address: 192.0.2.2
      temporary_address: 192.0.2.3
    source_facts: "{{ gathered.source.facts }}"
    services: [footprint-api, dnsmasq, mariadb]
    vm:
      id: master
      cpu: 2
      ram: 2
      nics: [{bridge: br-admin}]
      disks: [{size: 40GiB}]

- name: Roll the migration back
  reduced.footprint.master_migrate:
    name: master
    state: rolled_back
"""

RETURN = r"""
public_key:
  description: The public key of the one-time key; null in check mode if the key does not exist yet.
  returned: O(state=prepared)
  type: str
key_marker:
  description: The comment at the end of that key.
  returned: O(state=prepared)
  type: str
commands:
  description:
    - Commands of the O(hooks) on the source, as M(reduced.footprint.one_time_key) takes them.
    - Those of a migration that is running, or was interrupted in the pause, because it continues with them.
  returned: O(state=prepared)
  type: list
  elements: list
  sample: [[/usr/local/bin/drain]]
plan:
  description: What would be done.
  returned: in check mode with O(source_facts)
  type: dict
  contains:
    phases: {description: The phases in order., type: list, elements: str}
    bytes: {description: Bytes used in the source's file systems., type: int}
    services: {description: Units that would be stopped., type: list, elements: str}
    fixups: {description: Files of the copy that would be changed., type: list, elements: str}
    partitions:
      description: Partitions of the new disks, C(size_bytes) in bytes; C(raw) is the device of the source that is copied block by block.
      type: list
      elements: dict
summary:
  description: Summary of the result in a few lines, as printed at the end.
  returned: if the migration has ended successfully and O(wait=true)
  type: list
  elements: str
migration:
  description: The migration, also if it failed. Null if there never was one.
  returned: unless O(state=prepared)
  type: dict
  contains:
    name: {description: Its name., type: str}
    state:
      description: One of new, running, stopped, failed, done, rolled_back, retired.
      type: str
    phase: {description: The current or last phase., type: str}
    phases:
      description: State, start and end (UTC), and seconds of every phase that has started.
      type: dict
    attempt:
      description: Number of the attempt, incremented after every rollback to the source.
      type: int
    started:
      description: Start (UTC).
      type: str
    ended:
      description: End (UTC), null while it runs.
      type: str
    passes:
      description: Every pass of the copy with its kind, seconds, files and bytes.
      type: list
      elements: dict
    progress: {description: Progress of the current pass., type: dict}
    bytes: {description: Bytes of file content copied by all passes together., type: int}
    files: {description: Files copied by all passes together., type: int}
    downtime_seconds:
      description: Seconds from the first stopped service to the last passed health check, or to the rollback.
      type: float
    predicted_downtime_seconds: {description: Downtime in seconds that was predicted before the pause., type: float}
    downtime_seconds_by_phase:
      description: The parts of the downtime in seconds.
      type: dict
    rehearsal:
      description: The latest rehearsal of the copy; null if there was none.
      type: dict
      contains:
        at: {description: Start (UTC)., type: str}
        passed: {description: Whether all health checks passed., type: bool}
        seconds: {description: Seconds from power on to the last answer; null if it failed., type: float}
        checks: {description: The health checks that were run., type: list, elements: str}
        console: {description: The last lines of its console., type: list, elements: str}
    verified:
      description: Whether source and copy were found equal after the last copy, except for logs.
      type: bool
    reason: {description: Why it failed or was rolled back., type: str}
    problems: {description: Problems found by preflight., type: list, elements: dict}
    warnings: {description: Warnings for the operator., type: list, elements: str}
    vm:
      description: Name, UUID, MACs and disk of the VM.
      type: dict
    source: {description: Identity of the source and its temporary address., type: dict}
    host: {description: The destination host., type: str}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import hidden_values, url_passwords
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_options import OPTIONS
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.run_migrate import migrate


def main() -> None:
    """Entry point."""
    # the source's files, the VM's details and URLs may contain secrets, which must not reach the host's log or the result
    module = quiet(AnsibleModule)(argument_spec=OPTIONS, supports_check_mode=True)
    params = module.params
    module.no_log_values.update(hidden_values(params["vm"]), url_passwords(params["health_checks"]))
    answer(module, lambda: migrate(params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
