# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers and VM details become hosts, and hosts find their addresses."""

from __future__ import annotations

import json

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import io_addresses
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac, vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.run_inventory import (
    Lookup,
    find_addresses,
    host_keys,
    host_keys_path,
    hosts,
    parse,
    parse_servers,
    signature,
)

NIC = [{"bridge": "br-admin"}]
C1, C2, C3 = (nic_mac("blue", name, 0) for name in ("c1", "c2", "c3"))


def servers():
    return parse_servers(
        {
            "metal1": {
                "ansible_host": "192.0.2.11",
                "roles": ["virt", "compute"],
                "vms": [
                    {"id": "c1", "roles": ["controller"], "nics": NIC, "hypervisor": "lxc"},
                    {"id": 0, "name": "c0", "address": "192.0.2.50", "nics": NIC},
                ],
            },
            "metal2": {"roles": "virt", "vms": json.dumps([{"id": "c3", "roles": ["controller"], "nics": NIC, "hypervisor": "kvm"}])},
            "laptop": {"roles": ["master"], "note": "x"},
            "bare": None,
        }
    )


class Backend:
    """Answers from tables and remembers who was asked."""

    def __init__(self, leases=None, neigh=(), swept=(), domains=None, binding=True):
        self.leases, self.neigh, self.swept, self.domains, self.binding = leases or {}, list(neigh), list(swept), domains or {}, binding
        self.asked = []

    def read_leases(self, location, timeout):
        self.asked.append(location)
        if location not in self.leases:
            raise BackendError(f"cannot read the leases at {location}: down")
        return "".join(f"0 {mac} {address} * *\n" for mac, address in self.leases[location])

    def neighbours(self):
        self.asked.append("neigh")
        return json.dumps([{"dst": address, "lladdr": mac, "state": ["REACHABLE"]} for mac, address in self.neigh])

    def sweep(self, addresses):
        self.asked.append(f"sweep {len(addresses)}")
        self.neigh += self.swept

    def libvirt_available(self):
        return self.binding

    def domain_addresses(self, uri, uuids, source, timeout):
        self.asked.append((uri, source, tuple(uuids)))
        if uri not in self.domains:
            raise BackendError(f"{uri} does not answer")
        return self.domains[uri].get(source, [])


def test_hosts_of_one_shape():
    inventory = parse("blue", servers())
    found, unused = find_addresses(inventory, Lookup(), Backend())
    result = {host.name: host for host in hosts(inventory, found)}
    assert list(result) == ["metal1", "metal2", "laptop", "bare", "c1", "c0", "c3"]
    assert result["metal1"].groups == ("servers", "virt", "compute")
    assert result["metal1"].variables["node_roles"] == ["virt", "compute"]
    assert [vm["id"] for vm in result["metal2"].variables["vms"]] == ["c3"]
    assert result["laptop"].variables == {"note": "x", "footprint_cluster": "blue", "node_roles": ["master"]}
    assert result["c1"].groups == ("footprint_vms", "controller")
    assert result["c1"].variables["vm_macs"] == [C1]
    assert result["c0"].variables["vm_uuid"] == vm_uuid("blue", 0)
    assert result["c0"].variables["ansible_host"] == "192.0.2.50"
    assert result["c1"].variables["vm_host"] == "metal1"
    assert "ansible_host" not in result["c1"].variables
    # metal and machine carry the same
    assert {"footprint_cluster", "node_roles"} <= set(result["c3"].variables) & set(result["metal2"].variables)


def test_sources_in_order_and_only_while_needed():
    inventory = parse("blue", servers())
    backend = Backend(leases={"one": [(C1, "192.0.2.101")], "two": [(C1, "192.0.2.199"), (C3, "192.0.2.103")]})
    found, warnings = find_addresses(inventory, Lookup(leases=("down", "one", "two", "three"), discover_network="192.0.2.0/29"), backend)
    assert {name: (item.address, item.source) for name, item in found.items()} == {
        "c0": ("192.0.2.50", "fixed"),
        "c1": ("192.0.2.101", "lease"),
        "c3": ("192.0.2.103", "lease"),
    }
    assert backend.asked == ["down", "one", "two"]
    assert warnings == ["cannot read the leases at down: down"]


def test_the_sweep_comes_after_a_look():
    inventory = parse("blue", servers())
    backend = Backend(neigh=[(C1, "192.0.2.20"), (C1, "192.0.2.101")], swept=[(C3, "192.0.2.103")])
    lookup = Lookup(discover_network="192.0.2.0/29", exclude=("192.0.2.20",))
    found, warnings = find_addresses(inventory, lookup, backend)
    assert (found["c1"].address, found["c3"].source) == ("192.0.2.101", "arp")
    assert backend.asked == ["neigh", "sweep 6", "neigh"]
    assert warnings == []


def test_a_neighbour_that_answers_at_several_addresses_is_not_trusted():
    # one of them may be the virtual address, and belong to another controller tomorrow
    found, warnings = find_addresses(parse("blue", servers()), Lookup(), Backend(neigh=[(C1, "192.0.2.101"), (C1, "192.0.2.20")]))
    assert "c1" not in found
    assert "c1 has several addresses in the neighbour table (192.0.2.101, 192.0.2.20); none is used" in warnings[0]


def test_the_newest_lease_is_trusted():
    found, warnings = find_addresses(
        parse("blue", servers()), Lookup(leases=("one",)), Backend(leases={"one": [(C1, "192.0.2.101"), (C1, "192.0.2.99")]})
    )
    assert found["c1"].address == "192.0.2.101"
    assert warnings == []


def test_libvirt_is_asked_per_server_and_driver():
    inventory = parse("blue", servers())
    lookup = Lookup(libvirt_uri={"qemu": "qemu+ssh://root@{host}/system", "lxc": "lxc+ssh://{name}/"}, sources=("fixed", "agent"))
    backend = Backend(domains={"qemu+ssh://root@metal2/system": {"agent": [(C3.upper(), "192.0.2.103")]}})
    found, warnings = find_addresses(inventory, lookup, backend)
    assert found["c3"].address == "192.0.2.103"
    assert sorted(backend.asked) == [
        ("lxc+ssh://metal1/", "agent", (vm_uuid("blue", "c1"),)),
        ("qemu+ssh://root@metal2/system", "agent", (vm_uuid("blue", "c3"),)),
    ]
    assert warnings == ["lxc+ssh://metal1/ does not answer"]


def test_a_server_with_an_ipv6_address_is_asked(monkeypatch):
    vms = [{"id": "c3", "nics": NIC, "hypervisor": "kvm"}]
    inventory = parse("blue", parse_servers({"metal1": {"ansible_host": "2001:db8::11", "roles": ["virt"], "vms": vms}}))
    uri = "qemu+ssh://root@[2001:db8::11]/system"
    backend = Backend(domains={uri: {"agent": [(C3, "192.0.2.103")]}})
    found, warnings = find_addresses(inventory, Lookup(libvirt_uri={"qemu": "qemu+ssh://root@{host}/system"}, sources=("agent",)), backend)
    assert found["c3"].address == "192.0.2.103" and warnings == []
    reached = []

    def connect(place, timeout):
        reached.append(place)
        raise OSError("no route")

    monkeypatch.setattr(io_addresses.socket, "create_connection", connect)
    with pytest.raises(BackendError, match="no route"):
        io_addresses.probe(uri, 1)
    assert reached == [("2001:db8::11", 22)]


@pytest.mark.parametrize("uri", ["qemu+ssh://metal1:ssh/system", "qemu+ssh://[metal1/system"])
def test_a_uri_that_is_not_valid_is_a_warning_like_a_server_that_is_down(uri):
    with pytest.raises(BackendError, match="is not a valid URI"):
        io_addresses.probe(uri, 1)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"libvirt_uri": {"kvm": "qemu:///system"}}, "libvirt_uri.kvm"),
        ({"libvirt_uri": {"qemu": None}}, "libvirt_uri.qemu"),
        ({"libvirt_uri": "qemu:///system"}, "libvirt_uri"),
        ({"timeout": 0.0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
    ],
)
def test_options_that_would_find_nothing_are_refused(options, path):
    with pytest.raises(InputError) as caught:
        find_addresses(parse("blue", servers()), Lookup(**options), Backend())
    assert caught.value.path == path and caught.value.hint


def test_addresses_found_earlier_are_valid_only_for_the_same_question():
    def asked(lookup=Lookup(), **change):
        vm = {"id": "c3", "nics": NIC, **change}
        return signature(parse("blue", parse_servers({"metal1": {"roles": ["virt"], "vms": [vm]}})), lookup)

    same = asked()
    assert same == asked() == json.loads(json.dumps(same))
    others = [asked(address="192.0.2.50"), asked(address="192.0.2.51"), asked(nics=NIC * 2)]
    others += [asked(Lookup(exclude=("192.0.2.20",))), asked(Lookup(leases=("x",)))]
    assert same not in others and len({json.dumps(each) for each in others}) == len(others)


def test_without_the_binding_there_is_a_warning():
    unused, warnings = find_addresses(
        parse("blue", servers()), Lookup(libvirt_uri={"qemu": "x", "lxc": "y"}, sources=("lease",)), Backend(binding=False)
    )
    assert "python3-libvirt" in warnings[0]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([], InputError, "servers: expected a mapping, got a list"),
        ({"m": 3}, InputError, "servers.m: expected a mapping, got a number"),
        ({"m": {"roles": {"virt": 1}}}, InputError, "servers.m.roles"),
        ({"m": {"roles": ["compute"], "vms": [{"id": 1}]}}, RefusedError, "servers.m.vms: m has VM details but not the role virt"),
        ({"m": {"roles": ["virt"], "vms": [{"id": 1, "ram": -1}]}}, InputError, r"servers.m.vms\[0\].ram"),
        (
            {"m": {"roles": ["virt"], "vms": [{"id": 1}]}, "n": {"roles": ["virt"], "vms": [{"id": "1"}]}},
            InputError,
            r"servers.n.vms\[0\].id: '1' is already used at servers.m.vms\[0\].id",
        ),
        (
            {"m": {"roles": ["virt"], "vms": [{"id": 1, "name": "x"}]}, "n": {"roles": ["virt"], "vms": [{"id": 2, "name": "x"}]}},
            InputError,
            r"servers.n.vms\[0\].name: 'x' is already used at servers.m.vms\[0\].name",
        ),
        ({"m": {"roles": ["virt", "witness"]}}, RefusedError, "servers.m.roles: m cannot be a witness: it is a virt host"),
        (
            {"m": {"roles": ["virt"], "vms": [{"id": "c", "roles": ["controller"]}, {"id": "w", "roles": ["witness"]}]}},
            RefusedError,
            r"servers.m.vms\[1\].roles: w cannot be a witness: it is on m with c",
        ),
        ({"m": {"roles": ["virt"], "vms": [{"id": "m"}]}}, InputError, r"'m' is already used at servers.m"),
        (
            {"m": {"roles": ["virt"], "vms": [{"id": 1, "address": "192.0.2.1"}, {"id": 2, "address": "192.0.2.1"}]}},
            InputError,
            r"vms\[1\].address: '192.0.2.1' is already used",
        ),
        (
            {"m": {"roles": ["virt"], "ansible_host": "192.0.2.11"}, "n": {"roles": ["virt"], "ansible_host": "192.0.2.11"}},
            InputError,
            "servers.n.ansible_host: '192.0.2.11' is already used at servers.m.ansible_host. Correct the address: each server must be a different machine",
        ),
        ({"m": {"roles": ["virt"]}, "n": {"roles": ["compute"], "ansible_host": "M"}}, InputError, "servers.n.ansible_host: 'm' is already used"),
        (
            {"m": {"roles": ["virt"], "ansible_host": "2001:DB8:0::b"}, "n": {"roles": ["virt"], "vms": [{"id": 1, "address": "2001:db8::b"}]}},
            InputError,
            r"servers.n.vms\[0\].address: '2001:db8::b' is already used at servers.m.ansible_host",
        ),
    ],
)
def test_bad_input(value, error, message):
    with pytest.raises(error, match=message):
        parse("blue", parse_servers(value))


@pytest.mark.parametrize("roles, more", [(["virt"], {"ansible_port": 2202}), (["virt"], {"ansible_connection": "local"}), (["master"], {})])
def test_an_address_that_several_machines_may_have(roles, more):
    value = {"m": {"roles": ["virt"], "ansible_host": "192.0.2.11"}, "n": {"roles": roles, "ansible_host": "192.0.2.11", **more}}
    assert [item.name for item in parse("blue", parse_servers(value)).servers] == ["m", "n"]


def test_the_host_keys_of_vms_are_pinned(tmp_path):
    plan = parse("blue", servers())
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"
    path = host_keys_path(None, str(tmp_path), "blue")
    assert path == tmp_path / ".secrets" / "blue" / "known_hosts.txt"
    path.parent.mkdir(parents=True)
    path.write_text(f"c1 {key}\nstranger {key}\n")
    found = {host.name: host.variables for host in hosts(plan, {}, host_keys(path))}
    assert found["c1"]["vm_host_key"] == key
    assert "HostKeyAlias=c1" in found["c1"]["ansible_ssh_extra_args"]
    assert {name for name, variables in found.items() if "ansible_ssh_extra_args" in variables} == {"c1"}
    assert {variables["footprint_known_hosts"] for variables in found.values()} == {str(path)}


def test_the_file_of_host_keys_may_be_elsewhere(tmp_path):
    assert host_keys_path("keys/known", str(tmp_path), "blue") == tmp_path / "keys" / "known"
    assert str(host_keys_path("/etc/known", str(tmp_path), "blue")) == "/etc/known"
