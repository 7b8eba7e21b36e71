#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: write_probe
short_description: Write rows through a virtual address, and tell how long there was none and whether any got lost
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Tells what clients of a database felt while its members were moved. A row is written each fifth of a second by a unit on a
    physical server; what was acknowledged is noted there and looked for in the end.
  - The playbook C(reduced.footprint.add_server) uses it. The rows go to a database of their own, which is dropped in the end.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.mariadb.unit
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be done without doing it.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
options:
  state:
    description:
      - V(prepared), on a server, makes the password of the account (RV(password)).
      - V(account_present), on a controller, makes database, table and account.
      - V(started), on the server, writes rows until it is stopped. A probe that runs already goes on.
      - V(stopped), on the server, ends that and gives the report.
      - V(account_absent), on a controller, drops database and account.
    type: str
    choices: [prepared, account_present, started, stopped, account_absent]
    required: true
  password:
    description: What O(state=prepared) returned, for O(state=account_present).
    type: str
  address:
    description: Where to write to, for O(state=started).
    type: str
  port:
    description: The database's port there.
    type: int
    default: 3306
"""

EXAMPLES = r"""
- name: Have a password
  reduced.footprint.write_probe:
    state: prepared
  register: probe
  no_log: true

- name: Have an account
  reduced.footprint.write_probe:
    state: account_present
    password: "{{ probe.password }}"
  delegate_to: controller1

- name: Write
  reduced.footprint.write_probe:
    state: started
    address: 192.0.2.20

- name: Tell what clients felt
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
  description: What became of the rows, nothing where no probe was started.
  returned: with O(state=started) and O(state=stopped)
  type: dict
  contains:
    rows:
      description: How many rows were acknowledged.
      type: int
    seconds:
      description: From the first to the last of them.
      type: float
    rows_lost:
      description: How many of them the database has not; nothing when it could not be asked, or was not yet.
      type: int
    lost:
      description: The first numbers of these.
      type: list
      elements: int
    largest_gap_seconds:
      description: The longest time without an acknowledged row.
      type: float
    largest_gap_at:
      description: When that began (UTC).
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_write_probe
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import local_database


def main() -> None:
    """Do and tell."""
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
    try:
        result = states[given["state"]]()
    except FootprintError as error:
        module.fail_json(**error.as_result())
    told = {"password": result.password} if given["state"] == "prepared" else {}
    if given["state"] in ("started", "stopped"):
        told["report"] = result.report
    module.exit_json(changed=result.changed, **told)


if __name__ == "__main__":
    main()
