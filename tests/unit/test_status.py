# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Steps of status that only a run shows."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.support.control_node import ControlNode

GIVEN = {"galera_group": "virt", "ansible_connection": "local"}
MODULES = ("controlplane_info", "vm_info", "master_migrate_info", "vm_standby_info", "clock_info")


@pytest.mark.parametrize("options, noted", [([], False), (["--limit", "metal1"], True)])
def test_hosts_outside_of_the_limit_are_named(options: list[str], noted: bool, tmp_path: pathlib.Path) -> None:
    # otherwise they look as if they were down
    control = ControlNode(tmp_path, *MODULES)
    code, output = control.run("reduced.footprint.status", *options, "-e", json.dumps(GIVEN))
    assert code != 0 and "does not answer" in output, output
    assert ("--limit: metal2 excluded" in " ".join(output.split())) == noted, output
