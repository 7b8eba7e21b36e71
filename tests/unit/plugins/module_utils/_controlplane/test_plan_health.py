# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a member is healthy, and as wanted. States of whole services are in test_plan_controlplane.py."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import Wanted, host_problems, parse_wanted, problems
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from tests.support.controlplane import UUID, balancer, galera, look, rabbitmq


@pytest.mark.parametrize("value, path", [({"swift": 3}, "sizes.swift"), ({"galera": "many"}, "sizes.galera"), ({"galera": 0}, "sizes.galera")])
def test_bad_sizes_are_named(value: t.Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_wanted({"sizes": value})
    assert caught.value.path == path


def test_conditions_are_the_options_of_the_module() -> None:
    given = {"sizes": {"galera": "3"}, "cluster_uuid": "u", "position": 7, "frontends": ["c1"], "wait": 3}
    assert parse_wanted(given) == Wanted({"galera": 3}, "u", 7, ("c1",))
    assert parse_wanted({}) == Wanted()


@pytest.mark.parametrize(
    "name, part, wanted, words",
    [
        ("galera", galera(), Wanted({"galera": 3}, UUID, 7), []),
        ("galera", galera(size=2), Wanted({"galera": 3}), ["its cluster has 2 of 3 members"]),
        ("galera", galera(seqno=6), Wanted(position=7), ["it is at position 6, behind 7"]),
        ("galera", galera(), Wanted(cluster_uuid="u"), [f"it belongs to the cluster {UUID}, not to u"]),
        # of one that is not ready the rest says nothing
        ("galera", galera(ready=False, size=2), Wanted({"galera": 3}, "u", 8), ["its server does not answer"]),
        ("rabbitmq", rabbitmq(["c1", "c2"]), Wanted({"rabbitmq": 3, "galera": 9}), ["its cluster has 2 of 3 members"]),
        ("rabbitmq", rabbitmq(drained=True), Wanted(), ["it is in maintenance mode and accepts no clients (rabbitmq-upgrade revive ends this)"]),
    ],
)
def test_conditions(name: str, part: t.Any, wanted: Wanted, words: list[str]) -> None:
    assert problems(name, part, wanted) == words


def test_servers_that_get_no_clients_are_listed() -> None:
    seen = {**look(load_balancer=balancer(down=["c2", "c3"])), "answers": True}
    assert host_problems(seen) == []
    assert host_problems(seen, Wanted(frontends=("c1", "c2"))) == [("load_balancer", "it sends no clients of mysql to c2 (DOWN)")]
    seen = look(load_balancer=balancer(down=["c1", "c2", "c3"]))
    assert host_problems(seen, Wanted(frontends=("c1", "c2"))) == []


@pytest.mark.parametrize("answers, count", [(None, 0), (True, 0), (False, 1)])
def test_database_that_does_not_answer_at_the_virtual_address(answers: bool | None, count: int) -> None:
    assert len(host_problems({**look(), "answers": answers})) == count


RUNS = {"age_seconds": 0.4, "action": "none", "reason": "in the Primary Component", "waits_for": [], "isolated": False, "failed": None}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"guard": RUNS, "reversed": None}, []),
        # not deployed yet
        ({"guard": None}, []),
        ({"guard": {"age_seconds": None}}, ["its guard does not run"]),
        ({"guard": {**RUNS, "age_seconds": 99.0}}, ["its guard does not run"]),
        (
            {"guard": {**RUNS, "isolated": True, "action": "wait", "reason": "c2 does not answer"}},
            ["its guard has isolated it", "its guard waits: c2 does not answer"],
        ),
        ({"guard": {**RUNS, "action": "refuse", "reason": "two clusters"}}, ["its guard leaves the decision to recover_database: two clusters"]),
        ({"guard": {**RUNS, "failed": "it was restarted 5 times"}}, ["its guard gave up: it was restarted 5 times"]),
        # shown by status; it must not stop other work
        ({"guard": RUNS, "reversed": "2026-01-01T00:00:00Z"}, []),
    ],
)
@pytest.mark.parametrize("server", ["ready", "not ready", "silent", "activating"])
def test_the_guard_of_a_database_member(server: str, more: dict[str, t.Any], expected: list[str]) -> None:
    seen = {**galera(ready=server != "not ready"), **more}
    if server == "silent":
        seen["facts"] = None
    if server == "activating":
        seen["units"] = {"mariadb.service": {"state": "activating"}}
    own = {"ready": [], "not ready": ["its server does not answer"], "silent": ["its server does not answer"], "activating": ["mariadb.service is activating"]}
    found = problems("galera", seen)
    assert len(found) == len(own[server] + expected)
    assert all(text.startswith(start) for text, start in zip(found, own[server] + expected))
