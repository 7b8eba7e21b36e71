# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One machine as the witness of two clusters: the deployment of one changes nothing of the other."""

from __future__ import annotations

import pathlib
import shutil
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

ROLE = ROOT / "roles/witness"


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    for name in ("files", "templates"):
        shutil.copytree(ROLE / name, tmp_path / name)
    return ControlNode(tmp_path, "service_files", "service_allow_list")


def variables(cluster: str, **more: t.Any) -> dict[str, t.Any]:
    known = {key: value for name in ("defaults", "vars") for key, value in yaml.safe_load((ROLE / name / "main.yml").read_text("utf-8")).items()}
    addresses = {"__witness_address": "192.0.2.13", "__witness_addresses": ["192.0.2.11", "192.0.2.12"]}
    given = {"__witness_program": "/usr/bin/garbd", "__witness_tls": False, "__witness_installed": {"stat": {"exists": True}}, "footprint_cluster": cluster}
    return {**known, **addresses, **given, **more}


def deployed(control: ControlNode, cluster: str, memory: int) -> dict[str, str]:
    """Return the files of a cluster: path → content."""
    (step,) = [task for task in yaml.safe_load((ROLE / "tasks/main.yml").read_text("utf-8")) if task["name"] == "Configure and start the daemon"]
    control.answers["service_files metal2"] = {"changed": True}
    code, output = control.play([step], **variables(cluster, witness_memory=memory))
    (call,) = control.calls("service_files")
    assert code == 0 and call["arguments"]["units"][0]["name"] == f"garbd@{cluster}.service", output
    # otherwise a changed limit takes effect with the next restart only
    assert set(call["arguments"]["units"][0]["restart_after"]) >= {file["path"] for file in call["arguments"]["files"]}
    return {file["path"]: file["content"] for file in call["arguments"]["files"]}


def test_two_clusters_share_nothing_that_depends_on_their_settings(control: ControlNode) -> None:
    first, second = deployed(control, "home", 64), deployed(control, "lab", 256)
    shared = set(first) & set(second)
    assert shared == {"/etc/systemd/system/garbd@.service", "/usr/local/lib/reduced.footprint/witness_arbitrator.py"}
    assert all(first[path] == second[path] for path in shared)
    limits = [[text for path, text in files.items() if path not in shared and "MemoryMax=" in text] for files in (first, second)]
    assert ["MemoryMax=64M" in limits[0][0], "MemoryMax=256M" in limits[1][0]] == [True, True]


def test_the_limits_of_a_cluster_are_removed_with_its_witness(control: ControlNode) -> None:
    before = deployed(control, "home", 64)
    (step,) = [task for task in yaml.safe_load((ROLE / "tasks/remove.yml").read_text("utf-8")) if task["name"] == "Remove its configuration and state"]
    paths = [path for path in before if "garbd@home" in path]
    assert paths
    step["ansible.builtin.debug"] = {"msg": "removed: {{ item }}"}
    del step["ansible.builtin.file"]
    code, output = control.play([step], **variables("home"))
    assert code == 0 and all(f"removed: {path.rpartition('/')[0]}" in output for path in paths), output
    # the template remains for the other clusters
    assert "garbd@.service" not in output
