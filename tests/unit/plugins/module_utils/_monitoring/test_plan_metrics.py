# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host answers, as metrics."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_metrics

NOW = 1_800_000_000.0
LINE = re.compile(r'footprint_[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)+\})? -?[0-9.e+]+\Z')
GALERA = {
    "problems": [], "units": {"mariadb.service": {"state": "active"}}, "facts": {"size": 3, "primary": True}, "reversed": None,
    "backup": {"made": "2027-01-14T08:00:00Z"}, "certificate": {"days": 12},
}  # fmt: skip
SOURCE = {
    "part": "source", "id": "web", "state": "idle", "standby": "node2", "age_seconds": 60.4, "problem": None,
    "automatic_problem": None,
}  # fmt: skip
VM = {"name": "web", "uuid": "u", "moved": None, "state": "running", "autostart": False, "drift": ["memory"]}


def lines(parts: t.Mapping[str, t.Any], votes: t.Mapping[str, int] | None = None) -> list[str]:
    """Return the samples without those of every text."""
    found = plan_metrics.exposition(parts, NOW, votes or {}, "services").splitlines()
    assert found[2] == 'footprint_gathered_timestamp_seconds{gatherer="services"} 1800000000'
    assert all(LINE.match(line) for line in found if not line.startswith("# ")), found
    return [line.removeprefix("footprint_") for line in found[3:] if not line.startswith("# ") and 'known{gatherer="services",part=' not in line]


def galera(**changes: t.Any) -> dict[str, t.Any]:
    return {"controlplane": {"value": {"services": {"galera": {**GALERA, **changes}}}}}


@pytest.mark.parametrize(("parts", "expected"), [
    (galera(), [
        'service_known{service="galera"} 1', 'service_healthy{service="galera"} 1', 'certificate_expiry_days{service="galera"} 12', 'votes{service="galera"} 3',
        'part_known{part="backup"} 1', 'part_known{part="lost rows"} 1', "database_lost_rows 0", "backup_stored 1",
        "backup_timestamp_seconds 1799913600", 'votes_expected{service="galera"} 3',
    ]),
    (galera(unknown="no answer within 8 s"), ['service_known{service="galera"} 0', 'votes_expected{service="galera"} 3']),
    (galera(facts=None, problems=["x"], units={"mariadb.service": {"state": "failed"}}, reversed="unknown", backup="unknown", certificate=None), [
        'service_known{service="galera"} 1', 'service_healthy{service="galera"} 0', 'votes{service="galera"} 0', 'part_known{part="backup"} 0',
        'part_known{part="lost rows"} 0', 'votes_expected{service="galera"} 3',
    ]),
    # it runs, and does not say how many it sees
    (galera(facts=None, problems=["x"], backup=None, certificate=None), [
        'service_known{service="galera"} 1', 'service_healthy{service="galera"} 0', 'part_known{part="votes of galera"} 0', 'part_known{part="backup"} 1',
        'part_known{part="lost rows"} 1', "database_lost_rows 0", "backup_stored 0", 'votes_expected{service="galera"} 3',
    ]),
    # a member without a majority counts those that it sees, which decide nothing
    (galera(facts={"size": 2, "primary": False}, reversed="2027-01-01T00:00:00Z", backup=None, certificate=None), [
        'service_known{service="galera"} 1', 'service_healthy{service="galera"} 1', 'votes{service="galera"} 0', 'part_known{part="backup"} 1',
        'part_known{part="lost rows"} 1', "database_lost_rows 1", "backup_stored 0", 'votes_expected{service="galera"} 3',
    ]),
])  # fmt: skip
def test_the_database(parts: dict[str, t.Any], expected: list[str]) -> None:
    assert sorted(lines(parts, {"galera": 3, "rabbitmq": 3})) == sorted(expected)


@pytest.mark.parametrize(("part", "value", "expected"), [
    ("controlplane", {"services": {"load_balancer": {"problems": [], "facts": {"virtual_addresses": ["192.0.2.20", "192.0.2.21"], "held": ["192.0.2.20"]}}}}, [
        'service_known{service="load_balancer"} 1', 'service_healthy{service="load_balancer"} 1',
        'virtual_address_held{address="192.0.2.20"} 1', 'virtual_address_held{address="192.0.2.21"} 0',
    ]),
    ("controlplane", {"services": {"rabbitmq": {"problems": ["x"], "units": {}, "facts": {"running": ["a", "b"]}}}}, [
        'service_known{service="rabbitmq"} 1', 'service_healthy{service="rabbitmq"} 0', 'votes{service="rabbitmq"} 2',
    ]),
    ("controlplane", {"services": {"witness": {"problems": [], "facts": {"round_trip_seconds": 0.05}}}}, [
        'service_known{service="witness"} 1', 'service_healthy{service="witness"} 1', "witness_round_trip_seconds 0.05",
    ]),
    ("probes", {"shop": "", 'a "b"\\\n': "no answer"}, ['probe_healthy{probe="shop"} 1', 'probe_healthy{probe="a \\"b\\"\\\\\\n"} 0']),
    ("vms", [VM, {**VM, "name": "gone", "moved": "node2"}, {**VM, "name": "off\udcff", "state": "shutoff", "drift": None}], [
        'vm_running{uuid="u",vm="web"} 1', 'vm_running{uuid="u",vm="off?"} 0', 'vm_autostart{uuid="u",vm="web"} 0', 'vm_autostart{uuid="u",vm="off?"} 0',
        'vm_drift{uuid="u",vm="web"} 1',
    ]),
    ("standbys", [SOURCE, {**SOURCE, "part": "standby"}, {**SOURCE, "state": "moved"}], [
        'copy_age_seconds{standby="node2",vm="web"} 60.4', 'copy_healthy{standby="node2",vm="web"} 1',
    ]),
    ("standbys", [{**SOURCE, "age_seconds": None, "automatic_problem": "no vote"}], [
        'copy_healthy{standby="node2",vm="web"} 0',
    ]),
    ("migrations", [{"name": "m", "state": "running"}, {"name": "n", "state": "retired"}], ['unfinished_job{job="m",kind="migration",state="running"} 1']),
    # one waits for its time; one that was interrupted meanwhile does not
    (
        "migrations",
        [{"name": "m", "state": state, "progress": {"cutover_at": "2026-12-24T01:00:00Z"}} for state in ("running", "interrupted")],
        ['unfinished_job{job="m",kind="migration",state="interrupted"} 1'],
    ),
    # nor does one whose source has not answered since
    (
        "migrations",
        [{"name": "m", "state": "running", "progress": {"cutover_at": "2026-12-24T01:00:00Z", "problem": "no route"}}],
        ['unfinished_job{job="m",kind="migration",state="running"} 1'],
    ),
    ("moves", [{"name": "v", "state": "moving"}], ['unfinished_job{job="v",kind="move",state="moving"} 1']),
    ("run", {"playbook": "rolling_restart"}, ['unfinished_job{job="rolling_restart",kind="run",state="running"} 1']),
    ("run", {}, []),
    ("keys", [{"name": "k", "left_seconds": -5}, {"name": "p", "left_seconds": None}], ['one_time_key_left_seconds{key="k"} -5']),
    ("units", {"failed": ["a.service"], "stopped": ["b.timer"]}, ['unit_failed{unit="a.service"} 1', 'unit_failed{unit="b.timer"} 1']),
    ("disks", {"disks": [{"name": "sda", "known": True, "problems": ["x"]}, {"name": "sdb", "known": False, "problems": []}],
               "arrays": [{"name": "md0", "missing": 0}]}, [
        'disk_known{disk="sda"} 1', 'disk_known{disk="sdb"} 0', 'disk_healthy{disk="sda"} 0', 'disk_healthy{disk="md0"} 1',
    ]),
    ("restart", "", ["restart_required 0"]),
    ("compute", [{"host": "c1", "up": False, "disabled": False}, {"host": "c2", "up": False, "disabled": True}], ['compute_up{compute="c1"} 0']),
    ("chassis", [{"host": "c1", "up": True}], ['chassis_up{chassis="c1"} 1']),
    ("chassis", None, []),
    ("links", [{"name": "eno1"}], []),
])  # fmt: skip
def test_each_part(part: str, value: t.Any, expected: list[str]) -> None:
    assert lines({part: {"value": value}}) == expected


def test_a_part_that_cannot_be_read_is_unknown_and_nothing_else() -> None:
    found = plan_metrics.exposition({"vms": {"error": "libvirt does not answer"}, "clock": {"value": {}}}, NOW, {}, "machine")
    assert 'footprint_part_known{gatherer="machine",part="vms"} 0\n' in found and 'part="clock"} 1\n' in found and "footprint_vm" not in found


def test_each_metric_is_described_once() -> None:
    found = plan_metrics.exposition({"vms": {"value": [VM, {**VM, "name": "b"}]}, **galera()}, NOW, {"galera": 3}, "machine")
    names = re.findall(r"# TYPE (\w+) gauge", found)
    assert len(names) == len(set(names)) == found.count("# HELP ") and all(re.search(f"^{name}[ {{]", found, re.M) for name in names)
