# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that were created after the inventory was read are found with the sources that the inventory recorded."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_connections, run_inventory
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"
LEASES = "http://192.0.2.2/leases"
NIC = [{"bridge": "br-admin"}]
SERVERS = {
    "metal1": {"ansible_host": "192.0.2.11", "roles": ["virt"], "vms": [{"id": "c1", "nics": NIC}, {"id": 2, "name": "c2", "nics": NIC}]},
    "metal2": {"roles": ["virt"], "vms": [{"id": "c3", "hypervisor": "lxc", "nics": NIC, "address": "192.0.2.33"}]},
}


class Backend:
    """A lease file, and libvirt; remembers what was asked."""

    def __init__(self, **leases: str) -> None:
        self.leases, self.asked = leases, []

    def read_leases(self, location: str, timeout: float) -> str:
        self.asked.append((location, timeout))
        return "".join(f"0 {nic_mac('blue', name, 0)} {address} * *\n" for name, address in self.leases.items())

    def libvirt_available(self) -> bool:
        return True

    def domain_addresses(self, uri: str, uuids: t.Sequence[str], source: str, timeout: float) -> list[tuple[str, str]]:
        self.asked.append((uri, source))
        return []


def frozen(known_hosts: pathlib.Path, leases: t.Sequence[str] = (), **options: t.Any) -> dict[str, dict[str, t.Any]]:
    """The variables of all hosts, as JSON keeps them, when none of the VMs had been created yet."""
    plan = run_inventory.parse("blue", run_inventory.parse_servers(SERVERS))
    lookup = run_inventory.Lookup(sources=("fixed", "lease"), leases=tuple(leases), **options)
    found = run_inventory.find_addresses(plan, lookup, Backend())[0]
    made = run_inventory.hosts(plan, found, run_inventory.host_keys(known_hosts), lookup)
    return t.cast("dict[str, dict[str, t.Any]]", json.loads(json.dumps({host.name: dict(host.variables) for host in made})))


def test_a_vm_that_got_an_address_later_is_found(tmp_path: pathlib.Path) -> None:
    hosts = frozen(tmp_path / "known", [LEASES], timeout=3)
    assert "ansible_host" not in hosts["c1"]
    backend = Backend(c1="192.0.2.31")
    found, warnings = run_connections.connections(["c1", "c2", "c3"], hosts, backend)
    assert found == {
        "c1": {"ansible_host": "192.0.2.31", "vm_address_source": "lease"},
        "c2": {},
        "c3": {"ansible_host": "192.0.2.33", "vm_address_source": "fixed"},
    }
    assert warnings == []
    # the other server's VM has a fixed address
    assert backend.asked == [(LEASES, 3)]


def test_its_host_key_is_pinned(tmp_path: pathlib.Path) -> None:
    hosts = frozen(tmp_path / "known", [LEASES])
    (tmp_path / "known").write_text(f"c3 {KEY}\n", "utf-8")
    found = run_connections.connections(["c3"], hosts, Backend())[0]["c3"]
    assert found["vm_host_key"] == KEY
    assert all("HostKeyAlias=c3" in found[f"ansible_{program}_extra_args"] for program in ("ssh", "sftp", "scp"))


def test_a_new_address_replaces_the_one_in_the_inventory(tmp_path: pathlib.Path) -> None:
    hosts = frozen(tmp_path / "known", [LEASES])
    hosts["c1"].update(ansible_host="192.0.2.98", vm_address_source="lease")
    hosts["c2"].update(ansible_host="192.0.2.99", vm_address_source="lease")
    found = run_connections.connections(["c1", "c2"], hosts, Backend(c1="192.0.2.31"))[0]
    assert {name: variables["ansible_host"] for name, variables in found.items()} == {"c1": "192.0.2.31", "c2": "192.0.2.99"}


def test_libvirt_is_asked_at_the_address_of_the_server(tmp_path: pathlib.Path) -> None:
    hosts = frozen(tmp_path / "known", libvirt_uri={"qemu": "qemu+ssh://root@{host}/system"})
    backend = Backend()
    run_connections.connections(["c1"], hosts, backend)
    assert backend.asked == [("qemu+ssh://root@192.0.2.11/system", "lease")]


@pytest.mark.parametrize("name", ["metal1", "unknown"])
def test_other_hosts_are_refused(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"_terms\[1\]: '{name}' is not a virtual machine"):
        run_connections.connections(["c1", name], frozen(tmp_path / "known"), Backend())


@pytest.mark.parametrize(
    ("variables", "new"),
    [
        ({}, False),
        ({"vm_address_lookup": {}}, True),
        ({"vm_address_lookup": {}, "ansible_host": "192.0.2.31"}, False),
        ({"vm_address_lookup": {}, "ansible_host": "192.0.2.31", "footprint_known_hosts": "FILE"}, True),
        ({"vm_address_lookup": {}, "ansible_host": "192.0.2.31", "footprint_known_hosts": "/missing"}, False),
        ({"vm_address_lookup": {}, "ansible_host": "192.0.2.31", "footprint_known_hosts": "FILE", "vm_host_key": KEY}, False),
    ],
)
def test_a_vm_is_new_without_its_address_or_its_host_key(variables: dict[str, t.Any], new: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "known").touch()
    assert run_connections.is_new({key: str(tmp_path / "known") if value == "FILE" else value for key, value in variables.items()}) is new
