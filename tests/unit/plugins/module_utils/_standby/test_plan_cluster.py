# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a cluster: what must be in them, without which old disks would be started."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
import typing as t
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._standby import plan_cluster
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import parse_cluster
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import CLUSTER, FORMER, Record

UUID = "6a1f3c6e-0000-4000-8000-000000000001"

BMC = {"address": "192.0.2.101", "user": "fence", "password": "hidden word"}
MEMBERS = [{"name": f"metal{n}", "addresses": [f"192.0.2.1{n}"], "bmc": {**BMC, "address": f"192.0.2.10{n}"}, "watchdog": True} for n in (1, 2)]
GIVEN: dict[str, t.Any] = {
    "cluster": "lab", "members": MEMBERS, "witness": "192.0.2.20", "authkey": "k" * 128, "key": "KEY", "certificate": "CERTIFICATE", "ca": "CA",
}  # fmt: skip


def section(text: str, name: str) -> str:
    """Return a section of the configuration of Corosync."""
    lines, depth = [], 0
    for line in text.splitlines():
        if depth or line.strip().startswith(f"{name} {{"):
            depth += line.count("{") - line.count("}")
            lines.append(line.strip())
    return "\n".join(lines)


def files(**more: t.Any) -> dict[str, dict[str, t.Any]]:
    given = {**GIVEN, **more}
    return {each["path"]: each for each in plan_cluster.member_files(parse_cluster(given), given, "/code.zip", "/usr/bin/python3")}


def test_nothing_starts_before_all_three_have_been_seen() -> None:
    quorum = section(plan_cluster.corosync(parse_cluster(GIVEN)), "quorum")
    assert "wait_for_all: 1" in quorum and "expected_votes: 3" in quorum and "two_node" not in quorum
    assert "host: 192.0.2.20" in quorum and "algorithm: ffsplit" in quorum and "tls: required" in quorum and "votes: 1" in quorum
    # the server that runs the VM keeps the vote
    assert f"exec_vm: {plan_cluster.RUNS}" in section(quorum, "heuristics") and "mode: sync" in quorum
    assert "sync_timeout" not in quorum
    watched = plan_cluster.corosync(parse_cluster({**GIVEN, "watchdog": "always"}))
    assert "sync_timeout: 14000" in section(watched, "device")


def test_each_network_is_a_link() -> None:
    two = [{**each, "addresses": [*each["addresses"], f"198.51.100.1{each['name'][-1]}"]} for each in MEMBERS]
    nodes = section(plan_cluster.corosync(parse_cluster({**GIVEN, "members": two})), "nodelist")
    assert nodes.count("ring0_addr") == nodes.count("ring1_addr") == 2 and "ring1_addr: 198.51.100.12" in nodes
    assert "ring1" not in plan_cluster.corosync(parse_cluster(GIVEN))
    # both servers have the same file
    assert plan_cluster.corosync(parse_cluster(GIVEN)) == plan_cluster.corosync(parse_cluster({**GIVEN, "members": MEMBERS[::-1]}))


def test_secrets_are_in_files_of_root_only() -> None:
    found = files()
    for path, text in ((plan_cluster.AUTHKEY, "k" * 128), (f"{plan_cluster.HOME}/key.pem", "KEY"), (f"{plan_cluster.HOME}/bmc-metal1", "hidden word\n")):
        assert found[path]["content"] == text and found[path]["mode"] in ("0400", "0600") and found[path]["secret"]
    shown = [path for path, each in found.items() if not each.get("secret") and any(word in each["content"] for word in ("hidden word", "k" * 128, "KEY\n"))]
    assert not shown
    assert found[plan_cluster.password_script("metal2")]["content"] == f"#!/bin/sh\nexec cat {plan_cluster.HOME}/bmc-metal2\n"


def test_only_what_is_used_is_written() -> None:
    assert plan_cluster.SBD not in files() and plan_cluster.BUNDLE not in files()
    assert "SBD_WATCHDOG_TIMEOUT=15\n" in files(watchdog="always")[plan_cluster.SBD]["content"]
    found = files(members=[{**each, "bmc_authority": "AUTHORITY\n"} for each in MEMBERS])
    assert found[plan_cluster.BUNDLE]["content"] == "AUTHORITY\n"
    assert plan_cluster.BUNDLE in found["/etc/systemd/system/pacemaker.service.d/reduced-footprint.conf"]["content"]


def test_a_server_of_one_cluster_may_be_the_witness_of_another() -> None:
    witness = {each["path"] for each in plan_cluster.witness_files({**GIVEN, "cluster": "lab"})}
    assert plan_cluster.ENVIRONMENT in witness and not witness & set(files())


def test_a_change_never_restarts_what_runs_vms() -> None:
    units = {each["name"]: each for each in plan_cluster.member_units(parse_cluster(GIVEN))}
    assert list(units) == ["corosync.service", "corosync-qdevice.service", "pacemaker.service"] and all(each["enabled"] for each in units.values())
    assert [name for name, each in units.items() if each.get("restart_after")] == ["corosync-qdevice.service"]
    assert [each["name"] for each in plan_cluster.member_units(parse_cluster({**GIVEN, "watchdog": "always"}))][0] == "sbd.service"


@pytest.mark.parametrize("name", ["agent", "runs", "nssdb"])
def test_scripts_are_valid(name: str) -> None:
    text = {"agent": files()[plan_cluster.AGENT], "runs": files()[plan_cluster.RUNS], "nssdb": files()[f"{plan_cluster.HOME}/nssdb"]}[name]["content"]
    assert "@" not in text.replace("$@", "") or name == "nssdb"
    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("record", "runs", "vote"),
    [
        ({"start": CLUSTER}, True, True),
        ({"start": CLUSTER}, False, False),
        ({}, True, False),
        # one that was paused here, after its standby had started it
        ({"start": CLUSTER, "role": FORMER}, True, False),
        (None, True, False),
    ],
)
def test_the_server_that_runs_a_vm_keeps_the_vote(tmp_path: pathlib.Path, record: dict[str, str] | None, runs: bool, vote: bool) -> None:
    text = files()[plan_cluster.RUNS]["content"].replace("/etc/reduced.footprint/vms", str(tmp_path)).replace("/run/libvirt/qemu", str(tmp_path))
    if record is not None:
        (tmp_path / f"{UUID}.json").write_text(Record("lab", "m", UUID, "m")._replace(**record).to_json(), "utf-8")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "-uuid", UUID if runs else "another"]) as process:
        (tmp_path / "m.pid").write_text(f"{process.pid}\n", "utf-8")
        time.sleep(0.2)
        done = subprocess.run(["sh", "-c", text], check=False)
        process.kill()
    assert (done.returncode == 0) is vote


def test_the_agent_describes_itself(tmp_path: t.Any) -> None:
    agent = tmp_path / "vm"
    agent.write_text(plan_cluster.agent("/code.zip", "/usr/bin/python3"), "utf-8")
    said = subprocess.run(["sh", agent, "meta-data"], check=True, capture_output=True, text=True).stdout
    root = ET.fromstring(said)
    # a changed parameter must not restart the VM
    assert {each.get("name"): each.get("reloadable") for each in root.iter("parameter")} == dict.fromkeys(("id", "cluster", "uuid", "name"), "1")
    assert {"start", "stop", "monitor", "meta-data", "reload-agent"} <= {each.get("name") for each in root.iter("action")}
    assert subprocess.run(["sh", agent, "promote"], check=False).returncode == 3
