# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of Corosync and Pacemaker, replaced by a folder of scripts that answer as these do."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, plan_cluster, run_cluster, run_member, xml_cib
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import Vm

VM = Vm("m", "lab", "uuid", "m")
CIB = (
    '<cib epoch="1"><configuration><crm_config><cluster_property_set id="footprint-state"><nvpair id="o" name="footprint-owner-m" value="metal2"/>'
    '</cluster_property_set></crm_config><nodes><node id="1" uname="metal1"/><node id="2" uname="metal2"/></nodes>'
    "<resources/><constraints/></configuration></cib>"
)
MON = (
    '<pacemaker-result><summary><current_dc with_quorum="true"/></summary><nodes><node name="metal1" online="true" unclean="false"/>'
    '<node name="metal2" online="false" unclean="true"/></nodes><resources/></pacemaker-result>'
)
VOTES = "    Nodeid      Votes    Qdevice Name\n         1          1    A,V,NMW metal1 (local)\n         0          {0}            Qdevice\n"


class Programs:
    """The programs; ``calls`` are their command lines."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        self.answers("cibadmin", CIB)
        self.answers("crm_node", "metal1")
        self.answers("crm_mon", MON)
        for name in ("crm_verify", "crm_simulate", "crm_diff", "crm_attribute", "crm_resource", "stonith_admin", "corosync-cmapctl"):
            self.answers(name, "")

    def answers(self, name: str, text: str, code: int = 0) -> None:
        """Let a program answer."""
        (self.folder / f"{name}.out").write_text(text, "utf-8")
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.folder}/calls\ncat {self.folder}/{name}.out\nexit {code}\n', "utf-8")
        path.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        """Return the command lines of a program."""
        path = self.folder / "calls"
        return [line for line in path.read_text("utf-8").splitlines() if line.startswith(f"{name} ")] if path.exists() else []


@pytest.fixture(name="programs")
def fixture_programs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setattr(io_cluster.time, "sleep", lambda seconds: None)
    return Programs(tmp_path, monkeypatch)


def enter(programs: Programs, check_mode: bool = False) -> tuple[str, list[str]]:
    return io_cluster.apply(xml_cib.vm_parts(VM, "metal1", True), xml_cib.is_of_vm("m"), check_mode=check_mode)


def test_a_change_is_checked_and_shown_before_it_is_made(programs: Programs) -> None:
    programs.answers("crm_simulate", "Transition Summary:\n  * Start      vm-m     ( metal1 )\nUsing the original execution date")
    difference, actions = enter(programs, check_mode=True)
    assert '+    <primitive class="ocf" id="vm-m"' in difference and actions == ["Start      vm-m     ( metal1 )"]
    assert programs.calls("crm_verify") and not [each for each in programs.calls("cibadmin") if "--patch" in each]
    programs.answers("crm_diff", "<diff/>", 1)
    assert enter(programs)[0] == difference and [each for each in programs.calls("cibadmin") if "--patch" in each]


def test_a_change_by_others_at_the_same_time_is_repeated(programs: Programs) -> None:
    path = programs.folder / "cibadmin"
    # the version of the configuration is another one by now
    once = f"mkdir {programs.folder}/once 2>/dev/null && exit 103; exit 0"
    path.write_text(path.read_text("utf-8").replace("cat ", f'case "$*" in *--patch*) {once};; esac\ncat '), "utf-8")
    assert enter(programs)[0] and len([each for each in programs.calls("cibadmin") if "--patch" in each]) == 2
    path.write_text(path.read_text("utf-8").replace(once, "exit 103"), "utf-8")
    with pytest.raises(CommandError):
        enter(programs)


def test_warnings_do_not_prevent_a_change(programs: Programs) -> None:
    programs.answers("crm_verify", "crm_verify: Warnings found during check: config may not be valid", 78)
    assert enter(programs)[0]


def test_what_pacemaker_refuses_is_not_applied(programs: Programs) -> None:
    programs.answers("crm_verify", "crm_verify: Errors found during check: config not valid", 78)
    with pytest.raises(BackendError):
        enter(programs)
    assert not [each for each in programs.calls("cibadmin") if "--patch" in each]


@pytest.mark.parametrize(("quorum", "owner", "fails"), [("1", "metal2", False), ("0", "metal2", True), ("1", "metal1", True)])
def test_an_owner_is_recorded_on_a_majority_only(programs: Programs, quorum: str, owner: str, fails: bool) -> None:
    programs.answers("crm_node", quorum)
    if fails:
        with pytest.raises(BackendError):
            io_cluster.set_owner("m", owner)
    else:
        io_cluster.set_owner("m", owner)
    assert bool(programs.calls("crm_attribute")) == (quorum == "1")


def test_silence_is_no_majority_and_no_vote(programs: Programs) -> None:
    for votes, expected in ((1, True), (0, False)):
        programs.answers("corosync-quorumtool", VOTES.format(votes), 2)
        assert io_cluster.has_vote() is expected
    # the other server was restarted, and has not seen the witness since
    for flags, expected in (("A,V,NMW", True), ("A,NV,NMW", False), ("NR", False)):
        programs.answers("corosync-quorumtool", f"{VOTES.format(1)}         2          1    {flags} metal2\n", 2)
        assert io_cluster.has_vote() is expected
    programs.answers("corosync-quorumtool", "Cannot initialize QUORUM service", 1)
    programs.answers("crm_node", "", 102)
    assert not io_cluster.has_vote() and not io_cluster.has_quorum()
    programs.answers("cibadmin", "", 102)
    assert not io_cluster.answers()
    with pytest.raises(CommandError):
        io_cluster.owner("m")


def test_a_cluster_that_is_not_complete_is_waited_for(programs: Programs) -> None:
    io_cluster.wait_formed(["metal1"], 0)
    with pytest.raises(BackendError, match="metal2 not in the cluster"):
        io_cluster.wait_formed(["metal1", "metal2"], 0)


def off(programs: Programs, state: str, lost: str, check_mode: bool = False) -> dict[str, t.Any]:
    return run_cluster.apply({"state": state, "lost": lost}, check_mode=check_mode)


@pytest.mark.parametrize(("state", "lost", "text"), [
    # misspelt: Pacemaker would report success
    ("lost", "metal22", "is not the other server"), ("lost", "metal1", "is not the other server"), ("alone", "metal3", "is not the other server"),
])  # fmt: skip
def test_only_the_other_server_can_be_stated_to_be_off(programs: Programs, state: str, lost: str, text: str) -> None:
    with pytest.raises(RefusedError, match=text):
        off(programs, state, lost)
    assert not programs.calls("stonith_admin") and not programs.calls("corosync-cmapctl")


def test_a_lost_server_is_stated_to_be_off_once(programs: Programs) -> None:
    assert off(programs, "lost", "metal2", check_mode=True)["changed"] and not programs.calls("stonith_admin")
    assert off(programs, "lost", "metal2")["changed"] and programs.calls("stonith_admin") == ["stonith_admin --confirm=metal2"]
    programs.answers("crm_mon", MON.replace('unclean="true"', 'unclean="false"'))
    assert not off(programs, "lost", "metal2")["changed"]
    programs.answers("crm_mon", MON.replace('online="false"', 'online="true"'))
    with pytest.raises(RefusedError, match="metal2 is in the cluster"):
        off(programs, "lost", "metal2")


def test_only_the_server_with_the_disks_continues_alone(programs: Programs) -> None:
    alone = MON.replace('with_quorum="true"', 'with_quorum="false"')
    programs.answers("crm_mon", alone)
    assert off(programs, "alone", "metal2")["changed"] and len(programs.calls("corosync-cmapctl")) == 1
    resources = '<resources><primitive id="vm-m" class="ocf" provider="footprint" type="vm"/></resources>'
    programs.answers("cibadmin", CIB.replace("<resources/>", resources))
    with pytest.raises(RefusedError, match="m ran on metal2 last"):
        off(programs, "alone", "metal2")
    programs.answers("cibadmin", CIB.replace("<resources/>", resources).replace('value="metal2"', 'value="metal1"'))
    assert off(programs, "alone", "metal2", check_mode=True)["changed"]
    programs.answers("crm_mon", MON)
    assert not off(programs, "alone", "metal2")["changed"]


MEMBERS = [{"name": f"metal{n}", "addresses": [f"192.0.2.1{n}"], "watchdog": True} for n in (1, 2)]
GIVEN: dict[str, t.Any] = {
    "state": "present", "part": "server", "cluster": "lab", "members": MEMBERS, "witness": "192.0.2.20", "authkey": "k" * 128, "key": "", "certificate": "",
    "ca": "",
}  # fmt: skip


def test_a_server_is_in_one_cluster_only(programs: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "corosync.conf"
    monkeypatch.setattr(plan_cluster, "COROSYNC", str(conf))
    configured: list[t.Any] = []
    result = {"changed": True, "actions": [], "diff": []}
    monkeypatch.setattr(run_member.run_service_files, "configure", lambda params, check_mode: configured.append(params) or result)
    monkeypatch.setattr(run_member.run_guard, "install_hook", lambda check_mode: False)
    monkeypatch.setattr(run_member.io_units, "code_path", lambda: pathlib.Path("/code.zip"))
    assert run_member.apply(GIVEN, check_mode=True)["changed"] and len(configured) == 1
    monkeypatch.setattr(run_member.io_units, "unit_active", lambda unit: False)
    # the example of the package, and a cluster of an operator
    conf.write_text("totem {\n}\n", "utf-8")
    assert run_member.apply(GIVEN, check_mode=True)["changed"]
    monkeypatch.setattr(run_member.io_units, "unit_active", lambda unit: True)
    with pytest.raises(RefusedError, match="formed otherwise"):
        run_member.apply(GIVEN, check_mode=True)
    others = [{**MEMBERS[0]}, {**MEMBERS[1], "name": "metal3"}]
    conf.write_text(plan_cluster.corosync(run_member.parse_cluster({**GIVEN, "members": others})), "utf-8")
    with pytest.raises(RefusedError, match="in a cluster with metal3"):
        run_member.apply(GIVEN, check_mode=True)
    conf.write_text(plan_cluster.corosync(run_member.parse_cluster({**GIVEN, "cluster": "blue-metal1-metal2"})), "utf-8")
    with pytest.raises(RefusedError, match="in the cluster blue-metal1-metal2"):
        run_member.apply(GIVEN, check_mode=True)
    with pytest.raises(FootprintError, match="128"):
        run_member.apply({**GIVEN, "authkey": "short"}, check_mode=True)
    assert len(configured) == 2


def test_a_witness_votes_in_the_clusters_of_one_environment(programs: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    home = tmp_path / "failover-witness"
    home.mkdir()
    monkeypatch.setattr(plan_cluster, "WITNESS_HOME", str(home))
    monkeypatch.setattr(plan_cluster, "VOTES", str(tmp_path / "votes"))
    monkeypatch.setattr(plan_cluster, "ENVIRONMENT", str(home / "environment"))
    monkeypatch.setattr(run_member.io_units, "UNITS", tmp_path)
    configured: list[t.Any] = []
    result = {"changed": True, "actions": [], "diff": []}
    monkeypatch.setattr(run_member.run_service_files, "configure", lambda params, check_mode: configured.append(params) or result)
    running = True
    monkeypatch.setattr(run_member.io_units, "unit_active", lambda unit: running)
    witness, absent = {**GIVEN, "part": "witness"}, {"state": "absent", "part": "witness"}
    assert not run_member.apply(absent, check_mode=False)["changed"]
    with pytest.raises(RefusedError, match="runs here for others"):
        run_member.apply(witness, check_mode=True)
    running = False
    assert run_member.apply(witness, check_mode=True)["changed"] and configured[0]["files"][0] == {"path": f"{home}/environment", "content": "lab\n"}
    (home / "environment").write_text("lab\n", "utf-8")
    running = True
    assert run_member.apply(witness, check_mode=True)["changed"]
    with pytest.raises(RefusedError, match="clusters of the environment lab") as caught:
        run_member.apply({**witness, "cluster": "blue"}, check_mode=True)
    assert "standby_witnesses" in str(caught.value.hint)
    with pytest.raises(FootprintError, match="cluster"):
        run_member.apply({**witness, "cluster": "../x"}, check_mode=True)
    programs.answers("corosync-qnetd-tool", 'Cluster "lab-metal1-metal2":\n    Algorithm:\t\tFifty-Fifty split\n')
    with pytest.raises(RefusedError, match="vote in lab-metal1-metal2"):
        run_member.apply(absent, check_mode=False)
    programs.answers("corosync-qnetd-tool", "")
    assert run_member.apply(absent, check_mode=True)["changed"] and home.exists()
    assert run_member.apply(absent, check_mode=False)["changed"] and not home.exists()
    assert configured[-1]["units"] == [{"name": "corosync-qnetd.service", "enabled": False, "started": False}]
    running = False
    assert run_member.apply({**witness, "cluster": "blue"}, check_mode=True)["changed"]


def test_a_cluster_with_vms_does_not_end(programs: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    conf = tmp_path / "corosync.conf"
    monkeypatch.setattr(plan_cluster, "COROSYNC", str(conf))
    # the file of its configuration is missing, or in a file system that is not mounted: Pacemaker itself is asked
    assert not io_cluster.is_formed()
    absent = {**GIVEN, "state": "absent"}
    assert not run_member.apply(absent, check_mode=False)["changed"]
    # not of this collection
    conf.write_text("totem {\n}\n", "utf-8")
    assert not run_member.apply(absent, check_mode=False)["changed"] and conf.exists()
    conf.write_text(plan_cluster.corosync(run_member.parse_cluster(GIVEN)), "utf-8")
    programs.answers("cibadmin", CIB.replace("<resources/>", '<resources><primitive id="vm-m"/></resources>'))
    done = run_member.apply(absent, check_mode=False)
    assert not done["changed"] and "may start m" in done["warnings"][0] and conf.exists()
    programs.answers("cibadmin", CIB)
    assert run_member.apply(absent, check_mode=True)["changed"] and conf.exists()
