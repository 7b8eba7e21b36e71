# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies to a standby and moves: a witness that kept a start would keep the VM off, and the copies of a VM elsewhere must stay."""

from __future__ import annotations

import base64
import json
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.reduced.footprint.plugins.lookup import playbook_variables

from tests.support.control_node import ROOT, ControlNode


@pytest.mark.parametrize(
    ("state", "first", "asked"),
    [
        ("started", "metal2", ["metal2", "metal1"]),
        ("receiving", "metal2", ["metal1"]),
        # not to its first server, which would start its old VM after a restart if no one knew of the start
        ("started", "metal3", []),
    ],
)
def test_the_witnesses_forget_the_start_before_the_standby_does(tmp_path: pathlib.Path, state: str, first: str, asked: list[str]) -> None:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info")
    control.answers = {
        "vm_standby_info metal1": {"standbys": [{"id": "notes", "part": "standby", "state": state, "copies": [{"source": "metal9"}, {"source": first}]}]},
        "vm_standby metal1": {"changed": True},
        "vm_standby metal2": {"changed": True},
    }
    tasks = yaml.safe_load((ROOT / "playbooks/tasks/move_vm_steps.yml").read_text("utf-8"))[-1:]
    # metal2 is destination and witness here
    values = {"move_vm_id": "notes", "move_vm_destination": "metal2", "move_vm_state": "moved", "standby_witnesses": ["metal2"], "footprint_cluster": "lab"}
    code, output = control.play(tasks, "metal1", **values)
    assert code == 0, output
    assert [(call["host"], call["arguments"]["state"]) for call in control.calls("vm_standby")] == [(host, "returned") for host in asked]
    assert ("and is not on its first server metal3 now" in " ".join(output.split())) == (not asked)


def steps(folder: pathlib.Path) -> list[dict[str, t.Any]]:
    """Return the tasks of a move, with the file that they import next to the play."""
    (folder / "move_vm_call.yml").write_text((ROOT / "playbooks/tasks/move_vm_call.yml").read_text("utf-8"), "utf-8")
    return yaml.safe_load((ROOT / "playbooks/tasks/move_vm_steps.yml").read_text("utf-8"))


#: Steps of a move that concern the copies of the VM.
COPIES = ("Read whether the VM is copied from this host", "Find its copies", "Check that a copied VM can be moved", "Save the result of this check",
          "Pause the copies to the standby", "Move the VM", "Show that it is not copied any more", "End the copies to the standby")  # fmt: skip
REFUSED = {"failed": True, "msg": "metal2 has no active storage pool"}


@pytest.mark.parametrize(
    ("part", "state", "rehearsed", "result", "states"),
    [
        ("source", "moved", {"move": {"state": "new"}}, {"move": {"state": "moved"}}, ["paused"]),
        # the copies continue by themselves
        ("source", "moved", {"move": {"state": "new"}}, REFUSED, ["paused"]),
        ("source", "moved", REFUSED, REFUSED, []),
        # a second run, and one that waits for the move or continues it
        ("source", "moved", {"move": {"state": "moved"}}, {"move": {"state": "moved"}}, []),
        ("source", "moved", {"move": {"state": "running"}}, {"move": {"state": "moved"}}, []),
        ("source", "confirmed", {"move": {"state": "moved"}}, {"move": {"state": "confirmed"}}, ["absent"]),
        ("source", "confirmed", {"move": {"state": "moved"}}, REFUSED, []),
        ("source", "returned", {"move": {"state": "moved"}}, {"move": {"state": "returned"}}, []),
        # a repeated command, or one with another source, runs on the standby
        ("standby", "moved", REFUSED, {"move": {"state": "moved"}}, []),
        ("standby", "confirmed", REFUSED, {"move": {"state": "confirmed"}}, []),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_copies_end_only_with_the_move(tmp_path: pathlib.Path, part: str, state: str, rehearsed: t.Any, result: t.Any, states: list[str], check: bool) -> None:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info", "vm_move")
    control.answers = {
        "vm_standby_info metal1": {"standbys": [{"id": "notes", "part": part, "state": "copied", "standby": "metal9"}]},
        "vm_standby metal1": {"changed": True},
        "vm_move metal1": result,
        "vm_move metal1 check": rehearsed,
    }
    tasks = steps(tmp_path)
    tasks = [task for task in tasks if task["name"] in COPIES]
    if check:
        control.answers["vm_move metal1"] = control.answers["vm_move metal1 check"] = rehearsed if part == "source" and state == "moved" else result
        result = control.answers["vm_move metal1"]
    values = {"move_vm_id": "notes", "move_vm_state": state, "move_vm_destination": "metal2", "footprint_cluster": "lab", "__move_vm_prepared": {}}
    code, output = control.play(tasks, "metal1", *(["--check"] if check else []), **values)
    assert (code == 0) == ("failed" not in result), output
    assert [call["arguments"]["state"] for call in control.calls("vm_standby")] == states
    assert ("notes would not be copied to metal9" in output) == (check and code == 0 and part == "source" and state == "moved"), output
    # nothing is paused before all that can refuse
    names = [call["name"] for call in control.calls()]
    assert "paused" not in states or names.index("vm_move") < names.index("vm_standby") < len(names) - 1


@pytest.mark.parametrize(
    ("result", "states"),
    [
        ({"state": "running"}, []),
        ({"state": "running", "to": "metal2"}, []),
        # that of a run with another destination
        ({"state": "running", "to": "metal3"}, ["absent"]),
        ({"state": "failed"}, ["absent"]),
        (None, ["absent"]),
    ],
)
@pytest.mark.parametrize("failed", [False, True])
def test_the_key_of_a_running_worker_is_kept(tmp_path: pathlib.Path, failed: bool, result: dict[str, str] | None, states: list[str]) -> None:
    # the module has waited for wait_timeout, or not at all, or has refused a call while the worker runs
    control = ControlNode(tmp_path, "vm_move", "one_time_key")
    control.answers = {"vm_move metal1": {"failed": failed, **({"move": result} if result else {})}, "one_time_key metal2": {}}
    tasks = steps(tmp_path)
    tasks = [task for task in tasks if task["name"] == "Move the VM"]
    values = {"__move_vm_prepared": {"public_key": "ssh-ed25519 AAAA"}, "footprint_cluster": "lab"}
    code, output = control.play(tasks, "metal1", move_vm_id="notes", move_vm_state="returned", move_vm_destination="metal2", **values)
    assert (code != 0) == failed, output
    assert [call["arguments"]["state"] for call in control.calls("one_time_key")] == states


@pytest.mark.parametrize(
    ("scanned", "keys"), [("# comment\n[127.0.0.1]:22 ssh-ed25519 AAAA", ["ssh-ed25519 AAAA"]), ("", ["ssh-ed25519 BBBB root@metal2"])]
)
def test_host_keys_of_a_server_that_listens_on_one_address_only(tmp_path: pathlib.Path, scanned: str, keys: list[str]) -> None:
    control = ControlNode(tmp_path, "command", "find", "slurp", "vm_move")
    control.answers = {
        "command metal2": {"stdout": scanned, "stdout_lines": scanned.splitlines(), "rc": 0 if scanned else 1, "changed": True},
        "find metal2": {"files": [{"path": "/etc/ssh/ssh_host_ed25519_key.pub"}]},
        "slurp metal2": {"content": base64.b64encode(b"ssh-ed25519 BBBB root@metal2\n").decode(), "encoding": "base64"},
        "vm_move metal1": {"move": {"state": "moved"}},
    }
    tasks = steps(tmp_path)
    names = [task["name"] for task in tasks]
    tasks = tasks[names.index("Read the host keys of the destination") : names.index("Move the VM") + 1]
    tasks = [task for task in tasks if task["name"] != "Pause the copies to the standby"]
    # the plugins of the test answer instead
    text = json.dumps(tasks)
    for name in ("command", "find", "slurp"):
        text = text.replace(f'"ansible.builtin.{name}"', f'"reduced.footprint.{name}"')
    tasks = json.loads(text)
    values = {"move_vm_id": "notes", "move_vm_state": "moved", "move_vm_destination": "metal2", "footprint_cluster": "lab"}
    code, output = control.play(tasks, "metal1", **values)
    assert code == 0, output
    assert control.calls("vm_move")[0]["arguments"]["destination"]["host_keys"] == keys
    assert bool(control.calls("slurp")) == (not scanned)


def test_the_options_of_the_way_back_are_accepted() -> None:
    options = yaml.safe_load((ROOT / "playbooks/argument_specs/move_vm.yml").read_text("utf-8"))["argument_specs"]["move_vm"]["options"]
    given = {"move_vm_id": "notes", "move_vm_source": "metal2", "move_vm_destination": "metal1"}
    # docs/standby.md
    assert playbook_variables.invalid(options, {**given, "move_vm_options": {"keep_disks": True}}) == []
    assert playbook_variables.invalid(options, {**given, "move_vm_options": {"keep_disk": True}}) != []


@pytest.mark.parametrize("text", ["keep_disks=true", '{"keep_disks": true}'])
def test_options_as_text_are_not_ignored(text: str) -> None:
    # without keep_disks, the disks of the old copy are removed
    options = yaml.safe_load((ROOT / "playbooks/argument_specs/move_vm.yml").read_text("utf-8"))["argument_specs"]["move_vm"]["options"]
    given = {"move_vm_id": "notes", "move_vm_source": "metal2", "move_vm_destination": "metal1", "move_vm_options": text}
    (message,) = playbook_variables.invalid(options, given)
    assert message == f"move_vm_options: must be a mapping, not the text {text!r}. Use -e '{{\"move_vm_options\": {{...}}}}'."


def test_a_group_is_not_a_source(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info", "vm_move")
    given = [word for name, value in (("id", "notes"), ("source", "virt"), ("destination", "metal2")) for word in ("-e", f"move_vm_{name}={value}")]
    code, output = control.run("reduced.footprint.move_vm", *given)
    assert code != 0 and "move_vm_source: virt is not a server of the inventory. Use one of metal1, metal2." in output, output
    assert not control.calls()


def test_a_source_outside_the_limit_is_not_a_success(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby", "vm_standby_info", "vm_move")
    given = [word for name, value in (("id", "notes"), ("source", "metal1"), ("destination", "metal2")) for word in ("-e", f"move_vm_{name}={value}")]
    code, output = control.run("reduced.footprint.move_vm", *given, "--limit", "metal2")
    assert code != 0 and "move_vm_source: metal1 is excluded by --limit metal2." in output, output


@pytest.mark.parametrize(
    ("address", "options", "good"),
    [
        ("192.0.2.12", {}, True),
        ("2001:db8::12", {}, True),
        ("metal2.example.com", {}, False),
        ("deadbeef", {}, False),
        ("metal2.example.com", {"destination_lost": "metal3"}, True),
    ],
)
def test_a_destination_without_an_address_is_refused_first(tmp_path: pathlib.Path, address: str, options: dict[str, str], good: bool) -> None:
    # later, the copies to the standby would have been removed
    control = ControlNode(tmp_path)
    control.more = {"metal3": {"ansible_host": address}}
    step = yaml.safe_load((ROOT / "playbooks/tasks/move_vm_steps.yml").read_text("utf-8"))[0]
    code, output = control.play([step], "metal1", move_vm_destination="metal3", move_vm_options=options)
    assert (code == 0) == good, output
    assert good or f"ansible_host of metal3: {address} is a name." in " ".join(output.split()), output
