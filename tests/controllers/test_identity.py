# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Identity of three controllers behind TLS: keys rotated under load, certificates replaced, each controller lost in turn.

Clients continuously request and validate tokens. Their failures are recorded in tests/output/controllers/identity.json.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shlex
import ssl
import subprocess
import time
import typing as t

import pytest
from controllers_lab import ControllersLab, SERVERS, notes
from support import eventually, sql
from token_client import Client, Load, Refused, read_openrc

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates

pytestmark = pytest.mark.chapter
note = notes("identity")

ROLES = ("galera", "load_balancer", "memcached", "keystone")
PLAY = [{"hosts": "controller", "gather_facts": False, "any_errors_fatal": True, "roles": [f"reduced.footprint.{name}" for name in ROLES]}]
BEHIND = [f"reduced.footprint.{name}" for name in ROLES if name not in ("galera", "memcached")]
EDGE = [{"hosts": "controller", "gather_facts": False, "any_errors_fatal": True, "roles": BEHIND}]
REPOSITORIES = ("/etc/keystone/fernet-keys", "/etc/keystone/credential-keys")
KEPT: dict[str, t.Any] = {}


def secrets(lab: ControllersLab) -> pathlib.Path:
    return lab.inventory_path / ".secrets" / "lab"


def openrc(lab: ControllersLab) -> dict[str, str]:
    return read_openrc((secrets(lab) / "openrc-lab.txt").read_text("utf-8"))


def members(lab: ControllersLab) -> list[Client]:
    """Query each keystone directly, without the load balancer."""
    return [Client(openrc(lab), f"http://{lab.addresses[name]}:5000/v3", timeout=20) for name in SERVERS]


def deploy(lab: ControllersLab, plays: t.Any = None, **options: t.Any) -> t.Any:
    done = lab.play(PLAY if plays is None else plays, **options)
    assert done.rc == 0, done.output[-6000:]
    return done


def keys(lab: ControllersLab, repository: str = REPOSITORIES[0]) -> dict[str, dict[int, str]]:
    """Map members to numbers of keys to checksums."""
    found = {}
    for name in SERVERS:
        lines = lab.ssh(name, f"cd {repository} && sha256sum [0-9]*").split("\n")
        found[name] = {int(line.split()[1]): line.split()[0] for line in lines if line}
    return found


def level(lab: ControllersLab) -> bool:
    return all(len({tuple(sorted(found.items())) for found in keys(lab, path).values()}) == 1 for path in REPOSITORIES)


def openstack(lab: ControllersLab, host: str, *words: str) -> t.Any:
    """Run the openstack client on a machine with the operator's variables; the password is passed on standard input."""
    variables = {**openrc(lab), "OS_CACERT": "/root/lab-ca.pem"}
    lab.ssh(host, "cat > /root/lab-ca.pem", stdin=(secrets(lab) / "tls" / "ca.txt").read_text("ascii"))
    lines = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return json.loads(lab.ssh(host, "sh", stdin=f"{lines}openstack {shlex.join(words)} -f json\n"))


def served(lab: ControllersLab) -> str:
    """Return the fingerprint of the certificate presented to clients."""
    pem = ssl.get_server_certificate((lab.virtual_address, 5000))
    return io_certificates.x509.load_pem_x509_certificate(pem.encode("ascii")).fingerprint(io_certificates.hashes.SHA256()).hex()


def test_second_deployment_changes_nothing(lab: ControllersLab) -> None:
    began = time.monotonic()
    deploy(lab)
    first = time.monotonic() - began
    began = time.monotonic()
    again = deploy(lab)
    assert again.changed == 0, again.changed_tasks()
    note("deployed", seconds_first=round(first, 1), seconds_again=round(time.monotonic() - began, 1))
    checked = lab.play(PLAY, check=True)
    assert checked.rc == 0 and checked.changed == 0, checked.changed_tasks() or checked.output[-4000:]


def test_secrets_are_not_disclosed(lab: ControllersLab) -> None:
    password = openrc(lab)["OS_PASSWORD"]
    output = lab.play(EDGE, "-vvv").output
    database = (secrets(lab) / "keystone" / "database.txt").read_text("utf-8").split()[0]
    inside = lab.ssh(SERVERS[0], "cat /etc/keystone/fernet-keys/* /etc/keystone/credential-keys/*")
    private = (secrets(lab) / "tls" / "certificate-key.txt").read_text("ascii").splitlines()[1]
    for secret in [password, database, private, *[inside[at : at + 44] for at in range(0, len(inside) - 43, 44)]]:
        assert len(secret) > 20 and secret not in output, "a secret was printed by -vvv"
    for path in secrets(lab).rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    for name in SERVERS:
        modes = lab.ssh(name, "stat -c '%a %U %n' /etc/keystone/*-keys /etc/keystone/*-keys/* /etc/haproxy/footprint-edge.pem /etc/keystone/keystone.conf")
        for line in modes.splitlines():
            mode, owner, path = line.split()
            wanted = ("700", "keystone") if path.endswith("-keys") else ("600", "root") if path.endswith(".pem") else ("640", "root")
            wanted = ("600", "keystone") if "-keys/" in path else wanted
            assert (mode, owner) == wanted, line


def test_listeners_are_bound_to_the_required_addresses(lab: ControllersLab) -> None:
    for name in SERVERS:
        lines = [line.split()[3] for line in lab.ssh(name, "ss -Hltn").splitlines()]
        assert {line for line in lines if line.endswith(":5000")} == {f"{lab.addresses[name]}:5000", f"{lab.virtual_address}:5000"}
        assert {line for line in lines if line.endswith(":8404")} == {"127.0.0.1:8404"}


def test_clients_must_use_tls(lab: ControllersLab) -> None:
    place = f"{lab.virtual_address}:5000/v3"

    def curl(*words: str) -> subprocess.CompletedProcess[str]:
        argv = ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", "15", *words]
        return subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)

    authority = str(secrets(lab) / "tls" / "ca.txt")
    good = curl("--cacert", authority, f"https://{place}")
    assert good.returncode == 0 and json.loads(good.stdout)["version"]["links"][0]["href"].startswith("https://")
    assert curl(f"https://{place}").returncode == 60
    plain = curl(f"http://{place}")
    assert plain.returncode != 0 and "version" not in plain.stdout
    assert curl("--cacert", authority, "--tls-max", "1.1", f"https://{place}").returncode != 0
    assert curl("--cacert", authority, "--tls-max", "1.2", f"https://{place}").returncode == 0


def test_operator_gets_a_token(lab: ControllersLab) -> None:
    assert len(openstack(lab, SERVERS[1], "token", "issue")["id"]) > 100
    urls = {(entry["Interface"], entry["URL"]) for entry in openstack(lab, SERVERS[1], "endpoint", "list")}
    assert urls == {(interface, f"https://{lab.virtual_address}:5000/v3") for interface in ("public", "internal", "admin")}


def test_database_connections_use_tls(lab: ControllersLab) -> None:
    """Queries of keystone are not readable in the traffic; the plain text between HAProxy and keystone shows that the capture works."""
    canary = "canary-of-a-project-0123456789"
    with lab.capture(canary) as capture:
        assert openstack(lab, "metal2", "project", "create", "--description", canary, f"canary{time.time_ns()}")["description"] == canary
    assert capture.bytes[3306] > 1000
    assert capture.seen & {3306, 4567, 5000} == {5000}, capture.seen
    password = (secrets(lab) / "keystone" / "database.txt").read_text("utf-8").strip()
    with pytest.raises(Exception, match="Access denied"):
        sql("SELECT 1", host=lab.virtual_address, user="keystone", password=password, database="keystone")


def test_keys_are_rotated_under_load(lab: ControllersLab) -> None:
    old, before = members(lab)[0].issue(), keys(lab)
    secret = openstack(lab, SERVERS[1], "credential", "create", "--type", "note", "admin", "kept")["id"]
    clients = [*members(lab), Client(openrc(lab), timeout=20)]
    with Load(clients) as load:
        eventually("tokens are being issued", lambda: len(load.done) > 3, 60)
        for _turn in range(2):
            done = lab.play("rotate_keys")
            assert done.rc == 0, done.output[-4000:]
            assert done.changed > 0
    assert not load.failures, load.failures[:5]
    assert level(lab)
    after = keys(lab)[SERVERS[0]]
    assert max(after) == max(before[SERVERS[0]]) + 2 and after[max(before[SERVERS[0]]) + 1] == before[SERVERS[0]][0]
    for client in clients:
        client.validate(old)
    # credentials would be unreadable now, had they not been encrypted again with a current key
    blobs = {entry["ID"]: entry["Data"] for entry in openstack(lab, SERVERS[2], "credential", "list")}
    assert blobs[secret] == "kept"
    assert len(keys(lab, REPOSITORIES[1])[SERVERS[0]]) == 3
    note("rotated", tokens=len(load.done), failures=len(load.failures))
    KEPT["token"] = old


@pytest.mark.parametrize("at", ["Change the keys of the leader", "Read the keys of the leader", "Copy the keys to the other members"])
def test_killed_rotation_is_completed_by_the_next_run(lab: ControllersLab, at: str) -> None:
    before = max(keys(lab)[SERVERS[0]])
    with Load([*members(lab), Client(openrc(lab), timeout=20)], threads=2) as load:
        killed = lab.play("rotate_keys", "-e", "keystone_rotate=fernet", kill_at=at, kill_delay=0.7)
        assert killed.rc < 0, killed.output[-2000:]
        done = lab.play("rotate_keys", "-e", "keystone_rotate=fernet")
        assert done.rc == 0, done.output[-4000:]
    assert not load.failures, load.failures[:5]
    assert level(lab) and max(keys(lab)[SERVERS[0]]) - before in (1, 2)
    for client in members(lab):
        client.validate(KEPT["token"])


def test_lost_keys_of_a_member_are_restored(lab: ControllersLab) -> None:
    lab.ssh(SERVERS[0], "rm -r /etc/keystone/fernet-keys")
    before = lab.ssh(SERVERS[1], "sha256sum /etc/keystone/fernet-keys/[0-9]*")
    lab.role_succeeds("keystone")
    assert lab.ssh(SERVERS[0], "sha256sum /etc/keystone/fernet-keys/[0-9]*") == before
    members(lab)[0].validate(KEPT["token"])


def test_differing_keys_of_a_member_are_not_overwritten(lab: ControllersLab) -> None:
    lab.ssh(SERVERS[2], "mv /etc/keystone/fernet-keys /etc/keystone/aside")
    lab.ssh(SERVERS[2], "keystone-manage fernet_setup --keystone-user keystone --keystone-group keystone")
    refused = lab.role("keystone")
    assert refused.rc != 0 and "keystone_keys_from" in refused.output and f"{SERVERS[2]} encrypts" in refused.output
    deploy(lab, [{**EDGE[0], "roles": ["reduced.footprint.keystone"]}], variables={"keystone_keys_from": SERVERS[0]})
    assert level(lab)
    lab.ssh(SERVERS[2], "rm -r /etc/keystone/aside")


def test_certificate_is_replaced_without_failed_requests(lab: ControllersLab, tmp_path: pathlib.Path) -> None:
    authority = io_certificates.make_authority("an operator's own", time.time(), 100)
    pair = io_certificates.make_certificate(authority, "given", [lab.virtual_address], time.time(), 50)
    for name, text in [("ca", authority.certificate), ("crt", pair.certificate), ("key", pair.key)]:
        (tmp_path / name).write_text(text, "ascii")
        (tmp_path / name).chmod(0o600)
    own, both = openrc(lab), tmp_path / "both"
    both.write_text((secrets(lab) / "tls" / "ca.txt").read_text("ascii") + authority.certificate, "ascii")
    before = served(lab)
    given = {"load_balancer_certificate": str(tmp_path / "crt"), "load_balancer_private_key": str(tmp_path / "key"), "keystone_ca": str(tmp_path / "ca")}
    with Load([Client({**own, "OS_CACERT": str(both)}, timeout=20)], threads=2) as load:
        deploy(lab, EDGE, variables=given)
        assert served(lab) == io_certificates.read(pair, "certificate", "key").fingerprint != before
        assert deploy(lab, EDGE, variables=given).changed == 0
        deploy(lab, EDGE)
        assert served(lab) == before
    assert not load.failures, load.failures[:5]
    note("certificate replaced", tokens=len(load.done), failures=0)
    wrong = {**given, "load_balancer_private_key": str(secrets(lab) / "tls" / "certificate-key.txt")}
    refused = lab.role("load_balancer", variables=wrong)
    assert refused.rc != 0 and "does not match the certificate" in refused.output and refused.changed == 0
    assert served(lab) == before


@contextlib.contextmanager
def other_host_with(lab: ControllersLab, address: str) -> t.Iterator[None]:
    """Make the host of the lab answer for an address."""
    where = [f"{address}/32", "dev", lab.settings.bridge]
    subprocess.run(["ip", "address", "add", *where], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", "address", "del", *where], check=True)


def test_virtual_address_in_use_by_another_host_is_refused(lab: ControllersLab) -> None:
    taken = f"{lab.net}.30"
    with other_host_with(lab, taken):
        refused = lab.role("load_balancer", variables={"load_balancer_virtual_address": taken})
    assert refused.rc != 0 and f"{taken} is in use" in refused.output and refused.changed == 0
    for name, more, words in [
        ("group", {"load_balancer_frontends": [{"name": "x", "port": 99, "group": "absent"}]}, "absent, which has 0"),
        ("address", {"load_balancer_frontends": [{"name": "x", "port": 99, "virtual_address": "public"}]}, "public"),
        ("twice", {"load_balancer_frontends": [{"name": "x", "port": 99}, {"name": "y", "port": 99}]}, "same"),
    ]:
        refused = lab.role("load_balancer", variables=more)
        assert refused.rc != 0 and words in refused.output and refused.changed == 0, name


def test_public_endpoint_on_a_second_address(lab: ControllersLab) -> None:
    public = f"{lab.net}.31"
    backend = {"mode": "http", "tls": True, "check_uri": "/healthcheck"}
    variables = {
        "load_balancer_virtual_addresses": [{"name": "public", "address": public}],
        "load_balancer_frontends": [
            {"name": "mysql", "port": 3306, "single": True, "check_port": 9200},
            {"name": "keystone", "port": 5000, **backend},
            {"name": "keystone_public", "port": 5000, "virtual_address": "public", **backend},
        ],
        "keystone_public_url": f"https://{public}:5000/v3",
        "keystone_internal_url": f"https://{lab.virtual_address}:5000/v3",
    }
    deploy(lab, EDGE, variables=variables)
    assert deploy(lab, EDGE, variables=variables).changed == 0
    Client(openrc(lab), f"https://{public}:5000/v3", timeout=20).issue()
    Client(openrc(lab), f"https://{lab.virtual_address}:5000/v3", timeout=20).issue()
    assert {entry["URL"] for entry in openstack(lab, SERVERS[1], "endpoint", "list") if entry["Interface"] == "public"} == {f"https://{public}:5000/v3"}
    deploy(lab, EDGE)
    with pytest.raises((OSError, Refused)):
        Client(openrc(lab), f"https://{public}:5000/v3", timeout=3).issue()


def test_restarts_one_by_one_lose_no_request(lab: ControllersLab) -> None:
    """The steps of a rolling restart lose no request."""

    def tasks(role: str, name: str) -> dict[str, t.Any]:
        return {"ansible.builtin.include_role": {"name": f"reduced.footprint.{role}", "tasks_from": name}}

    plays = [{"hosts": "controller", "gather_facts": False, "serial": 1, "any_errors_fatal": True,
              "tasks": [tasks("keystone", "gate"), tasks("keystone", "restart"), tasks("keystone", "gate")]}]
    with Load([Client(openrc(lab), timeout=20)], threads=2) as load:
        deploy(lab, plays)
    assert not load.failures, load.failures[:5]
    note("keystone restarted one by one", tokens=len(load.done), failures=0)
    deploy(lab, [{**plays[0], "tasks": [tasks("load_balancer", "gate"), tasks("load_balancer", "restart"), tasks("load_balancer", "gate")]}])
    # the previous holder of the address was connected to itself through it
    for client in members(lab) * 8:
        client.issue()
    lab.run(SERVERS[0], ["systemctl", "stop", "keystone"])
    refused = lab.play([{**plays[0], "serial": 3, "tasks": [tasks("keystone", "gate")]}], limit=SERVERS[1])
    lab.run(SERVERS[0], ["systemctl", "start", "keystone"])
    assert refused.rc != 0 and refused.changed == 0


@pytest.mark.parametrize("name", SERVERS)
def test_power_loss_of_each_controller_is_tolerated(lab: ControllersLab, name: str) -> None:
    others = [other for other in SERVERS if other != name]
    holder = lab.holder()
    old = Client(openrc(lab), timeout=20).issue()
    with Load([Client(openrc(lab), timeout=3)], threads=2) as load:
        eventually("tokens are being issued", lambda: len(load.done) > 3, 60)
        lab.lose_power(name)
        before = len(load.done)
        eventually("tokens are issued again", lambda: len(load.done) > before + 10, 120)
    try:
        note(f"{name} dies", held_the_address=holder == name, largest_gap_seconds=round(load.largest_gap(), 1), failures=len(load.failures))
        assert load.largest_gap() < 60
        assert len(openstack(lab, others[0], "token", "issue")["id"]) > 100
        Client(openrc(lab), timeout=20).validate(old)
    finally:
        lab.power_on(name)
    eventually(f"{name} serves again", lambda: lab.answers(name, ["curl", "-fsS", f"http://{lab.addresses[name]}:5000/healthcheck"])
               or lab.answers(name, ["python3", "-c", f"import urllib.request as u; u.urlopen('http://{lab.addresses[name]}:5000/healthcheck')"]), 180)
    wait = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'"
    eventually("the database has all members", lambda: "\t3" in lab.run(name, ["mariadb", "-BN", "-e", wait], check=False), 300)


def test_last_deployment_changes_nothing(lab: ControllersLab) -> None:
    again = deploy(lab)
    assert again.changed == 0, again.changed_tasks()
