# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook deploy_monitoring and the settings of its role; ``tests/controllers/test_monitoring.py`` has real parts."""

from __future__ import annotations

import json
import pathlib
import re
import sys
import typing as t

import jinja2
import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_status_answers

from tests.support.control_node import ROOT, ControlNode

sys.path.append(str(ROOT / "tests" / "controllers"))

import alert_cases  # noqa: E402

RULES = [rule for group in yaml.safe_load((ROOT / "roles/monitoring/files/alerts.rules").read_text("utf-8"))["groups"] for rule in group["rules"]]
METRICS = ROOT / "plugins/module_utils/_monitoring/plan_metrics.py"


def test_without_a_monitoring_host_nothing_is_done(tmp_path: pathlib.Path) -> None:
    code, output = ControlNode(tmp_path).run("reduced.footprint.deploy_monitoring", "-e", "expert_mode=true")
    assert code != 0 and "No host monitors. Add servers or the witness" in " ".join(output.split()), output


@pytest.mark.parametrize(("given", "words"), [
    ({"monitoring_memory": "much"}, "monitoring_memory (much) at least 160"),
    ({"monitoring_storage": 9}, "monitoring_storage (9) at least 64 MiB"),
    ({"monitoring_receivers": [{"webhook_configs": []}]}, "each receiver requires a name of its own"),
    ({"monitoring_receivers": [{"name": "a"}, {"name": "a"}]}, "(got a, a)"),
    ({"monitoring_storage": 10**9}, "are more than half of the file system"),
    ({"__monitoring_address": "192.0.2.9"}, "must be one of 127.0.0.1, monitoring_memory"),
    ({}, "ok=5"),
    ({"footprint_environment": "blue"}, "ok=5"),
])  # fmt: skip
def test_settings_are_checked(given: dict[str, t.Any], words: str, tmp_path: pathlib.Path) -> None:
    role = yaml.safe_load((ROOT / "roles/monitoring/defaults/main.yml").read_text("utf-8"))
    request = str(tmp_path / "none.json")
    names = {"__monitoring_request": request, "__monitoring_environment": "{{ footprint_environment | default(footprint_cluster | default('footprint')) }}"}
    fixed = {**names, "__monitoring_monitors_here": True, "__monitoring_address": "127.0.0.1", "ansible_facts": {"all_ipv4_addresses": ["127.0.0.1"]}}
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": {**role, **fixed, **given},
             "tasks": [{"ansible.builtin.import_tasks": str(ROOT / "roles/monitoring/tasks/check.yml")}]}]  # fmt: skip
    (tmp_path / "check.yml").write_text(json.dumps(play), "utf-8")
    unused_code, output = ControlNode(tmp_path).run(str(tmp_path / "check.yml"))
    assert words in " ".join(output.split()), output


@pytest.mark.parametrize(("given", "words"), [
    ({"footprint_environment": "blue"}, "localhost is monitored by the footprint amber, and a host by one only."),
    ({}, "localhost is monitored by the footprint amber"),
    ({"footprint_environment": "amber"}, "ok=6"),
    ({"footprint_cluster": "amber"}, "ok=6"),
    ({"__monitoring_request": "/"}, "failed=1"),
])  # fmt: skip
def test_a_host_of_another_footprint_is_left_to_it(given: dict[str, t.Any], words: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "request.json").write_text('{"environment": "amber", "schema": 1}', "utf-8")
    test_settings_are_checked({"__monitoring_request": str(tmp_path / "request.json"), **given}, words, tmp_path)


def test_metrics_may_have_a_file_system_of_their_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = "echo 1M-blocks; for each; do case $each in /var/lib) echo 200000;; /var/lib/prometheus) echo 100;; esac; done"
    ControlNode(tmp_path / "programs").program(monkeypatch, "df", sizes)
    test_settings_are_checked({}, "1024 MiB are more than half of the file system of the metrics on localhost (100 MiB)", tmp_path)


def test_what_a_host_sends_is_limited() -> None:
    """With a host of 60,000 series, Prometheus 2.42 stored all of them without the limits, and reported it as down with them."""
    environment = jinja2.Environment(autoescape=False)  # noqa: S701
    environment.filters["to_json"] = json.dumps
    template = environment.from_string((ROOT / "roles/monitoring/templates/prometheus.yml.j2").read_text("utf-8"))
    found = yaml.safe_load(template.render(__monitoring_targets={"node1": "192.0.2.11"}, __monitoring_folder="/etc/m", inventory_hostname="node1"))
    (job,) = [job for job in found["scrape_configs"] if job["job_name"] == "host"]
    limits = {"body_size_limit": "10MB", "sample_limit": 20000, "honor_timestamps": False}
    assert {key: job.get(key) for key in limits} == limits


def test_status_asks_for_the_units_only_if_there_is_a_monitoring_host() -> None:
    ask = {"node1": {"server": True, "services": [], "probes": {"shop": "80"}, "cloud": False}}
    assert plan_status_answers.with_monitoring(ask, []) == ask
    found = plan_status_answers.with_monitoring(ask, ["node2"])
    assert found["node1"]["probes"] == {"metrics": "prometheus-node-exporter.service", "shop": "80"}
    assert list(found["node2"]["probes"]) == ["metrics", "monitoring", "notifications"] and not found["node2"]["server"]
    assert ask["node1"]["probes"] == {"shop": "80"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_text_a_page_and_a_case(rule: dict[str, t.Any]) -> None:
    texts = rule["annotations"]
    assert set(texts) == {"summary", "description", "page"} and len(texts["description"].split()) > 5
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    page, _hash, anchor = texts["page"].rpartition("/docs/")[2].partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / page).read_text("utf-8"), re.M)
    assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings], (page, anchor)
    own = set(re.findall(r"footprint_(\w+)", rule["expr"]))
    described = set(re.findall(r'^    "(\w+)": "', METRICS.read_text("utf-8"), re.M))
    assert own <= described and rule["alert"] in alert_cases.CASES


def test_each_case_is_that_of_an_alert() -> None:
    assert {rule["alert"] for rule in RULES} == set(alert_cases.CASES)
