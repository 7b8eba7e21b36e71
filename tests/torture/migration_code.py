# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which code the matrices of the migration depend on: a whole run takes hours, and is continued after changes of other subjects."""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "runner"))

import workspace  # noqa: E402

#: Subjects that the migration does not import, roles and tests that it does not run. All other files count.
_SUBJECTS = ("cloud", "controlplane", "galera", "keystone", "loadbalancer", "metal", "move", "ovn", "rabbitmq", "standby")
_ROLES = (
    *("boot_server", "cloud_image", "compute", "galera", "glance", "horizon", "keystone", "load_balancer", "memcached", "neutron", "nova"),
    *("openstack_service", "ovn_chassis", "ovn_database", "placement", "rabbitmq", "redfish_emulator", "standby", "test_image", "witness"),
)
_TESTS = (
    *("add_server", "awx", "canary", "cloud", "controllers", "drift", "e2e", "guide", "integration", "kvm", "lvm", "metal", "migrate", "move", "network"),
    *("rehearse", "replace", "source", "standby", "storage", "templates", "torture/vm_define", "unit", "witness"),
)
OTHERS = (
    *(f"plugins/module_utils/_{name}/" for name in _SUBJECTS),
    *(f"roles/{name}/" for name in _ROLES),
    *(f"tests/{name}/" for name in _TESTS),
    *(".ci/", "awx/", "extensions/", "scripts/", "Makefile"),
)


def state() -> str:
    """Return a digest of the code that the migration depends on."""
    return workspace.code_state(OTHERS)
