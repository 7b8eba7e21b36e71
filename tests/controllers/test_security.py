# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An intruder on the admin network is refused at every port except those for clients, and docs/security.md lists all listeners.

The intruder is the host of the lab, whose address does not belong to a member.
"""

from __future__ import annotations

import ipaddress
import time
import typing as t

import pytest
from controllers_lab import SERVERS, ControllersLab
from rflab.plays import REPOSITORY
from intruder import announce, connects, plant, planted
from support import eventually
from token_client import Client, read_openrc

pytestmark = pytest.mark.chapter

TRACE = "/var/lib/keystone/planted"
#: No other clients are allowed; the tests add them where needed.
CLOSED: dict[str, t.Any] = {"rabbitmq_allowed": None, "keystone_allowed": None}
#: Deploys only the allow-lists, as deploy_controllers does before it deploys a service.
SERVICES = ["galera", "rabbitmq", "memcached", "load_balancer", "keystone"]
LISTS = [
    {
        "hosts": "controller",
        "gather_facts": False,
        "any_errors_fatal": True,
        "roles": [{"role": "reduced.footprint.allow_list", "vars": {"allow_list_services": SERVICES}}],
    }
]
KNOCK = "for n in 1 2 3; do exec 3<>/dev/tcp/{address}/{port} && exit 0; sleep 1; done; exit 1"


class Row(t.NamedTuple):
    """A line of the table of docs/security.md."""

    ports: range
    place: str
    audience: str


def table() -> list[Row]:
    """Return the rows of the table; VRRP, which has no port, is port 0."""
    found = []
    text = (REPOSITORY / "docs" / "security.md").read_text("utf-8").partition("## Listeners")[2].partition("## Allow-lists")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and (cells[0][:1].isdigit() or cells[0] == "vrrp"):
            first, unused, last = cells[0].replace("vrrp", "0").partition("-")
            found.append(Row(range(int(first), int(last or first) + 1), cells[2], cells[3]))
    return found


def rows(port: int) -> list[Row]:
    return [row for row in table() if port in row.ports]


def place(lab: ControllersLab, name: str, address: str) -> str:
    """Return the name of an address of a machine in the table."""
    address = address.strip("[]").partition("%")[0]
    if address in ("*", "0.0.0.0", "::"):
        return "every address"
    if ipaddress.ip_address(address).is_loopback:
        return "loopback"
    return {lab.addresses[name]: "own", lab.virtual_address: "virtual"}.get(address, address)


def listeners(lab: ControllersLab, name: str) -> set[tuple[int, str, str]]:
    """Return port, place and process of all listeners of a machine, for TCP, UDP and raw IP."""
    found = set()
    for line in lab.run(name, ["ss", "-Hltnup"]).splitlines():
        words = line.split()
        address, unused, port = words[4].rpartition(":")
        found.add((int(port), place(lab, name, address), words[-1]))
    for line in lab.run(name, ["ss", "-Hawn"]).splitlines():
        if line.split()[3].rpartition(":")[2] in ("vrrp", "112"):
            found.add((0, "own", "keepalived"))
    return found


def refused(lab: ControllersLab) -> dict[str, list[int]]:
    """Map members to the ports of their own addresses at which the intruder is refused."""
    ports = sorted({row.ports[0] for row in table() if row.ports[0] and row.place.startswith("own")})
    return {name: [port for port in ports if not connects(lab.addresses[name], port)] for name in SERVERS}


def knocks(lab: ControllersLab, source: str, target: str, port: int) -> bool:
    """Whether a member reaches a port of another one."""
    return lab.answers(source, ["timeout", "10", "bash", "-c", KNOCK.format(address=lab.addresses[target], port=port)])


def held_by(lab: ControllersLab) -> list[str]:
    return [name for name in SERVERS if f"inet {lab.virtual_address}/" in lab.run(name, ["ip", "-4", "-o", "address", "show"])]


@pytest.fixture(name="client")
def fixture_client(lab: ControllersLab) -> Client:
    path = lab.inventory_path / ".secrets" / "lab" / "openrc-lab.txt"
    return Client(read_openrc(path.read_text("utf-8")), timeout=30)


def lists(lab: ControllersLab, variables: dict[str, t.Any] | None = None, hosts: t.Any = None, **options: t.Any) -> t.Any:
    """Deploy the allow-lists of an inventory with these variables."""
    lab.write_inventory({**CLOSED, **(variables or {})}, hosts=hosts)
    done = lab.play(LISTS, **options)
    assert done.rc == 0, done.output[-6000:]
    return done


def test_second_deployment_changes_nothing(lab: ControllersLab) -> None:
    lab.write_inventory(CLOSED)
    for unused in range(2):
        done = lab.play("deploy_controllers")
        assert done.rc == 0, done.output[-6000:]
    assert done.changed == 0, done.changed_tasks()


def test_separate_deployment_of_the_lists_changes_nothing(lab: ControllersLab) -> None:
    lists(lab)
    assert lists(lab).changed == 0
    assert lists(lab, check=True).changed == 0


def test_table_lists_exactly_the_existing_listeners(lab: ControllersLab) -> None:
    seen = {name: listeners(lab, name) for name in SERVERS}
    unknown = {name: [one for one in found if not any(one[1] in row.place for row in rows(one[0]))] for name, found in seen.items()}
    assert not any(unknown.values()), unknown
    everything = {(port, where) for found in seen.values() for port, where, unused in found}
    # state transfers and the command line tools listen only temporarily, streams exist only in a cloud
    brief = {4444, 4568, 26000, *range(35672, 35683)}
    missing = [row for row in table() if row.ports[0] not in brief and not any(port in row.ports and where in row.place for port, where in everything)]
    assert not missing, missing


def test_intruder_is_refused_at_every_port_and_members_at_none(lab: ControllersLab) -> None:
    closed = sorted({row.ports[0] for row in table() if row.ports[0] and row.place.startswith("own")})
    assert refused(lab) == {name: closed for name in SERVERS}
    # ports for clients are open
    assert connects(lab.virtual_address, 3306) and connects(lab.virtual_address, 5000) and connects(lab.addresses["metal1"], 22)
    open_ports = {port for port, where, unused in listeners(lab, "metal2") if where == "own" and port}
    assert {3306, 4369, 4567, 5000, 5671, 9200, 10240, 11211, 25672} <= open_ports
    assert [port for port in sorted(open_ports) if not knocks(lab, "metal1", "metal2", port)] == []
    text = lab.run("metal1", ["nft", "list", "ruleset"])
    assert all(f"table inet footprint_{name}" in text for name in ("galera", "rabbitmq", "memcached", "load_balancer", "keystone"))


def test_temporary_ports_are_closed_to_the_intruder(lab: ControllersLab) -> None:
    """State transfers, replicas of streams and command line tools listen temporarily; other listeners take their place here."""
    for port in (4444, 4568, 26000, 35673):
        script = f"import socket; s = socket.create_server(('{lab.addresses['metal1']}', {port})); s.settimeout(20); s.accept(); s.accept()"
        lab.run("metal1", ["systemd-run", "--quiet", f"--unit=listen-{port}", "python3", "-c", script])
        eventually(f"{port} is open to a member", lambda port=port: knocks(lab, "metal2", "metal1", port), 15)
        assert not connects(lab.addresses["metal1"], port)
        lab.run("metal1", ["systemctl", "stop", f"listen-{port}"], check=False)


def test_intruder_cannot_take_over_the_virtual_address(lab: ControllersLab) -> None:
    eventually("one holds the address", lambda: len(held_by(lab)) == 1, 60)
    before = held_by(lab)
    members = list(lab.addresses.values())
    announce(f"{lab.net}.1", members, 20, lab.virtual_address, 6)
    assert held_by(lab) == before
    # keepalived without the allow-list, in the seconds until the list is loaded again
    lab.run(before[0], ["nft", "delete", "table", "inet", "footprint_load_balancer"])
    announce(f"{lab.net}.1", [lab.addresses[before[0]]], 20, lab.virtual_address, 6)
    assert held_by(lab) == before


def test_emptied_packet_filter_is_filled_again(lab: ControllersLab) -> None:
    lab.run("metal1", ["nft", "flush", "ruleset"])
    eventually("the intruder is refused again", lambda: not connects(lab.addresses["metal1"], 11211), 60)
    # at the latest before the next start of a service
    lab.run("metal1", ["nft", "flush", "ruleset"])
    lab.run("metal1", ["systemctl", "restart", "memcached"])
    assert not connects(lab.addresses["metal1"], 11211)


def test_other_rules_are_kept(lab: ControllersLab) -> None:
    lab.run("metal1", ["nft", "add", "table", "inet", "operator"])
    lab.run("metal1", ["systemctl", "start", "footprint-allow-lists.service"])
    assert "table inet operator" in lab.run("metal1", ["nft", "list", "tables"])
    lab.run("metal1", ["nft", "delete", "table", "inet", "operator"])


def test_a_restart_of_the_loader_restarts_no_service(lab: ControllersLab) -> None:
    units = ["mariadb.service", "rabbitmq-server.service", "memcached.service", "haproxy.service", "keepalived.service"]
    show = ["systemctl", "show", "--property=Id,InvocationID", *units]
    before = lab.run("metal1", show)
    lab.run("metal1", ["systemctl", "restart", "footprint-allow-lists.service"])
    lab.run("metal1", ["systemctl", "stop", "footprint-allow-lists.service"])
    assert lab.run("metal1", show) == before


def test_a_service_without_its_list_does_not_start(lab: ControllersLab) -> None:
    broken = "/etc/reduced.footprint/allow-lists/zz_broken.nft"
    lab.run("metal1", ["tee", broken], stdin="wrong syntax\n")
    try:
        lab.run("metal1", ["systemctl", "restart", "memcached"], check=False)
        assert lab.run("metal1", ["systemctl", "is-active", "memcached"], check=False).strip() != "active"
    finally:
        lab.run("metal1", ["rm", broken])
    lab.run("metal1", ["systemctl", "reset-failed", "memcached"], check=False)
    lab.run("metal1", ["systemctl", "start", "memcached"])


def test_commands_in_the_cache_are_not_run(lab: ControllersLab, client: Client) -> None:
    """The intruder can write to memcached here: keystone must be safe without the allow-list."""
    lists(lab, {"memcached_allowed": [f"{lab.net}.1"]})
    for name in SERVERS:
        lab.run(name, ["rm", "-f", TRACE])
    token = client.issue()
    for flags in (1, 0, 2):
        client.validate(token)
        assert plant(list(lab.addresses.values()), planted(f"id > {TRACE}"), flags) > 3
        for unused in range(6):
            client.validate(token)
            client.validate(client.issue())
    assert not any(lab.answers(name, ["test", "-e", TRACE]) for name in SERVERS)
    lists(lab)
    assert not connects(lab.addresses["metal1"], 11211)


def test_cache_is_used(lab: ControllersLab, client: Client) -> None:
    token = client.issue()
    client.validate(token)
    script = "import socket, sys; s = socket.create_connection((sys.argv[1], 11211)); s.sendall(b'stats\\r\\n'); print(s.recv(9999).decode())"

    def hits() -> int:
        texts = [lab.run(name, ["python3", "-c", script, lab.addresses[name]]) for name in SERVERS]
        return sum(int(line.split()[2]) for text in texts for line in text.splitlines() if line.startswith("STAT get_hits"))

    before = hits()
    for unused in range(6):
        client.validate(token)
    assert hits() > before


def test_new_member_is_allowed_before_it_joins(lab: ControllersLab) -> None:
    """A run limited to one member adds its new address to the lists of the others; after its removal it is removed there."""
    newcomer = f"{lab.net}.77"

    def known(table: str) -> list[str]:
        return [name for name in SERVERS if newcomer in lab.run(name, ["nft", "list", "table", "inet", f"footprint_{table}"])]

    more = {"metal3": {"footprint_addresses": [newcomer]}}
    assert lists(lab, hosts=more, limit="metal3", check=True).changed == 2
    assert known("galera") == []
    lists(lab, hosts=more, limit="metal3")
    assert known("galera") == known("memcached") == list(SERVERS)
    assert lists(lab, hosts=more).changed == 0
    lists(lab)
    assert known("galera") == []


def test_lists_are_active_after_a_power_loss(lab: ControllersLab) -> None:
    lab.lose_power("metal3")
    lab.power_on("metal3")
    began = time.monotonic()
    while time.monotonic() - began < 40:
        assert not any(connects(lab.addresses["metal3"], port, timeout=1) for port in (3306, 4567, 11211, 5000, 5671))
        time.sleep(0.5)
    eventually("metal3 serves its peers", lambda: knocks(lab, "metal1", "metal3", 11211) and knocks(lab, "metal1", "metal3", 4567), 240)


def test_lists_are_removed_when_disabled(lab: ControllersLab) -> None:
    without = {"footprint_allow_list": False}
    assert lists(lab, without, check=True).changed == len(SERVERS)
    assert not connects(lab.addresses["metal1"], 11211)
    lists(lab, without)
    assert connects(lab.addresses["metal1"], 11211)
    script = "nft list tables; ls -d /etc/systemd/system/*.d/* /etc/systemd/system/* /etc/reduced.footprint/* | grep allow-list; true"
    assert lab.run("metal1", ["bash", "-c", script]).strip() == ""
    assert lists(lab, without).changed == 0
    lists(lab)
    assert not connects(lab.addresses["metal1"], 11211)
