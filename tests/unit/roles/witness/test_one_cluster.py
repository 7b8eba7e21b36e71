# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A witness votes in RabbitMQ and is in the databases of OVN for one environment: a second one is refused before anything is changed."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode


def checks(role: str, *words: str) -> list[t.Any]:
    """Return the tasks of the check of a role whose names contain one of the words."""
    found = yaml.safe_load((ROOT / f"roles/{role}/tasks/check.yml").read_text("utf-8"))
    return [task for task in found if any(word in task["name"] for word in words)]


@pytest.mark.parametrize("name, refused", [("lab", False), (None, False), ("other", True)])
def test_one_cluster_of_rabbitmq(name: str | None, refused: bool, tmp_path: pathlib.Path) -> None:
    if name:
        (tmp_path / "rabbitmq.conf").write_text(f"listeners.tcp = none\ncluster_name = {name}\nnet_ticktime = 10\n", "utf-8")
    known = {"__rabbitmq_config_directory": str(tmp_path), "__rabbitmq_votes_only": True, "__rabbitmq_with_clients": ["c1", "c2"]}
    here = {"rabbitmq_cluster_name": "lab", **HERE}
    code, output = ControlNode(tmp_path).play(checks("rabbitmq", "of another cluster", "one cluster of RabbitMQ"), **known, **here)
    assert (code != 0) is refused, output
    words = "rabbitmq_witness: metal2 is a witness of the RabbitMQ cluster other, and a machine votes in one RabbitMQ cluster only. Use another witness, or set"
    assert (words in " ".join(output.split())) is refused, output


@pytest.mark.parametrize(
    "servers, refused",
    [
        ([], False),
        # of its own cloud, also after one of the others was replaced
        (["192.0.2.11", "192.0.2.9", "192.0.2.13"], False),
        # it was the first one of a cluster that lost the others
        (["192.0.2.13"], False),
        (["198.51.100.1", "198.51.100.2", "192.0.2.13"], True),
    ],
)
def test_one_cluster_of_the_databases_of_ovn(servers: list[str], refused: bool, tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "ovn_database_info")
    north, south = ([f"ssl:{address}:{port}" for address in servers] for port in (6643, 6644))
    control.answers["ovn_database_info metal2"] = {
        "ovn_database": {"databases": {"OVN_Northbound": {"servers": north}, "OVN_Southbound": {"servers": south}}}
    }
    known = {"__ovn_database_is_witness": True, "__ovn_database_address": "192.0.2.13", "__ovn_database_with_northd": ["c1", "c2"]}
    tasks = checks("ovn_database", "of another cloud", "of one cloud")
    code, output = control.play(tasks, **known, __ovn_database_list=["192.0.2.11", "192.0.2.12", "192.0.2.13"])
    assert (code != 0) is refused, output
    words = "ovn_database_witness: metal2 is in the databases of another cloud (198.51.100.1, 198.51.100.2), and a machine is in those of one only."
    assert (words in " ".join(output.split())) is refused, output
