# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report for a person at night."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_summary import PAGES, summary, verdict
from tests.support.controlplane import balancer, galera, rabbitmq, unit

ROOT = pathlib.Path(__file__).resolve().parents[5]
NAMES = ("c1", "c2", "c3")


def report(reachable: t.Sequence[str] = NAMES, why: str = "", **services: t.Any) -> dict[str, t.Any]:
    """Three controllers on three servers, with changed services of the first one."""
    controllers = {}
    for name in NAMES:
        parts = {"galera": galera(), "rabbitmq": rabbitmq(), "load_balancer": balancer(name == "c1"), **(services if name == "c1" else {})}
        look = {"addresses": ["192.0.2.20"] if name == "c1" else [], "services": parts}
        controllers[name] = {"reachable": name in reachable, "error": "", "place": f"m{name[1]}", "look": look, "why": why}
    servers = {f"m{name[1]}": {"reachable": name in reachable, "vms": [{"name": name, "state": "running"}], "why": why} for name in NAMES}
    return build_status({"controllers": controllers, "servers": servers, "members": dict.fromkeys(("galera", "rabbitmq", "load_balancer"), NAMES)})


def test_every_page_that_is_named_has_this_heading() -> None:
    for page in PAGES:
        path, _hash, anchor = page.partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings], page


@pytest.mark.parametrize(
    ("changed", "last"),
    [
        ({"galera": galera("failed")}, "degraded: galera. First repair its members, then run recover_database if it"),
        ({"rabbitmq": rabbitmq(state="failed")}, "degraded: rabbitmq. First read the journal of rabbitmq-server on its members: docs/messaging.md"),
        ({"load_balancer": balancer(True, haproxy="failed")}, "degraded: load_balancer. First read the journals of its units"),
        ({"reachable": []}, "unknown: m1, m2, m3, c1, c2, c3 and 3 more. First check the network of this control node: docs/troubleshooting.md#first-steps"),
        ({"reachable": [], "why": "accepts ssh"}, "unknown: m1, m2, m3, c1, c2, c3 and 3 more. First restore their power or network;"),
        ({"reachable": ["c1", "c2"]}, "down: m3, c3. First restore their power or network; replace a server"),
    ],
)
def test_the_last_line(changed: dict[str, t.Any], last: str) -> None:
    assert verdict(report(**changed)).startswith(last)


def test_a_host_that_refuses_the_connection_is_named_with_the_reason() -> None:
    assert summary(report(["c1", "c2"], "Permission denied (publickey)."))[0] == "DOWN     m3, c3: no answer: Permission denied (publickey)."


def test_a_healthy_footprint_is_a_table() -> None:
    found = report()
    assert summary(found)[0].split() == ["service", "members", "state", "details"] and found["ok"]
    assert verdict(found) == "ok: nothing is degraded, down or unknown"


def test_a_member_that_is_late_is_unknown() -> None:
    late = {"units": {"": {"state": "unknown"}}, "facts": None, "unknown": "no answer within 8 s", "problems": []}
    found = report(rabbitmq=late)
    assert "DEGRADED rabbitmq: 2 of 3 members; c1: unknown: no answer within 8 s" in summary(found)
    controllers = {"c1": {"reachable": True, "error": "", "place": "c1", "look": {"addresses": [], "services": {"rabbitmq": late}}}}
    assert build_status({"controllers": controllers, "members": {"rabbitmq": ["c1"]}})["services"]["rabbitmq"]["state"] == "unknown"


def test_long_lines_and_many_findings_are_shortened() -> None:
    apis = {f"service{number}": {"name": f"s{number}", "host": "m1", "problem": "x" * 300, "silent": False} for number in range(20)}
    found = build_status({"probes": list(apis.values())})
    lines = summary(found)
    assert len(lines) == 13 and max(map(len, lines)) == 180 and "and 8 more" in lines[-1]
    assert verdict(found).startswith("down: service s0, service s1, service s10, service s11, service s12, service s13 and 14 more. First repair the service")
    assert unit()["state"] == "active"
