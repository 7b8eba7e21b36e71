# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every filter is called once with what it expects and once with something else; what it decides is tested where it decides."""

from __future__ import annotations

import importlib
import pathlib
import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates

ROOT = pathlib.Path(__file__).resolve().parents[4]
FILTERS = sorted(path.stem for path in (ROOT / "plugins" / "filter").glob("[a-z]*.py"))
GROUPS = {"virt": ["metal1"], "controller": ["c1"], "galera": ["c1"]}
HOSTVARS = {
    "metal1": {"inventory_hostname": "metal1", "node_roles": ["virt"], "vms": []},
    "c1": {"inventory_hostname": "c1", "vm_host": "metal1", "footprint_components": ["galera"]},
}
MEMBERS = {"galera": ["c1"]}
FACTS = {"distribution": "Debian", "distribution_release": "trixie", "interfaces": ["eth0", "eth1"], "eth0": {"ipv4": {"address": "192.0.2.1"}}, "eth1": {}}
KOLLA = {"c1": {"ansible_host": "192.0.2.1", "ansible_facts": FACTS, "export_kolla_external_interface": "eth1"}}
LOOKS = {"c1": {}}
FOUND = {"metal1": [{"id": "c1", "name": "c1", "uuid": "u", "cluster": "lab", "state": "running"}]}
AUTHORITY = io_certificates.make_authority("galera/ca", 0, 10).certificate
#: Filter, and the decision of one that makes several: what is piped into it, its arguments, and what its answer must contain.
CALLS: dict[str, tuple[t.Any, tuple[t.Any, ...], t.Callable[[t.Any], bool]]] = {
    "controlplane_decision add_server": (
        {"moves": [], "ha_grade": "none", "placements": [], "feasible": True},
        (FOUND, {"metal1": []}, {"c1": "metal2"}, "lab"),
        lambda found: found["steps"] == [] and found["places"] == {"c1": "metal1"} and found["listed"],
    ),
    "controlplane_decision moves_report": (
        {"before": "quorum", "listed": []},
        ("restart",),
        lambda found: found == ["high availability was restart and is quorum"],
    ),
    "controlplane_decision clocks": (
        {"c1": {"offset_seconds": 0.0, "uncertainty_seconds": 0.1}, "c2": {"offset_seconds": -9.0, "uncertainty_seconds": 0.1}},
        (2.0,),
        lambda found: not found["ok"] and (found["ahead"], found["behind"]) == ("c1", "c2"),
    ),
    "cloud_decision bootstrap": (
        {"projects": [{"name": "red"}]},
        (HOSTVARS, [], {"projects": []}),
        lambda found: found["lines"] == ["projects: create red"] and found["actions"]["projects"][0]["name"] == "red",
    ),
    "controlplane_decision answers": (
        {"vms": [{"item": "metal1", "vms": [1]}, {"item": "metal2", "failed": True, "msg": "no libvirt"}]},
        (),
        lambda found: found == {"found": {"metal1": {"vms": [1]}, "metal2": {}}, "errors": {"metal2": "no libvirt"}},
    ),
    "controlplane_decision failure": (
        {"msg": "One or more items failed", "results": [{"item": {"name": "web"}, "failed": True, "msg": "is on."}, {"item": "db"}]},
        (),
        lambda found: found == "web: is on.",
    ),
    "controlplane_decision gate": (
        LOOKS,
        (MEMBERS, ["galera"], [], {"sizes": {"galera": 1}}, True),
        lambda found: not found["ok"] and "galera on c1: does not answer" in found["why"],
    ),
    "controlplane_members": (HOSTVARS, (GROUPS,), lambda found: found["galera"] == ["c1"]),
    "galera_decision backup_member": ({"c1": {"ready": True, "clients": 1}}, ("c1",), lambda found: found == "c1"),
    "galera_decision differences": ({"c1": {}}, (None, ["w1"]), lambda found: found[0] == "c1 is not ready."),
    "galera_decision start": ({"c1": None}, (), lambda found: found["action"] == "refuse" and found["reason"]),
    "galera_decision tls": (
        [{"tls": "off", "tls_written": "off"}, None],
        (True,),
        lambda found: found == {"wanted": True, "steps": ["both", "on"], "changing": True},
    ),
    "host_values": (
        {"c1": {"found": {"vms": [1]}}, "c2": {"found": {}}, "c3": {}},
        ("found.vms", [], ["c1", "c2", "c3"]),
        lambda found: found == {"c1": [1], "c2": [], "c3": []},
    ),
    "service_decision fetched_from": (
        [{"item": "c1", "content": "c3NoLWVkMjU1MTkgQUFBQSByb290QGMxCg=="}, {"item": "c2", "content": "c3NoLWVkMjU1MTkgQUFBQg=="}],
        ({"c1": {}, "c2": {"ansible_host": "192.0.2.2", "ansible_port": "222"}},),
        lambda found: (
            found
            == [
                {"name": "c1", "host": "c1", "port": 22, "host_keys": ["ssh-ed25519 AAAA"]},
                {"name": "c2", "host": "192.0.2.2", "port": 222, "host_keys": ["ssh-ed25519 AAAB"]},
            ]
        ),
    ),
    "service_decision keystone_keys": ({"c1": {"fingerprints": {}}}, (), lambda found: found["action"] == "create" and found["leader"] == "c1"),
    "cloud_decision kolla": (
        "[control]\nx\n[network]\n[compute]\n[monitoring]\n[storage]\n[all:children]\ncontrol\n",
        (KOLLA, {"control": ["c1"], "compute": ["c1"]}, [], "192.0.2.20"),
        lambda found: "c1 ansible_host=192.0.2.1 network_interface=eth0 neutron_external_interface=eth1" in found["inventory"],
    ),
    "metal_decision discovery_problems": (
        {"system": {"uuid": "u1"}, "nics": [{"mac": "52:54:00:00:00:01"}]},
        ("metal1", "192.0.2.11", "/nonexistent", "52:54:00:00:00:02"),
        lambda found: len(found) == 1 and "has no network card 52:54:00:00:00:02" in found[0],
    ),
    "metal_decision discovery_report": (
        {"metal1": {}},
        (["metal1"], "/nonexistent", {"metal1": "no answer"}),
        lambda found: found["lines"] == ["FAILED metal1: no answer"] and not found["ok"],
    ),
    "metal_decision discovery_servers": (
        {"metal1": {"bmc": {"address": "a"}}, "metal2": {}},
        (["metal1", "metal2"],),
        lambda found: found == {"servers": ["metal1"], "restart": []},
    ),
    "metal_decision discovery_step": ("metal1", ("off",), lambda found: found == {"action": "boot", "reason": "it is off"}),
    "metal_decision install_plan": ({"metal1": {}}, (["metal1"],), lambda found: "no server has the key install" in found["error"]),
    "metal_decision install_step": ("metal1", ("off",), lambda found: found == {"action": "boot", "reason": "it is off"}),
    "controlplane_decision machines": (
        {"metal1": {"here": {"machine_id": "1"}}, "metal2": {"here": {"machine_id": "2"}}, "metal3": {}, "metal4": {"here": {"machine_id": ""}}},
        ({"metal1": "192.0.2.11", "metal2": ""},),
        lambda found: (
            found == [{"machine_id": "1", "name": "metal1", "address": "192.0.2.11"}, {"machine_id": "2", "name": "metal2", "address": "metal2"}]
        ),
    ),
    "controlplane_decision maintain_virt_node": (
        LOOKS,
        (["metal1"], [], "metal1", {"": MEMBERS}, FOUND["metal1"], {"c1": "metal1"}),
        lambda found: not found["ok"] and [(step["name"], step["action"], step["destination"]) for step in found["steps"]] == [("c1", "stop", "")],
    ),
    "member_addresses": (
        ["c1", "c2", "c3", "c4"],
        ({"c1": {"x_address": "192.0.2.9", "ansible_host": "192.0.2.1"}, "c2": {"x_address": "", "ansible_host": "192.0.2.2"}, "c3": {}}, "x_address"),
        lambda found: found == ["192.0.2.9", "192.0.2.2", "c3", "c4"],
    ),
    "openstack_settings": (
        {"b": {"y": [1, 2], "X": True}, "a": {}},
        ("shop_settings",),
        lambda found: found == "\n[b]\nX = True\ny = 1\ny = 2\n",
    ),
    "service_decision ovn_database": (
        {"c1": {"databases": {"OVN_Northbound": {}, "OVN_Southbound": {}}}},
        ({"c1": "192.0.2.1"},),
        lambda found: found["begin"] == {"c1": {"OVN_Northbound": {"create": True}, "OVN_Southbound": {"create": True}}} and not found["refused"],
    ),
    "plan_servers": (
        HOSTVARS,
        (["metal1"], FOUND, {"metal1": {"libvirt": True, "networks": [{"name": "br-admin", "active": True}]}}),
        lambda found: [(server["name"], server["runs"], server["networks"]) for server in found] == [("metal1", ["c1"], ["br-admin"])],
    ),
    "plan_vms": (
        [{"id": "c2"}],
        ({"metal1": {"vms": [], "master_migrate_temporary_address": "192.0.2.9"}}, ["metal1"]),
        lambda found: [vm["id"] for vm in found] == ["c2", "master"],
    ),
    "service_decision rabbitmq": ({"c1": None}, ({"c1": "rabbit@c1"},), lambda found: found["action"] == "refuse" and found["reason"]),
    "service_decision rabbitmq_differences": ({"c1": None}, ({"c1": "rabbit@c1"},), lambda found: "c1: rabbit@c1 does not answer." in found),
    "controlplane_decision replace_controller": (
        {"name": "c1"},
        (MEMBERS, {"c1": "metal1"}, ["metal1"], LOOKS, {"metal1": {"vms": FOUND["metal1"], "replacements": []}}),
        lambda found: not found["ok"] and found["source"] == "metal1" and "needs 1" in found["why"][0],
    ),
    "controlplane_decision rolling_restart": (LOOKS, (MEMBERS, "restart", "galera"), lambda found: not found["ok"] and found["why"]),
    "service_decision settled": (
        {"c1": {"members": {"nova": ["c1"]}, "health": {"nova": {"problems": [], "facts": {"drained": []}}}, "compared": [{"actions": []}]}},
        (),
        lambda found: found == ["nova"],
    ),
    "service_decision same_authority": (AUTHORITY, ("",), lambda found: found is True),
    "controlplane_decision replace_server": (
        {"name": "metal1"},
        (
            {"servers": {"metal1": "192.0.2.11"}, "environments": {"": {}}},
            {},
            {"metal1": {"vms": [], "identity": {"here": {"machine_id": "1" * 32}, "records": []}}},
        ),
        lambda found: not found["ok"] and found["action"] == "replace" and "replace_server_confirm" in found["why"][0],
    ),
    "vm_standbys": (
        [{"id": "m", "disks": [{"size": "1GiB"}], "standby": "metal2"}, {"id": "n"}],
        ("metal1", {"metal1": ["virt"], "metal2": ["virt"]}),
        lambda found: [(vm["id"], vm["server"], vm["needed_bytes"]) for vm in found] == [("m", "metal2", 2 << 30)],
    ),
    "cloud_decision volumes": (
        {"ceph": {"type": "rbd", "monitors": ["192.0.2.31"], "pool": "volumes", "user": "cinder", "key": "AQCpoAtrEHRANhAAuGI4MvvfN4EHzAP0qJYbCw=="}},
        ("shop",),
        lambda found: [(one["name"], one["shared"]) for one in found] == [("ceph", True)],
    ),
    "cloud_decision volumes_away": (
        {"local": {"type": "lvm", "volume_group": "volumes", "servers": ["metal1"]}},
        ("metal1", ["metal1", "metal2"]),
        lambda found: found == ["volumes of local are on the disks of metal1: instances on other servers wait for them while it is off"],
    ),
    "state_text": ({"mark": "a1"}, ("secrets_record",), lambda found: found == '{"mark": "a1", "schema": 1}\n'),
}
#: What each says instead of a traceback when it gets something else.
ELSE: dict[str, tuple[t.Any, tuple[t.Any, ...]]] = {name: (17, arguments) for name, (_given, arguments, _check) in CALLS.items()}
# the module reports VM details that are no list
ELSE["plan_vms"] = ([], (17, ["metal1"]))
# they check what a user writes
for checked in ("cloud_decision bootstrap", "cloud_decision volumes", "cloud_decision volumes_away", "openstack_settings"):
    del ELSE[checked]
# each text is the name of a server
ELSE["metal_decision discovery_step"] = ("metal1", ("off", False, "", "begun"))
ELSE["metal_decision install_step"] = ("metal1", ("off", False, False, "begun"))


def call(name: str, *arguments: t.Any) -> t.Any:
    name, *decision = name.split()
    given, *others = arguments
    return load(name).FilterModule().filters()[name](given, *decision, *others)


def load(name: str) -> t.Any:
    return importlib.import_module(f"ansible_collections.reduced.footprint.plugins.filter.{name}")


def test_every_filter_is_called_here() -> None:
    assert sorted({name.partition(" ")[0] for name in CALLS}) == FILTERS


@pytest.mark.parametrize("name", ["cloud_decision", "controlplane_decision", "galera_decision", "metal_decision", "service_decision"])
def test_each_documented_decision_is_made(name: str) -> None:
    choices = yaml.safe_load(load(name).DOCUMENTATION)["options"]["decision"]["choices"]
    assert sorted(decision for each, unused, decision in (call.partition(" ") for call in CALLS) if each == name) == choices
    with pytest.raises(AnsibleFilterError, match=f"{name}: unknown decision 'x'; expected one of {', '.join(choices)}"):
        call(f"{name} x", {})


@pytest.mark.parametrize("name", CALLS)
def test_filter_answers(name: str) -> None:
    given, arguments, check = CALLS[name]
    found = call(name, given, *arguments)
    assert check(found), found


@pytest.mark.parametrize("name", ELSE)
def test_filter_names_itself_when_it_cannot_read_its_input(name: str) -> None:
    given, arguments = ELSE[name]
    with pytest.raises(AnsibleFilterError, match=name.replace(" ", r"\b.*\b")):
        call(name, given, *arguments)


def test_values_of_a_loop_are_those_of_its_hosts() -> None:
    assert call("host_values", [{"item": "c1", "state": 1}, {"item": "c2", "unreachable": True}], "state", {}) == {"c1": 1, "c2": {}}


def test_bad_conditions_are_named() -> None:
    with pytest.raises(AnsibleFilterError, match="sizes.nope: unknown service 'nope'"):
        call("controlplane_decision gate", LOOKS, MEMBERS, [], [], {"sizes": {"nope": 3}})


def test_hosts_of_several_environments_are_named() -> None:
    hostvars = {"c1": {"footprint_environment": "red"}, "c2": {"footprint_environment": "blue"}}
    with pytest.raises(AnsibleFilterError, match=r"the hosts of this run are of several environments \(blue, red\)"):
        call("controlplane_members", hostvars, {}, ["c1", "c2"])


def test_the_members_of_each_environment_are_listed() -> None:
    hostvars = {"c1": {"footprint_environment": "red", "galera_group": "g1"}, "c2": {"footprint_environment": "blue", "galera_group": "g2"}}
    found = call("controlplane_members", hostvars, {"g1": ["c1"], "g2": ["c2"]}, (), True)
    assert {name: services["galera"] for name, services in found.items()} == {"red": ["c1"], "blue": ["c2"]}


def test_witnesses_are_read_from_the_state_of_their_service() -> None:
    stopped = {"cluster_uuid": "u", "seqno": 3}
    running = {"units": {"garbd@lab.service": {"state": "active"}}, "facts": {}, "problems": []}
    found = call("galera_decision start", {"c1": stopped, "c2": stopped}, None, {"w": running, "v": {}, "x": {"units": {}}})
    assert (found["bootstrap"], found["silence"]) == ("c1", ["w"])
    assert [line.partition(",")[0] for line in found["members"][:3]] == ["w: witness", "v: witness", "x: witness"]
    assert "v: witness, does not answer" in found["members"][1] and "x: witness, stopped" in found["members"][2]
    assert found["wake"] == ["w"]


def test_a_witness_that_an_interrupted_recovery_stopped_is_started_again() -> None:
    primary, stopped = {"running": True, "primary": True, "cluster_uuid": "a", "seqno": 1}, {"cluster_uuid": "a", "seqno": 1}
    witness = {"units": {"garbd@lab.service": {"state": "inactive"}}}
    for members, action in (({"c1": primary, "c2": stopped}, "join"), ({"c1": primary, "c2": primary}, "none"), ({"c1": stopped, "c2": stopped}, "bootstrap")):
        found = call("galera_decision start", members, None, {"w": witness, "v": {}, "x": {"units": {}}})
        assert (found["action"], found["silence"], found["wake"]) == (action, [], ["w"])
    refused = call("galera_decision start", {"c1": stopped, "c2": None}, None, {"w": witness})
    assert (refused["action"], refused["wake"]) == ("refuse", [])


def test_backup_member_that_does_not_serve_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="c1"):
        call("galera_decision backup_member", {"c1": None}, "c1")


def test_addresses_of_members_come_from_the_filter_only() -> None:
    files = [*ROOT.glob("roles/*/[dtv]*/*"), *ROOT.glob("playbooks/**/*.yml")]
    assert [path for path in files if "attribute='ansible_host'" in path.read_text("utf-8")] == []
    assert [path.parts[-3] for path in files if "member_addresses(" in path.read_text("utf-8")].count("load_balancer") == 3
