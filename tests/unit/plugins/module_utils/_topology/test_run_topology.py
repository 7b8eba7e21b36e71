# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A topology laid over servers, their machines and hosts of other sources."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory
from ansible_collections.reduced.footprint.plugins.module_utils._topology import run_topology

NIC = [{"bridge": "br-admin"}]
SERVERS = {
    "metal1": {"vms": [{"id": "c1", "nics": NIC, "roles": ["controller"]}, {"id": "c2", "nics": NIC}]},
    "metal2": {"roles": ["compute"], "region": "own"},
}


def lay(text, servers=None, others=(), cluster="blue", **options):
    wanted = run_topology.parse(text)
    plan = run_inventory.parse(cluster, run_topology.give_roles(run_inventory.parse_servers(SERVERS if servers is None else servers), wanted))
    laid = run_topology.lay(wanted, plan, [run_topology.known(*other) for other in others], **options)
    return laid, {host.name: host for host in run_topology.over(run_inventory.hosts(plan, {}), laid)}


TEXT = {
    "nodes": {"metal1": {"roles": ["virt"]}, "c[12]$": {"roles": ["db"], "configs": {"region": "r1"}}, "metal2": {"roles": ["db"]}},
    "roles": {"db": ["database"], "controller": ["keystone"]},
    "configs": {"region": "r0"},
}


def test_metal_and_machines_come_to_one_shape():
    laid, hosts = lay(TEXT)
    assert hosts["c1"].groups == ("footprint_vms", "controller", "db", "database", "keystone", "galera")
    assert hosts["metal2"].groups == ("servers", "compute", "db", "database", "galera")
    assert hosts["c1"].variables["node_roles"] == ["controller", "db"]
    assert hosts["c2"].variables["footprint_topology"]["services"] == ["galera"]
    # the key of the topology made it a virt node, or its VM details were refused
    assert "virt" in hosts["metal1"].groups
    assert laid.groups["galera"] == ("metal2", "c1", "c2")


def test_what_is_said_of_a_server_itself_is_strongest():
    unused, hosts = lay(TEXT)
    assert {name: hosts[name].variables["region"] for name in ("metal1", "metal2", "c1")} == {"metal1": "r0", "metal2": "own", "c1": "r1"}
    assert hosts["c1"].variables["footprint_topology"]["origins"] == {"region": "nodes.c[12]$"}


def test_without_a_topology_nothing_is_added():
    laid, hosts = lay({}, {"metal1": {"roles": ["virt"], **SERVERS["metal1"]}})
    assert (laid.groups, laid.variables, laid.common, laid.warnings) == ({}, {}, {}, ())
    assert hosts["c1"].groups == ("footprint_vms", "controller")


def test_hosts_of_other_sources_take_part_by_name_or_group():
    laid, unused = lay(TEXT, {}, [("c1", {}, ["all", "rack1"]), ("x1", {}, ["controller"]), ("x2", {"node_roles": ["db"]}, [])])
    assert laid.groups["galera"] == ("c1", "x2")
    assert laid.groups["keystone"] == ("x1",)
    assert laid.variables["c1"]["footprint_cluster"] == "blue"
    assert laid.variables["x1"]["footprint_topology"]["roles"] == laid.variables["x1"]["node_roles"] == ["controller"]


@pytest.mark.parametrize("nested", [True, "yes", None])
def test_compute_in_a_machine_of_another_source(nested):
    other = ("v1", {"vm_host": "m", "vm_details": {"nested": nested}}, ["compute"])
    if nested:
        assert lay(TEXT, {}, [other])[0].groups["compute"] == ("v1",)
        return
    with pytest.raises(RefusedError, match="VM v1 has the role compute"):
        lay(TEXT, {}, [other])


def test_compute_in_vm_details_is_refused_without_a_topology_too():
    with pytest.raises(RefusedError) as error:
        lay({}, {"m": {"roles": ["virt"], "vms": [{"id": "v", "roles": ["compute"]}]}})
    assert error.value.path == "servers.m.vms[0].roles"


def test_defaults_of_roles_below_what_is_written():
    components = {"galera": run_topology.component_defaults("galera", {"galera_a": {"x": 1, "y": 1}, "galera_b": "{{ c }}", "other": 1})}
    assert components == {"galera": {"a": {"x": 1, "y": 1}}}
    laid, unused = lay({**TEXT, "configs": {"galera": {"a": {"y": 2}, "b": 3}}}, components=components)
    assert laid.variables["c1"]["galera_a"] == {"x": 1, "y": 2}
    assert laid.variables["c1"]["galera_b"] == 3


def test_included_files_are_below_the_file():
    common = ("common.yml", {"roles": TEXT["roles"], "configs": {"region": "common", "a": {"b": 1, "c": 1}}})
    more = ("more.yml", {"configs": {"a": {"c": 2}}})
    found = run_topology.parse({"nodes": TEXT["nodes"], "configs": {"region": "file"}, "roles": {}}, [common, more])
    assert found.configs == {"region": "file", "a": {"b": 1, "c": 2}}
    assert found.roles["db"] == ("database",)
    for content, words in (({"nodez": {}}, "more.yml.nodez: is not a known key. Did you mean nodes?"), ([1], "more.yml: expected a mapping, got a list")):
        with pytest.raises(InputError, match=words):
            run_topology.parse({}, [("more.yml", content)])
    run_topology.parse({}, [("empty.yml", None)])


# Environments


def test_the_environment_has_its_name():
    assert lay(TEXT, environment="green")[0].common == {"footprint_environment": "green"}
    assert lay(TEXT, environment="green")[0].variables["c1"]["footprint_topology"]["environment"] == "green"
    with pytest.raises(InputError, match="environment: 'a b' is not a valid environment name"):
        lay(TEXT, environment="a b")


def test_networks_are_known_to_all():
    networks = {"overlay": {"cidr": "10.2.0.0/24"}}
    assert lay({**TEXT, "networks": networks})[0].common == {"footprint_networks": networks}
    assert lay({"networks": networks}, servers={})[0].common == {"footprint_networks": networks}


def test_declared_services_are_known_to_all():
    declared = {"heat": {"role": "a.b.heat"}}
    assert lay({**TEXT, "services": declared})[0].common == {"footprint_services": declared}


FIRST = {"footprint_environments": {"red": ["galera"]}}


def test_a_second_environment_must_not_mix_with_the_first():
    with pytest.raises(RefusedError, match="own_groups: red already has services in this inventory"):
        lay(TEXT, {}, [("n1", FIRST, []), ("c1", {}, [])])
    # the same environment over again is none
    assert lay(TEXT, {}, [("n1", FIRST, []), ("c1", {}, [])], cluster="red")[0].groups["galera"] == ("c1",)


def test_environments_with_groups_of_their_own():
    laid, unused = lay(TEXT, {}, [("n1", FIRST, []), ("c1", {}, []), ("c2", {}, []), ("x", {}, ["controller"])], own_groups=True, environment="ccp-1")
    assert laid.groups["ccp_1_galera"] == ("c1", "c2")
    assert laid.groups["ccp_1"] == ("c1", "c2", "x")
    assert laid.common == {}
    assert laid.variables["c1"]["galera_group"] == laid.variables["x"]["galera_group"] == "ccp_1_galera"
    assert laid.variables["c1"]["footprint_environment"] == "ccp-1"
    assert "galera_group" not in laid.variables["n1"]


def test_what_one_environment_gives_a_host_is_not_its_own():
    first, unused = lay(TEXT, {}, [("c1", {"node_roles": ["controller"]}, []), ("c2", {}, [])], own_groups=True, environment="red")
    assert first.variables["c2"]["node_roles"] == ["db"]
    assert first.variables["c2"]["footprint_topology"]["own_roles"] == []
    assert first.variables["c1"]["footprint_topology"]["own_roles"] == ["controller"]
    text = {**TEXT, "nodes": {"n": {"roles": ["db"]}}}
    there = [(name, first.variables[name], []) for name in ("c1", "c2")]
    # its own role counts in each of them
    with pytest.raises(RefusedError, match="keystone of red and keystone of blue cannot share the host c1"):
        lay(text, {}, there, own_groups=True, environment="blue")
    assert lay(text, {}, [there[1], ("n1", {}, [])], own_groups=True, environment="blue")[0].groups["blue_galera"] == ("n1",)


def test_environments_have_groups_with_different_names():
    others = [("n1", {"footprint_environments": {"ccp.1": ["galera"]}}, []), ("c1", {}, [])]
    with pytest.raises(RefusedError, match="environment: the groups of ccp-1 would be mixed with those of ccp.1, because both begin with ccp_1_"):
        lay(TEXT, {}, others, own_groups=True, environment="ccp-1")
    assert lay(TEXT, {}, others, own_groups=True, environment="ccp-2")[0].groups["ccp_2_galera"] == ("c1",)


def test_servers_of_one_environment_are_not_hosts_of_the_next():
    def text(name):
        return {"nodes": {name: {"roles": ["db", "virt"]}}, "roles": {"db": ["database"]}}

    servers = {"a1": {"vms": [{"id": "c1", "roles": ["controller"]}]}, "a2": {"roles": ["compute"]}}
    unused, hosts = lay(text("a"), servers, cluster="red", own_groups=True)
    assert hosts["a1"].groups == ("servers", "virt", "red_db", "red_virt", "red_database", "red_galera", "red")
    assert hosts["a2"].groups[:3] == ("servers", "compute", "virt")
    assert "controller" in hosts["c1"].groups
    others = [(host.name, host.variables, list(host.groups)) for host in hosts.values()]
    second, found = lay(text("b"), {"b1": {}}, others, own_groups=True)
    assert second.groups["blue_galera"] == ("b1",)
    assert "db" not in found["b1"].groups
    # its own role is a group of all environments
    assert "db" in lay(text("x"), {"a1": {"roles": ["db"]}}, own_groups=True)[1]["a1"].groups


def test_environments_share_no_host_that_each_needs():
    with pytest.raises(RefusedError, match="galera of red and galera of blue cannot share the host c1"):
        lay(TEXT, {}, [("c1", FIRST, [])], own_groups=True)
    with pytest.raises(RefusedError, match="galera of red and keystone of blue cannot share the host x1"):
        lay(TEXT, {}, [("x1", FIRST, ["controller"])], own_groups=True)
    beside = {**TEXT, "services": {"galera": {"exclusive": False}}}
    assert lay(beside, {}, [("c1", FIRST, [])], own_groups=True)[0].groups["blue_galera"] == ("c1",)
