# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Topologies as tables: what is written, which hosts there are, what comes out."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_topology import parse_topology
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_topology import Candidate, check_environments, resolve

#: The services of the reference deployment that the collection does not bring itself.
BRIDGE = (
    "etcd glance-api glance-registry heat-api-cfn heat-api heat-engine horizon keystone mariadb memcached neutron-server nova-api nova-conductor"
    " nova-consoleauth nova-novncproxy nova-scheduler rabbitmq"
).split()
OWN_HOST = ["neutron-dhcp-agent", "neutron-l3-agent", "neutron-metadata-agent", "nova-compute", "nova-libvirt"]
OWN_HOST += ["neutron-openvswitch-agent", "openvswitch-db", "openvswitch-vswitchd"]
DECLARED = {name: {"role": "my.cloud.service", "exclusive": name in OWN_HOST} for name in (*BRIDGE, *OWN_HOST)}
ROLES = {
    "controller-net-host": ["neutron-dhcp-agent", "neutron-l3-agent", "neutron-metadata-agent"],
    "controller-net-bridge": BRIDGE,
    "compute": ["nova-compute", "nova-libvirt"],
    "openvswitch": ["neutron-openvswitch-agent", "openvswitch-db", "openvswitch-vswitchd"],
}


def place(text, hosts, components=None):
    """Resolve a topology written as YAML; hosts are names, or candidates."""
    candidates = [host if isinstance(host, Candidate) else Candidate(host) for host in hosts]
    return resolve(parse_topology(yaml.safe_load(text) if isinstance(text, str) else text), candidates, components)


def nodes(first, last):
    return [f"node{number}" for number in range(first, last + 1)]


# Which node has which roles


def test_several_keys_give_the_union_of_their_roles():
    found = place("nodes: {node1: {roles: [db]}, 'node[1-2]': {roles: [mq, db]}}\nroles: {db: [database], mq: [rpc]}", nodes(1, 3))
    assert {name: host.roles for name, host in found.hosts.items()} == {"node1": ("db", "mq"), "node2": ("mq", "db"), "node3": ()}
    assert found.groups == {
        "db": ("node1", "node2"), "mq": ("node1", "node2"), "database": ("node1", "node2"), "galera": ("node1", "node2"),
        "rpc": ("node1", "node2"), "rabbitmq": ("node1", "node2"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "key, matched",
    [
        ("node([1-5]|10|11)", [*nodes(1, 5), *nodes(10, 19)]),  # node1 matches node12 too: nothing holds the end
        ("node([1-5]|10|11)$", [*nodes(1, 5), "node10", "node11"]),
        ("ode1", []),
        (".*ode1$", ["node1"]),
        ("node[1,2-3,4,5-6,7,8-9]", nodes(1, 19)),
        ("node[1,2-3,4,5-6,7,8-9]$", nodes(1, 9)),
    ],
)
def test_an_expression_is_anchored_at_its_start_alone(key, matched):
    found = place({"nodes": {key: {"roles": ["db"]}}, "roles": {"db": ["database"]}}, nodes(1, 19))
    assert list(found.groups.get("db", ())) == matched
    assert any("matches no host" in warning for warning in found.warnings) == (not matched)


def test_a_hosts_own_roles_mean_services_too():
    found = place("roles: {controller: [database, rpc, keystone]}", [Candidate("c1", ("controller",), vm=True), Candidate("metal1", ("virt",))])
    assert found.hosts["c1"].services == ("galera", "rabbitmq", "keystone")
    assert found.hosts["metal1"].services == ()


# How settings come together


def test_keys_count_in_lexicographic_order():
    """With 2 for node[1-3] and 4 for node[2-4], node2 has 4."""
    found = place("nodes: {'node[2-4]': {configs: {test: 4}}, 'node[1-3]': {configs: {test: 2}}}", nodes(1, 5))
    assert [found.hosts[name].variables.get("test") for name in nodes(1, 5)] == [2, 4, 4, 4, None]
    assert found.warnings == ()


def test_key_of_a_node_overridden_by_a_class_is_reported():
    found = place("nodes: {node1: {configs: {a: 1, b: {c: 1, d: 2}}}, 'node[1-3]': {configs: {a: 2, b: {c: 1}}}}", nodes(1, 3))
    assert found.hosts["node1"].variables == {"a": 2, "b": {"c": 1, "d": 2}}
    assert len(found.warnings) == 1
    for words in ("nodes.node1.configs.a", "overridden on node1 by nodes.node[1-3]", "Write the key as node[1]."):
        assert words in found.warnings[0]
    fixed = place("nodes: {'node[1]': {configs: {a: 1}}, 'node[1-3]': {configs: {a: 2}}}", nodes(1, 3))
    assert fixed.hosts["node1"].variables == {"a": 1}
    assert fixed.warnings == ()


def test_all_five_layers():
    found = place(
        """
        services:
          heat: {role: my.cloud.heat, defaults: {workers: 1, retries: 1, options: {a: component, b: component, kept: 1}, hosts: [x, y]}}
          database: {service_def: galera, configs: {settings: {max_connections: 5}}}
        global_configs: {region: global, heat: {workers: 0, extra: global}}
        configs: {region: user, heat: {options: {a: user, b: user}, hosts: [z]}, galera: {settings: {max_connections: 4, a: b}}}
        nodes:
          node1: {roles: [all], configs: {heat: {options: {b: node}}, galera: {settings: {a: node}}}}
          node2: {roles: [all]}
        roles: {all: [heat, database]}
        """,
        nodes(1, 3),
    )
    one = found.hosts["node1"].variables
    assert one == {
        "region": "user", "heat_workers": 1, "heat_extra": "global", "heat_hosts": ["z"],
        "heat_options": {"a": "user", "b": "node", "kept": 1}, "galera_settings": {"max_connections": 5, "a": "node"},
    }  # fmt: skip
    # keys that are not given keep the default of the role, so that group_vars can set them
    assert "heat_retries" not in one
    assert found.hosts["node2"].variables["heat_options"] == {"a": "user", "b": "user", "kept": 1}
    assert found.hosts["node2"].variables["galera_settings"] == {"max_connections": 5, "a": "b"}
    # a host without the service has not what the service says of itself
    assert found.hosts["node3"].variables["galera_settings"] == {"max_connections": 4, "a": "b"}


def test_settings_of_a_logical_service_go_to_the_real_one():
    text = "services: {other: {role: a.b.c}, %s}\nroles: {all: [rpc, notifications]}\nnodes: {n: {roles: [all]}}\n"
    text += "configs: {rpc: {port: 1}, notifications: {x: 2}}"
    assert place(text % "q: {role: a.b.d}", ["n1"]).hosts["n1"].variables == {"rabbitmq_port": 1, "rabbitmq_x": 2}
    assert place(text % "rpc: {service_def: other}", ["n1"]).hosts["n1"].variables == {"other_port": 1, "rabbitmq_x": 2}


# Logical services


def test_switching_rpc_changes_only_rpc():
    text = "services: {zmq-proxy: {role: a.b.zmq}%s}\nroles: {db: [database], messaging: [rpc, notifications]}\nnodes: {node: {roles: [db, messaging]}}"
    before, after = (place(text % more, nodes(1, 3)).groups for more in ("", ", rpc: {service_def: zmq-proxy}"))
    assert before["rabbitmq"] == before["rpc"] == before["notifications"] == tuple(nodes(1, 3))
    assert after == {**before, "zmq_proxy": tuple(nodes(1, 3))}
    away = place(text % ", rpc: {service_def: zmq-proxy}, notifications: {service_def: zmq-proxy}", nodes(1, 3)).groups
    assert "rabbitmq" not in away


def test_the_database_and_messaging_nodes_of_the_reference():
    found = place(
        """
        services: {database: {service_def: galera}, rpc: {service_def: rabbitmq}, notifications: {service_def: rabbitmq}}
        nodes:
          node1: {roles: [db, messaging, controller]}
          node[2-3]: {roles: [db, messaging, compute]}
        roles: {db: [database], messaging: [rpc, notifications], controller: [keystone, memcached], compute: []}
        replicas: {database: 3, rpc: 3, notifications: 1}
        """,
        nodes(1, 4),
    )
    assert found.groups["galera"] == found.groups["rpc"] == found.groups["rabbitmq"] == tuple(nodes(1, 3))
    assert found.groups["notifications"] == found.groups["keystone"] == ("node1",)
    assert found.hosts["node1"].services == ("galera", "rabbitmq", "keystone", "memcached")
    assert found.hosts["node3"].names == ("database", "rpc")


@pytest.mark.parametrize(
    "layout, expected",
    [
        ({"c[1-3]": ["everything"]}, {"galera": "c1 c2 c3", "rabbitmq": "c1 c2 c3", "keystone": "c1 c2 c3"}),
        ({"c1": ["db"], "c2": ["mq"], "c3": ["api"]}, {"galera": "c1", "rabbitmq": "c2", "keystone": "c3"}),
        ({"c1": ["db", "mq"], "c[2-3]": ["db", "api"]}, {"galera": "c1 c2 c3", "rabbitmq": "c1", "keystone": "c2 c3"}),
    ],
    ids=["all on each", "one per VM", "mixed"],
)
@pytest.mark.parametrize("vm", [True, False], ids=["VM", "metal"])
def test_one_service_per_instance_or_several(layout, expected, vm):
    roles = {"db": ["database"], "mq": ["rpc"], "api": ["keystone"], "everything": ["database", "rpc", "keystone"]}
    topology = {"nodes": {key: {"roles": roles} for key, roles in layout.items()}, "roles": roles}
    found = place(topology, [Candidate(name, vm=vm) for name in ("c1", "c2", "c3")])
    assert {name: " ".join(found.groups[name]) for name in expected} == expected


def test_replicas_stay_where_they_are_when_hosts_come():
    text = "nodes: {'c': {roles: [db]}}\nroles: {db: [database]}\nreplicas: {database: 3}"
    before, after = place(text, ["c2", "c1", "c3"]), place(text, ["c2", "c1", "c3", "c0"])
    assert before.groups["galera"] == after.groups["galera"] == ("c2", "c1", "c3")
    assert after.groups["db"] == ("c2", "c1", "c3", "c0")


# Bad input


@pytest.mark.parametrize(
    "text, words",
    [
        ("nodes: {n: {roles: [nope]}}", ["nodes.n.roles[0]: unknown role 'nope'", "declare it below roles"]),
        ("roles: {db: [databse]}", ["roles.db[0]: unknown service 'databse'. Did you mean database?"]),
        ("roles: {db: database}", ["roles.db: expected a list, got text"]),
        ("nodes: {'n[': {}}", ["nodes.n[: invalid regular expression", "Correct the expression"]),
        ("nodes: [n]", ["nodes: expected a mapping, got a list"]),
        ("nodes: {n: {role: [db]}}", ["nodes.n.role: is not a known key. Did you mean roles?"]),
        ("replicas: {databse: 3}", ["replicas.databse: unknown service 'databse'"]),
        ("replicas: {database: 3}", ["replicas.database: no role lists database"]),
        ("roles: {db: [database]}\nnodes: {'n[12]': {roles: [db]}}\nreplicas: {database: 3}", ["replicas.database: 3 replicas", "2 nodes", "n1, n2"]),
        ("replicas: {database: 0}", ["replicas.database: 0 is not between 1 and"]),
        ("replicas: {database: many}", ["replicas.database: 'many' is not a whole number"]),
        ("replicas: {database: }", ["replicas.database: a number is required"]),
        ("services: {rpc: {service_def: zmq}}", ["services.rpc.service_def: unknown real service 'zmq'. Use one of cinder, galera"]),
        ("services: {rpc: {service_def: database}}", ["services.rpc.service_def: unknown real service 'database'"]),
        ("services: {heat: {}}", ["services.heat.role: role or service_def is required", "service_def"]),
        ("services: {heat: {role: 'a b'}}", ["services.heat.role: 'a b' is not a valid role name"]),
        ("services: {heat: {role: a.b.c, depend: [rpc]}}", ["services.heat.depend: is not a known key. Did you mean depends?"]),
        ("services: {heat: {role: a.b.c, depends: [rcp]}}", ["services.heat.depends[0]: unknown service 'rcp'"]),
        ("services: {heat: {role: a.b.c, mapping: {rpc: mq}}}", ["services.heat.mapping.rpc: unknown service 'mq'"]),
        ("services: {heat: {role: a.b.c, once: [{name: x, when: now}]}}", ["services.heat.once[0].when: 'now' is not supported"]),
        ("services: {heat: {role: a.b.c, once: [{name: x}, {name: x}]}}", ["services.heat.once[1].name"]),
        ("services: {heat: {role: a.b.c, once: [{name: x, tasks_from: ../x}]}}", ["services.heat.once[0].tasks_from: '../x'"]),
        ("services: {heat: {role: a.b.c, port: 70000}}", ["services.heat.port: 70000 is not between"]),
        ("services: {heat-api: {role: a.b.c}, heat_api: {role: a.b.c}}", ["services.heat_api: has the same group heat_api as heat-api"]),
        ("configs: {a-b: 1}", ["configs.a-b: 'a-b' is not a valid variable name"]),
        ("configs: {galera: 1}", ["configs.galera: expected a mapping, got a number"]),
        ("configs: {node_roles: []}", ["configs.node_roles: node_roles is set by the inventory plugin"]),
        ("nodes: {n1: {configs: {galera: {a b: 1}}}}", ["nodes.n1.configs.galera.a b: 'galera_a b' is not a valid variable name"]),
        (
            "roles: {galera: [database, keystone]}\nnodes: {n: {roles: [galera]}}\nreplicas: {database: 1}",
            ["roles.galera: the name is used by a role", "galera_nodes"],
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(text, words):
    with pytest.raises(InputError) as refused:
        place(text, ["n1", "n2"])
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize(
    "host, refused",
    [
        (Candidate("n1", vm=True), "nodes.n.roles"),
        (Candidate("n1", ("compute",), vm=True, path="servers.m.vms[0].roles"), "servers.m.vms[0].roles"),
        (Candidate("n1", vm=True, nested=True), None),
        (Candidate("n1"), None),
    ],
)
def test_compute_stays_on_metal(host, refused):
    def it():
        return place("nodes: {n: {roles: [compute]}}", [host])

    if refused is None:
        assert it().groups["compute"] == ("n1",)
        return
    with pytest.raises(RefusedError) as error:
        it()
    assert error.value.path == refused
    assert "nested: true" in str(error.value)


# Environments side by side


def three(number):
    first = 3 * number - 2
    return {
        "services": DECLARED, "roles": ROLES,
        "nodes": {
            "node[1,2-3,4,5-6,7,8-9]": {"roles": ["controller-net-bridge"]},
            f"node{first}": {"roles": ["openvswitch", "controller-net-host"]},
            f"node[{first + 1}-{first + 2}]": {"roles": ["openvswitch", "compute"]},
        },
    }  # fmt: skip


def exclusive(topology, found):
    return {name: [one for one in host.services if topology["services"][one]["exclusive"]] for name, host in found.hosts.items()}


def test_three_environments_on_nine_nodes():
    topologies = {f"ccp-{number}": three(number) for number in (1, 2, 3)}
    found = {name: place(topology, nodes(1, 9)) for name, topology in topologies.items()}
    assert {name: one.groups["controller-net-host"] for name, one in found.items()} == {"ccp-1": ("node1",), "ccp-2": ("node4",), "ccp-3": ("node7",)}
    assert {name: one.groups["compute"] for name, one in found.items()} == {
        "ccp-1": ("node2", "node3"), "ccp-2": ("node5", "node6"), "ccp-3": ("node8", "node9")
    }  # fmt: skip
    assert found["ccp-2"].groups["openvswitch"] == tuple(nodes(4, 6))
    assert all(one.groups["mariadb"] == tuple(nodes(1, 9)) for one in found.values())
    check_environments({name: exclusive(topologies[name], one) for name, one in found.items()})
    topologies["ccp-2"]["nodes"]["node1"] = {"roles": ["openvswitch"]}
    found["ccp-2"] = place(topologies["ccp-2"], nodes(1, 9))
    with pytest.raises(RefusedError) as refused:
        check_environments({name: exclusive(topologies[name], one) for name, one in found.items()})
    assert "of ccp-1" in str(refused.value) and "of ccp-2 cannot share the host node1" in str(refused.value)


def test_an_error_has_path_and_hint():
    with pytest.raises(FootprintError) as error:
        place("roles: {db: [x]}", [])
    assert error.value.path and error.value.hint
