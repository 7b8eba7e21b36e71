#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: write_probe
short_description: Write rows through a virtual address and report the largest write gap and lost rows
version_added: 1.0.0
description:
  - Measures the interruption that clients of a database experience while its members are moved. A systemd unit on a physical server
    writes one row every 0.2 seconds and logs each acknowledged row; at the end the log is compared with the database.
  - The playbook C(reduced.footprint.add_server) uses it. The rows are written to a separate database, which is dropped at the end.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes_without_diff
  - reduced.footprint.mariadb.unit
options:
  state:
    description:
      - V(prepared), on a server, generates the password of the account (RV(password)).
      - V(account_present), on a controller, creates the database, the table and the account.
      - V(started), on the server, starts the probe, which writes rows until it is stopped. A probe that already runs is left running.
      - V(stopped), on the server, stops the probe and returns the report.
      - V(account_absent), on a controller, drops the database and the account.
    type: str
    choices: [prepared, account_present, started, stopped, account_absent]
    required: true
  password:
    description: The password that O(state=prepared) returned. Required for O(state=account_present).
    type: str
  address:
    description: Address of the database. Required for O(state=started).
    type: str
  port:
    description: Port of the database at O(address).
    type: int
    default: 3306
"""

EXAMPLES = r"""
- name: Generate a password
  reduced.footprint.write_probe:
    state: prepared
  register: probe
  no_log: true

- name: Create the account
  reduced.footprint.write_probe:
    state: account_present
    password: "{{ probe.password }}"
  delegate_to: controller1

- name: Start the probe
  reduced.footprint.write_probe:
    state: started
    address: 192.0.2.20

- name: Stop the probe and get the report
  reduced.footprint.write_probe:
    state: stopped
  register: probe
"""

RETURN = r"""
password:
  description: The password of the account. Use C(no_log).
  returned: with O(state=prepared)
  type: str
report:
  description: The report on the rows, C(null) if no probe was started.
  returned: with O(state=started) and O(state=stopped)
  type: dict
  contains:
    rows:
      description: Number of acknowledged rows.
      type: int
    seconds:
      description: Seconds between the first and the last of them.
      type: float
    rows_lost:
      description: Number of acknowledged rows that are missing in the database; C(null) if they were not compared yet or the database did not answer.
      type: int
    lost:
      description: The first numbers of the missing rows.
      type: list
      elements: int
    largest_gap_seconds:
      description: The longest time without an acknowledged row.
      type: float
    largest_gap_at:
      description: When the largest gap began (UTC).
      type: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_write_probe
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import local_database


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["prepared", "account_present", "started", "stopped", "account_absent"], "required": True},
            "password": {"type": "str", "no_log": True},
            "address": {"type": "str"},
            "port": {"type": "int", "default": 3306},
            "unit": {"type": "str", "default": "mariadb.service"},
        },
        required_if=[("state", "account_present", ["password"]), ("state", "started", ["address"])],
        supports_check_mode=True,
    )
    given, dry = module.params, module.check_mode
    states = {
        "prepared": lambda: run_write_probe.prepare(dry),
        "account_present": lambda: run_write_probe.open_account(given["password"], dry, local_database(given["unit"])),
        "started": lambda: run_write_probe.start(given["address"], given["port"], dry),
        "stopped": lambda: run_write_probe.stop(dry),
        "account_absent": lambda: run_write_probe.close_account(dry, local_database(given["unit"])),
    }
    answer(module, states[given["state"]])


if __name__ == "__main__":
    main()
