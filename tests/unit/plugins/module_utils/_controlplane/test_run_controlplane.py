# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All services of one host in one look."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_controller, io_listeners, io_plane
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_controlplane import Host, LookRequest, look
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import Wanted
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq import io_rabbitmq
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK
from tests.support.controlplane import balancer, galera, unit


class FakeHost:
    """Services that change from look to look."""

    def __init__(self, *moments: dict[str, t.Any]) -> None:
        self.moments = list(moments)
        self.now = moments[0]
        self.asked: list[str] = []

    def units(self, services: t.Sequence[str]) -> dict[str, t.Any]:
        self.now = self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]
        return {name: self.now.get(name, {}).get("units", {}) for name in services}

    def beside(self, name: str) -> dict[str, t.Any]:
        return {}

    def facts(self, name: str) -> t.Any:
        self.asked.append(name)
        return self.now[name]["facts"]


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_controller, "addresses", lambda: ["192.0.2.11"])


def looked(host: FakeHost, **options: t.Any) -> dict[str, t.Any]:
    times = iter(range(1000))
    return look(LookRequest(**options), host, sleep=lambda seconds: None, clock=lambda: next(times))


def test_all_installed_services_are_reported_by_default() -> None:
    found = looked(FakeHost({"galera": galera()}), services=())
    assert list(found["services"]) == ["galera"]
    assert (found["problems"], found["addresses"]) == ([], ["192.0.2.11"])


def test_missing_service_is_reported() -> None:
    assert looked(FakeHost({}), services=("memcached",))["problems"] == ["memcached: it is not installed"]


def test_one_who_does_not_run_is_not_asked() -> None:
    host = FakeHost({"galera": galera("failed")})
    assert looked(host, services=("galera",))["problems"] == ["galera: mariadb.service is failed"]
    assert host.asked == []


def test_it_waits_until_all_are_well() -> None:
    host = FakeHost({"galera": galera("activating")}, {"galera": galera(size=2)}, {"galera": galera()})
    found = looked(host, services=("galera",), wanted=Wanted({"galera": 3}), wait_timeout=60)
    assert (found["problems"], found["waited_seconds"]) == ([], 3)


def test_it_does_not_wait_for_ever() -> None:
    found = looked(FakeHost({"galera": galera(size=2)}), services=("galera",), wanted=Wanted({"galera": 3}), wait_timeout=10)
    assert found["problems"] == ["galera: its cluster has 2 of 3 members"]
    assert found["waited_seconds"] >= 10


def test_a_member_gets_the_time_to_reach_the_position() -> None:
    host = FakeHost({"galera": galera(seqno=90)}, {"galera": galera(seqno=95)}, {"galera": galera(seqno=100)})
    assert looked(host, services=(), wanted=Wanted(position=100), wait_timeout=60)["problems"] == []
    found = looked(FakeHost({"galera": galera(seqno=95)}), services=(), wanted=Wanted(position=100, cluster_uuid="u"))
    assert found["problems"][1] == "galera: it is at position 95, behind 100"
    assert found["problems"][0].endswith(", not to u")


@pytest.mark.parametrize("address, greets, answers, words", [("", False, None, []), ("192.0.2.20", True, True, []), ("192.0.2.20", False, False, [
    "galera: no database answers at the virtual address"])])  # fmt: skip
def test_the_database_is_asked_at_the_virtual_address(
    address: str, greets: bool, answers: bool | None, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_controller, "database_greets", lambda address, port: greets)
    found = looked(FakeHost({"galera": galera()}), services=(), virtual_address=address)
    assert (found["answers"], found["problems"]) == (answers, words)


def test_the_load_balancer_has_to_send_clients_there() -> None:
    wanted = Wanted(frontends=("c2",))
    host = FakeHost({"load_balancer": balancer(down=["c2"])}, {"load_balancer": balancer()})
    assert looked(host, services=("load_balancer",), wanted=wanted)["problems"] == ["load_balancer: it sends no clients of mysql to c2 (DOWN)"]
    host = FakeHost({"load_balancer": balancer(down=["c2"])}, {"load_balancer": balancer()})
    assert looked(host, services=("load_balancer",), wanted=wanted, wait_timeout=5)["problems"] == []


def test_a_witness_is_inspected_for_its_cluster_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_listeners, io_plane

    monkeypatch.setattr(io_plane, "witness_members", lambda cluster: ["10.0.0.1:4567", "10.0.0.2:4567"] if cluster == "home" else None)
    monkeypatch.setattr(io_plane, "units", lambda names: {name: unit() for name in names if name.startswith("garbd@")})
    ends = [(("10.0.0.3", 4567), ("10.0.0.1", 40000)), (("10.0.0.3", 40000), ("10.0.0.2", 22))]
    monkeypatch.setattr(io_listeners, "connections", lambda: ends)
    monkeypatch.setattr(io_listeners, "round_trips", lambda port, timeout: {"10.0.0.1": 0.05, "10.0.0.9": 9.0})
    assert list(Host(1, "home").units(("witness", "galera"))["witness"]) == ["garbd@home.service"]
    for cluster in ("", "work"):
        assert Host(1, cluster).units(("witness",))["witness"] == {}
    # in either direction, and at the port for votes only
    found = Host(1, "home").facts("witness")
    assert found and "about 14 rows per second" in found.pop("distance")
    assert found == {"members": ["10.0.0.1:4567", "10.0.0.2:4567"], "connected": ["10.0.0.1:4567"], "round_trip_seconds": 0.05}


@pytest.mark.parametrize("state, drained", [("not under maintenance", False), ("under maintenance", True), ("draining", True)])
def test_a_member_without_clients_is_noticed(state: str, drained: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"maintenance": {"rabbit@c1": state, "rabbit@c2": "not under maintenance"}}
    monkeypatch.setattr(io_plane, "rabbitmq", lambda timeout: seen)
    monkeypatch.setattr(io_rabbitmq, "rabbitmq_texts", lambda: ("", "# Managed\nNODENAME=rabbit@c1\nUSE_LONGNAME=false\n"))
    facts = Host(1).facts("rabbitmq")
    assert facts is not None and facts["drained"] == drained


def test_of_several_names_the_one_that_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_plane

    known = {"keystone.service": unit("inactive"), "apache2.service": unit()}
    monkeypatch.setattr(io_plane, "units", lambda names: known)
    assert list(Host(1).units(("keystone", "galera"))["keystone"]) == ["apache2.service"]
    known.pop("apache2.service")
    assert list(Host(1).units(("keystone",))["keystone"]) == ["keystone.service"]


@pytest.mark.parametrize(
    "own, address, port",
    [
        # nova_port: 8799
        ([("192.0.2.11", 8799)], "192.0.2.11", 8799),
        ([("127.0.0.1", 9000), ("192.0.2.11", 8774)], "192.0.2.11", 8774),
        # not visible: what listens at the default port
        ([], "192.0.2.11", 8774),
        # another service listens at the virtual address
        ([("192.0.2.20", 8774)], "192.0.2.11", 8774),
    ],
)
def test_an_api_is_asked_at_the_port_of_its_unit(own: t.Any, address: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, t.Any] = {}
    monkeypatch.setattr(io_plane, "units", lambda names: {name: {**unit(), "pid": number} for number, name in enumerate(names, 1)})
    monkeypatch.setattr(io_plane, "virtual_addresses", lambda: ["192.0.2.20"])
    monkeypatch.setattr(io_listeners, "listeners", lambda: [("192.0.2.11", 8774), ("192.0.2.11", 8775), ("192.0.2.11", 6080)])
    monkeypatch.setattr(io_listeners, "listeners_of", lambda pid: own if pid == OPENSTACK["nova"].units.index("nova-api.service") + 1 else [])
    monkeypatch.setattr(io_listeners, "http_problem", lambda *call: asked.setdefault(call[2], []).append(call[:2]) or "")
    host = Host(1)
    host.units(("nova",))
    assert host.facts("nova") == {"apis": {"nova": "", "nova_metadata": "", "novncproxy": ""}, "drained": []}
    assert asked["/healthcheck/database"][0] == (address, port)


@pytest.mark.parametrize(
    "state, since, stale",
    [
        ("active", "2026-11-27T12:00:00Z", False),
        ("active", "2026-11-25T12:00:00Z", True),
        # an update that was killed after it had stopped the unit: the packages are up to date, and it must be started
        ("inactive", None, True),
        ("failed", None, True),
        # it is joining
        ("activating", None, False),
    ],
)
def test_a_unit_does_not_run_the_installed_version(state: str, since: str | None, stale: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_plane, "package_of", lambda path: {"name": "mariadb-server", "version": "1", "installed": "2026-11-26T12:00:00Z"})
    own = {"mariadb.service": {**unit(), "state": state, "since": since, "path": "/usr/lib/systemd/system/mariadb.service"}}
    found = looked(FakeHost({"galera": {"units": own, "facts": None}}), services=("galera",), packages=True)
    assert found["services"]["galera"]["units"]["mariadb.service"]["stale"] == stale


def test_units_that_a_restart_has_drained(tmp_path: pathlib.Path) -> None:
    (tmp_path / "footprint-nova-api.drain").write_text("", "utf-8")
    assert io_listeners.drained(OPENSTACK["nova"].units, str(tmp_path)) == ["nova-api.service"]


@pytest.mark.parametrize("name", sorted(OPENSTACK))
def test_units_of_the_roles_have_the_package_of_their_service(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The roles write units that belong to no package, such as that of the dashboard."""

    def package_of(path: str) -> dict[str, t.Any] | None:
        return None if path.startswith("/etc/systemd/") else {"name": "new", "version": "1", "installed": "2026-11-26T12:00:00Z"}

    monkeypatch.setattr(io_plane, "package_of", package_of)
    own = {one: {**unit(), "since": "2026-11-25T12:00:00Z", "path": f"/usr/lib/systemd/system/{one}"} for one in OPENSTACK[name].units}
    for one in own:
        if one.startswith("footprint-") or name == "neutron" and one != "neutron-api.service":
            own[one]["path"] = f"/etc/systemd/system/{one}"
    found = looked(FakeHost({name: {"units": own, "facts": {"apis": {}}}}), services=(name,), packages=True)
    assert {(entry["package"] or {}).get("name") for entry in found["services"][name]["units"].values()} == {"new"}
    assert all(entry["stale"] for entry in found["services"][name]["units"].values())


@pytest.mark.parametrize("known", [{}, {"rabbitmq-server.service": {"sub": "start-pre", "invocation": "0f3a"}}])
def test_a_broker_is_asked_why_it_waits(known: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(io_plane, "waits", lambda one, timeout: asked.append((one, timeout)))
    host = Host(7)
    host.known = known
    assert host.beside("rabbitmq") == {"waits": None} and asked == [(known.get("rabbitmq-server.service", {}), 7)]
