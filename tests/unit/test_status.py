# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook status: its length, its exit code, and how long it takes when a server is dead."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import socket
import time
import typing as t

import pytest

from tests.support.control_node import HERE, ROOT, ControlNode
from tests.support.controlplane import look, rabbitmq, unit

NAMES = ("metal1", "metal2", "metal3")
#: Three servers with all services of a cloud.
GIVEN = {"footprint_cloud": True, **{f"{name}_group": "virt" for name in ("galera", "rabbitmq", "memcached", "load_balancer", "keystone", "ovn_database")}}
GIVEN |= {f"{name}_group": "virt" for name in ("placement", "glance", "nova", "neutron", "horizon")}
#: As the documentation recommends it.
BRIEF = (ROOT / "docs/operation.md").read_text("utf-8").partition("```ini\n")[2].partition("```")[0]
SILENT = {"changed": False, "host": {"reachable": False, "reason": "", "parts": {}}}
OPENSTACK = {"placement": ["placement"], "glance": ["glance"], "nova": ["nova", "nova_metadata", "novncproxy"], "neutron": ["neutron"], "horizon": ["horizon"]}


def services(*, held: bool = False, primary: bool = True) -> dict[str, t.Any]:
    """The services of a server."""
    database = {"databases": {"OVN_Northbound": {"file": "clustered", "running": True, "leader": "x", "role": "leader", "status": "cluster member"}}}
    found: dict[str, t.Any] = look(held)["services"] | {"rabbitmq": rabbitmq(NAMES, members=NAMES)}
    found |= {name: {"units": {f"{name}.service": unit()}, "facts": {"version": "1"}} for name in ("memcached", "keystone")}
    found |= {name: {"units": {f"{name}.service": unit()}, "facts": {"apis": dict.fromkeys(apis, "")}} for name, apis in OPENSTACK.items()}
    found["ovn_database"] = {"units": {"ovn-ovsdb-server-nb.service": unit()}, "facts": {**database, "northd": "active"}}
    if not primary:
        found["galera"]["facts"].update(ready=False, primary=False, problems=["it belongs to no Primary Component"])
        found["rabbitmq"] = rabbitmq(state="active") | {"facts": None}
        found |= {name: {"units": {f"{name}.service": unit()}, "facts": {"apis": {name: "503 database"}}} for name in OPENSTACK}
    return found


def answer(held: bool = False, **parts: t.Any) -> dict[str, t.Any]:
    """The answer of a healthy server with two VMs, with other parts."""
    clock = {"offset_seconds": 0.0, "uncertainty_seconds": 0.01, "synchronized": True}
    values = {"vms": [{"name": f"vm{number}", "state": "running"} for number in range(2)], "migrations": [], "standbys": [], "clock": clock}
    values |= {"controlplane": {"addresses": ["192.0.2.20"] if held else [], "services": services(held=held)}}
    values |= {"compute": [compute(name) for name in NAMES], "chassis": [chassis(name) for name in NAMES]} | parts
    entries = {name: value if isinstance(value, dict) and "error" in value else {"value": value} for name, value in values.items()}
    return {"changed": False, "host": {"reachable": True, "reason": "", "parts": entries}}


def compute(host: str, up: bool = True) -> dict[str, t.Any]:
    return {"host": host, "up": up, "seconds": 5 if up else 312, "disabled": False, "reason": ""}


def chassis(host: str, up: bool = True) -> dict[str, t.Any]:
    return {"host": host, "up": up, "gateway": True, "agent": up}


def control_node(folder: pathlib.Path, configuration: str = BRIEF, **answers: t.Any) -> ControlNode:
    """Three servers; those without an answer are silent."""
    control = ControlNode(folder, "status_info")
    control.configuration = configuration
    control.more = {"metal3": {"ansible_host": "192.0.2.13"}}
    control.answers = {f"status_info {name}": answers.get(name, SILENT) for name in NAMES}
    return control


def status(control: ControlNode, *options: str, **given: t.Any) -> tuple[int, list[str]]:
    code, output = control.run("reduced.footprint.status", *options, "-e", json.dumps({**GIVEN, **given}))
    return code, output.rstrip("\n").splitlines()


def outage(folder: pathlib.Path, configuration: str = BRIEF) -> ControlNode:
    """Two of three servers are dead, and the third one reports everything that follows from this."""
    parts = {"controlplane": {"addresses": [], "services": services(primary=False)}, "chassis": [chassis(name, name == "metal1") for name in NAMES]}
    vms = [{"name": "web", "state": "shutoff"}, {"name": "db", "state": "running", "drift": [{"path": "vcpu"}], "pending": ["memory"]}]
    return control_node(folder, configuration, metal1=answer(vms=vms, compute={"error": "the database does not answer"}, **parts))


def test_an_outage_is_short_and_ends_with_what_to_do_first(tmp_path: pathlib.Path) -> None:
    code, lines = status(outage(tmp_path))
    text = "\n".join(lines)
    assert code == 2 and len(lines) <= 25, text
    assert not any(word in text for word in ("fatal:", "[ERROR]", "UNREACHABLE", "PLAY RECAP", '"msg"')), text
    assert lines[-1].startswith("down: metal2, metal3, galera, ") and lines[-1].endswith("docs/troubleshooting.md#by-event"), text
    states = [words[0] for words in map(str.split, lines[:-1]) if words[0] in ("DOWN", "UNKNOWN", "DEGRADED", "ok")]
    assert states == sorted(states, key=("DOWN", "UNKNOWN", "DEGRADED", "ok").index) and len(set(states)) == 2, text
    # each dead server is named once, with what follows from its loss
    assert lines[0].split() == ["DOWN", "metal2,", "metal3:", "no", "answer"], text
    assert "UNKNOWN  compute services: no member of the database reports them: the database does not answer" in text


def test_an_outage_is_not_much_longer_without_the_callback(tmp_path: pathlib.Path) -> None:
    code, lines = status(outage(tmp_path, ""))
    assert code == 2 and len([line for line in lines if line]) <= 50, "\n".join(lines)


def everywhere(**parts: t.Any) -> dict[str, t.Any]:
    """The answers of all servers, each with these parts."""
    return {name: answer(name == "metal1", **parts) for name in NAMES}


@pytest.mark.parametrize(
    ("answers", "code", "last"),
    [
        (everywhere(), 0, "ok: nothing is degraded, down or unknown"),
        (everywhere(compute=[compute("metal1", False), compute("metal2")]), 2, "degraded: compute services. First read the journal of nova"),
        (everywhere(compute=[compute("metal1", False)]), 2, "down: compute services. First "),
        (everywhere(chassis=[chassis("metal1", False), chassis("metal2")]), 2, "degraded: chassis, gateways, agents for metadata. First "),
        (everywhere(compute={"error": "no answer within 8 s"}, chassis=None), 4, "unknown: compute services, chassis. First "),
        (everywhere(migrations={"error": "cannot be read"}), 4, "unknown: migrations of metal1, migrations of metal2, migrations of metal3. "),
        ({}, 4, "unknown: metal1, metal2, metal3, galera, rabbitmq, memcached and 10 more. First check the network of this control node"),
    ],
)
def test_the_exit_code_and_the_last_line(answers: dict[str, t.Any], code: int, last: str, tmp_path: pathlib.Path) -> None:
    found, lines = status(control_node(tmp_path, **answers))
    assert found == code and lines[-1].strip().startswith(last), "\n".join(lines)


@pytest.mark.parametrize(("options", "noted"), [([], False), (["--limit", "metal1"], True)])
def test_hosts_outside_of_the_limit_are_named(options: list[str], noted: bool, tmp_path: pathlib.Path) -> None:
    # otherwise they look as if they were down
    code, lines = status(control_node(tmp_path, metal1=answer(True)), *options)
    assert code != 0 and "no answer" in lines[0], lines
    assert any("--limit: metal2, metal3 excluded" in line for line in lines) == noted, lines


def test_a_host_that_failed_before_is_unknown(tmp_path: pathlib.Path) -> None:
    # as in the playbook site
    control = control_node(tmp_path, metal1=answer(True), metal3=answer())
    before = [{"hosts": "virt", "gather_facts": False, "tasks": [{"ansible.builtin.fail": {}, "when": "inventory_hostname == 'metal2'"}]}]
    playbook = tmp_path / "both.yml"
    playbook.write_text(json.dumps([*before, {"ansible.builtin.import_playbook": "reduced.footprint.status"}]), "utf-8")
    code, output = control.run(str(playbook), "-e", json.dumps(GIVEN))
    assert code != 0 and "UNKNOWN  server metal2: failed to list its VMs: it failed earlier in this run" in output, output


def test_declared_services_are_probed_on_their_hosts(tmp_path: pathlib.Path) -> None:
    services_given = [{"name": "shop", "group": "virt", "probe": "http://localhost/health"}, {"name": "print", "hosts": ["metal2"], "probe": "cups.service"}]
    probed = {name: answer(name == "metal1", probes={"shop": "", "print": ""} if name == "metal2" else {"shop": ""}) for name in NAMES}
    control = control_node(tmp_path, **probed)
    code, lines = status(control, status_services=services_given)
    assert code == 0, lines
    asked = {call["host"]: call["arguments"]["probes"] for call in control.calls("status_info")}
    shop = {"shop": "http://localhost/health"}
    assert asked == {"metal1": shop, "metal2": {**shop, "print": "cups.service"}, "metal3": shop}
    control.answers["status_info metal2"] = answer(probes={"shop": "answers 500 Error", "print": "cups.service is failed"})
    control.answers["status_info metal3"] = answer()
    code, lines = status(control, status_services=services_given)
    text = "\n".join(lines)
    assert code == 2 and "DOWN     service print: healthy on 0 of 1 hosts (metal2: cups.service is failed)" in text, text
    assert "DEGRADED service shop: healthy on 1 of 3 hosts (metal2: answers 500 Error; metal3: does not answer)" in text
    assert lines[-1] == "down: service print. First repair the service, which is yours: docs/operation.md#your-services", text


def test_files_are_written_also_for_an_outage(tmp_path: pathlib.Path) -> None:
    control = outage(tmp_path / "node")
    code, lines = status(control, status_report_file=str(tmp_path / "status.json"), status_html_file="page.html")
    assert code == 2 and f"    The page is in {tmp_path}/node/page.html." in lines, lines
    report = json.loads((tmp_path / "status.json").read_text("utf-8"))
    assert report["state"] == "down" and (tmp_path / "node/page.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "status.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("variable", ["status_report_file", "status_html_file"])
def test_a_file_that_cannot_be_written_does_not_hide_the_status(variable: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "directory").mkdir()
    code, lines = status(outage(tmp_path / "node"), **{variable: str(tmp_path / "directory")})
    text = "\n".join(lines)
    assert code == 2 and "DOWN " in text and f"{variable}: cannot write {tmp_path}/directory: Is a directory." in text, text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "node"]


@contextlib.contextmanager
def dead() -> t.Iterator[int]:
    """A port of this machine that drops all packets of new connections, as a machine without power does; yields its number."""
    with socket.socket() as listener, contextlib.ExitStack() as clients:
        listener.bind(("0.0.0.0", 0))  # noqa: S104
        listener.listen(0)
        for _number in range(4):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", listener.getsockname()[1]))
        yield int(listener.getsockname()[1])


@pytest.mark.parametrize(("playbook", "line"), [("status", "DOWN     c1, c2, metal2, metal3: no answer"), ("doctor", ": no answer. Restore the power")])
def test_dead_hosts_take_one_short_connection_each_at_the_same_time(playbook: str, line: str, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path)
    control.configuration = BRIEF
    actions = control.folder / "collections/ansible_collections/reduced/footprint/plugins/action"
    (actions / "status_info.py").symlink_to(ROOT / "plugins/action/status_info.py")
    program, log = tmp_path / "ssh", tmp_path / "connections"
    # each connection: its host, begin and end
    program.write_text(f'#!/bin/sh\nbegan=$(date +%s.%N)\n{shutil.which("ssh")} "$@"\nrc=$?\necho "$*" | grep -o "127[.]0[.]0[.][0-9]" | '
                       f'while read host; do echo $host $began $(date +%s.%N); done >> {log}\nexit $rc\n', "ascii")  # fmt: skip
    program.chmod(0o755)
    with dead() as port:
        off = {"ansible_port": port, "ansible_ssh_executable": str(program)}
        control.more = {name: {"ansible_host": f"127.0.0.{number}", **off} for number, name in enumerate(("metal2", "metal3", "c1", "c2"), 2)}
        control.more["metal1"] = HERE
        began = time.monotonic()
        code, output = control.run(f"reduced.footprint.{playbook}", "-e", json.dumps({**GIVEN, "footprint_cloud": False, f"{playbook}_timeout": 60}))
        took = time.monotonic() - began
    text = output
    assert code == 2 and line in text and all(text.count(name) for name in control.more) and "metal1: no answer" not in text, text
    connections = [line.split() for line in log.read_text("ascii").splitlines()]
    assert sorted(host for host, _begin, _end in connections) == [f"127.0.0.{number}" for number in range(2, 6)], connections
    # with all that a busy machine adds; one after the other they would take 16 seconds
    span = max(float(end) for _host, _begin, end in connections) - min(float(begin) for _host, begin, _end in connections)
    assert span < 12, f"{span:.1f} of {took:.1f} s\n{text}"
