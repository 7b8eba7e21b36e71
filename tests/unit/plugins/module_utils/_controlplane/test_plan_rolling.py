# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether members may be taken one at a time, in which order, and what is left after a kill."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_rolling import Plan, parse_request, plan
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from tests.support.controlplane import balancer, galera, look

NAMES = ["c1", "c2", "c3"]
MEMBERS = {"galera": NAMES, "rabbitmq": NAMES, "load_balancer": NAMES}


def looks() -> dict[str, t.Any]:
    """Return healthy hosts; c1 is the writer and holds the address."""
    return {name: look(name == "c1") for name in NAMES}


def planned(found: t.Mapping[str, t.Any], components: t.Any = "galera", journal: t.Any = None, action: str = "restart", **options: bool) -> Plan:
    return plan(parse_request(action, components, **options), MEMBERS, found, journal, "2030-01-01")


def steps(found: Plan) -> list[str]:
    return [f"{step.component} {step.host}{'*' if step.begun else ''}" for step in found.steps]


def restarted(found: t.Mapping[str, t.Any], *names: str) -> dict[str, t.Any]:
    """The same after the databases of these were restarted."""
    later = copy.deepcopy(dict(found))
    for name in names:
        later[name]["services"]["galera"]["units"]["mariadb.service"]["invocation"] = "b2"
    return later


def test_who_is_used_comes_last() -> None:
    found = planned(looks(), "load_balancer,galera")
    assert found.why == ()
    assert steps(found) == ["galera c2", "galera c3", "galera c1", "load_balancer c2", "load_balancer c3", "load_balancer c1"]
    assert found.lines[3] == "  3. galera on c1 (in use: hands over first)"
    assert found.journal["before"]["galera"]["c1"] == {"mariadb.service": "a1"}


def test_no_components_are_all_that_are_there() -> None:
    assert [step.component for step in planned(looks(), []).steps] == ["galera"] * 3 + ["load_balancer"] * 3


@pytest.mark.parametrize(
    "part, value, words",
    [
        ("galera", galera("failed"), "galera is degraded: c2: mariadb.service is failed"),
        ("galera", galera("activating"), "galera is wip: c2: mariadb.service is activating"),
        # an unreachable member is not repaired by a restart of others
        ("load_balancer", balancer(haproxy="failed"), "load_balancer is degraded: c2: haproxy.service is failed"),
    ],
)
def test_one_who_is_not_well_keeps_all_from_beginning(part: str, value: t.Any, words: str) -> None:
    found = looks()
    found["c2"]["services"][part] = value
    assert planned(found).why == (words,)


def test_one_who_does_not_answer_keeps_all_from_beginning() -> None:
    found = planned({**looks(), "c3": None})
    assert "galera is degraded: c3: does not answer" in found.why


def test_service_without_a_redundant_member_is_refused() -> None:
    alone = {"c1": look(True), "c2": look(False)}
    for hosts in (["c1"], ["c1", "c2"]):
        found = plan(parse_request("restart", "galera"), {"galera": hosts}, {name: alone[name] for name in hosts})
        assert len(found.why) == 1 and "it would be interrupted" in found.why[0]
        assert not plan(parse_request("restart", "galera", True), {"galera": hosts}, {name: alone[name] for name in hosts}).why


def test_component_without_installations_is_refused() -> None:
    assert planned(looks(), "rabbitmq").why == ("rabbitmq is not installed on any host",)


def test_a_killed_run_is_gone_on_with() -> None:
    journal = planned(looks()).journal
    found = planned(restarted(looks(), "c2"), journal=journal)
    assert found.why == ()
    assert steps(found) == ["galera c3", "galera c1"]
    assert [step.host for step in found.done] == ["c2"]
    # what was noted at first stays noted
    assert found.journal == journal


def test_one_left_in_the_middle_comes_first() -> None:
    journal = planned(looks()).journal
    later = restarted(looks(), "c2")
    later["c3"]["services"]["galera"] = galera("inactive")
    found = planned(later, journal=journal)
    assert found.why == ()
    assert steps(found) == ["galera c3*", "galera c1"]


def test_two_unfinished_members_are_refused() -> None:
    journal = planned(looks()).journal
    later = looks()
    later["c2"]["services"]["galera"] = later["c3"]["services"]["galera"] = galera("inactive")
    assert "galera on c2 and galera on c3 are unhealthy, but an interrupted run leaves at most one member unfinished" in planned(later, journal=journal).why


def test_unfinished_run_of_another_kind_is_refused_until_it_is_discarded() -> None:
    journal = planned(looks()).journal
    found = planned(looks(), "load_balancer", journal)
    assert found.why[0].startswith(
        "a rollout started at 2030-01-01 is unfinished. Finish it with -e rolling_restart_action=restart -e rolling_restart_components=galera,"
    )
    assert not planned(looks(), "load_balancer", journal, forget=True).why


def test_update_includes_every_member_again() -> None:
    journal = planned(looks(), action="update").journal
    assert len(planned(restarted(looks(), "c2"), journal=journal, action="update").steps) == 3


@pytest.mark.parametrize(
    "action, components, path",
    [("reboot", [], "rolling_restart_action"), ("restart", "galera, swift", "components[1]"), ("restart", ["etcd"], "components[0]")],
)
def test_bad_input_is_named(action: str, components: t.Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_request(action, components)
    assert caught.value.path == path and caught.value.hint
