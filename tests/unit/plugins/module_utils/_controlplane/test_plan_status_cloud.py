# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines about the cloud, declared services and questions without an answer."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_cloud import CHASSIS, COMPUTE, lines_of

ALL = ("nova", "neutron")


def compute(host: str, up: bool = True, disabled: bool = False, reason: str = "") -> dict[str, t.Any]:
    return {"host": host, "up": up, "seconds": 90, "disabled": disabled, "reason": reason}


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ({COMPUTE: [compute("m1"), compute("m2")]}, ["ok   compute services: 2 of 2 up"]),
        ({COMPUTE: [compute("m1"), compute("m2", False)]}, ["DEGRADED compute services: 1 of 2 up (m2 has not reported for 90 s)"]),
        ({COMPUTE: [compute("m1", False)]}, ["DOWN compute services: 0 of 1 up (m1 has not reported for 90 s)"]),
        ({COMPUTE: [compute("m1", True, True, "disk")]}, ["ok   compute services: 1 of 1 up", "NOTE compute service m1: is disabled: disk"]),
        ({COMPUTE: [compute("m1", True, True)]}, ["ok   compute services: 1 of 1 up", "NOTE compute service m1: is disabled: without a reason"]),
        ({COMPUTE: ": late"}, ["UNKNOWN compute services: no member of the database reports them: late"]),
        ({CHASSIS: ""}, ["UNKNOWN chassis: no leader of the Northbound database reports them"]),
        ({COMPUTE: [], CHASSIS: None}, []),
        (
            {CHASSIS: [{"host": "m1", "up": True, "gateway": True, "agent": None}, {"host": "w", "up": False, "gateway": False, "agent": False}]},
            [
                "DEGRADED chassis: 1 of 2 answer (w does not answer)",
                "ok   gateways: 1 of 1 answer",
                "DOWN agents for metadata: 0 of 1 answer (w does not answer)",
            ],
        ),
    ],
)
def test_parts_of_the_cloud(found: dict[str, t.Any], lines: list[str]) -> None:
    assert [str(line) for line in lines_of({"cloud": found}, ALL)] == lines
    # only what is deployed
    assert not list(lines_of({"cloud": found}, ()))


@pytest.mark.parametrize(
    ("problems", "line"),
    [
        ({"a": "", "b": ""}, "ok   service shop: healthy on 2 of 2 hosts"),
        ({"a": "", "b": "x"}, "DEGRADED service shop: healthy on 1 of 2 hosts (b: x)"),
        ({"a": "x", "b": "silent"}, "DOWN service shop: healthy on 0 of 2 hosts (a: x; b: silent)"),
        ({"a": "silent"}, "UNKNOWN service shop: healthy on 0 of 1 hosts (a: silent)"),
    ],
)
def test_declared_services(problems: dict[str, str], line: str) -> None:
    probes = [{"name": "shop", "host": host, "problem": problem, "silent": problem == "silent"} for host, problem in problems.items()]
    assert [str(one) for one in lines_of({"probes": probes}, ())] == [line]


def test_a_question_without_an_answer_is_unknown() -> None:
    (line,) = lines_of({"unanswered": [{"host": "m1", "part": "migrations", "error": "no answer within 8 s"}]}, ())
    assert str(line) == "UNKNOWN migrations of m1: cannot be read: no answer within 8 s" and not line.ok
