# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of install_server that only a run shows: what a failed run leaves for the next one."""

from __future__ import annotations

import pathlib
import shutil
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

FILES = ("install_boot", "install_boot_device", "install_server_steps", "install_write", "shut_down_server")


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    control = ControlNode(tmp_path, "server_power", "server_power_info", "server_hardware_info", "server_install")
    for name in FILES:
        shutil.copy(ROOT / f"playbooks/tasks/{name}.yml", tmp_path)
    control.answers = {
        "server_power localhost": {"changed": True},
        "server_power_info localhost": {"power": {"state": "off", "boot_device": "hdd", "boot_once": False}},
        "server_hardware_info metal2": {"failed": True, "msg": "the disk contains data"},
    }
    return control


def install(control: ControlNode) -> tuple[int, str]:
    """Install a server that is off, with a local connection to it."""
    values: dict[str, t.Any] = {
        "__install_folder": str(control.folder / ".discovered"),
        "__install_begun": "{{ __install_folder }}/metal2.installing",
        "__install_bmc": {},
        "__install_mine": {"recorded": False, "lines": [], "options": {"disk": "DISK"}, "connection": {}},
        "__install_chosen": {"restart": [], "erase": []},
        "install_server_timeout": 5,
    }
    report = {"ansible.builtin.debug": {"msg": "failed: {{ __install_error | default('nothing') }}"}}
    return control.play([{"ansible.builtin.include_tasks": "install_server_steps.yml"}, report], ansible_connection="local", **values)


def test_a_server_that_did_not_boot_over_the_network_is_not_restarted_by_the_next_run(control: ControlNode) -> None:
    # it started the system on its disk instead, and someone may power it on again
    output = install(control)[1]
    assert "failed: metal2 did not boot over the network at 192.0.2.12" in output
    # a shutdown first: that system may have data
    assert [call["arguments"]["state"] for call in control.calls("server_power")] == ["on", "soft"]
    assert not list(control.folder.glob(".discovered/*"))


def test_a_server_that_was_not_powered_on_is_not_restarted_by_the_next_run(control: ControlNode) -> None:
    control.answers["server_power localhost"] = {"failed": True, "msg": "unsupported: the BMC has no boot device"}
    output = install(control)[1]
    assert "failed: unsupported: the BMC has no boot device" in output
    assert [call["arguments"]["state"] for call in control.calls("server_power")] == ["on", "soft", "off"]
    assert not list(control.folder.glob(".discovered/*"))


def test_what_an_interrupted_installation_started_instead_has_time_to_shut_down(control: ControlNode) -> None:
    # the run was killed while the server started the system on its disk
    (control.folder / ".discovered").mkdir()
    (control.folder / ".discovered/metal2.installing").write_text("disk\n", "utf-8")
    control.answers["server_power_info localhost"]["power"]["state"] = "on"
    output = install(control)[1]
    first = control.calls("server_power")[0]["arguments"]
    assert (first["state"], int(first["wait_timeout"])) == ("soft", 120), output


def test_a_server_whose_disk_was_refused_is_not_restarted_by_the_next_run(control: ControlNode) -> None:
    booted = "- ansible.builtin.copy: {content: hdd, dest: '{{ __install_begun }}', mode: '0600'}\n  delegate_to: localhost\n"
    (control.folder / "install_boot.yml").write_text(booted, "utf-8")
    (control.folder / ".discovered").mkdir()
    control.answers["server_power_info localhost"]["power"]["boot_device"] = "pxe"
    control.answers["server_power localhost"] = {"changed": True}
    output = install(control)[1]
    assert "failed: the disk contains data" in output
    assert [call["arguments"].get("boot_device") for call in control.calls("server_power")] == ["hdd"]
    assert not list(control.folder.glob(".discovered/*"))


def test_nor_if_its_controller_does_not_answer_after_that(control: ControlNode) -> None:
    booted = "- ansible.builtin.copy: {content: hdd, dest: '{{ __install_begun }}', mode: '0600'}\n  delegate_to: localhost\n"
    (control.folder / "install_boot.yml").write_text(booted, "utf-8")
    (control.folder / ".discovered").mkdir()
    control.answers["server_power_info localhost"]["power"]["boot_device"] = "pxe"
    control.answers["server_power localhost"] = {"failed": True, "msg": "the BMC does not answer"}
    output = install(control)[1]
    assert "failed: the BMC does not answer" in output
    assert not list(control.folder.glob(".discovered/*"))


CONFIRMED = {"installation": {"state": "complete"}}
SILENT = {"unreachable": True, "msg": "Connection refused"}


@pytest.mark.parametrize(
    ("port", "listens", "tried"),
    [(2222, "22", ["2222", "22"]), (2222, "2222", ["2222"]), (22, "22", ["22"]), (None, "22", [""]), (None, "2222", [""])],
)
def test_a_server_is_confirmed_at_its_port_or_at_that_of_a_new_system(control: ControlNode, port: int | None, listens: str, tried: list[str]) -> None:
    """A new system listens on 22; its operator may have changed the port since."""
    shutil.copy(ROOT / "playbooks/tasks/install_confirm.yml", control.folder)
    here = listens if port else "" if listens == "22" else "none"
    control.answers.update({"server_install metal2": SILENT, f"server_install metal2:{here}": CONFIRMED})
    options = {key: "x" for key in ("name", "disk", "hostname", "address", "network", "authorized_keys")}
    report = {"ansible.builtin.debug": {"msg": "confirmed: {{ __install_found.installation is defined }}"}}
    control.more = {"metal2": {"ansible_host": "192.0.2.12", **({"ansible_port": port} if port else {})}}
    tasks = [*[{"ansible.builtin.include_tasks": "install_confirm.yml"}] * 2, report]
    code, output = control.play(tasks, __install_mine={"options": options}, __install_connection="")
    assert code == 0 and f"confirmed: {here != 'none'}" in output, output
    assert [call["port"] for call in control.calls("server_install")] == tried * 2


@pytest.mark.parametrize(
    ("written", "listens", "tried"),
    [
        (True, "22", ["22"]),
        # the disk already contained the system, and its operator has changed the port, or not yet
        (False, "2222", ["2222"]),
        (False, "22", ["2222", "22"]),
        (False, "none", ["2222", "22", "2222", "22"]),
        (True, "none", ["22"]),
    ],
)
def test_an_installed_system_is_awaited_where_it_may_listen(control: ControlNode, written: bool, listens: str, tried: list[str]) -> None:
    (tasks,) = [task for task in yaml.safe_load((ROOT / "playbooks/tasks/install_start.yml").read_text("utf-8")) if "Wait for" in task["name"]]
    # a module that answers instead of the one that connects
    wait = (ROOT / "playbooks/tasks/install_wait.yml").read_text("utf-8")
    (control.folder / "install_wait.yml").write_text(wait.replace("ansible.builtin.wait_for_connection", "reduced.footprint.server_install"), "utf-8")
    control.answers["server_install metal2"] = {"failed": True, "msg": "timed out waiting for ping module"}
    control.answers[f"server_install metal2:{listens}"] = {"changed": False}
    control.more = {"metal2": {"ansible_host": "192.0.2.12", "ansible_port": 2222}}
    values = {"__install_written": {"changed": written}, "__install_connection": "", "__install_mine": {"options": {"disk": "D"}}}
    code, output = control.play([tasks], install_server_timeout=120, **values)
    assert (code == 0) is (listens != "none") and [call["port"] for call in control.calls("server_install")] == tried, output
    assert [int(call["arguments"]["timeout"]) for call in control.calls()] == [120 if written else 30] * len(tried)
    if listens == "none":
        there = "22" if written else "2222 or 22"
        assert f"does not answer at 192.0.2.12, port {there}, within 120 s (timed out waiting for ping module)" in " ".join(output.split())


@pytest.mark.parametrize("playbook", ["install_server", "discover_servers"])
def test_a_boot_server_that_does_not_exist_is_an_error_before_a_server_is_booted(control: ControlNode, playbook: str) -> None:
    code, output = control.run(f"reduced.footprint.{playbook}", "-e", f"{playbook}_boot_server=deploy9")
    assert code != 0 and f"{playbook}_boot_server: deploy9 is not a host of the inventory. Use one of metal1, metal2." in output, output
    assert not control.calls()
