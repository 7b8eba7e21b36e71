# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role standby: copies of lost VMs are not replaced by those of empty disks, and the end of copies is completed after a kill."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

COPY = {"id": "20261126T100000Z", "source": "metal2", "uuid": "u1", "copied": "2026-11-26T10:00:00Z", "verified": "2026-11-26T10:00:09Z"}
HERE = {"id": "notes", "name": "notes", "uuid": "u1", "state": "running", "moved": None}
# of the copies
KEY = {"public_key": "ssh-ed25519 AAAA reduced.footprint-migrate-standby-notes@lab"}
VM = {"id": "notes", "ram": 1, "hypervisor": "qemu", "disks": [{"size": "1 GiB", "format": "qcow2"}], "standby": "metal1"}


@pytest.mark.parametrize(
    ("here", "copies", "variables", "refused"),
    [
        # installed again, with and without libvirt
        ({"vms": []}, [COPY], {}, True),
        ({"failed": True, "msg": "cannot connect to libvirt"}, [COPY], {}, True),
        # it was started on its standby, and its server is back
        ({"vms": [{**HERE, "state": "shutdown", "moved": "metal1"}]}, [COPY], {}, False),
        ({"vms": []}, [], {}, False),
        ({"vms": []}, [COPY], {"virt_guests_state": "absent"}, False),
        ({"vms": []}, [COPY], {"virt_guests_only": "web, notes"}, True),
        ({"vms": []}, [COPY], {"vms": [], "standby_extra": [VM]}, False),
    ],
)
def test_a_vm_with_copies_is_not_created_again(tmp_path: pathlib.Path, here: t.Any, copies: t.Any, variables: t.Any, refused: bool) -> None:
    control = ControlNode(tmp_path, "virt_node_info", "vm_standby_info", "vm_info")
    control.answers = {
        "virt_node_info metal1": {"node": {}},
        "vm_standby_info metal1": {"standbys": [{"id": "notes", "part": "standby", "used_bytes": 1, "copies": copies}]},
        "vm_info metal2": here,
    }
    play = yaml.safe_load((ROOT / "playbooks/spawn_vms.yml").read_text("utf-8"))[0]
    (task,) = [task for task in play["pre_tasks"] if task["name"] == "Check the standbys"]
    values = {"virt_guests_state": "running", "virt_guests_only": [], "footprint_cluster": "lab", "vms": [VM], **variables}
    code, output = control.play([task], **values)
    assert (code != 0) is refused, output
    if refused:
        assert "vms[0].standby: notes is not on metal2, but metal1 has a copy of 2026-11-26T10:00:00Z. It would be created" in " ".join(output.split())


@pytest.mark.parametrize(("here", "good"), [({"vms": []}, False), ({"failed": True, "msg": "cannot connect to libvirt"}, False), ({"vms": [HERE]}, True)])
def test_a_standby_that_does_not_answer_may_have_copies(tmp_path: pathlib.Path, here: t.Any, good: bool) -> None:
    control = ControlNode(tmp_path, "virt_node_info", "vm_standby_info", "vm_info")
    silent = {"unreachable": True, "msg": "down"}
    control.answers = {"virt_node_info metal1": silent, "vm_standby_info metal1": silent, "vm_info metal2": here}
    task = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby", "tasks_from": "check"}}
    code, output = control.play([task], vms=[VM], footprint_cluster="lab", __standby_creates=True, __standby_only=[])
    assert (code == 0) is good, output
    assert ("vms[0].standby: notes is not on metal2, and metal1 does not answer. If that has copies" in " ".join(output.split())) is not good


@pytest.mark.parametrize(("uuid", "refused"), [("u1", False), ("u2", True)])
def test_the_key_and_the_copies_of_another_vm_are_not_replaced(tmp_path: pathlib.Path, uuid: str, refused: bool) -> None:
    control = ControlNode(tmp_path, "virt_node_info", "vm_standby_info", "vm_info")
    control.answers = {
        "virt_node_info metal1": {"node": {}},
        "vm_standby_info metal1": {"standbys": [{"id": "notes", "part": "standby", "used_bytes": 1, "copies": [{**COPY, "uuid": uuid}]}]},
        "vm_info metal2": {"vms": [HERE]},
    }
    task = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby", "tasks_from": "check"}}
    code, output = control.play([task], vms=[VM], footprint_cluster="lab")
    assert (code != 0) is refused, output
    if refused:
        assert "vms[0].standby: metal1 has copies of another VM with the ID notes, from metal2. Give one" in " ".join(output.split())


@pytest.mark.parametrize(
    ("now", "there", "expected"),
    [
        # changed now: the copies stay until the new standby has one
        ({"standby": "metal3", "former_standbys": [], "copied": "2026"}, {}, (["metal3"], [], [])),
        ({"standby": "metal1", "former_standbys": ["metal3"], "copied": None}, {}, (["metal3"], [], [])),
        ({"standby": "metal1", "former_standbys": ["metal3"], "copied": "2026"}, {}, (["metal3"], ["metal3"], ["metal3"])),
        ({"standby": "metal1", "former_standbys": ["metal3"], "copied": "2026"}, {"unreachable": True, "msg": "down"}, (["metal3"], ["metal3"], [])),
        # not in the inventory any more
        ({"standby": "metal9", "former_standbys": ["metal8"], "copied": "2026"}, {}, ([], [], ["metal8", "metal9"])),
        ({"standby": "metal1", "former_standbys": [], "copied": "2026"}, {}, ([], [], [])),
        # an earlier witness, and an earlier standby that is a witness now
        (
            {"standby": "metal1", "former_standbys": [], "copied": "2026", "key_accepted_by": ["metal1", "w1", "metal3"]},
            *({}, (["metal3"], ["metal3"], ["metal3"])),
        ),
        ({"standby": "metal1", "former_standbys": ["w1"], "copied": "2026", "key_accepted_by": ["metal1", "w1"]}, {}, ([], ["w1"], ["w1"])),
    ],
)
def test_an_earlier_standby_keeps_neither_key_nor_copies(tmp_path: pathlib.Path, now: t.Any, there: t.Any, expected: t.Any) -> None:
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    entry = {"id": "notes", "part": "source", "cluster": "lab", "state": "copied", "kept_off": False, **KEY, **now}
    entry.setdefault("key_accepted_by", [now["standby"], *now["former_standbys"]])
    control.answers = {
        "vm_standby_info metal2": {"standbys": [entry]},
        "vm_standby_info w1": {"standbys": []},
        "vm_standby w1": {"changed": True},
        "vm_standby_info metal3": there or {"standbys": [{"id": "notes", "part": "standby", "state": "receiving"}]},
        "one_time_key metal3": there or {"changed": True},
        "vm_standby metal2": {"changed": True},
        "vm_standby metal3": there or {"changed": True},
    }
    control.more = {"metal3": {"ansible_host": "192.0.2.13"}, "w1": {"ansible_host": "192.0.2.21"}}
    folder = ROOT / "roles/standby"
    tasks = [task for task in yaml.safe_load((folder / "tasks/main.yml").read_text("utf-8")) if not task["name"].startswith("Copy the VMs")]
    # without the connections that it needs
    (copy,) = [task for task in yaml.safe_load((folder / "tasks/one.yml").read_text("utf-8")) if task["name"] == "Copy the disks of the VM"]
    values = {**yaml.safe_load((folder / "defaults/main.yml").read_text("utf-8")), **yaml.safe_load((folder / "vars/main.yml").read_text("utf-8"))}
    values.update(vms=[VM], footprint_cluster="lab", __standby_keys={"results": []}, standby_witnesses=["w1"])
    values["__standby_vm"] = {"id": "notes", "server": "metal1", "interval": 900, "copies": 2}
    copy["vars"]["__standby_machines"] = [{"host": "192.0.2.11"}]
    code, output = control.play([*tasks, copy], **values)
    assert code == 0, output
    withdrawn = [call["host"] for call in control.calls("one_time_key")]
    removed = [call["host"] for call in control.calls("vm_standby") if call["arguments"].get("state") == "absent"]
    (present,) = [call["arguments"] for call in control.calls("vm_standby") if "standby" in call["arguments"]]
    assert (withdrawn, removed, sorted(present["removed_standbys"])) == expected, output


def test_the_host_key_of_a_machine_whose_ssh_server_does_not_listen_on_the_loopback_address(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby")
    control.answers = {"vm_standby metal2": {"changed": True}}
    control.more = {"w1": {"ansible_host": "192.0.2.21"}}
    tasks = {task["name"]: task for task in yaml.safe_load((ROOT / "roles/standby/tasks/one.yml").read_text("utf-8"))}
    scanned = {"item": "metal1", "stdout": "# hello\n127.0.0.1 ssh-ed25519 AAAA", "stdout_lines": ["# hello", "127.0.0.1 ssh-ed25519 AAAA"]}
    silent = {"item": "w1", "rc": 1, "stdout": "# refused", "stdout_lines": ["# refused"]}
    loop = tasks["Read them from the file, where the ssh server does not listen on the loopback address"]["loop"]
    asked = {"debug": {"msg": "asked {{ item.item }}"}, "loop": loop}
    values = {
        "__standby_keys": {"results": [scanned, silent]},
        "__standby_key_files": {"results": [{"item": silent, "content": "c3NoLWVkMjU1MTkgQkJCQiByb290QHcxCg=="}]},
        "__standby_now": {"standbys": []}, "__standby_removed_copies": {"results": []}, "standby_cluster": "lab",
        "__standby_vm": {"id": "notes", "server": "metal1", "interval": 900, "copies": 2, "automatic": False}, "standby_watchdog": "auto",
    }  # fmt: skip
    code, output = control.play([asked, tasks["Copy the disks of the VM"]], **values)
    assert code == 0 and "asked w1" in output and "asked metal1" not in output, output
    (call,) = control.calls("vm_standby")
    assert call["arguments"]["standby"]["host_keys"] == ["ssh-ed25519 AAAA"]
    assert [one["host_keys"] for one in call["arguments"]["witnesses"]] == [["ssh-ed25519 BBBB root@w1"]]


def test_the_server_of_a_vm_is_not_its_own_witness(tmp_path: pathlib.Path) -> None:
    # one list for all servers: it would answer itself that the VM was not started elsewhere
    tasks = {task["name"]: task for task in yaml.safe_load((ROOT / "roles/standby/tasks/one.yml").read_text("utf-8"))}
    shown = {"debug": {"msg": "asked: {{ __standby_voters | join(' ') }}."}, "vars": tasks["Determine the source address towards the standby"]["vars"]}
    values = {"__standby_vm": {"server": "metal1"}, "standby_witnesses": ["metal1", "metal2", "w1", "w1"]}
    code, output = ControlNode(tmp_path).play([shown], **values)
    assert code == 0 and "asked: metal1 w1." in output, output


def test_a_vm_that_runs_on_its_earlier_standby_gets_no_other_one(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    control.more = {"metal3": {"ansible_host": "192.0.2.13"}}
    entry = {"id": "notes", "part": "source", "cluster": "lab", "standby": "metal3", "former_standbys": [], "copied": "2026", "kept_off": False}
    entry.update(key_accepted_by=["metal3"], **KEY)
    control.answers = {
        "vm_standby_info metal2": {"standbys": [entry]},
        "vm_standby_info metal3": {"standbys": [{"id": "notes", "part": "standby", "state": "started"}]},
    }
    task = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby"}}
    code, output = control.play([task], vms=[VM], footprint_cluster="lab")
    assert code != 0 and "notes was started on its earlier standby metal3. Move it back with move_vm" in " ".join(output.split()), output
    assert control.calls("one_time_key") == control.calls("vm_standby") == []


def test_the_server_of_the_vm_is_the_last_one_that_forgets_its_copies(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    entry = {"id": "notes", "part": "source", "cluster": "lab", "state": "copied", "kept_off": False, "standby": "metal1", "key_accepted_by": ["metal1"], **KEY}
    control.answers = {
        "vm_standby_info metal2": {"standbys": [entry]},
        "one_time_key metal1": {"changed": True},
        # a run that ends here is repeated
        "vm_standby metal1": {"failed": True, "msg": "the copies of notes are in use by another process"},
        "vm_standby metal2": {"changed": True},
    }
    task = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby"}}
    code, output = control.play([task], vms=[], footprint_cluster="lab")
    assert code != 0 and [call["host"] for call in control.calls("vm_standby")] == ["metal1"], output
    # a standby that is down does not prevent it
    control.answers["one_time_key metal1"] = control.answers["vm_standby metal1"] = {"unreachable": True, "msg": "down"}
    code, output = control.play([task], vms=[], footprint_cluster="lab")
    assert code == 0 and [call["host"] for call in control.calls("vm_standby")] == ["metal1", "metal2"], output


@pytest.mark.parametrize(("kept_off", "ends", "good"), [(False, False, True), (True, False, False), (True, True, True)])
def test_an_old_vm_does_not_lose_its_guard(tmp_path: pathlib.Path, kept_off: bool, ends: bool, good: bool) -> None:
    # it was kept on its standby, whose list has it now; the server that was lost is back nevertheless
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    entry = {"id": "notes", "part": "source", "cluster": "lab", "state": "copied", "standby": "metal1", "key_accepted_by": ["metal1"], **KEY}
    control.answers = {"vm_standby_info metal2": {"standbys": [{**entry, "kept_off": kept_off}]}}
    control.answers |= {f"{name} {host}": {"changed": True} for name in ("vm_standby", "one_time_key") for host in ("metal1", "metal2")}
    task = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby"}, "vars": {"__standby_ends": ends}}
    code, output = control.play([task], vms=[], footprint_cluster="lab")
    assert (code == 0) == good, output
    if not good:
        assert "metal2 has notes still, and keeps it off, because it may run on another server" in " ".join(output.split())
        assert control.calls("vm_standby") == control.calls("one_time_key") == []


def test_key_and_copies_of_a_moved_vm_are_those_of_its_new_server(tmp_path: pathlib.Path) -> None:
    # its move is not confirmed yet
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    entry = {"id": "notes", "part": "source", "cluster": "lab", "state": "moved", "kept_off": False, "standby": "metal1", **KEY}
    entry["key_accepted_by"] = ["metal1"]
    control.answers = {"vm_standby_info metal2": {"standbys": [entry]}, "vm_standby metal2": {"changed": True}, "one_time_key metal1": {"changed": False}}
    code, output = control.play([{"ansible.builtin.include_role": {"name": "reduced.footprint.standby"}}], vms=[], footprint_cluster="lab")
    assert code == 0 and [(call["host"], call["arguments"]["state"]) for call in control.calls("vm_standby")] == [("metal2", "absent")], output
    # unless it has placed its own one already
    (call,) = control.calls("one_time_key")
    assert call["arguments"]["public_key"] == KEY["public_key"]


@pytest.mark.parametrize("check", [False, True])
def test_no_machine_keeps_the_key_of_a_vm_without_standby(tmp_path: pathlib.Path, check: bool) -> None:
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    control.more = {name: {"ansible_host": f"192.0.2.2{name[-1]}"} for name in ("w1", "w2", "metal3")}
    entry = {"id": "notes", "part": "source", "cluster": "lab", "state": "copied", "kept_off": False, "standby": "metal1", **KEY}
    entry["key_accepted_by"] = ["metal1", "w1", "w2", "metal3", "removed"]
    others = [{**entry, "id": "web", "cluster": "green"}, {"id": "web", "part": "ended", "cluster": "green", "key_accepted_by": ["w1"], **KEY}]
    hosts = ("metal1", "metal2", "metal3", "w1", "w2")
    control.answers = {f"{name} {host}": {"changed": True} for name in ("vm_standby", "one_time_key") for host in hosts}
    control.answers["vm_standby_info metal2"] = {"standbys": [entry, *others]}
    control.answers["one_time_key w1"] = {"unreachable": True, "msg": "down"}
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby"}}
    options = ("--check",) if check else ()

    def run(vms: t.Any = ()) -> tuple[list[tuple[str, str]], t.Any, str]:
        code, output = control.play([role], "metal2", *options, vms=list(vms), footprint_cluster="lab")
        keys = [(call["host"], call["arguments"]["public_key"]) for call in control.calls("one_time_key")]
        assert code == 0 and all(call["check"] is check for call in control.calls("")[1:]), output
        return keys, control.calls("vm_standby"), " ".join(output.split())

    keys, calls, output = run()
    assert keys == [(host, KEY["public_key"]) for host in ("metal1", "w1", "w2", "metal3")]
    assert [(call["host"], call["arguments"]["state"], sorted(call["arguments"].get("withdrawn_from", []))) for call in calls] == [
        ("metal1", "absent", []), ("metal2", "absent", ["metal1", "metal3", "removed", "w2"]),
    ]  # fmt: skip
    assert "w1 did not answer, so the key with which notes was copied is still accepted there. The next run withdraws it" in output
    # the next run withdraws it, also if the VM is copied again, and says where it cannot
    ended = {"id": "notes", "part": "ended", "cluster": "lab", "state": "ended", "key_accepted_by": ["w1"], **KEY}
    control.answers["vm_standby_info metal2"] = {"standbys": [ended, *others]}
    keys, calls, output = run()
    assert keys == [("w1", KEY["public_key"])] and "w1 did not answer" in output
    assert [(call["arguments"]["state"], call["arguments"]["withdrawn_from"]) for call in calls] == [("withdrawn", [])]
    control.answers["one_time_key w1"] = {"changed": True}
    keys, calls, output = run()
    assert keys == [("w1", KEY["public_key"])] and "did not answer" not in output
    assert [(call["arguments"]["state"], call["arguments"]["withdrawn_from"]) for call in calls] == [("withdrawn", ["w1"])]
    control.answers["vm_standby_info metal2"] = {"standbys": others}
    assert run()[:2] == ([], [])


@pytest.mark.parametrize(("address", "good"), [("192.0.2.13", True), ("2001:db8::13", True), ("laptop.example.com", False)])
def test_a_witness_without_an_address_is_refused_first(tmp_path: pathlib.Path, address: str, good: bool) -> None:
    control = ControlNode(tmp_path)
    control.more = {"laptop": {"ansible_host": address}}
    steps = [task for task in yaml.safe_load((ROOT / "roles/standby/tasks/check.yml").read_text("utf-8")) if "addresses of standbys" in task["name"]]
    code, output = control.play(steps, __standby_list=[{"server": "metal1"}], standby_witnesses=["laptop"])
    assert (code == 0) == good, output
    assert good or f"ansible_host of laptop: {address} is a name." in " ".join(output.split()), output


@pytest.mark.parametrize(
    "witnesses",
    [
        [],
        # neither of the two servers is one
        ["metal1", "metal2"],
    ],
)
def test_an_automatic_start_needs_a_witness(tmp_path: pathlib.Path, witnesses: t.Any) -> None:
    control = ControlNode(tmp_path, "virt_node_info", "vm_standby_info", "vm_info")
    task = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby", "tasks_from": "check"}}
    vm = {**VM, "standby": {"server": "metal1", "automatic": True}}
    code, output = control.play([task], vms=[vm], footprint_cluster="lab", standby_witnesses=witnesses)
    assert code != 0 and "vms[0].standby.automatic: notes needs at least one witness" in " ".join(output.split()) and not control.calls(""), output


def test_the_automatic_start_ends_before_its_keys(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    entry = {"id": "notes", "part": "source", "cluster": "lab", "state": "copied", "kept_off": False, "standby": "metal1", "automatic": True, **KEY}
    entry["key_accepted_by"] = ["metal1"]
    control.answers = {f"{name} {host}": {"changed": True} for name in ("vm_standby", "one_time_key") for host in ("metal1", "metal2")}
    control.answers["vm_standby_info metal2"] = {"standbys": [entry]}
    code, output = control.play([{"ansible.builtin.include_role": {"name": "reduced.footprint.standby"}}], "metal2", vms=[], footprint_cluster="lab")
    done = [(call["host"], call["arguments"].get("state"), call["arguments"].get("purpose")) for call in control.calls("")[1:]]
    assert code == 0 and done[0] == ("metal2", "disarmed", None) and done[1] == ("metal1", "absent", "standby"), output
