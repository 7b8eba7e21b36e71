# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM that was moved to a server that is not in the inventory any more."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


def vm(state: str, moved_to: str | None) -> dict[str, t.Any]:
    """Return a VM as vm_define does."""
    return {"id": "c1", "name": "c1", "state": state, "moved_to": moved_to, "host_key": None}


@pytest.mark.parametrize(
    ("vms", "message"),
    [
        ([vm("running", None), vm("moved", "metal2")], ""),
        # whose record ends with the move
        ([vm("moving", "metal9")], ""),
        ([vm("running", None), vm("moved", "metal9")], "c1 was moved to metal9, which is not in the inventory"),
    ],
)
def test_its_server_must_be_in_the_inventory(tmp_path: pathlib.Path, vms: list[dict[str, t.Any]], message: str) -> None:
    tasks = yaml.safe_load((ROOT / "roles/virt_guests/tasks/main.yml").read_text("utf-8"))[-1:]
    code, output = ControlNode(tmp_path).play(tasks, "metal1", virt_guests_result={"vms": vms})
    text = " ".join(output.split())
    assert "c1 was moved" in text if message else code == 0, output
    assert message in text and (code == 0) == (not message), output
    assert not message or "docs/moving.md" in text
