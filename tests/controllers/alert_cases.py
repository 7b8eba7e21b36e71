# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For each alert the series that must fire it, as input of ``promtool test rules``: alone, not before its time, and not in a healthy footprint."""

from __future__ import annotations

import json
import math
import typing as t

DAY = 24 * 60
#: Two hosts that are healthy. Values are ``start+step x count``, one for each minute.
HEALTHY: t.Mapping[str, str] = {
    'up{job="host",instance="%s"}': "1x5000",
    'footprint_gathered_timestamp_seconds{instance="%s",gatherer="services"}': "0+60x5000",
    'footprint_gathered_timestamp_seconds{instance="%s",gatherer="machine"}': "0+60x5000",
    'footprint_part_known{instance="%s",part="vms",gatherer="machine"}': "1x5000",
    'footprint_probe_healthy{instance="%s",probe="shop"}': "1x5000",
    'footprint_disk_healthy{instance="%s",disk="sda"}': "1x5000",
    'node_filesystem_avail_bytes{instance="%s",mountpoint="/",fstype="ext4"}': "500x5000",
    'node_filesystem_size_bytes{instance="%s",mountpoint="/",fstype="ext4"}': "1000x5000",
    'node_filesystem_readonly{instance="%s",mountpoint="/",fstype="ext4"}': "0x5000",
    'node_memory_MemAvailable_bytes{instance="%s"}': "500x5000",
    'node_memory_MemTotal_bytes{instance="%s"}': "1000x5000",
    'node_time_seconds{instance="%s"}': "0+60x5000",
    'footprint_service_known{instance="%s",service="galera"}': "1x5000",
    'footprint_service_healthy{instance="%s",service="galera"}': "1x5000",
    'footprint_votes{instance="%s",service="galera"}': "3x5000",
    'footprint_votes_expected{instance="%s",service="galera"}': "3x5000",
    'footprint_database_lost_rows{instance="%s"}': "0x5000",
    'footprint_certificate_expiry_days{instance="%s",service="galera"}': "300x5000",
    'footprint_backup_timestamp_seconds{instance="%s"}': "0+60x5000",
    'footprint_backup_stored{instance="%s"}': "1x5000",
    'footprint_witness_round_trip_seconds{instance="%s"}': "0.001x5000",
    'footprint_compute_up{instance="%s",compute="c"}': "1x5000",
    'footprint_chassis_up{instance="%s",chassis="c"}': "1x5000",
    'footprint_vm_running{instance="%s",vm="v",uuid="%s"}': "1x5000",
    'footprint_vm_autostart{instance="%s",vm="v",uuid="%s"}': "1x5000",
    'footprint_vm_drift{instance="%s",vm="v",uuid="%s"}': "0x5000",
    'footprint_copy_healthy{instance="%s",vm="v",standby="x"}': "1x5000",
    'alertmanager_notifications_failed_total{instance="%s",integration="email"}': "0x5000",
}
_VIRTUAL = 'footprint_virtual_address_held{instance="%s",address="192.0.2.20"}'
_FAULTS = 'footprint_unfinished_job{instance="a",kind="move",job="v",state="moving"}'


class Case(t.NamedTuple):
    """What fires an alert.

    :arg series: changes of the healthy ones, from the begin of the test.
    :arg after: minutes until it must fire.
    :arg before: minutes until which it must not, the longest of which the rule gives.
    """

    series: t.Mapping[str, str]
    after: float
    before: float = 0


def _both(series: str, values: str) -> dict[str, str]:
    return {series % host if series.count("%s") == 1 else series % (host, host): values for host in "ab"}


def _on_a(series: str, values: str) -> dict[str, str]:
    return {series.replace("%s", "a"): values}


CASES: t.Mapping[str, Case] = {
    "HostDown": Case(_on_a('up{job="host",instance="%s"}', "0x5000"), 1),
    "StateUnknown": Case(_on_a('footprint_gathered_timestamp_seconds{instance="%s",gatherer="services"}', "0x5000"), 3, 2),
    # the exporter does not read a file that it cannot parse, or that was never written
    "StateMissing": Case(_on_a('footprint_gathered_timestamp_seconds{instance="%s",gatherer="services"}', "_x5000"), 6, 4),
    "PartUnknown": Case(_on_a('footprint_part_known{instance="%s",part="vms",gatherer="machine"}', "0x5000"), 6, 4),
    "ProbeFailed": Case(_on_a('footprint_probe_healthy{instance="%s",probe="shop"}', "0x5000"), 2),
    "UnitFailed": Case({'footprint_unit_failed{instance="a",unit="shop.service"}': "1x5000"}, 3, 1),
    "DiskFills": Case(_on_a('node_filesystem_avail_bytes{instance="%s",mountpoint="/",fstype="ext4"}', "299-0.5x400"), 30, 5),
    "DiskFull": Case(_on_a('node_filesystem_avail_bytes{instance="%s",mountpoint="/",fstype="ext4"}', "40x5000"), 3, 1),
    "FileSystemReadOnly": Case(_on_a('node_filesystem_readonly{instance="%s",mountpoint="/",fstype="ext4"}', "1x5000"), 2),
    "DiskUnhealthy": Case(_on_a('footprint_disk_healthy{instance="%s",disk="sda"}', "0x5000"), 1),
    "MemoryPressure": Case(_on_a('node_memory_MemAvailable_bytes{instance="%s"}', "40x5000"), 3, 1),
    "ClockSkew": Case(_on_a('node_time_seconds{instance="%s"}', "3+60x5000"), 3, 1),
    "ServiceUnhealthy": Case(_on_a('footprint_service_healthy{instance="%s",service="galera"}', "0x5000"), 1),
    "ServiceUnknown": Case(_on_a('footprint_service_known{instance="%s",service="galera"}', "0x5000"), 2),
    "QuorumAtRisk": Case(_both('footprint_votes{instance="%s",service="galera"}', "2x5000"), 1),
    "QuorumLost": Case(_both('footprint_votes{instance="%s",service="galera"}', "0x5000"), 1),
    "VirtualAddressHolders": Case(_both(_VIRTUAL, "0x5000"), 1),
    "VirtualAddressFlaps": Case({_VIRTUAL % "a": "1 0 1 0 1 0 1 0 1x100", _VIRTUAL % "b": "0 1 0 1 0 1 0 1 0x100"}, 8, 2),
    "DatabaseRowsLost": Case(_on_a('footprint_database_lost_rows{instance="%s"}', "1x5000"), 1),
    "CertificateExpires": Case(_on_a('footprint_certificate_expiry_days{instance="%s",service="galera"}', "20x5000"), 11, 9),
    "BackupOld": Case(_both('footprint_backup_timestamp_seconds{instance="%s"}', "0x5000"), 51 * 60, 49 * 60),
    "BackupMissing": Case(_both('footprint_backup_stored{instance="%s"}', "0x5000"), 2 * DAY + 1, 2 * DAY - 1),
    "WitnessSlow": Case(_on_a('footprint_witness_round_trip_seconds{instance="%s"}', "0.2x5000"), 6, 4),
    "ComputeDown": Case(_both('footprint_compute_up{instance="%s",compute="c"}', "0x5000"), 2),
    "ChassisDown": Case(_both('footprint_chassis_up{instance="%s",chassis="c"}', "0x5000"), 2),
    "VmOff": Case(_on_a('footprint_vm_running{instance="%s",vm="v",uuid="%s"}', "0x5000"), 6, 4),
    "VmTwice": Case({'footprint_vm_running{instance="b",vm="v",uuid="a"}': "1x5000"}, 6, 4),
    "VmDrift": Case(_on_a('footprint_vm_drift{instance="%s",vm="v",uuid="%s"}', "2x5000"), 61, 59),
    "CopyUnusable": Case(_on_a('footprint_copy_healthy{instance="%s",vm="v",standby="x"}', "0x5000"), 6, 4),
    "UnfinishedJob": Case({_FAULTS: "1x5000"}, 241, 239),
    "NotificationsFail": Case(_on_a('alertmanager_notifications_failed_total{instance="%s",integration="email"}', "0+1x5000"), 3),
}


def promtool_tests(rules: str) -> str:
    """Return the input of ``promtool test rules``.

    :arg rules: path of the file with the rules.
    """
    healthy: dict[str, str] = {}
    for series, values in HEALTHY.items():
        healthy.update(_both(series, values))
    tests = [_test("healthy", healthy, {130: []})]
    for alert, case in CASES.items():
        fires = [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
        tests.append(_test(alert, {**healthy, **case.series}, {case.after: fires, **({case.before: []} if case.before else {})}))
    return json.dumps({"rule_files": [rules], "evaluation_interval": "1m", "tests": tests}, indent=1)


def _test(name: str, series: t.Mapping[str, str], expected: t.Mapping[float, t.Any]) -> dict[str, t.Any]:
    # only as long as the test: two days of all series take promtool minutes
    minutes = math.ceil(max(expected)) + 1
    query = 'group by (alertname) (ALERTS{alertstate="firing"})'
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": one, "values": values.replace("x5000", f"x{minutes}")} for one, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": f"{int(at * 60)}s", "exp_samples": samples} for at, samples in sorted(expected.items())],
    }
