# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run without a change leaves out: each task takes a second on a busy server."""

from __future__ import annotations

import base64
import http.server
import json
import pathlib
import re
import threading
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

HERE = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}


def results(output: str) -> dict[str, list[str]]:
    """Return task → how it ended, each time that it was started."""
    found: dict[str, list[str]] = {}
    for task, rest in re.findall(r"^TASK \[(?:.* : )?(.*?)\] \*+\n((?:.+\n)*)", output, re.MULTILINE):
        found.setdefault(task, []).append(rest.partition(":")[0])
    return found


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    return ControlNode(tmp_path)


@pytest.mark.parametrize(("missing", "ended"), [([], []), (["reduced-footprint-missing"], ["ok"] * 2)])
def test_apt_is_asked_only_for_missing_packages(control: ControlNode, tmp_path: pathlib.Path, missing: list[str], ended: list[str]) -> None:
    folder = ROOT / "roles/packages/tasks"
    tasks = yaml.safe_load((folder / "main.yml").read_text("utf-8"))
    (tmp_path / "installed.yml").write_text((folder / "installed.yml").read_text("utf-8"), "utf-8")
    # without its repair, which updates the package lists
    install = [task for task in yaml.safe_load((folder / "install.yml").read_text("utf-8")) if task["name"] != "Repair apt and install the packages"]
    (tmp_path / "install.yml").write_text(yaml.safe_dump(install), "utf-8")
    code, output = control.play(tasks * 2, "metal2", "--check", **HERE, packages_names=["dpkg", "bash", *missing])
    found = results(output)
    assert code == 0 and found.get("Install the packages", []) == ended, output
    # it knows them from the first time
    assert found["List the installed packages"] == ["ok"], output


def test_a_package_that_is_not_installed_completely_is_missing(control: ControlNode) -> None:
    keep = yaml.safe_load((ROOT / "roles/packages/tasks/installed.yml").read_text("utf-8"))[1]
    show = {"ansible.builtin.debug": {"msg": "there: {{ __packages_there | join(' ') }}."}}
    listed = {"stdout_lines": ["ii  dpkg 1.22", "hi  held 2", "iU  unpacked 1", "iF  half 1", "rc  removed 1", "iHR broken 1"]}
    code, output = control.play([keep, show], "metal2", **HERE, __packages_listed=listed)
    assert code == 0 and "there: dpkg held." in output, output
    code, output = control.play([keep, show], "metal2", **HERE, __packages_listed={"failed": True, "msg": "no such program"})
    assert code == 0 and "there: ." in output, output


@pytest.mark.parametrize(("status", "works"), [("", True), ("garbage\n", False)])
def test_packages_that_cannot_be_listed_are_not_missing(control: ControlNode, tmp_path: pathlib.Path, status: str, works: bool) -> None:
    (tmp_path / "status").write_text(status, "utf-8")
    tasks = yaml.safe_load((ROOT / "roles/packages/tasks/installed.yml").read_text("utf-8"))
    tasks[0]["environment"] = {"DPKG_ADMINDIR": str(tmp_path)}
    code, output = control.play(tasks, "metal2", **HERE)
    assert (code == 0) == works and ("parsing file" in output) != works, output


def service(name: str, **keys: t.Any) -> dict[str, t.Any]:
    """Return the task that deploys a service."""
    schema = {"package": "dpkg", "commands": [["true"]]}
    definition = {"name": name, "user": "root", "group": "virt", "units": [], "files": [], "packages": ["dpkg"], "schema": schema, **keys}
    role = {"name": "reduced.footprint.openstack_service", "tasks_from": "deploy"}
    return {"ansible.builtin.include_role": role, "vars": {"openstack_service_definition": definition}}


GIVEN: dict[str, t.Any] = {
    "openstack_service_ca": "", "openstack_service_database_address": "192.0.2.20", "openstack_service_database_group": "virt",
    "openstack_service_keystone_group": "virt", "openstack_service_rabbitmq_group": "virt", "keystone_admin_password": "x",
    "__packages_there": {"dpkg": "1.22"}, **HERE,
}  # fmt: skip


def test_a_recorded_version_is_not_recorded_again(control: ControlNode, tmp_path: pathlib.Path) -> None:
    fixed = json.dumps({"__openstack_service_marker": f"{tmp_path}/once/marker", "__openstack_service_files": []})
    for ended in ("changed", None):
        code, output = control.play([service("shop", accounts_of="none")], "metal2", "-e", fixed, **GIVEN)
        found = results(output)
        assert code == 0 and found.get("Migrate the tables", [None]) == [ended], output
        assert found.get("Write the settings, enable and start the units", [None]) == [ended], output
    assert (tmp_path / "once/marker").read_text("utf-8") == "1.22\n"


@pytest.mark.parametrize("settled", [True, False])
def test_what_deploys_a_service_without_differences(tmp_path: pathlib.Path, settled: bool) -> None:
    control = ControlNode(tmp_path, "galera_info", "galera_schema", "keystone_service", "service_files", "stat")
    seen = {"running": True, "standalone": False, "certificate_names": ["192.0.2.20"]}
    for host in ("metal1", "metal2"):
        differs = host == "metal2" and not settled
        control.answers[f"service_files {host} check"] = {"changed": differs, "actions": ["write /etc/shop.conf"] if differs else []}
        control.answers[f"service_files {host}"] = {"changed": True, "actions": [], "needs": {}}
    for name in ("galera_schema", "keystone_service"):
        control.answers[f"{name} metal1"] = {"changed": False, "actions": []}
    control.answers["galera_info metal1"] = {"galera": seen}
    control.more = {host: {**HERE, "ansible_host": address} for host, address in (("metal1", "192.0.2.11"), ("metal2", "192.0.2.12"))}
    keys = {"database": {"names": ["shop"], "user": "shop", "password": "p"}, "account": {"name": "shop", "password": "p"}}
    code, output = control.play([service("shop", **keys), service("bakery", **keys)], "virt", **GIVEN)
    calls = control.calls()
    assert code == 0, output
    # one call for each member, and those of the first one for all; the state of the database is read once
    apply = [] if settled else [("service_files", "metal2", False)]
    require = [] if settled else [("galera_schema", "metal1", False)]
    each = [("service_files", "metal1", True), ("service_files", "metal2", True), ("galera_schema", "metal1", False), ("keystone_service", "metal1", False)]
    each += apply + require
    expected = [("galera_info", "metal1", False), *each, *each]
    found = [(call["name"], call["host"], call["check"]) for call in calls]
    assert sorted(found) == sorted(expected), found
    # the account must not require TLS before every member uses it
    required = [call["arguments"]["users"][0]["require_tls"] for call in calls if call["name"] == "galera_schema"]
    assert required == ([True, True] if settled else [False, True, False, True])
    assert ("changed=2" in output) != settled, output


@pytest.mark.parametrize(
    ("changes", "settled"),
    [
        ({}, "shop bakery"),
        ({"service_files metal2 check": {"changed": True, "actions": ["restart shop.service"]}}, ""),
        ({"galera_schema metal1 check": {"changed": True, "actions": ["set the password of shop@%"]}}, ""),
        ({"keystone_service metal1 check": {"failed": True, "msg": "no answer"}}, ""),
        ({"controlplane_info metal2": {"controlplane": {"services": {"shop": {"problems": ["503"]}, "bakery": "healthy"}}}}, "bakery"),
    ],
)
def test_one_call_of_each_module_compares_all_services(tmp_path: pathlib.Path, changes: dict[str, t.Any], settled: str) -> None:
    control = ControlNode(tmp_path, "galera_info", "galera_schema", "rabbitmq_schema", "keystone_service", "service_files", "controlplane_info")
    there = {"__packages_there": {"dpkg": "1.22"}}
    control.more = {host: {**HERE, **there, "ansible_host": address} for host, address in (("metal1", "192.0.2.11"), ("metal2", "192.0.2.12"))}
    control.answers["galera_info metal1"] = {"galera": {"running": True, "standalone": False, "certificate_names": ["192.0.2.20"]}}
    for host in ("metal1", "metal2"):
        control.answers[f"service_files {host} check"] = {"changed": False, "actions": []}
        control.answers[f"controlplane_info {host}"] = {"controlplane": {"services": {"shop": "healthy", "bakery": "healthy"}}}
    for name in ("galera_schema", "rabbitmq_schema", "keystone_service"):
        control.answers[f"{name} metal1 check"] = {"changed": False, "actions": []}
    control.answers.update(changes)
    healthy = {"problems": [], "facts": {"drained": []}}
    text = json.dumps(control.answers).replace('"healthy"', json.dumps(healthy))
    control.answers = json.loads(text)
    queues = {"vhost": "shop", "user": "shop", "password": "q"}
    tasks = []
    for name in ("shop", "bakery"):
        keys = {"database": {"names": [name], "user": name, "password": "p"}, "account": {"name": name, "password": "p"}, "rabbitmq": queues}
        task = service(name, **keys)
        task["ansible.builtin.include_role"]["tasks_from"] = "wanted"
        tasks.append(task)
    tasks.append({"ansible.builtin.include_role": {"name": "reduced.footprint.openstack_service", "tasks_from": "settled"}})
    tasks.append({"ansible.builtin.debug": {"msg": "settled: {{ __openstack_service_settled_names | join(' ') }}."}})

    code, output = control.play(tasks, "virt", "-e", json.dumps({"__openstack_service_rabbitmq_urls": ["amqp://192.0.2.20:5672"]}), **GIVEN)
    assert code == 0 and output.count(f"settled: {settled}.") == 2 and "changed=0" in output, output
    calls = control.calls()
    assert not [call for call in calls if not call["check"] and call["name"] not in ("galera_info", "controlplane_info")]
    assert len(control.calls("service_files")) == 2 and len(control.calls("galera_info")) == 1
    found = {call["name"]: call["arguments"] for call in calls}
    if not changes:
        assert len(calls) == 8
        assert found["galera_schema"]["databases"] == ["shop", "bakery"] and [one["require_tls"] for one in found["galera_schema"]["users"]] == [True] * 2
        assert [one["name"] for one in found["keystone_service"]["services"]] == ["shop", "bakery"]
        paths = [one["path"] for one in found["service_files"]["files"]]
        assert len(paths) == len(set(paths)) and len([path for path in paths if path.endswith(".schema")]) == 2


def test_services_that_a_member_lacks_are_not_compared(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path)
    control.more = {host: {**HERE, "ansible_host": address} for host, address in (("metal1", "192.0.2.11"), ("metal2", "192.0.2.12"))}
    tasks = [service("shop", packages=["dpkg", "missing"]), {"ansible.builtin.include_role": {"name": "reduced.footprint.openstack_service"}}]
    for task, name in zip(tasks, ("wanted", "settled")):
        task["ansible.builtin.include_role"]["tasks_from"] = name
    tasks.append({"ansible.builtin.debug": {"msg": "settled: {{ __openstack_service_settled_names | join(' ') }}."}})
    code, output = control.play(tasks, "virt", **GIVEN)
    assert code == 0 and output.count("settled: .") == 2 and not control.calls(), output


class _Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: t.Any) -> None:
        """Write nothing."""


@pytest.fixture(name="healthy")
def fixture_healthy() -> t.Iterator[int]:
    """Answer requests that ask whether a service is healthy; return the port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Healthy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


MEMBER: dict[str, t.Any] = {
    "unit": "active", "running": True, "primary": True, "ready": True, "cluster_uuid": "a", "tls": "off", "tls_written": "off", "databases": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "settled"),
    [
        ({}, "galera memcached"),
        # on one member of three: a file or unit, an account, its own state, no answer, a package
        ({"service_files metal2 check": {"actions": ["start memcached.service"]}}, ""),
        ({"galera_schema metal2 check": {"actions": ["create the user app@%"]}}, ""),
        ({"galera_info metal2": {"galera": {**MEMBER, "ready": False}}}, "memcached"),
        ({"galera_info metal2": {"failed": True, "msg": "no answer"}, "controlplane_info metal2": {"failed": True, "msg": "no answer"}}, ""),
        ({"packages": {"memcached": "1"}}, "memcached"),
        ({"account": "footprint-missing"}, "memcached"),
        ({"port": 1}, "memcached"),
    ],
)
def test_one_call_compares_the_services_below_openstack(tmp_path: pathlib.Path, healthy: int, changes: dict[str, t.Any], settled: str) -> None:
    control = ControlNode(tmp_path, "galera_info", "galera_schema", "service_files", "controlplane_info")
    packages = yaml.safe_load((ROOT / "roles/galera/vars/Debian.yml").read_text("utf-8"))["__galera_packages"]
    hosts = {"metal1": "192.0.2.11", "metal2": "192.0.2.12", "metal3": "192.0.2.13"}
    for host, address in hosts.items():
        there = dict.fromkeys([*packages, "memcached"], "1")
        found = changes.get("packages", there) if host == "metal2" else there
        control.more[host] = {**HERE, "ansible_host": address, "galera_address": "127.0.0.1", "__packages_there": found}
        control.answers[f"galera_info {host}"] = {"galera": MEMBER}
        control.answers.update({f"{name} {host} check": {"changed": False, "actions": []} for name in ("galera_schema", "service_files")})
        control.answers[f"controlplane_info {host}"] = {"controlplane": {"services": {"memcached": {"problems": [], "facts": {"version": "1"}}}}}
    control.answers.update({name: answer for name, answer in changes.items() if " " in name})
    steps = [{"name": name, "service": name, "role": f"reduced.footprint.{name}", "hosts": list(hosts), "compared": "base"} for name in ("galera", "memcached")]
    given = {"galera_group": "virt", "memcached_group": "virt", "galera_tls": False, "__deploy_plan": {"steps": steps}}
    given["galera_check_port"] = changes.get("port", healthy)
    tasks = [
        {"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/deploy_settled_base.yml")},
        {"ansible.builtin.debug": {"msg": "settled: {{ __deploy_settled_base | sort | join(' ') }}."}},
    ]
    # an account that this machine has as well
    code, output = control.play(tasks, "virt", "-e", f"__galera_account={changes.get('account', '_apt')}", **given)
    assert code == 0 and output.count(f"settled: {settled}.") == 3 and "changed=0" in output, output
    calls = control.calls()
    assert not [call for call in calls if not call["check"] and call["name"] not in ("galera_info", "controlplane_info")]
    assert {call["name"] for call in calls} >= {"galera_info", "galera_schema", "service_files"} and len(control.calls("service_files")) == 3
    units = [{unit["name"] for unit in call["arguments"]["units"]} for call in control.calls("service_files")]
    assert any(names >= {"mariadb.service", "footprint-galera-guard.service", "memcached.service"} for names in units)


@pytest.mark.parametrize(
    ("given", "wanted", "named"),
    # without the packages, the deployment must still write the names
    [({}, True, True), ({"__packages_there": {}}, False, False), ({"rabbitmq_force_boot": "metal2"}, False, True)],
)
def test_a_broker_that_is_incomplete_or_forced_is_left_to_its_deployment(
    tmp_path: pathlib.Path, given: dict[str, t.Any], wanted: bool, named: bool
) -> None:
    control = ControlNode(tmp_path, "rabbitmq_info", "rabbitmq_schema")
    seen = {"tls": "off", "members": ["rabbit@metal2"], "alive": True, "problems": [], "unresolved": [], "cookie": "same"}
    control.answers = {"rabbitmq_info metal2": {"rabbitmq": seen}, "rabbitmq_schema metal2 check": {"actions": []}}
    there = dict.fromkeys(yaml.safe_load((ROOT / "roles/rabbitmq/vars/Debian.yml").read_text("utf-8"))["__rabbitmq_packages"], "1")
    # without its block, this machine's /etc/hosts is not changed
    control.more["metal2"] = {**HERE, "ansible_host": "192.0.2.12", "__packages_there": there, "rabbitmq_manage_hosts": False, "rabbitmq_tls": False, **given}
    tasks = [
        {"ansible.builtin.include_role": {"name": "reduced.footprint.rabbitmq", "tasks_from": "wanted"}},
        {"ansible.builtin.debug": {"msg": "wanted={{ __rabbitmq_needed | length > 0 }} named={{ __rabbitmq_hosts_block is defined }}."}},
    ]
    code, output = control.play(tasks, "metal2", rabbitmq_group="virt")
    assert code == 0 and f"wanted={wanted} named={named}." in output and "changed=0" in output, output
    assert len(control.calls()) == 2 * named


@pytest.mark.parametrize("fixes", [[], ["set the mode of /etc/keystone/fernet-keys/0 to 0600"]], ids=["same", "another mode"])
def test_what_deploys_keystone_without_differences(tmp_path: pathlib.Path, healthy: int, fixes: list[str]) -> None:
    control = ControlNode(tmp_path, "galera_info", "galera_schema", "keystone_keys_info", "keystone_keys", "keystone_bootstrap", "service_files")
    repository = {"fingerprints": {"0": "a", "1": "b"}, "primary": 1, "finished": True, "contents": {"0": "A", "1": "B"}}
    for host in ("metal1", "metal2"):
        control.answers[f"service_files {host} check"] = {"changed": False, "actions": []}
        control.answers[f"keystone_keys_info {host}"] = {"repository": {**repository, "fixes": fixes if host == "metal2" else []}}
        control.answers[f"keystone_keys {host}"] = {"changed": bool(fixes)}
    control.answers["galera_info metal1"] = {"galera": {"running": True, "standalone": False, "certificate_names": ["192.0.2.20"]}}
    control.answers.update({"galera_schema metal1": {"changed": False}, "keystone_bootstrap metal1": {"changed": False}})
    control.more = {host: {**HERE, "ansible_host": address} for host, address in (("metal1", "192.0.2.11"), ("metal2", "192.0.2.12"))}
    names = ("fernet", "credential")
    fixed = {
        "__keystone_url": f"http://127.0.0.1:{healthy}", "__keystone_unit_files": [], "__keystone_files": [],
        "__keystone_repositories": [{"name": name, "path": f"/{name}", "most": 3, "keep": 0} for name in names],
    }  # fmt: skip
    given = {
        "keystone_group": "virt", "keystone_database_group": "virt", "keystone_database_address": "192.0.2.20", "keystone_database_password": "p",
        "keystone_admin_password": "p", "keystone_public_url": "https://192.0.2.20:5000/v3", "__packages_there": {"keystone": "2:27.0"},
        "__keystone_unit": "keystone.service",
    }  # fmt: skip
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.keystone", "tasks_from": "serve"}}
    code, output = control.play([role], "virt", "-e", json.dumps(fixed), **given)
    found = [(call["name"], call["host"]) for call in control.calls()]
    assert code == 0, output
    once = [("galera_info", "metal1"), ("galera_schema", "metal1"), ("keystone_bootstrap", "metal1")]
    keys = [("keystone_keys_info", host) for host in ("metal1", "metal2") for _name in names]
    # the leader, then the other one
    keys += [("keystone_keys", "metal1"), ("keystone_keys_info", "metal1"), ("keystone_keys", "metal2")] * 2 if fixes else []
    assert sorted(found) == sorted([*once, *keys, ("service_files", "metal1"), ("service_files", "metal2")]), found
    assert [call["arguments"]["users"][0]["require_tls"] for call in control.calls("galera_schema")] == [True]


@pytest.mark.parametrize(("text", "ended"), [('{"mark": "m1", "schema": 1}\n', "skipping"), ('{"mark": "m2", "schema": 1}\n', "changed"), ("", "changed")])
def test_a_recorded_mark_of_the_secrets_is_not_recorded_again(control: ControlNode, tmp_path: pathlib.Path, text: str, ended: str) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/.store").write_text("m1\n", "ascii")
    record = [{"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/secrets_record.yml")}]
    used = {"content": base64.b64encode(text.encode()).decode()}
    code, output = control.play(record, "metal2", "--check", **HERE, footprint_secrets=str(tmp_path / "secrets"), __secrets_used=used)
    assert code == 0 and results(output)["Create the directory of the record"] == [ended], output
