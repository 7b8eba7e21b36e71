# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run without a change costs is first of all its number of tasks."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = pathlib.Path(__file__).resolve().parents[4]
ROLE = ROOT / "roles" / "virt_host"
DISTRIBUTIONS = sorted(path for path in (ROLE / "vars").glob("*.yml") if path.name != "main.yml")


def load(path: pathlib.Path) -> t.Any:
    return yaml.safe_load(path.read_text("utf-8"))


def test_provisioning_a_host_without_a_change_has_at_most_fifteen_tasks() -> None:
    (play,) = load(ROOT / "playbooks" / "provision_virt.yml")
    gates = [*load(ROOT / "playbooks" / "tasks" / "expert_gate.yml")[:1], *load(ROOT / "playbooks" / "tasks" / "validate_variables.yml")]
    # which run once, whatever the number of hosts
    assert all(task["run_once"] for task in gates)
    names = [task["name"] for task in play["pre_tasks"]]
    assert names == ["Pass the expert gate", "Gather local facts", "Check which server the machine is"] and play["gather_facts"] is False
    tasks = [*load(ROLE / "tasks" / "main.yml")[1:], *load(ROOT / "roles" / "packages" / "tasks" / "distribution.yml")]
    # skipped ones count, and so does the check of the arguments that Ansible puts before them
    assert len(gates) + 1 + len(names[1:]) + len(tasks) <= 15
    # what is included only where there is something to do has a condition; a loop would be many tasks in one
    assert all("when" in task for task in tasks if "ansible.builtin.include_tasks" in task)
    assert not any("loop" in task or "block" in task for task in tasks)


def test_the_supported_distributions_are_there() -> None:
    assert {path.stem for path in DISTRIBUTIONS} == {"Debian", "Debian-13", "RedHat-9"}


def trusted(value: t.Any) -> t.Any:
    """Mark the texts of a YAML file as templates."""
    if isinstance(value, dict):
        return {key: trusted(one) for key, one in value.items()}
    if isinstance(value, list):
        return [trusted(one) for one in value]
    return trust_as_template(value) if isinstance(value, str) else value


@pytest.mark.parametrize("path", DISTRIBUTIONS, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("hypervisors", "vms", "wanted"),
    [
        (["kvm", "qemu"], [{"id": "lxc", "name": "lxc-old", "hypervisor": "qemu"}], False),
        (["kvm", "qemu", "lxc"], [], True),
        (["kvm"], [{"id": 1, "hypervisor": "lxc", "cpu": 1}], True),
        (["kvm"], '[{"id": 1, "hypervisor":"lxc"}]', True),
    ],
)
def test_nothing_of_containers_is_installed_without_them(path: pathlib.Path, hypervisors: list[str], vms: t.Any, wanted: bool) -> None:
    variables = trusted({**load(ROLE / "defaults" / "main.yml"), **load(path), **load(ROLE / "vars" / "main.yml")})
    templar = Templar(loader=DataLoader(), variables={**variables, "virt_host_hypervisors": hypervisors, "virt_host_vms": vms})
    packages, guests = (templar.template(trust_as_template("{{ %s }}" % name)) for name in ("__virt_host_wanted_packages", "__virt_host_guests_conf_base"))
    wanted = wanted and path.stem != "RedHat-9"
    assert any("lxc" in name for name in packages) is wanted and ("lxc" in guests["URIS"]) is wanted
    assert "libvirt-daemon-driver-qemu" in packages and "qemu:///system" in guests["URIS"]
