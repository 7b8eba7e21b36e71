# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nova-compute refuses its first start on a server with VMs, unless Nova knows the service: those of the footprint are no reason, instances are."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import types
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode
from tests.support.program import load

SCRIPT = ROOT / "roles/compute/files/register_service.py"
MASTER = {"id": "master", "instance": None}
INSTANCE = {"id": "instance-00000001", "instance": {"name": "web", "project": "demo"}}
DOWN = {"ansible_host": "127.0.0.1", "ansible_port": 1}
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}


def registered(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, vms: list[t.Any], script: str = "echo registered", first: t.Mapping[str, t.Any] | None = None
) -> tuple[int, str, str]:
    """Register metal2 by metal1 or, after it, itself; returns the exit code and output of the run, and the arguments and input of each command."""
    control = ControlNode(folder, "vm_info")
    control.answers = {"vm_info metal2": {"changed": False, "vms": vms}}
    (folder / "bin").mkdir()
    (folder / "bin/runuser").write_text(f'#!/bin/sh\necho "$@" >> {folder}/ran\ncat >> {folder}/ran\n{script}\n', "utf-8")
    (folder / "bin/runuser").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    (folder / "host_vars").mkdir()
    for name, variables in (("metal1", first or LOCAL), ("metal2", LOCAL)):
        (folder / f"host_vars/{name}.yml").write_text(yaml.safe_dump(dict(variables)), "utf-8")
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.compute", "tasks_from": "register"}}
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "metal2", "gather_facts": False, "any_errors_fatal": True, "tasks": [role]}]), "utf-8")
    code, output = control.run(str(folder / "play.yml"), "-e", "nova_group=virt")
    return code, output, (folder / "ran").read_text("utf-8") if (folder / "ran").exists() else ""


def test_a_server_with_vms_of_the_footprint_is_registered(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = registered(tmp_path, monkeypatch, [MASTER])
    assert code == 0 and "changed=1" in output, output
    assert ran.strip() == f"-u nova -- python3 - metal2\n{SCRIPT.read_text('utf-8').strip()}"


def test_a_server_that_is_registered_is_not_changed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = registered(tmp_path, monkeypatch, [], "echo there")
    assert code == 0 and "changed=0" in output and ran, output


def test_a_server_with_instances_is_left_to_nova(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = registered(tmp_path, monkeypatch, [MASTER, INSTANCE])
    assert code == 0 and "changed=0" in output and not ran, output


def test_another_controller_registers_it_while_the_first_one_is_down(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, ran = registered(tmp_path, monkeypatch, [], first=DOWN)
    assert code == 0 and "changed: [metal2] => (item=metal2)" in output and ran.count("python3 - metal2") == 1, output


def test_the_unit_is_active_after_nova_compute_has_looked_at_the_vms() -> None:
    """nova-compute reports that it is ready before that, and the gate takes an active unit for a running one."""
    unit = (ROOT / "roles/compute/templates/unit.conf.j2").read_text("utf-8")
    (command,) = [line for line in unit.splitlines() if line.startswith("ExecStartPost=")]
    assert command.rpartition("=")[2].split()[0] == "/usr/bin/sleep" and int(command.split()[-1]) >= 10


class Database:
    """What the script uses of Nova: cells, and the services of each."""

    def __init__(self, **cells: list[str]) -> None:
        self.cells, self.inside = cells, ""

    def modules(self) -> dict[str, types.ModuleType]:
        """Return the modules of Nova."""
        one = types.SimpleNamespace
        mappings = [one(name=name, is_cell0=lambda name=name: name == "cell0") for name in self.cells]
        found = {name: types.ModuleType(name) for name in ("nova", "nova.config", "nova.context", "nova.objects")}
        vars(found["nova"]).update({name: found[f"nova.{name}"] for name in ("config", "context", "objects")})
        vars(found["nova.context"]).update(get_admin_context=lambda: "admin", target_cell=self.target)
        vars(found["nova.objects"]).update(CellMappingList=one(get_all=lambda context: mappings), Service=self.service())
        return found

    def service(self) -> type:
        """Return the class of services."""
        database = self

        class Service:
            """A record that is created."""

            def __init__(self, _context: str, **given: t.Any) -> None:
                self.given = given

            @staticmethod
            def get_by_host_and_binary(_context: str, host: str, binary: str) -> str | None:
                """Return the service of a host."""
                return next((one for one in database.cells[database.inside] if one.startswith(f"{host} {binary} ")), None)

            def create(self) -> None:
                """Add it to the cell in use."""
                database.cells[database.inside].append(" ".join(self.given[name] for name in ("host", "binary", "topic")))

        return Service

    @contextlib.contextmanager
    def target(self, _context: str, cell: t.Any) -> t.Iterator[str]:
        """Use the database of a cell."""
        self.inside = cell.name
        yield "inside"


@pytest.mark.parametrize(
    ("cells", "added", "after"),
    [
        ({"cell0": [], "cell1": []}, True, ["metal1 nova-compute compute"]),
        ({"cell0": [], "cell1": ["metal1 nova-compute compute"]}, False, ["metal1 nova-compute compute"]),
        ({"cell0": [], "cell1": [], "cell2": []}, False, []),
    ],
    ids=["new", "there", "several cells"],
)
def test_the_record_is_added_once(monkeypatch: pytest.MonkeyPatch, cells: dict[str, list[str]], added: bool, after: list[str]) -> None:
    database = Database(**cells)
    for name, module in database.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    script = load("roles/compute/files/register_service.py")
    assert script.register("metal1") is added
    assert database.cells["cell1"] == after
