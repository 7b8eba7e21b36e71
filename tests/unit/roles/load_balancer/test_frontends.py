# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""After a change every frontend must answer; without one, one at each virtual address."""

from __future__ import annotations

import pathlib
import re
import socket

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode


@pytest.mark.parametrize(("changed", "asked"), [(True, ["database", "identity", "images", "public"]), (False, ["images", "public"])])
def test_which_frontends_must_answer(tmp_path: pathlib.Path, changed: bool, asked: list[str]) -> None:
    (task,) = [task for task in yaml.safe_load((ROOT / "roles/load_balancer/tasks/main.yml").read_text("utf-8")) if "ansible.builtin.wait_for" in task]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        frontends = [{"name": "database", "port": port}, {"name": "identity", "port": port}, {"name": "images", "port": port, "virtual_address": "main"}]
        frontends.append({"name": "public", "port": port, "virtual_address": "second"})
        given = {
            "load_balancer_frontends": frontends, "__load_balancer_named": {"main": "127.0.0.1", "second": "127.0.0.1"}, "load_balancer_wait_timeout": 9,
            "__load_balancer_configured": {"changed": changed}, **HERE,
        }  # fmt: skip
        code, output = ControlNode(tmp_path).play([task], **given)
    assert code == 0 and re.findall(r"\(item=(\w+)\)", output) == asked, output
