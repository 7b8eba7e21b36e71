# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the comparison with a single node makes of its samples, and that both have the same number of workers."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
import yaml
from benchmarks import single, unit_memory
from benchmarks.single import ALL, BOTH, CONTROLLER, FOOTPRINT, MORE, REST, SINGLE, Sample

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_values_are_compared_with_the_single_node_in_the_same_round() -> None:
    # in the second round the machine is half as fast
    samples = [Sample("a", SINGLE, 0, 100, 0), Sample("a", FOOTPRINT, 0, 80, 1), Sample("a", FOOTPRINT, 1, 20, 2), Sample("a", SINGLE, 1, 50, 0)]
    assert single.rows(samples) == [["a", "75.0", "50.0", "0.60", "", "3"]]


def test_a_round_without_one_of_both_has_no_ratio() -> None:
    samples = [Sample("a", SINGLE, 0, 100), Sample("a", FOOTPRINT, 1, 40), Sample("b", FOOTPRINT, 0, 7), Sample("b", CONTROLLER, 0, 3)]
    assert single.rows(samples) == [["a", "100.0", "40.0", "", "", ""], ["b", "", "7.0", "", "3.0", ""]]


def test_units_belong_to_services() -> None:
    found = single.grouped({"nova-api": 1024, "nova-conductor": 2048, "haproxy": 512, "footprint-horizon": 512, "sshd": 3072, "": 1024})
    assert {name: size for name, size in found.items() if size} == {"nova": 3, MORE: 1, REST: 4, BOTH: 3, ALL: 8}
    units = [unit for ones in single.SERVICES_OF.values() for unit in ones]
    assert len(units) == len(set(units))


def test_memory_is_that_of_all_servers_and_of_a_controller() -> None:
    samples = single.memory_samples(1, {"mariadb": 1024}, {"metal1": {"mariadb": 2048, "haproxy": 1024}, "metal2": {"nova-compute": 1024}})
    of = {(sample.what, sample.who): sample.value for sample in samples}
    assert (of["MiB: MariaDB", SINGLE], of["MiB: MariaDB", FOOTPRINT], of["MiB: MariaDB", CONTROLLER]) == (1, 2, 2)
    assert (of[f"MiB: {ALL}", SINGLE], of[f"MiB: {ALL}", FOOTPRINT], of[f"MiB: {ALL}", CONTROLLER]) == (1, 4, 3)
    assert (f"MiB: {MORE}", SINGLE) not in of and {sample.round for sample in samples} == {1}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ("0::/system.slice/nova-api.service\n", "nova-api"),
        ("9:memory:/other.service\n1:name=systemd:/lab.service/system.slice/nova-api.service\n0::/lab.service\n", "nova-api"),
        ("0::/system.slice/system-garbd.slice/garbd@one.service/part\n", "garbd@one"),
        ("0::/init.scope\n", "init"),
        ("1:name=systemd:/\n0::/\n", ""),
    ],
)
def test_a_process_belongs_to_the_innermost_unit(groups: str, expected: str) -> None:
    assert unit_memory.unit(groups) == expected


def test_memory_of_all_processes_of_a_unit_is_added(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, unit, size in ((1, "init.scope", 5), (20, "system.slice/a.service", 7), (21, "system.slice/a.service", 8)):
        process = tmp_path / str(number)
        process.mkdir()
        (process / "cgroup").write_text(f"0::/{unit}\n")
        (process / "smaps_rollup").write_text(f"x\nRss:  99 kB\nPss:               {size} kB\nPss_Dirty:  3 kB\n")
    # one of the kernel, and one that has ended
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "smaps_rollup").write_text("")
    (tmp_path / "3").mkdir()
    unit_memory.main(str(tmp_path))
    assert json.loads(capsys.readouterr().out) == {"init": 5, "a": 15}


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


def test_every_api_has_a_name() -> None:
    assert set(single.NAMES) == set(single.PATHS)
