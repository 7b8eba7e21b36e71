# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Operation of the control plane: the status report, rolling restarts while a client writes, and runs that deploy only what differs."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

import pytest
from controllers_lab import SERVERS, ControllersLab
from rflab.plays import PlayRun
from support import eventually

pytestmark = pytest.mark.chapter

COMPONENTS = ["galera", "load_balancer"]
DEPLOYED = {"deploy_controllers_components": COMPONENTS}
UPDATED = {"rolling_restart_components": COMPONENTS, "rolling_restart_action": "update"}
#: A newer HAProxy: the package of the distribution with a higher version, in an archive on the server.
NEWER = """
set -eu
here=/var/lib/footprint-newer
rm -rf "$here" && mkdir -p "$here" && cd "$here"
apt-get -q update && apt-get -q download haproxy
dpkg-deb -R haproxy_*.deb tree && rm haproxy_*.deb
sed -i 's/^Version: .*/&+footprint1/' tree/DEBIAN/control
dpkg-deb -b tree haproxy.deb
{ dpkg-deb -f haproxy.deb; echo "Filename: ./haproxy.deb"; echo "Size: $(stat -c %s haproxy.deb)"
  echo "SHA256: $(sha256sum haproxy.deb | cut -d ' ' -f 1)"; } > Packages
echo "deb [trusted=yes] file:$here ./" > /etc/apt/sources.list.d/footprint-newer.list
"""
#: All services that a deployment compares at once below OpenStack.
COMPARED: dict[str, t.Any] = {
    "footprint_components": ["galera", "load_balancer", "rabbitmq", "memcached"],
    "load_balancer_frontends": [
        {"name": "mysql", "port": 3306, "single": True, "check_port": 9200},
        {"name": "check", "port": 9443, "backend_port": 9200, "mode": "http", "tls": True, "check_uri": "/"},
    ],
}
#: A task of each role that only its deployment runs.
DEPLOYS = {
    "galera": "Gather the state of every member",
    "rabbitmq": "Decide which member starts the cluster and which members join",
    "memcached": "Check the member and its settings",
    "load_balancer": "Wait until every frontend answers at its virtual address",
}
NAME = "metal2"
GALERA, RABBITMQ = "galera : Write the server configuration and enable the unit", "rabbitmq : Write the settings and enable the units"
MEMCACHED, BALANCER = "memcached : Enable and start the service", "load_balancer : Configure HAProxy and keepalived"
RESTARTED = {f"galera : Join or restart {NAME}", f"rabbitmq : Join or restart {NAME}", "memcached : Restart changed members one by one"}
#: What differs → the commands that make it so, and the tasks that correct it.
PLANTED: dict[str, tuple[str, set[str]]] = {
    "files": (
        "for file in /etc/mysql/mariadb.conf.d/70-footprint-galera.cnf /etc/rabbitmq/rabbitmq.conf /etc/systemd/system/memcached.service.d/footprint.conf"
        " /etc/haproxy/haproxy.cfg; do echo '# changed' >> $file || exit 1; done"
        " && rm /etc/reduced.footprint/galera/certificate.pem /etc/rabbitmq/footprint-tls/certificate.pem /etc/haproxy/footprint-edge.pem",
        {"galera : Write the TLS key, certificate and CA", GALERA, RABBITMQ, MEMCACHED, BALANCER, *RESTARTED},
    ),
    "data": (
        "mariadb -e \"DROP USER app@'%'\" && rabbitmqctl -q change_password footprint another && rabbitmqctl -q clear_policy -p rpc transient",
        {"galera : Create databases and users", "rabbitmq : Create virtual hosts, users, policies and queues"},
    ),
    "units": (
        "systemctl stop footprint-galera-guard memcached keepalived && systemctl disable mariadb rabbitmq-server memcached haproxy",
        {"galera : Start the health check and the guard", GALERA, RABBITMQ, MEMCACHED, BALANCER},
    ),
    "packages": ("DEBIAN_FRONTEND=noninteractive apt-get -y -q remove memcached", {"packages : Install the packages"}),
}
BROKEN = "/run/systemd/system/haproxy.service.d/broken.conf"


@pytest.fixture(scope="module", autouse=True)
def inventory(lab: ControllersLab) -> t.Iterator[t.Callable[[], object]]:
    """Limit the footprint to the components of this module, unless an earlier module has deployed all of them."""
    there = any(lab.answers(name, ["systemctl", "--quiet", "is-active", "keystone.service"]) for name in SERVERS)
    variables = {} if there else {"footprint_components": COMPONENTS}
    lab.write_inventory(variables)
    yield lambda: lab.write_inventory(variables)
    lab.write_inventory()


@pytest.fixture(autouse=True)
def writer(lab: ControllersLab, request: pytest.FixtureRequest) -> None:
    """Start the client that writes, except in the first test."""
    if request.node.name != "test_healthy_control_plane_is_reported" and not lab.writing(1):
        lab.start_writing()


def status(lab: ControllersLab, *arguments: str) -> tuple[PlayRun, dict[str, t.Any]]:
    """Run the status playbook; return the run and the report."""
    path = lab.state / "status.json"
    path.unlink(missing_ok=True)
    done = lab.play("status", "-e", f"status_report_file={path}", *arguments)
    assert path.exists(), done.output[-3000:]
    return done, json.loads(path.read_text(encoding="utf-8"))


def settled(lab: ControllersLab) -> dict[str, t.Any]:
    """Wait until the control plane is healthy; return the report."""
    found: dict[str, t.Any] = {}

    def healthy() -> bool:
        found.update(status(lab)[1])
        return found["state"] == "ok"

    eventually("the control plane is healthy", healthy, 120)
    return found


def starts(lab: ControllersLab, *units: str) -> dict[str, list[str]]:
    """Return the systemd invocation ids of the units, by host."""
    argv = ["systemctl", "show", "--property=InvocationID", "--value", "--", *units]
    return {name: lab.run(name, argv).split() for name in SERVERS}


def test_healthy_control_plane_is_reported(lab: ControllersLab) -> None:
    done = lab.play("deploy_controllers", variables=DEPLOYED)
    assert done.rc == 0, done.output[-5000:]
    lab.start_writing()
    report = settled(lab)
    assert report["virtual_address_holder"] in SERVERS
    assert report["writer"] in SERVERS
    assert sorted(report["database_members"]) == sorted(SERVERS)
    assert {name: (one["up"], one["all"]) for name, one in report["services"].items()}["galera"] == (3, 3)
    assert f"mysql://{lab.virtual_address}:3306" in report["links"]


def test_stopped_service_is_reported_and_the_others_serve(lab: ControllersLab) -> None:
    [name] = [name for name in SERVERS if name not in (status(lab)[1]["writer"], lab.holder())][:1]
    lab.run(name, ["systemctl", "stop", "mariadb.service"])
    done, report = status(lab)
    assert done.rc != 0
    assert (report["state"], report["services"]["galera"]["state"]) == ("degraded", "degraded")
    assert report["services"]["galera"]["members"][name]["state"] == "down"
    assert f"DEGRADED galera: 2 of 3 members; {name}: mariadb.service is inactive" in done.output, done.output[-3000:]
    assert lab.writing()
    refused = lab.play("rolling_restart", variables={"rolling_restart_components": "galera"})
    assert refused.rc != 0
    assert f"Nothing was changed: galera is degraded: {name}: mariadb.service is inactive" in refused.output
    lab.run(name, ["systemctl", "start", "mariadb.service"])
    settled(lab)


def test_load_balancer_in_fault_is_reported(lab: ControllersLab) -> None:
    name = next(name for name in SERVERS if name != lab.holder())
    config = "/etc/keepalived/keepalived.conf"
    reload = ["systemctl", "reload", "keepalived.service"]
    lab.run(name, ["cp", config, f"{config}.kept"])
    # the tracked script fails, so the VRRP instance is in FAULT while its unit and HAProxy are active
    lab.run(name, ["sed", "-i", 's|^    script .*|    script "/bin/false"|', config])
    lab.run(name, reload)
    why = ["its VRRP instance footprint is in FAULT and cannot take over the virtual address (check journalctl -u keepalived)"]
    try:
        eventually("the fault is reported", lambda: status(lab)[1]["services"]["load_balancer"]["members"][name] == {"state": "down", "why": why}, 60)
        done, report = status(lab)
        assert done.rc != 0
        assert (report["services"]["load_balancer"]["state"], report["services"]["load_balancer"]["up"]) == ("degraded", 2)
        refused = lab.play("rolling_restart", variables={"rolling_restart_components": "load_balancer"})
        assert refused.rc != 0 and f"load_balancer is degraded: {name}: {why[0]}" in refused.output, refused.output[-3000:]
    finally:
        lab.run(name, ["mv", f"{config}.kept", config])
        lab.run(name, reload)
    settled(lab)


def test_hanging_host_does_not_delay_the_report(lab: ControllersLab) -> None:
    name = next(name for name in SERVERS if name not in (status(lab)[1]["writer"], lab.holder()))
    # the kernel accepts connections but sshd does not answer; a timer resumes it, because no login is possible meanwhile
    thaw = ["systemctl", "kill", "--kill-who=main", "--signal=CONT", "ssh.service"]
    lab.run(name, ["systemd-run", "--on-active=90", "--timer-property=AccuracySec=1s", *thaw])
    lab.run(name, ["systemctl", "kill", "--kill-who=main", "--signal=STOP", "ssh.service"])
    done, report = status(lab)
    assert done.rc != 0
    assert f"DOWN controller {name}: does not answer (on {name})" in report["lines"]
    assert (report["services"]["galera"]["state"], report["services"]["galera"]["up"]) == ("degraded", 2)
    eventually("the host answers again", lambda: lab.answers(name, ["true"]), 120)
    settled(lab)


def test_service_without_a_majority_is_down(lab: ControllersLab) -> None:
    holder = lab.holder()
    for name in SERVERS[:2]:
        lab.run(name, ["systemctl", "kill", "--signal=STOP", "mariadb.service"])
    try:
        done, report = status(lab)
    finally:
        for name in SERVERS[:2]:
            lab.run(name, ["systemctl", "kill", "--signal=CONT", "mariadb.service"])
    assert done.rc != 0
    assert (report["state"], report["services"]["galera"]["state"]) == ("down", "down")
    assert report["services"]["galera"]["members"][SERVERS[0]]["why"] == ["its server does not answer"]
    assert holder in SERVERS
    settled(lab)


def test_check_mode_shows_the_plan_and_changes_nothing(lab: ControllersLab) -> None:
    before = starts(lab, "mariadb.service", "haproxy.service", "keepalived.service")
    done = lab.play("rolling_restart", variables={"rolling_restart_components": "galera"}, check=True)
    assert done.rc == 0, done.output[-3000:]
    assert re.search(r'"  3\. galera on (\w+) \(in use: hands over first\)"', done.output), done.output[-3000:]
    assert starts(lab, "mariadb.service", "haproxy.service", "keepalived.service") == before


def test_invalid_input_is_refused(lab: ControllersLab, inventory: t.Callable[[], object]) -> None:
    for variables, words in (
        ({"rolling_restart_components": "galera,maria"}, "components[1]: unknown component 'maria'. Use some of galera"),
        ({"rolling_restart_action": "reboot"}, "value of rolling_restart_action must be one of: restart, update, got: reboot"),
        ({"rolling_restart_componets": "galera"}, "Did you mean rolling_restart_components?"),
    ):
        done = lab.play("rolling_restart", variables=variables)
        assert done.rc != 0
        assert words in done.output, done.output[-3000:]
    try:
        # no component is installed on the master
        lab.write_inventory(groups={"controller": ["laptop"]}, hosts={"laptop": {"ansible_host": lab.master}})
        done = lab.play("rolling_restart", variables={"rolling_restart_components": ["keystone"]})
        assert done.rc != 0
        assert "keystone is not installed on any host" in done.output, done.output[-3000:]
    finally:
        inventory()


def test_database_is_restarted_member_by_member_while_a_client_writes(lab: ControllersLab) -> None:
    before = starts(lab, "mariadb.service")
    first = len(lab.acknowledged())
    done = lab.play("rolling_restart", variables={"rolling_restart_components": "galera"})
    assert done.rc == 0, done.output[-5000:]
    assert "3 of 3 done, all members healthy" in done.output
    after = starts(lab, "mariadb.service")
    assert all(before[name] != after[name] for name in SERVERS)
    assert len(lab.acknowledged()) > first + 20
    lab.promises_kept()
    written = lab.written()
    assert written["rows_lost"] == 0, written
    print(f"rolling restart of the database: {done.seconds:.0f} s, largest gap so far {written['largest_gap_seconds']} s")


def test_killed_rolling_restart_continues_and_repeats_nothing(lab: ControllersLab) -> None:
    before = starts(lab, "mariadb.service")
    killed = lab.play("rolling_restart", variables={"rolling_restart_components": "galera"}, kill_at="TASK [reduced.footprint.galera : Start the member again]")
    assert killed.rc < 0, killed.output[-3000:]
    half = starts(lab, "mariadb.service")
    assert [name for name in SERVERS if half[name] == before[name]], "killed before all were restarted"
    other = lab.play("rolling_restart", variables={"rolling_restart_components": "load_balancer"})
    assert other.rc != 0
    assert "is unfinished. Finish it with -e rolling_restart_action=restart -e rolling_restart_components=galera" in other.output
    done = lab.play("rolling_restart", variables={"rolling_restart_components": "galera"})
    assert done.rc == 0, done.output[-5000:]
    after = starts(lab, "mariadb.service")
    assert all(before[name] != after[name] for name in SERVERS)
    lab.promises_kept()
    assert not list(lab.inventory_path.glob(".rolling-*"))


def test_load_balancers_are_restarted(lab: ControllersLab) -> None:
    before = starts(lab, "haproxy.service", "keepalived.service")
    done = lab.play("rolling_restart", variables={"rolling_restart_components": ["load_balancer"]})
    assert done.rc == 0, done.output[-5000:]
    after = starts(lab, "haproxy.service", "keepalived.service")
    assert all(old != new for name in SERVERS for old, new in zip(before[name], after[name]))
    eventually("rows are written", lab.writing, 30)
    lab.promises_kept()


def test_update_without_newer_packages_restarts_nothing(lab: ControllersLab) -> None:
    before = starts(lab, "mariadb.service")
    done = lab.play("rolling_restart", variables={"rolling_restart_components": "galera", "rolling_restart_action": "update", "rolling_restart_backup": False})
    assert done.rc == 0, done.output[-5000:]
    assert done.changed == 0, done.changed_tasks()
    assert starts(lab, "mariadb.service") == before


def test_newer_packages_are_installed_member_by_member_after_a_backup(lab: ControllersLab, tmp_path: pathlib.Path) -> None:
    databases, before = starts(lab, "mariadb.service"), starts(lab, "haproxy.service")
    try:
        for name in SERVERS:
            lab.run(name, ["sh"], stdin=NEWER)
        done = lab.play("rolling_restart", variables={**UPDATED, "galera_backup_directory": str(tmp_path)})
        assert done.rc == 0, done.output[-5000:]
        assert list(tmp_path.iterdir()), "no backup"
        versions = {lab.run(name, ["dpkg-query", "-W", "-f", "${Version}", "haproxy"]).endswith("+footprint1") for name in SERVERS}
        assert versions == {True}
        after = starts(lab, "haproxy.service")
        assert all(before[name] != after[name] for name in SERVERS)
        assert starts(lab, "mariadb.service") == databases
        # the backup comes first
        assert 0 < done.output.index("PLAY [Back up the database]") < done.output.index("TASK [Update the member]"), done.output[-5000:]
        again = lab.play("rolling_restart", variables={**UPDATED, "rolling_restart_backup": False})
        assert (again.rc, again.changed) == (0, 0), again.changed_tasks()
    finally:
        for name in SERVERS:
            lab.run(name, ["rm", "-rf", "/var/lib/footprint-newer", "/etc/apt/sources.list.d/footprint-newer.list"])
    lab.promises_kept()


def test_rollout_stops_at_a_failure_and_continues_after_the_fix(lab: ControllersLab) -> None:
    before = starts(lab, "haproxy.service")
    holder = lab.holder()
    victim = [name for name in SERVERS if name != holder][-1]
    lab.run(victim, ["mkdir", "-p", BROKEN.rpartition("/")[0]])
    lab.run(victim, ["tee", BROKEN], stdin="[Service]\nExecStartPre=/bin/false\n")
    lab.run(victim, ["systemctl", "daemon-reload"])
    try:
        stopped = lab.play("rolling_restart", variables={"rolling_restart_components": "load_balancer", "rolling_restart_timeout": 20})
    finally:
        lab.run(victim, ["rm", BROKEN])
        lab.run(victim, ["systemctl", "daemon-reload"])
    assert stopped.rc != 0 and victim in stopped.output.rpartition("TASK [")[2], stopped.output[-3000:]
    half = starts(lab, "haproxy.service")
    assert half[holder] == before[holder], "the member in use was not restarted last"
    assert lab.writing()
    done = lab.play("rolling_restart", variables={"rolling_restart_components": "load_balancer"})
    assert done.rc == 0, done.output[-5000:]
    after = starts(lab, "haproxy.service")
    assert all(before[name] != after[name] for name in SERVERS)
    lab.promises_kept()


def test_deployment_without_a_change_restarts_nothing(lab: ControllersLab) -> None:
    before = starts(lab, "mariadb.service", "haproxy.service", "keepalived.service")
    done = lab.play("deploy_controllers", variables=DEPLOYED)
    assert (done.rc, done.changed) == (0, 0), done.changed_tasks()
    assert starts(lab, "mariadb.service", "haproxy.service", "keepalived.service") == before


@pytest.fixture(name="deploy", scope="module")
def fixture_deploy(lab: ControllersLab) -> t.Callable[..., PlayRun]:
    """Deploy the services that are compared, and return what deploys them again."""

    def deploy(**options: t.Any) -> PlayRun:
        lab.write_inventory(COMPARED)
        done = lab.play("deploy_controllers", **options)
        assert done.rc == 0, done.output[-6000:]
        return done

    deploy()
    return deploy


def deployed(done: PlayRun) -> set[str]:
    """Return the services that a run has deployed."""
    return {name for name, task in DEPLOYS.items() if f"TASK [reduced.footprint.{name} : {task}]" in done.output}


def corrected(done: PlayRun) -> set[str]:
    """Return the changed tasks, without their hosts: what all members of the database have lost, check mode shows on each of them."""
    return {name.rpartition(" (")[0].removeprefix("reduced.footprint.") for name in done.changed_tasks()}


@pytest.mark.parametrize("check", [False, True])
def test_services_without_a_difference_are_not_deployed(deploy: t.Callable[..., PlayRun], check: bool) -> None:
    again = deploy(check=check)
    assert again.changed == 0 and not deployed(again), again.changed_tasks() or deployed(again)


@pytest.mark.parametrize("what", ["files", "data", *(pytest.param(name, marks=pytest.mark.whole) for name in ("units", "packages"))])
def test_what_differs_is_shown_and_corrected(lab: ControllersLab, deploy: t.Callable[..., PlayRun], what: str) -> None:
    commands, expected = PLANTED[what]
    lab.ssh(NAME, commands)
    for check in (True, False):
        assert corrected(deploy(check=check)) == expected
    assert not deployed(deploy())


@pytest.mark.parametrize(("program", "service"), [("memcached", "memcached"), ("haproxy", "load_balancer")])
def test_silence_is_not_equality(lab: ControllersLab, program: str, service: str) -> None:
    """Its files and units are as they must be, but it does not answer."""
    lab.write_inventory(COMPARED)
    lab.ssh(NAME, f"pkill -STOP -x {program}")
    try:
        shown = lab.play("deploy_controllers", check=True)
    finally:
        lab.ssh(NAME, f"pkill -CONT -x {program}")
    assert deployed(shown) == {service}, shown.output[-6000:]


def test_members_outside_the_run_are_unknown(deploy: t.Callable[..., PlayRun]) -> None:
    shown = deploy(check=True, limit=f"!{NAME}")
    assert shown.changed == 0 and deployed(shown) == set(DEPLOYS), shown.changed_tasks() or deployed(shown)
