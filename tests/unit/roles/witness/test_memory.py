# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of a small machine is sufficient for a witness: the page says the sum of the limits of the roles."""

from __future__ import annotations

import re
import typing as t

import yaml

from tests.support.control_node import ROOT

PAGE = "docs/two-servers.md"


def limit(role: str, variable: str) -> int:
    """Return a limit in MiB, by default."""
    found: dict[str, t.Any] = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text("utf-8"))
    return int(found[variable])


def test_the_page_says_the_sum_of_the_limits() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    votes = limit("witness", "witness_memory") + limit("rabbitmq", "rabbitmq_witness_memory")
    # the Northbound and the Southbound database; ovs-vswitchd, ovsdb-server and ovn-controller
    cloud = 2 * limit("ovn_database", "ovn_database_witness_memory") + 3 * limit("ovn_chassis", "ovn_chassis_witness_memory")
    assert f"add up to {votes} MiB, for the witness of a cloud to {votes + cloud} MiB" in text
    (promised,) = re.findall(r"third machine .* (\d+) MiB of memory", text)
    assert votes < int(promised) < votes + cloud < 1024
