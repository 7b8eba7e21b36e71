# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of distributions: all roles load them in one way, and distributions differ in values, not in names."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
LOADER = ROLES / "packages" / "tasks" / "distribution.yml"
#: Roles that support one distribution: their checks refuse all others, or name it in a message.
CHECKS = ("compute", "keystone", "openstack_service", "ovn_chassis", "ovn_database")
#: Files that may name a distribution.
NAMING = {LOADER, *(ROLES / name for name in ("test_image/tasks/main.yml", "standby/tasks/automatic.yml"))}
NAMING |= {ROLES / name / "tasks" / "check.yml" for name in CHECKS}
FILES = {
    role.name: sorted(path for path in (role / "vars").glob("*.yml") if path.name != "main.yml") for role in ROLES.iterdir() if (role / "vars").is_dir()
}


def load(path: pathlib.Path) -> t.Any:
    return yaml.safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(name for name, files in FILES.items() if files))
def test_role_with_variables_of_distributions_loads_them(name: str) -> None:
    tasks = [task for path in (ROLES / name / "tasks").glob("*.yml") for task in load(path)]
    assert {"name": "reduced.footprint.packages", "tasks_from": "distribution"} in [task.get("ansible.builtin.import_role") for task in tasks]


@pytest.mark.parametrize("path", [path for files in FILES.values() for path in files], ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_distribution_sets_the_same_names(path: pathlib.Path) -> None:
    values = load(path)
    assert set(values) == set(load(FILES[path.parts[-3]][0]))
    for value in values.values():
        assert not isinstance(value, list) or len(value) == len(set(map(str, value)))


def test_only_the_loader_chooses_by_distribution() -> None:
    found = [path for folder in ("tasks", "templates", "vars", "defaults") for path in ROLES.glob(f"*/{folder}/*") if path not in NAMING]
    assert found
    for path in found:
        assert not re.search(r"os_family|ansible_facts[.]distribution|include_vars", path.read_text("utf-8")), path
