# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Patch day on three servers, which are restarted through their management controllers while a client writes.

Each has a controller, metal3 also a machine that is moved live, and a container that is shut down. The controllers are sushy-tools with the lab's power
behind it. Chapters run in order on one lab.
"""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import typing as t

import bare
import pytest
import yaml
from add_server_lab import SERVERS, promises_kept
from replace_lab import LOGS, NOTES, WEB, ReplaceLab
from support import eventually

pytestmark = pytest.mark.chapter

# the machine that counts does not react to a shutdown
MOVED = ("-e", json.dumps({"maintain_virt_node_destinations": {NOTES: "metal1"}, "maintain_virt_node_move_options": {"force": True, "shutdown_timeout": 5}}))
REFUSED = "maintain_virt_node_servers=metal3"


class Controllers(bare.Server):
    """The management controllers of all servers: one process, a system for each."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.port, self.log, self.password = bare.free_port(), LOGS / "controllers.log", secrets.token_hex(12)
        self.certificate, self._key = bare.certificate(folder)
        (folder / "emulator.py").write_text(f"SUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\n", "utf-8")
        here = str(pathlib.Path(__file__).parent)
        account = {"ACCOUNT": f"{bare.USER}:{self.password}", "SUSHY_EMULATOR_CONFIG": str(folder / "emulator.py")}
        self._env = {**os.environ, **account, "PYTHONPATH": here, "PYTHONDONTWRITEBYTECODE": "1"}
        self.url = f"https://localhost:{self.port}"

    def __enter__(self) -> Controllers:
        argv = [str(bare.environment() / "bin" / "python"), "-m", "gunicorn", "--workers", "1", "--threads", "4", "--bind", f"127.0.0.1:{self.port}"]
        self.start([*argv, "--certfile", str(self.certificate), "--keyfile", str(self._key), "lab_systems:app"], self._env)
        return self

    def powered(self) -> list[str]:
        """The changes of the power so far."""
        return [line.removeprefix("power ") for line in self.log.read_text("utf-8").splitlines() if line.startswith("power ")]


@pytest.fixture(scope="module", name="controllers")
def fixture_controllers(lab: ReplaceLab, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Controllers]:
    """The management controllers, which the inventory names."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with Controllers(tmp_path_factory.mktemp("controllers")) as found:
        nodes = lab.inventory_path / "nodes.yml"
        content = yaml.safe_load(nodes.read_text("utf-8"))
        for server in SERVERS:
            account = {"address": f"localhost:{found.port}", "user": bare.USER, "secret": "bmc/lab", "verify_ca": str(found.certificate), "system": server}
            content["servers"][server]["bmc"] = account
        nodes.write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
        [folder] = (lab.inventory_path / ".secrets").iterdir()
        (folder / "bmc").mkdir(mode=0o700, exist_ok=True)
        (folder / "bmc/lab.txt").write_text(found.password + "\n", "utf-8")
        (folder / "bmc/lab.txt").chmod(0o600)
        yield found


def boots(lab: ReplaceLab) -> dict[str, str]:
    """The identity of the present boot of each server."""
    # the boot ID is the kernel's, which all servers of the lab share
    return {server: lab.ssh(server, "cut -d' ' -f22 /proc/1/stat").strip() for server in SERVERS}


def journal(lab: ReplaceLab) -> list[pathlib.Path]:
    """The journals of unfinished runs."""
    return list(lab.inventory_path.glob(".maintenance-*.json"))


def as_before(lab: ReplaceLab) -> None:
    """All VMs run where they ran before, and all is healthy."""
    assert lab.machines("metal3") == [NOTES] and lab.machines("metal1") == []
    assert lab.running("metal3") == ["controller2", WEB]
    assert not journal(lab)
    # the copies of a VM that was moved begin again
    eventually("it is copied to its standby", lambda: lab.copies("metal1") == [NOTES], 180)
    lab.whole()


def test_servers_have_controllers_and_other_vms(lab: ReplaceLab, controllers: Controllers) -> None:
    if WEB not in lab.running("metal3"):
        # a lab that is used again may have one of them
        lab.remove_vm(NOTES)
        lab.add_vms("metal3", "metal1")
    assert lab.writing() and controllers.powered() == []
    as_before(lab)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (["maintain_virt_node_servers=metal9"], "metal9"),
        (['{"maintain_virt_node_destinations": {"notes": "metal9"}}'], "metal9"),
        (['{"maintain_virt_node_destinations": {"notse": "metal1"}}'], "notse"),
    ],
)
def test_slips_are_refused(lab: ReplaceLab, controllers: Controllers, variables: list[str], words: str) -> None:
    before = boots(lab)
    lab.fails("maintain_virt_node", *[word for one in variables for word in ("-e", one)], words=[words])
    assert boots(lab) == before and controllers.powered() == [] and not journal(lab)


def test_check_mode_shows_what_becomes_of_each_vm(lab: ReplaceLab, controllers: Controllers) -> None:
    before = boots(lab)
    done = lab.succeeds("maintain_virt_node", *MOVED, "--check", "--diff")
    assert "check mode: nothing was changed" in done.output and done.changed == 0
    print([line.strip() for line in done.output.splitlines() if NOTES in line or WEB in line])
    assert boots(lab) == before and controllers.powered() == [] and not journal(lab)


def test_all_servers_are_maintained_while_a_client_writes(lab: ReplaceLab, controllers: Controllers) -> None:
    before = boots(lab)
    number = lab.number("metal3")
    done = lab.succeeds("maintain_virt_node", *MOVED)
    assert all(boots(lab)[server] != before[server] for server in SERVERS), (before, boots(lab))
    # one after the other, and each only when the last one serves again
    assert controllers.powered() == [f"{change} {server}" for server in SERVERS for change in ("GracefulShutdown", "On")], done.output[-3000:]
    assert lab.number("metal3") > number
    as_before(lab)
    promises_kept(lab)


def test_killed_while_the_server_is_off_it_is_completed(lab: ReplaceLab, controllers: Controllers, tmp_path: pathlib.Path) -> None:
    tasks = tmp_path / "tasks.yml"
    tasks.write_text("- name: Write a file\n  ansible.builtin.copy: {content: done, dest: /root/maintained, mode: '0600'}\n", "utf-8")
    options = ("-e", f"maintain_virt_node_tasks={tasks}", *MOVED)
    before = boots(lab)
    lab.killed("maintain_virt_node", "-e", REFUSED, *options, kill_at="TASK [Restart it through its management controller", kill_delay=8)
    state = json.loads(journal(lab)[0].read_text("utf-8"))
    assert state["server"] == "metal3" and lab.machines("metal1") == [NOTES], state
    assert lab.writing()
    lab.fails("maintain_virt_node", "-e", "maintain_virt_node_servers=metal1", *options, words=["metal3"])
    done = lab.succeeds("maintain_virt_node", "-e", REFUSED, *options)
    assert "metal3" in done.output and lab.ssh("metal3", "cat", "/root/maintained") == "done"
    after = boots(lab)
    assert after["metal3"] != before["metal3"] and {**after, "metal3": ""} == {**before, "metal3": ""}
    as_before(lab)


def test_a_management_controller_that_fails_stops_it_and_loses_nothing(lab: ReplaceLab, controllers: Controllers, tmp_path: pathlib.Path) -> None:
    tasks = tmp_path / "tasks.yml"
    tasks.write_text("- name: Do nothing\n  ansible.builtin.meta: noop\n", "utf-8")
    options = ("-e", f"maintain_virt_node_tasks={tasks}", *MOVED)
    before = boots(lab)
    controllers.__exit__()
    failed = lab.fails("maintain_virt_node", "-e", REFUSED, *options, words=["The maintenance stops here"])
    assert controllers.password not in failed.output
    assert boots(lab) == before and journal(lab) and lab.writing()
    controllers.__enter__()
    lab.succeeds("maintain_virt_node", "-e", REFUSED, *options)
    as_before(lab)


def test_no_row_was_lost(lab: ReplaceLab) -> None:
    promises_kept(lab)
    written = lab.written()
    assert written["rows_lost"] == 0, written
    print(f"largest gap a client saw: {written['largest_gap_seconds']} s at {written['largest_gap_at']} of {written['rows_acked']} rows")
