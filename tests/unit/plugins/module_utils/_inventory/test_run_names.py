# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names, run_names

KNOWN = plan_names.known_variables({"galera": "galera_settings: {}\n"})


@pytest.mark.parametrize("others", ["galera_exporter_*", ["galera_exporter_*"]])
def test_names_that_others_use_do_not_end_the_check(others):
    given = {"footprint_other_variables": others, "galera_exporter_port": 1, "galera_setings": 2}
    assert run_names.unknown_variables({"c1": given}, KNOWN) == (
        ["galera_setings: is not a variable of this collection (set for c1). Did you mean galera_settings?"],
        [],
    )


def test_only_what_resembles_a_variable_is_an_error():
    given = {"galera_exporter_port": 1, "galera_wsrep_slave_threads": 2, "other": 3}
    assert run_names.unknown_variables({"c1": given, "c2": given}, KNOWN) == (
        [],
        [
            "galera_exporter_port, galera_wsrep_slave_threads: not a variable of this collection, has no effect here. List what something else uses in "
            "footprint_other_variables, for example [galera_*]."
        ],
    )
    # no one else uses this prefix
    errors, warnings = run_names.unknown_variables({"c1": {"footprint_entirely_different": 1}}, KNOWN)
    assert len(errors) == 1 and warnings == []


def test_an_inventory_that_is_shared_with_kolla_ansible_is_accepted():
    names = ("nova_compute_virt_type", "nova_libvirt_logging_debug", "neutron_plugin_agent", "glance_backend_file", "keystone_token_provider")
    assert run_names.unknown_variables({"c1": dict.fromkeys(names)}, run_names.known_variables())[0] == []
    plan_names.check_server([*names, "ansible_host"], "servers.c1", run_names.known_variables())


@pytest.mark.parametrize(
    ("name", "value", "paths"),
    [
        ("cinder_port", 8776, []),
        ("cinder_port", "65535", []),
        ("cinder_port", None, []),
        ("cinder_port", 99999, ["cinder_port"]),
        ("cinder_port", 0, ["cinder_port"]),
        ("cinder_port", "-1", ["cinder_port"]),
        ("cinder_port", "https", ["cinder_port"]),
        ("cinder_port", True, ["cinder_port"]),
        # other words end so too
        ("x_frontends", [{"name": "a", "port": 1, "transport": "tcp", "support": 0}], []),
        ("x_frontends", [{"name": "a", "port": 1}, {"port": 70000, "check_port": 0}], ["x_frontends[1].port", "x_frontends[1].check_port"]),
    ],
)
def test_ports_out_of_range_are_named(name, value, paths):
    assert [message.partition(":")[0] for message in plan_names.invalid_ports(value, name)] == paths
