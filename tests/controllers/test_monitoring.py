# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The monitoring of a database, messages and load balancers: real Prometheus and Alertmanager on two of three members, which notify a webhook of the tests."""

from __future__ import annotations

import http.server
import json
import pathlib
import sys
import threading
import time
import typing as t

import pytest
import yaml
from controllers_lab import REPOSITORY, SERVERS, ControllersLab, notes
from support import eventually

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import alert_cases  # noqa: E402

pytestmark = pytest.mark.chapter

MONITORS = ("metal1", "metal2")
GROUPS = {"galera": SERVERS, "rabbitmq": SERVERS, "load_balancer": SERVERS, "monitoring": MONITORS}
LOST = "metal3"
RULES = "/etc/reduced.footprint/monitoring/rules.yml"
#: Seconds within which an alert fires after the fault, and until it is resolved after the repair.
LIMIT = 60
#: Of the webhook. The same in each run, because the lab may be one of an earlier run.
PORT = 18099
#: Alerts about the machine that carries the lab, and about the webhook of an earlier run on it, which is off.
NOT_OF_THE_LAB = ("DiskFills", "DiskFull", "MemoryPressure", "NotificationsFail")
UNITS = ("prometheus.service", "prometheus-alertmanager.service", "prometheus-node-exporter.service")


class Webhook:
    """Receives notifications."""

    def __init__(self, address: str) -> None:
        received: list[dict[str, t.Any]] = []
        self.received = received

        class Handler(http.server.BaseHTTPRequestHandler):
            """Keeps what is posted."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                received.extend({**alert, "monitor": alert["labels"].get("monitor")} for alert in body["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *unused: t.Any) -> None:
                """Nothing."""

        self.server = http.server.ThreadingHTTPServer((address, PORT), Handler)
        self.url = f"http://{address}:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def monitors(self, alert: str, status: str) -> set[str]:
        """Return the monitoring hosts that notified of an alert."""
        return {one["monitor"] for one in self.received if one["labels"]["alertname"] == alert and one["status"] == status}


@pytest.fixture(name="webhook", scope="module")
def fixture_webhook(lab: ControllersLab) -> t.Iterator[Webhook]:
    it = Webhook(f"{lab.net}.1")
    receivers = [{"name": "night", "webhook_configs": [{"url": it.url, "send_resolved": True}]}]
    lab.write_inventory({"monitoring_receivers": receivers}, groups=GROUPS)
    yield it
    it.server.shutdown()


def query(lab: ControllersLab, host: str, expression: str) -> list[dict[str, t.Any]]:
    """Return the result of a query at a monitoring host, which only answers itself."""
    found = lab.run(host, ["promtool", "query", "instant", "-o", "json", "http://127.0.0.1:9090", expression], check=False)
    return json.loads(found) if found.startswith("[") else []


def firing(lab: ControllersLab, host: str) -> set[tuple[str, str]]:
    found = [one["metric"] for one in query(lab, host, 'ALERTS{alertstate="firing",severity!="info"}')]
    found = [one for one in found if one["alertname"] not in NOT_OF_THE_LAB]
    return {(one["alertname"], one.get("instance") or one.get("service") or "") for one in found}


def healthy(lab: ControllersLab) -> bool:
    """Return whether all hosts are read, and no alert fires."""
    return all(len(query(lab, host, 'up{job="host"} == 1')) == len(SERVERS) and not firing(lab, host) for host in MONITORS)


def test_monitoring_is_deployed_and_a_second_run_changes_nothing(lab: ControllersLab, webhook: Webhook) -> None:
    assert webhook.url
    done = lab.play("deploy_controllers")
    assert done.rc == 0, done.output[-4000:]
    done = lab.play("deploy_monitoring", check=True)
    assert done.rc == 0 and done.changed, done.output[-4000:]
    done = lab.play("deploy_monitoring")
    assert done.rc == 0, done.output[-4000:]
    for check in (True, False):
        done = lab.play("deploy_monitoring", check=check)
        assert (done.rc, done.changed) == (0, 0), done.changed_tasks() or done.output[-4000:]
    eventually("all hosts are read and no alert fires", lambda: healthy(lab), 180)


def test_each_rule_fires_for_its_case_only(lab: ControllersLab) -> None:
    rules = yaml.safe_load((REPOSITORY / "roles/monitoring/files/alerts.rules").read_text("utf-8"))
    assert [rule["alert"] for group in rules["groups"] for rule in group["rules"] if rule["alert"] not in alert_cases.CASES] == []
    lab.run(MONITORS[0], ["tee", "/run/alerts.json"], stdin=alert_cases.promtool_tests(RULES))
    assert "SUCCESS" in lab.run(MONITORS[0], ["promtool", "test", "rules", "/run/alerts.json"])


def test_only_monitoring_hosts_read_metrics(lab: ControllersLab) -> None:
    url, folder = f"https://{lab.addresses[LOST]}:9100/metrics", "/etc/reduced.footprint/monitoring"
    program = (
        "import ssl, sys, urllib.request\n"
        "context = ssl.create_default_context(cafile=sys.argv[2] + '/ca.pem')\n"
        "if len(sys.argv) > 3: context.load_cert_chain(sys.argv[2] + '/certificate.pem', sys.argv[2] + '/key.pem')\n"
        "print(len(urllib.request.urlopen(sys.argv[1], context=context, timeout=10).read()))\n"
    )
    argv = ["python3", "-c", program, url, folder]
    assert int(lab.run(MONITORS[0], [*argv, "certificate"])) > 1000
    assert not lab.answers(MONITORS[0], argv), "without a certificate"
    # another member has a certificate, and no place in the allow-list of another one
    url = f"https://{lab.addresses[MONITORS[0]]}:9100/metrics"
    assert not lab.answers(LOST, ["python3", "-c", program, url, folder, "certificate"])
    for host in SERVERS:
        assert lab.run(host, ["find", folder, "-name", "*.pem", "-perm", "/077"]) == ""
        ends = [line.split()[3] for line in lab.run(host, ["ss", "-Htln"]).splitlines()]
        open_ends = sorted(end for end in ends if end.rpartition(":")[2] in ("9090", "9093", "9094", "9100"))
        assert open_ends == [f"{lab.addresses[host]}:9100"] + (["127.0.0.1:9090", "127.0.0.1:9093"] if host in MONITORS else []), open_ends


def test_a_lost_member_is_notified_within_a_minute_and_resolved(lab: ControllersLab, webhook: Webhook) -> None:
    note = notes("monitoring")
    eventually("no alert fires", lambda: healthy(lab), 180)
    wanted = {("ServiceUnhealthy", LOST), ("QuorumAtRisk", "galera")}
    began = time.monotonic()
    lab.run(LOST, ["sh", "-c", "systemctl mask --runtime --quiet mariadb; systemctl kill --signal=KILL mariadb"])
    try:
        eventually("both monitoring hosts alert", lambda: all(("ServiceUnhealthy", LOST) in firing(lab, host) for host in MONITORS), LIMIT + 60)
        fired = time.monotonic() - began
        eventually("both monitoring hosts notify", lambda: webhook.monitors("ServiceUnhealthy", "firing") == set(MONITORS), LIMIT + 60)
        notified = time.monotonic() - began
        eventually("the risk for the majority fires as well", lambda: wanted <= firing(lab, MONITORS[0]), 120)
    finally:
        lab.run(LOST, ["sh", "-c", "systemctl unmask --runtime --quiet mariadb; systemctl reset-failed mariadb; systemctl start --no-block mariadb"])
    back = time.monotonic()
    eventually("no alert fires", lambda: healthy(lab), 300)
    eventually("both notify of the end", lambda: webhook.monitors("ServiceUnhealthy", "resolved") == set(MONITORS), 180)
    note("lost member", fired_seconds=round(fired), notified_seconds=round(notified), resolved_seconds=round(time.monotonic() - back))
    assert fired <= LIMIT, fired


def test_a_virtual_address_without_a_holder_is_an_alert(lab: ControllersLab) -> None:
    eventually("no alert fires", lambda: healthy(lab), 180)
    began = time.monotonic()
    # not killed: the one that held the address would keep it
    for host in SERVERS:
        lab.run(host, ["sh", "-c", "systemctl mask --runtime --quiet keepalived; systemctl stop keepalived"])
    try:
        wanted = {("VirtualAddressHolders", ""), *(("ServiceUnhealthy", host) for host in SERVERS)}
        eventually("both monitoring hosts alert", lambda: all(wanted <= firing(lab, host) for host in MONITORS), 3 * LIMIT)
    finally:
        for host in SERVERS:
            lab.run(host, ["sh", "-c", "systemctl unmask --runtime --quiet keepalived; systemctl reset-failed keepalived; systemctl start keepalived"])
    notes("monitoring")("virtual address", fired_seconds=round(time.monotonic() - began))
    eventually("no alert fires", lambda: healthy(lab), 180)


def test_the_memory_is_limited_and_small(lab: ControllersLab) -> None:
    note = notes("monitoring")
    for host in SERVERS:
        used = {}
        for unit in UNITS:
            pid = lab.run(host, ["systemctl", "show", "--property=MainPID", "--value", unit]).strip()
            if pid != "0":
                status = lab.run(host, ["cat", f"/proc/{pid}/status"])
                used[unit] = int(status.partition("VmRSS:")[2].split()[0]) // 1024
        limit = lab.run(host, ["systemctl", "show", "--property=MemoryMax", "--value", "footprint-monitoring.slice"]).strip()
        note(f"memory of {host}, MiB", **used)
        assert int(limit) == 250 << 20 and sum(used.values()) < 250, used
        assert len(used) == (3 if host in MONITORS else 1)


def test_status_knows_the_units(lab: ControllersLab, webhook: Webhook) -> None:
    assert webhook.url
    lab.run(MONITORS[0], ["systemctl", "stop", "prometheus-alertmanager"])
    done = lab.play("status")
    lab.run(MONITORS[0], ["systemctl", "start", "prometheus-alertmanager"])
    assert done.rc != 0 and "prometheus-alertmanager.service is inactive" in done.output, done.output[-3000:]


def test_a_host_that_leaves_the_group_stops(lab: ControllersLab, webhook: Webhook) -> None:
    receivers = [{"name": "night", "webhook_configs": [{"url": webhook.url}]}]
    lab.write_inventory({"monitoring_receivers": receivers}, groups={**GROUPS, "monitoring": MONITORS[:1]})
    done = lab.play("deploy_monitoring")
    assert done.rc == 0, done.output[-4000:]
    assert lab.run(MONITORS[1], ["systemctl", "is-active", *UNITS], check=False).split() == ["inactive", "inactive", "active"]
    done = lab.play([{"hosts": LOST, "tasks": [{"ansible.builtin.include_role": {"name": "reduced.footprint.monitoring", "tasks_from": "remove"}}]}])
    assert done.rc == 0, done.output[-4000:]
    left = ["sh", "-c", "ls /etc/reduced.footprint/monitoring /etc/systemd/system/*state-* 2>&1 | grep -vc 'cannot access'"]
    assert lab.run(LOST, left, check=False).strip() == "0"
