# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of migrate_server that only a run shows: the order over several virt hosts, the variables of each server, and what a failure stops."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

#: Instead of the role, which needs machines: what it would move, and with what.
_ROLE = """
- reduced.footprint.vm_info:
    id: "{{ master_migrate_source }}"
  register: __asked
- reduced.footprint.master_migrate:
    name: "{{ master_migrate_name }}"
    services: "{{ master_migrate_services }}"
    admin: {address: "{{ master_migrate_admin_address }}"}
    max_passes: "{{ master_migrate_max_passes | int }}"
    vm: "{{ {'ram': master_migrate_ram, 'source': master_migrate_source} }}"
  register: master_migrate_result
"""
NODE = {"capacity": {"memory_left_mib": 8192}, "pools": {"default": {"available_bytes": 900 << 30}}}
OLD = {
    "db1": {"ansible_host": "192.0.2.21", "master_migrate_services": ["postgresql"], "master_migrate_ram": 4},
    "web1": {"ansible_host": "192.0.2.22", "master_migrate_destination": "metal2", "migrate_server_after": ["db1"]},
    "web2": {"ansible_host": "192.0.2.23", "master_migrate_services": "all"},
}


class Moves(ControlNode):
    """A control node with the playbook; the role asks only, so that its steps can be seen."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__(folder, "virt_node_info", "master_migrate_info", "master_migrate", "vm_info")
        role = folder / "collections/ansible_collections/reduced/footprint/roles"
        role.unlink()
        for path in (ROOT / "roles").glob("*"):
            if path.name != "master_migrate":
                (role / path.name).parent.mkdir(exist_ok=True)
                (role / path.name).symlink_to(path)
        for name in ("defaults", "meta", "vars"):
            (role / "master_migrate" / name).parent.mkdir(exist_ok=True)
            (role / "master_migrate" / name).symlink_to(ROOT / "roles/master_migrate" / name)
        (role / "master_migrate/tasks").mkdir()
        (role / "master_migrate/tasks/main.yml").write_text(_ROLE, "utf-8")
        (role / "master_migrate/tasks/options.yml").symlink_to(ROOT / "roles/master_migrate/tasks/options.yml")
        self.migrations: dict[str, list[dict[str, t.Any]]] = {"metal1": [], "metal2": []}

    def move(self, *options: str, **failing: str) -> tuple[int, str]:
        """Run the playbook with confirmation; servers in ``failing`` fail with a message."""
        for number, name in enumerate(OLD):
            OLD[name]["master_migrate_temporary_address"] = f"192.0.2.12{number}"
        for node in ("metal1", "metal2"):
            self.answers[f"virt_node_info {node}"] = {"node": NODE}
            self.answers[f"master_migrate_info {node}"] = {"migrations": self.migrations[node]}
            self.answers.setdefault(f"vm_info {node}", {})
            self.answers.setdefault(f"master_migrate {node}", {"migration": {"state": "done"}})
        (self.folder / "old.yml").write_text(yaml.safe_dump({"old": {"hosts": OLD}}), "utf-8")
        given = ("-i", str(self.folder / "old.yml"), "-e", "migrate_server_hosts=web1,db1,web2", "-e", "expert_mode=true", *options)
        return self.run("reduced.footprint.migrate_server", *given, master_migrate_max_passes=3)

    def moved(self) -> list[tuple[str, str]]:
        """The servers that the role was run for, and where."""
        return [(call["arguments"]["vm"]["source"], call["host"]) for call in self.calls("master_migrate")]


CONFIRM = ("-e", "migrate_server_confirm=db1,web1,web2")


@pytest.fixture(name="moves")
def fixture_moves(tmp_path: pathlib.Path) -> Moves:
    return Moves(tmp_path)


def test_each_server_moves_in_order_with_its_own_variables(moves: Moves) -> None:
    code, output = moves.move(*CONFIRM)
    # the state on the virt hosts is that of before
    assert code != 0 and "Not moved: db1, web1, web2." in output, output
    assert moves.moved() == [("db1", "metal1"), ("web1", "metal2"), ("web2", "metal1")], output
    db1, web1, web2 = (call["arguments"] for call in moves.calls("master_migrate"))
    assert (db1["services"], web1["services"], web2["services"]) == (["postgresql"], [], "all")
    # those that a server does not have are those of its virt host, or the defaults, and not those of the server before
    assert [int(one["vm"]["ram"]) for one in (db1, web1, web2)] == [4, 2, 2] and [int(one["max_passes"]) for one in (db1, web1, web2)] == [6, 3, 6]
    assert [one["name"] for one in (db1, web1, web2)] == ["db1", "web1", "web2"]
    assert [one["admin"]["address"] for one in (db1, web1, web2)] == ["192.0.2.21", "192.0.2.22", "192.0.2.23"]


def test_a_failure_stops_before_the_next_server_also_on_another_host(moves: Moves) -> None:
    moves.answers["master_migrate metal2"] = {"failed": True, "msg": "The migration web1 failed: too slow."}
    moves.migrations["metal1"] = [{"name": "other", "state": "done", "phase": "commit", "phases": {}, "source": {"address": "192.0.2.99"}}]
    code, output = moves.move(*CONFIRM)
    assert code != 0 and moves.moved() == [("db1", "metal1"), ("web1", "metal2")], output
    assert "web1: The migration web1 failed: too slow." in output and "web2: not begun" in output


def test_check_mode_checks_all_servers_and_fails_with_all_problems(moves: Moves) -> None:
    moves.answers["master_migrate metal1"] = {"failed": True, "msg": "no rsync"}
    moves.answers["master_migrate metal2"] = {"migration": {"state": "running", "progress": {}}}
    code, output = moves.move("--check")
    assert code != 0 and len(moves.moved()) == 3, output
    # one that is running is checked as well
    assert "db1: no rsync" in output and "web2: no rsync" in output and "web1: no problem was found" in output and "Problems of db1, web2." in output, output


def test_servers_that_have_moved_are_not_touched_again(moves: Moves) -> None:
    for name, node in (("db1", "metal1"), ("web1", "metal2"), ("web2", "metal1")):
        source = {"address": OLD[name]["ansible_host"]}
        moves.migrations[node].append({"name": name, "state": "done", "phase": "commit", "phases": {"quiesce": {}}, "source": source, "host": node})
    code, output = moves.move()
    assert code == 0 and not moves.moved() and "web1 has moved: web1 serves from a VM of metal2" in output, output


def test_nothing_is_changed_without_a_confirmation(moves: Moves) -> None:
    code, output = moves.move()
    assert code == 0 and not moves.moved() and "nothing is changed without -e migrate_server_confirm=db1,web1,web2" in output, output
    code, output = moves.move("-e", "migrate_server_confirm=db1")
    assert code != 0 and not moves.moved() and "Nothing was changed: migrate_server_confirm: db1 are not all servers that would move." in output, output
    # neither check mode nor a rehearsal pauses a server
    code, output = moves.move("--check")
    assert code == 0 and len(moves.moved()) == 3 and "web2: no problem was found" in output, output
    moves.move("-e", "master_migrate_stop_after=rehearse")
    assert len(moves.moved()) == 3


def test_neither_a_virt_host_nor_a_vm_of_one_moves_in_this_way(moves: Moves) -> None:
    more = ("-e", '{"migrate_server_hosts": ["metal2", "db1", "cp1"]}', "-e", "migrate_server_confirm=metal2,db1,cp1")
    OLD["cp1"] = {"ansible_host": "192.0.2.24", "vm_host": "metal1"}
    try:
        code, output = moves.move(*more)
    finally:
        del OLD["cp1"]
    assert code != 0 and not moves.moved(), output
    for what in ("metal2 is a virt host", "cp1 is a VM of metal1"):
        assert f"migrate_server_hosts: {what}, which does not move into a VM." in " ".join(output.split()), output
