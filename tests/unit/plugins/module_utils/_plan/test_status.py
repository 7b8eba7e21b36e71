# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The report on a footprint (C9, F9)."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._plan.status import build_status, read_results

SYNCED = {"wsrep_local_state_comment": "Synced", "wsrep_cluster_status": "Primary", "wsrep_ready": "ON", "wsrep_connected": "ON"}


def controller(place: str, *addresses: str) -> dict[str, t.Any]:
    return {
        "reachable": True,
        "place": place,
        "services": {"mariadb": "active", "haproxy": "active"},
        "database": dict(SYNCED),
        "addresses": list(addresses),
    }


HEALTHY: dict[str, t.Any] = {
    "servers": {
        "metal1": {"reachable": True, "vms": [{"name": "c1", "state": "running"}, {"name": "c2", "state": "running"}]},
        "metal2": {"reachable": True, "vms": [{"name": "c3", "state": "running"}]},
    },
    "controllers": {"c1": controller("metal1", "192.0.2.20"), "c2": controller("metal1"), "c3": controller("metal2")},
    "virtual_address": "192.0.2.20",
    "migrations": [{"name": "master", "state": "done", "phase": "commit", "downtime": 31.24, "host": "metal1"}],
}


def test_everything_stands() -> None:
    report = build_status(HEALTHY)
    assert report["ok"]
    assert report["ha_grade"] == "restart"
    assert report["virtual_address_holder"] == "c1"
    assert report["database_members"] == ["c1", "c2", "c3"]
    assert report["vms"] == {"running": 3, "all": 3}
    assert report["lines"][-1] == "ok   migration master: done, on metal1, 31.2 s of downtime"


def test_drift_and_a_due_restart_are_told_and_no_fault() -> None:
    vms = [{"name": "c3", "state": "running", "drift": [{"path": "vcpu"}, {"path": "memory"}], "pending": ["memory"]}]
    report = build_status(breakage("servers", "metal2", "vms", value=vms))
    assert report["ok"]
    assert "NOTE VM c3: changed by somebody else (vcpu, memory); spawn_vms puts it right" in report["lines"]
    assert "NOTE VM c3: waits for a restart (memory)" in report["lines"]


def breakage(*path: str, value: t.Any) -> dict[str, t.Any]:
    found = copy.deepcopy(HEALTHY)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return found


BROKEN = [
    (("servers", "metal2", "reachable"), False, "DOWN server metal2: does not answer"),
    (("servers", "metal2", "error"), "no libvirt", "DOWN server metal2: cannot tell its VMs: no libvirt"),
    (("servers", "metal2", "vms"), [{"name": "c3", "state": "shutoff"}], "DOWN server metal2: 0 of 1 VMs running (c3 is shutoff)"),
    (("controllers", "c2", "reachable"), False, "DOWN controller c2: does not answer (on metal1)"),
    (("controllers", "c2", "services"), {"mariadb": "failed"}, "DOWN controller c2: 0 of 1 services active (mariadb is failed)"),
    (("controllers", "c3", "database"), None, "DOWN database: 2 of 3 members synced (c1, c2)"),
    (("controllers", "c3", "database"), dict(SYNCED, wsrep_cluster_status="non-Primary"), "DOWN database: 2 of 3 members synced (c1, c2)"),
    (("controllers", "c3", "addresses"), ["192.0.2.20"], "DOWN virtual address: 192.0.2.20 is on c1 and c3"),
    (("controllers", "c1", "addresses"), [], "DOWN virtual address: 192.0.2.20 is on no controller"),
    (("migrations",), [{"name": "m", "state": "running", "phase": "precopy", "host": "metal1"}], "DOWN migration m: running in phase precopy on metal1"),
]


@pytest.mark.parametrize("path, value, line", BROKEN, ids=[row[2][:40] for row in BROKEN])
def test_each_breakage_is_told(path: tuple[str, ...], value: t.Any, line: str) -> None:
    report = build_status(breakage(*path, value=value))
    assert not report["ok"]
    assert line in report["lines"]


def test_an_empty_footprint_is_no_failure() -> None:
    report = build_status({})
    assert report["ok"]
    assert report["ha"] == []


def test_the_registered_results_are_read() -> None:
    hostvars: dict[str, t.Any] = {
        "metal1": {"status_vms": {"vms": [{"name": "c1", "state": "running"}]}, "status_migrations": {"migrations": [{"name": "master"}]}},
        "metal2": {"status_vms": {"unreachable": True, "msg": "no route"}},
        "metal3": {"status_vms": {"failed": True, "msg": "python3-libvirt is missing"}},
        "c1": {
            "vm_host": "metal1",
            "load_balancer_virtual_address": "192.0.2.20",
            "status_services": {"cmd": ["systemctl", "is-active", "--", "mariadb", "haproxy"], "stdout_lines": ["active", "failed"]},
            "status_database": {"stdout_lines": ["wsrep_ready\tON", "wsrep_cluster_name\ta\tb", "odd"]},
            "status_addresses": {"stdout": '[{"addr_info": [{"local": "192.0.2.20"}]}, {}]'},
        },
        "c2": {"status_services": {"unreachable": True}},
    }
    found = read_results(hostvars, ["metal1", "metal2", "metal3"], ["c1", "c2"])
    assert found["servers"]["metal1"] == {"reachable": True, "error": "", "vms": [{"name": "c1", "state": "running"}]}
    assert not found["servers"]["metal2"]["reachable"]
    assert found["servers"]["metal3"]["error"] == "python3-libvirt is missing"
    assert found["controllers"]["c1"] == {
        "reachable": True,
        "place": "metal1",
        "services": {"mariadb": "active", "haproxy": "failed"},
        "database": {"wsrep_ready": "ON", "wsrep_cluster_name": "a\tb"},
        "addresses": ["192.0.2.20"],
    }
    assert found["controllers"]["c2"]["place"] == "c2"
    assert not found["controllers"]["c2"]["reachable"]
    assert found["virtual_address"] == "192.0.2.20"
    assert found["migrations"] == [{"name": "master"}]


def test_a_moved_controller_stands_where_its_server_says_and_its_old_copy_is_no_fault() -> None:
    old = {"name": "c2", "state": "shutdown", "moved": "metal3"}
    hostvars: dict[str, t.Any] = {
        "metal1": {"status_vms": {"vms": [{"name": "c1", "state": "running", "moved": None}, old]}},
        "metal2": {"status_vms": {"vms": [{"name": "c3", "state": "running"}]}},
        "metal3": {"status_vms": {"vms": [{"name": "c2", "state": "running"}]}},
        # the inventory does not know yet
        **{name: {"vm_host": "metal2" if name == "c3" else "metal1"} for name in ("c1", "c2", "c3")},
    }
    report = build_status(read_results(hostvars, ["metal3", "metal2", "metal1"], ["c1", "c2", "c3"]))
    assert report["ha_grade"] == "quorum"
    assert "ok   server metal1: 1 of 1 VMs running" in report["lines"]
    assert "NOTE VM c2: moved to metal3; the old copy waits to be confirmed" in report["lines"]
    assert report["vms"] == {"running": 3, "all": 3}
