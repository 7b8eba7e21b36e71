# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of add_server that only a run shows."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from tests.support.control_node import ControlNode


@pytest.mark.parametrize("named", ["metal2, metal4", ["metal4"]])
def test_a_server_that_is_not_in_the_inventory_is_not_ignored(tmp_path: pathlib.Path, named: t.Any) -> None:
    control = ControlNode(tmp_path, "vm_info")
    given = {"footprint_cluster": "lab", "add_server_servers": named}
    code, output = control.run("reduced.footprint.add_server", "--check", "-e", json.dumps(given))
    assert code != 0 and "add_server_servers: metal4 is not a virt host of this run. Use some of metal1, metal2" in " ".join(output.split())
    assert not control.calls()
