# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server that replaces a lost one has its identity in Nova, which refuses to start without it; an existing identity stays."""

from __future__ import annotations

import pathlib
import uuid

import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

TASKS = yaml.safe_load((ROOT / "roles/compute/tasks/start.yml").read_text("utf-8"))
NAMES = [task["name"] for task in TASKS]
WRITE = "Write the identity of the server in Nova"


def test_identity_is_written_before_the_first_start() -> None:
    assert NAMES.index(WRITE) < NAMES.index("Start or restart the service")


def test_identity_depends_on_the_name_only_and_is_kept(tmp_path: pathlib.Path) -> None:
    task = TASKS[NAMES.index(WRITE)]
    # the account is not on this machine
    task["ansible.builtin.copy"] = {key: value for key, value in task["ansible.builtin.copy"].items() if key not in ("owner", "group")}
    control = ControlNode(tmp_path)

    def written(server: str, name: str) -> str:
        (tmp_path / server).mkdir(exist_ok=True)
        given = {
            "__compute_environment": "home", "compute_hostname": name, "__compute_all_settings": {"DEFAULT": {"state_path": str(tmp_path / server)}},
            **HERE,
        }  # fmt: skip
        code, output = control.play([task], **given)
        assert code == 0, output
        return str(uuid.UUID((tmp_path / server / "compute_id").read_text("utf-8").strip()))

    first = written("lost", "metal2")
    assert written("new", "metal2") == first and written("other", "metal3") != first
    # a server that had one before
    (tmp_path / "new/compute_id").write_text(f"{uuid.UUID(int=7)}\n", "utf-8")
    assert written("new", "metal2") == str(uuid.UUID(int=7))
