#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: master_migrate
short_description: Move a running machine into a VM of this host, with a short pause and a way back
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Runs on the virt host that is to carry the master (the destination). It starts a detached systemd unit that copies the
    running source over ssh, stops the listed services, copies the rest, takes the admin address from the source and boots the
    VM with it. When the VM is not healthy in time, everything returns to the source by itself.
  - The unit keeps a journal. Run the module again at any time, it attaches to a running migration, goes on with an interrupted
    one, and reports a finished one as unchanged.
  - The source keeps a lease while it stands aside. If the destination is not heard from for O(return_after) seconds, the source
    takes its address and services back, after it has made sure that nobody else answers for the address.
  - The role P(reduced.footprint.master_migrate#role) places the one-time ssh key and gathers the source's facts.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.migration.source_at_rest
  - reduced.footprint.migration.copying
  - reduced.footprint.migration.checks
  - reduced.footprint.migration.course
attributes:
  check_mode:
    description: Looks for everything that stands in the way and shows what would be done; touches nothing.
    support: full
  diff_mode:
    description: In check mode, with O(source_facts), shows the changes to the copy's configuration.
    support: partial
    details:
      - The real run does not repeat them; they are listed in the journal.
options:
  name:
    description: Name of the migration and of the VM. Default is the name or the id in O(vm).
    type: str
  state:
    description:
      - V(prepared) makes the one-time ssh key of the migration and returns its public half.
      - V(migrated) moves the master, or goes on with that.
      - V(rolled_back) stops the VM and lets the source serve again, also after a finished migration. What the master was told
        since then stays on the VM's disk only.
      - V(retired) shuts the source down after a finished migration. There is no way back by itself then.
      - For V(rolled_back) and V(retired) the O(name) is enough.
    type: str
    choices: [prepared, migrated, rolled_back, retired]
    default: migrated
  source:
    description: The machine to move.
    type: dict
    suboptions:
      address:
        description: Name or address for ssh from this host. Default is the admin address.
        type: str
      port:
        description: Port of its ssh server.
        type: int
        default: 22
      machine_id:
        description: Content of its C(/etc/machine-id); another machine is refused. Default is what O(source_facts) tell.
        type: str
      host_keys:
        description:
          - Its public ssh host keys, as in C(/etc/ssh/ssh_host_*_key.pub). Default is what O(source_facts) tell.
        type: list
        elements: str
  source_facts:
    description:
      - What M(reduced.footprint.master_migrate_info) returned on the source with O(reduced.footprint.master_migrate_info#module:gather=source).
    type: dict
  admin:
    description: The address that moves. Required for O(state=migrated).
    type: dict
    suboptions:
      address:
        description: The IPv4 address under which the master is known, static in the source's network configuration.
        type: str
      interface:
        description: The source's interface that has it. Found when left out.
        type: str
      temporary_address:
        description: A free address of the same network for the source after the move.
        type: str
  vm:
    description:
      - VM details of the new master, as for M(reduced.footprint.vm_define), with at least one card and a first disk that has a
        size, format raw and no image.
    type: dict
    default: {}
  cluster:
    description: Name of the cluster, from which the VM's UUID and MACs derive.
    type: str
    default: footprint
  uri:
    description: Address of the hypervisor.
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
      - Wait for the end. Without it the module returns once the unit runs.
      - A task that waits prints how far the migration is, pass, amount, rate, time left and the predicted downtime, whenever that
        changes, and a summary at its end. One with C(async) prints nothing.
    type: bool
    default: true
  wait_timeout:
    description: Seconds to wait at most; the migration itself goes on.
    type: int
    default: 7200
notes:
  - The copy keeps hard links, ACLs, extended attributes, file capabilities, sparse files and numeric owners.
  - The source must have a static IPv4 admin address, a kernel, GRUB for the VM's firmware, rsync and Python 3.9 or newer.
  - The VM starts from UEFI firmware where O(source_facts) tell that the source does, unless O(vm) names C(boot_firmware).
seealso:
  - module: reduced.footprint.one_time_key
  - module: reduced.footprint.master_migrate_info
  - module: reduced.footprint.vm_define
"""

EXAMPLES = r"""
- name: Make the one-time key
  reduced.footprint.master_migrate:
    name: master
    state: prepared
  register: prepared

- name: Place it on the source
  reduced.footprint.one_time_key:
    name: master
    purpose: migrate
    public_key: "{{ prepared.public_key }}"
    allowed_from: [192.0.2.11]
  delegate_to: laptop

- name: Look at the source
  reduced.footprint.master_migrate_info:
    gather: source
    services: [footprint-api, mariadb]
    address: 192.0.2.2
  delegate_to: laptop
  register: look

- name: Move the master into a VM of this host
  reduced.footprint.master_migrate:
    admin:
      address: 192.0.2.2
      temporary_address: 192.0.2.3
    source_facts: "{{ look.source_facts }}"
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

- name: The same, with disks that the VM hands out over ssh from a system it boots over the network
  reduced.footprint.master_migrate:
    boot: pxe
    admin:
      address: 192.0.2.2
      temporary_address: 192.0.2.3
    source_facts: "{{ look.source_facts }}"
    services: [footprint-api, dnsmasq, mariadb]
    vm:
      id: master
      cpu: 2
      ram: 2
      nics: [{bridge: br-admin}]
      disks: [{size: 40GiB}]

- name: Take it back
  reduced.footprint.master_migrate:
    name: master
    state: rolled_back
"""

RETURN = r"""
public_key:
  description: The public half of the one-time key; null in check mode when there is none yet.
  returned: O(state=prepared)
  type: str
key_marker:
  description: The comment at the end of that key.
  returned: O(state=prepared)
  type: str
plan:
  description: What would be done.
  returned: in check mode with O(source_facts)
  type: dict
  contains:
    phases: {description: The phases in their order., type: list, elements: str}
    bytes: {description: What the source's file systems hold., type: int}
    services: {description: Units that would be stopped., type: list, elements: str}
    fixups: {description: Files of the copy that would be changed., type: list, elements: str}
    partitions:
      description: The new disks, sizes in bytes; C(raw) is the device of the source that is copied block by block.
      type: list
      elements: dict
summary:
  description: What came of it, in a few lines; the same ones are printed at the end.
  returned: when the migration has come to its end well, and was waited for
  type: list
  elements: str
migration:
  description: The migration, also when it failed. Null when there never was one.
  returned: unless O(state=prepared)
  type: dict
  contains:
    name: {description: Its name., type: str}
    state:
      description: One of new, running, stopped, failed, done, rolled_back, retired.
      type: str
    phase: {description: The phase it is in or ended with., type: str}
    phases:
      description: State, start, end and seconds of every phase that was begun.
      type: dict
    attempt:
      description: Number of the attempt, counted up after every return to the source.
      type: int
    started:
      description: When it began, in Unix seconds.
      type: float
    ended:
      description: When it ended, in Unix seconds.
      type: float
    passes:
      description: Every copy with its kind, seconds, files and bytes.
      type: list
      elements: dict
    progress: {description: How far the present copy is., type: dict}
    bytes: {description: Bytes of file content copied by all passes together., type: int}
    files: {description: Files copied by all passes together., type: int}
    downtime:
      description: Seconds from the first stopped service to the last good health check, or to the return.
      type: float
    downtime_predicted: {description: What was expected before the pause began., type: float}
    downtime_parts:
      description: The pause by phases, in seconds.
      type: dict
    rehearsal:
      description: The newest rehearsal of the copy; null when there was none.
      type: dict
      contains:
        at: {description: When it began., type: float}
        passed: {description: Whether everything was answered well., type: bool}
        seconds: {description: From power on to the last answer; null when it failed., type: float}
        checks: {description: What was asked., type: list, elements: str}
        console: {description: The last lines of its console., type: list, elements: str}
    verified:
      description: Whether source and copy were found equal after the last copy, logs aside.
      type: bool
    reason: {description: Why it failed or returned., type: str}
    error: {description: The same as RV(migration.reason)., type: str}
    problems: {description: What preflight found in the way., type: list, elements: dict}
    warnings: {description: What a person should know., type: list, elements: str}
    vm:
      description: Name, UUID, MACs and disk of the VM.
      type: dict
    source: {description: Who the source is and where it was parked., type: dict}
    host: {description: The destination host., type: str}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_quiet_module import quiet
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import hidden_values, url_passwords
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_options import OPTIONS
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.run_migrate import migrate


def main() -> None:
    """Entry point."""
    # what the source's files, the VM's details and addresses hold may be secret: not for the log of the host, and not for the result
    module = quiet(AnsibleModule)(argument_spec=OPTIONS, supports_check_mode=True)
    params = module.params
    module.no_log_values.update(hidden_values(params["vm"]), url_passwords(params["health_checks"]))
    try:
        result = migrate(module.params, check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for warning in result.pop("warnings", []):
        module.warn(warning)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
