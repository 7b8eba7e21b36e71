# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run without a change leaves out: each task takes a second on a busy server."""

from __future__ import annotations

import base64
import pathlib
import re
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


@pytest.mark.parametrize(("missing", "ended"), [([], "skipping"), (["reduced-footprint-missing"], "ok")])
def test_apt_is_asked_only_for_missing_packages(control: ControlNode, tmp_path: pathlib.Path, missing: list[str], ended: str) -> None:
    folder = ROOT / "roles/packages/tasks"
    # without the last one, which updates the package lists
    tasks = yaml.safe_load((folder / "main.yml").read_text("utf-8"))[:-1]
    (tmp_path / "installed.yml").write_text((folder / "installed.yml").read_text("utf-8"), "utf-8")
    code, output = control.play(tasks * 2, "metal2", "--check", **HERE, packages_names=["dpkg", "bash", *missing])
    found = results(output)
    assert code == 0 and found["Install the packages"] == [ended] * 2, output
    # it knows them from the first time
    assert found["List the installed packages"] == ["ok"], output


def test_a_package_that_is_not_installed_completely_is_missing(control: ControlNode) -> None:
    keep = yaml.safe_load((ROOT / "roles/packages/tasks/installed.yml").read_text("utf-8"))[1]
    show = {"ansible.builtin.debug": {"msg": "there: {{ __packages_there | join(' ') }}."}}
    listed = {"stdout_lines": ["ii  dpkg", "hi  held", "iU  unpacked", "iF  half", "rc  removed", "iHR broken"]}
    code, output = control.play([keep, show], "metal2", **HERE, __packages_listed=listed)
    assert code == 0 and "there: dpkg held." in output, output
    code, output = control.play([keep, show], "metal2", **HERE, __packages_listed={"failed": True, "msg": "no such program"})
    assert code == 0 and "there: ." in output, output


def test_a_recorded_version_is_not_recorded_again(control: ControlNode, tmp_path: pathlib.Path) -> None:
    schema = [{"ansible.builtin.include_tasks": str(ROOT / "roles/openstack_service/tasks/schema.yml")}]
    given: dict[str, t.Any] = {
        "openstack_service_definition": {"schema": {"package": "dpkg", "commands": [["true"]]}}, "__openstack_service_first": "metal2",
        "__openstack_service_marker": str(tmp_path / "once" / "marker"), "__openstack_service_schema": {"changed": False},
        "__openstack_service_no_database": "none", "__openstack_service_pause": 1,
        "__openstack_service_user": "root", **HERE,
    }  # fmt: skip
    steps = ("Migrate the tables", "Create the directory of completed steps", "Record the version")
    for ended in ("changed", "skipping"):
        code, output = control.play(schema, "metal2", **given)
        assert code == 0 and {step: results(output)[step] for step in steps} == {step: [ended] for step in steps}, output


@pytest.mark.parametrize(("text", "ended"), [('{"mark": "m1", "schema": 1}\n', "skipping"), ('{"mark": "m2", "schema": 1}\n', "changed"), ("", "changed")])
def test_a_recorded_mark_of_the_secrets_is_not_recorded_again(control: ControlNode, tmp_path: pathlib.Path, text: str, ended: str) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/.store").write_text("m1\n", "ascii")
    record = [{"ansible.builtin.include_tasks": str(ROOT / "playbooks/tasks/secrets_record.yml")}]
    used = {"content": base64.b64encode(text.encode()).decode()}
    code, output = control.play(record, "metal2", "--check", **HERE, footprint_secrets=str(tmp_path / "secrets"), __secrets_used=used)
    assert code == 0 and results(output)["Create the directory of the record"] == [ended], output
