# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server that runs nova-compute with its settings is neither registered nor mapped again: each takes seconds on a controller."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode


@pytest.mark.parametrize("actions", [[], ["start nova-compute.service"], ["restart nova-compute.service"]])
def test_only_a_server_with_differences_is_changed(tmp_path: pathlib.Path, actions: list[str]) -> None:
    control = ControlNode(tmp_path, "service_files")
    control.answers = {"service_files metal2 check": {"changed": bool(actions), "actions": actions}}
    (tmp_path / "start.yml").write_text("[{debug: {msg: settings are applied}}]", "utf-8")
    tasks = yaml.safe_load((ROOT / "roles/compute/tasks/serve.yml").read_text("utf-8"))[0]["block"][-2:]
    given = {"__compute_unit_files": [], "__compute_authorities": [], "__compute_files": [], "__compute_record": [{"path": "mapped"}],
             "__compute_unit": "nova-compute.service", **HERE}  # fmt: skip
    code, output = control.play(tasks, **given)
    assert code == 0 and "changed=0" in output and ("settings are applied" in output) == bool(actions), output
    # a service that does not run is a difference
    (call,) = control.calls()
    assert call["check"] and call["arguments"]["units"][0]["started"]
    # nor is one that was not mapped
    assert call["arguments"]["files"] == [{"path": "mapped"}]


@pytest.mark.parametrize("need, written", [("", False), ("restart", False), ("", True)], ids=["nothing", "of a killed run", "written"])
def test_libvirt_is_only_restarted_after_a_change(tmp_path: pathlib.Path, need: str, written: bool) -> None:
    control = ControlNode(tmp_path, "service_files")
    control.answers = {"service_files metal2": {"changed": written, "needs": {"libvirtd.service": need}}}
    tasks = yaml.safe_load((ROOT / "roles/compute/tasks/migrate.yml").read_text("utf-8"))
    given = {"__compute_tls_files": [], "__compute_listener_files": [], "__compute_libvirt_conf": [], **HERE}
    code, output = control.play(tasks, **given)
    units = [[unit.get("act", True) for unit in call["arguments"]["units"]] for call in control.calls()]
    assert code == 0 and units == [[False], *([[True, True]] if need or written else [])], output
