# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the comparison with a single node makes of its samples, and that both have the same number of workers."""

from __future__ import annotations

import pathlib
import re

import yaml
from benchmarks import single

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_single_node_has_as_many_workers_as_the_roles_start() -> None:
    """Otherwise the comparison would be one of the numbers of processes."""
    names = ("keystone", "glance", "placement", "nova", "neutron", "ovn_chassis")
    roles = [ROOT / "roles" / name / "defaults" / "main.yml" for name in names]
    wanted = {name: value for path in roles for name, value in yaml.safe_load(path.read_text("utf-8")).items()}
    script = single.node_script()
    found = {name: (int(processes), int(threads)) for name, processes, threads in re.findall(r"workers \S+/([a-z-]+)-uwsgi\.ini (\d+) (\d+)\n", script)}
    assert found == {
        "keystone": (wanted["keystone_workers"], wanted["keystone_threads"]),
        "glance-api": (wanted["glance_workers"], 1),
        "placement-api": (wanted["placement_workers"], wanted["placement_threads"]),
        "nova-api": (wanted["nova_workers"], 1),
        "nova-api-metadata": (wanted["nova_metadata_workers"], 1),
        "neutron-api": (wanted["neutron_workers"], 1),
    }
    for section, name in (("conductor", "nova_conductor_workers"), ("scheduler", "nova_scheduler_workers")):
        assert f"[{section}]\nworkers = {wanted[name]}\n" in script
    assert f"metadata_workers = {wanted['ovn_chassis_metadata_workers']}\n" in script
