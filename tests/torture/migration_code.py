# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which code the matrices of the migration depend on: a whole run takes hours, and is continued after changes of other subjects."""

from __future__ import annotations

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "runner"))

import workspace  # noqa: E402

#: Subjects that the migration does not import, modules, roles and playbooks that it does not use, tests that it does not run. All other files count.
_SUBJECTS = ("cloud", "controlplane", "galera", "keystone", "loadbalancer", "metal", "move", "ovn", "rabbitmq", "standby")
_MODULES = (
    *("controlplane_", "galera_", "keystone_", "ovn_", "rabbitmq_", "server_allocation", "server_hardware_info", "server_install", "server_power"),
    *("virtual_address_info", "vm_move", "vm_replacement", "vm_standby", "write_probe"),
)
_ROLES = (
    *("boot_server", "cloud_image", "compute", "galera", "glance", "horizon", "keystone", "load_balancer", "memcached", "neutron", "nova"),
    *("openstack_service", "ovn_chassis", "ovn_database", "placement", "rabbitmq", "redfish_emulator", "standby", "test_image", "witness"),
)
_PLAYBOOKS = (
    *("add_server", "build_image", "cloud_", "deploy_", "discover_", "export_", "install_", "maintain_virt_node", "move_vm", "provision_compute"),
    *("recover_database", "remove_", "replace_", "restore_database", "rolling_restart", "rotate_keys", "start_standby", "status", "verify_cloud"),
    *(f"tasks/{name}" for name in ("add_server", "cloud_", "controlplane_", "deploy_", "discover_", "install_", "maintain_virt_node", "move_vm")),
    *(f"tasks/{name}" for name in ("replace_", "rolling_restart", "secrets_", "start_standby", "verify_cloud", "write_probe")),
)
_TESTS = (
    *("add_server", "awx", "canary", "cloud", "consistency", "controllers", "drift", "e2e", "guide", "integration", "kvm", "lab", "lvm", "metal", "migrate"),
    *("move", "network", "rehearse", "replace", "runner", "source", "standby", "storage", "templates", "torture/vm_define", "unit", "witness"),
)
OTHERS = (
    *(f"plugins/module_utils/_{name}/" for name in _SUBJECTS),
    *(f"plugins/modules/{name}" for name in _MODULES),
    *(f"roles/{name}/" for name in _ROLES),
    *(f"playbooks/{name}" for name in _PLAYBOOKS),
    *(f"tests/{name}/" for name in _TESTS),
    *(".ci/", "awx/", "extensions/", "lab/demo", "scripts/", "tests/torture/test_vm_define.py", "Makefile"),
    # names of units and APIs; and this list
    *("plugins/module_utils/_service/model_openstack.py", "tests/torture/migration_code.py"),
)


def state() -> str:
    """Return a digest of the code that the migration depends on."""
    return workspace.code_state(OTHERS)
