# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A witness stays out of the cluster while its members change between TLS and plain text, also if the run also adds it."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_tls
from tests.support.control_node import ROOT, ControlNode

TASKS = ROOT / "roles/galera/tasks"


def task(file: str, name: str) -> dict[str, t.Any]:
    found = yaml.safe_load((TASKS / file).read_text("utf-8"))
    found += [inner for one in found for inner in one.get("block", [])]
    return next(one for one in found if one["name"] == name)


@pytest.mark.parametrize("message, good", [("Could not find the requested service garbd@lab.service: host", True), ("Unable to stop service", False)])
def test_a_witness_that_this_run_adds_need_not_leave(message: str, good: bool, tmp_path: pathlib.Path) -> None:
    (stop,) = yaml.safe_load((TASKS / "tls_witnesses.yml").read_text("utf-8"))
    assert stop.pop("ansible.builtin.systemd_service") == {"name": "{{ __galera_witness_unit }}", "state": "stopped"}
    values = {"__galera_witnesses": ["w1", "metal1"], "__galera_witness_silent": ["w1"]}
    code, output = ControlNode(tmp_path).play([{**stop, "ansible.builtin.fail": {"msg": message}}], **values)
    assert (code == 0) is good, output
    assert "(item=w1)" not in output


RUNS, OFF = {"changed": True, "status": {"ActiveState": "active"}}, {"changed": False, "status": {"ActiveState": "inactive"}}
NEW, DOWN = {"failed": True, "msg": "Could not find the requested service garbd@lab.service: host"}, {"unreachable": True, "msg": "no route"}


@pytest.mark.parametrize(
    "first, second, size, word, refused",
    [
        (RUNS, RUNS, 4, False, None),
        (NEW, OFF, 2, False, None),
        # it is off: before anything is changed, and before the other one leaves
        (RUNS, DOWN, 3, False, "w2 cannot be reached, and would not leave the cluster"),
        (RUNS, DOWN, 3, True, None),
        (DOWN, DOWN, 2, True, None),
        # only ssh is down
        (RUNS, DOWN, 4, True, "But it still votes: 4 votes of 2 members. Power it off first"),
        (OFF, DOWN, 3, True, "But it still votes: 3 votes of 2 members."),
        (RUNS, DOWN, 4, False, "But it still votes"),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_a_witness_that_cannot_leave_is_refused_first(
    first: t.Any, second: t.Any, size: int, word: bool, refused: str | None, check: bool, tmp_path: pathlib.Path
) -> None:
    control = ControlNode(tmp_path, "controlplane_info")
    control.more = {"w1": {"ansible_host": "192.0.2.21"}, "w2": {"ansible_host": "192.0.2.22"}}
    control.answers = {"controlplane_info w1": first, "controlplane_info w2": second}
    steps = yaml.safe_load((TASKS / "tls_check.yml").read_text("utf-8"))
    assert steps[0].pop("ansible.builtin.systemd_service") == {"name": "{{ __galera_witness_unit }}", "state": "stopped"}
    steps[0]["reduced.footprint.controlplane_info"] = {}
    known = {"ansible.builtin.set_fact": {"__galera_here": {"galera": {"primary": True, "size": size}}}}
    values = {"__galera_members": ["metal1", "metal2"], "__galera_witnesses": ["w1", "w2"], "__galera_first": "metal1", "galera_without_witness": word}
    options = ("--check",) if check else ()
    code, output = control.play([known, *steps], "metal1:metal2", *options, __galera_witness_unit="garbd@lab.service", **values)
    text = " ".join(output.split())
    assert (code == 0) is (refused is None) and (refused or "") in text, output
    # nothing is stopped here, which check mode reports
    assert all(call["check"] for call in control.calls())
    assert ("changed: [metal1 -> w1" in text) is (check and first == RUNS), output
    assert ("is left out. Keep it off" in text) is (refused is None and DOWN in (first, second)), output


@pytest.mark.parametrize("live, kept", [(("off", "off"), True), (("both", "off"), True), (("both", None), True), (("on", "on"), False), ((None, None), False)])
def test_stopped_witnesses_are_started_once_the_members_are_done(live: tuple[str | None, ...], kept: bool, tmp_path: pathlib.Path) -> None:
    decision = plan_tls.decide([{"tls": stage} for stage in live], True)
    start = task("cluster.yml", "Start the witnesses")
    del start["ansible.builtin.systemd_service"], start["delegate_to"]
    shown = {**start, "ansible.builtin.debug": {"msg": "started {{ item }}"}}
    code, output = ControlNode(tmp_path).play([shown], __galera_decision={"wake": ["metal1"]}, __galera_tls_decision=decision)
    assert code == 0 and ("started metal1" in output) is not kept, output


@pytest.mark.parametrize("live, included", [(("off", "on"), ["tls.yml"]), (("both", "on"), ["tls_witnesses.yml"]), (("on", "on"), [])])
def test_witnesses_leave_whenever_members_change(live: tuple[str, ...], included: list[str], tmp_path: pathlib.Path) -> None:
    decision = plan_tls.decide([{"tls": stage} for stage in live], True)
    names = ("Change TLS on the running cluster", "Keep the witnesses out while an interrupted change of TLS is completed")
    tasks = [task("install.yml", name) for name in names]
    steps = [{"name": one["name"], "when": one["when"], "debug": {"msg": f"include {one['ansible.builtin.include_tasks']};"}} for one in tasks]
    code, output = ControlNode(tmp_path).play(steps, __galera_tls_decision=decision)
    assert code == 0 and [file for file in ("tls.yml", "tls_witnesses.yml") if f"include {file};" in output] == included, output
    assert task("tls.yml", "Keep the witnesses out")["ansible.builtin.include_tasks"] == "tls_witnesses.yml"
