# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of the instances of a server that is emptied, and what brings each back."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_instances import MIGRATE, STOP, Instance, Record, Service, Step, parse_record
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.plan_evacuation import REASON, Wanted, plan, restoring
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

ONE, TWO, THREE = (Service(f"s{number}", f"metal{number}", True, True) for number in (1, 2, 3))
WEB = Instance("i1", "web", "metal1", "ACTIVE")


def test_running_instances_are_migrated_and_those_that_are_off_remain() -> None:
    off = Instance("i2", "old", "metal1", "SHUTOFF")
    found = plan(Wanted("metal1"), [ONE, TWO], [WEB, off])
    assert not found.problems and found.record == Record(True, (Step("i1", "web", MIGRATE, False, "metal2"),))
    assert found.lines == ["instance web is migrated live to metal2, and returns afterwards", "instance old is off (SHUTOFF), and remains"]
    assert plan(Wanted("metal1"), [ONE, TWO, THREE], [WEB]).lines == ["instance web is migrated live to a server that Nova chooses, and returns afterwards"]
    assert plan(Wanted("metal1", removal=True), [ONE, TWO], [WEB]).lines == ["instance web is migrated live to metal2"]
    assert parse_record(found.record.as_dict()) == found.record


@pytest.mark.parametrize(
    ("wanted", "services", "instance", "message"),
    [
        (Wanted("metal1"), [ONE], WEB, "instance web cannot be migrated live: no other compute service is enabled and answers."),
        (Wanted("metal1"), [ONE, TWO._replace(up=False)], WEB, "no other compute service"),
        (Wanted("metal1"), [ONE, TWO._replace(enabled=False)], WEB, "no other compute service"),
        # a paused instance has no process that could be asked to shut down
        (Wanted("metal1", stop=True), [ONE], WEB._replace(status="PAUSED"), "no other compute service"),
        # stopped, it would remain on a server that is removed
        (Wanted("metal1", stop=True, removal=True), [ONE], WEB, "no other compute service"),
        (Wanted("metal1"), [ONE, TWO], WEB._replace(status="ERROR"), "instance web is ERROR, and cannot be migrated live."),
        (Wanted("metal1", stop=True), [ONE, TWO], WEB._replace(status="VERIFY_RESIZE"), "instance web is VERIFY_RESIZE"),
        (Wanted("metal1"), [ONE, TWO], WEB._replace(status="MIGRATING", task="migrating"), "instance web is being changed (migrating)."),
        (Wanted("metal1"), [ONE, TWO], WEB._replace(status="SHUTOFF", task="powering-on"), "instance web is being changed (powering-on)."),
        (Wanted("metal1", removal=True), [ONE, TWO], WEB._replace(status="SHUTOFF"), "instance web is off (SHUTOFF), and cannot be migrated."),
        (Wanted("metal1"), [ONE._replace(up=False), TWO], WEB, "nova-compute of metal1 does not answer"),
    ],
)
def test_what_is_refused(wanted: Wanted, services: list[Service], instance: Instance, message: str) -> None:
    (problem,) = plan(wanted, services, [instance]).problems
    assert message in problem.message and problem.hint


def test_instances_are_stopped_with_consent_where_no_other_server_is() -> None:
    found = plan(Wanted("metal1", stop=True), [ONE], [WEB])
    assert not found.problems and found.record.steps == (Step("i1", "web", STOP, True),)
    assert found.lines == ["instance web is stopped, and returns afterwards"]


@pytest.mark.parametrize(
    ("service", "disable"),
    [
        (ONE, True),
        (ONE._replace(enabled=False, reason="broken fan"), False),
        (ONE._replace(enabled=False, reason="AUTO: Connection to libvirt lost"), True),
        # of a run whose record was lost
        (ONE._replace(enabled=False, reason=REASON), True),
    ],
)
def test_a_service_that_the_operator_has_disabled_remains_disabled(service: Service, disable: bool) -> None:
    assert plan(Wanted("metal1"), [service, TWO], []).record.disable is disable


def test_an_interrupted_run_keeps_its_steps_and_adds_others() -> None:
    begun = Record(True, (Step("i1", "web", MIGRATE, True, "metal2"), Step("i2", "left", MIGRATE, False, "metal2")))
    own = ONE._replace(enabled=False, reason=REASON)
    found = plan(Wanted("metal1"), [own, TWO], [WEB._replace(status="SHUTOFF"), Instance("i3", "new", "metal1", "ACTIVE")], begun)
    assert found.record == Record(True, (*begun.steps, Step("i3", "new", MIGRATE, False, "metal2"))) and not found.problems


def test_an_interrupted_run_is_planned_again_for_the_instances_that_are_still_there() -> None:
    begun = Record(True, (Step("i1", "web", MIGRATE, False, "metal2"),))
    assert plan(Wanted("metal1"), [ONE, THREE], [WEB], begun).record.steps == (Step("i1", "web", MIGRATE, False, "metal3"),)
    assert plan(Wanted("metal1", stop=True), [ONE], [WEB], begun).record.steps == (Step("i1", "web", STOP, True),)


def test_a_server_that_is_no_compute_server_has_no_instances() -> None:
    found = plan(Wanted("metal9"), [ONE, TWO], [])
    assert not found.problems and found.record == Record(False, ()) and found.lines == ["Nova has no compute service of metal9, and no instances on it"]


@pytest.mark.parametrize(
    ("step", "instance", "back"),
    [
        (Step("i1", "web", MIGRATE), WEB._replace(host="metal2"), MIGRATE),
        (Step("i1", "web", MIGRATE), WEB, ""),
        (Step("i1", "web", MIGRATE, stop=True), WEB._replace(status="SHUTOFF"), "start"),
        (Step("i1", "web", STOP, stop=True), WEB._replace(status="SHUTOFF"), "start"),
        # without consent it was its owner
        (Step("i1", "web", MIGRATE), WEB._replace(status="SHUTOFF"), "is SHUTOFF"),
        (Step("i1", "web", MIGRATE), WEB._replace(status="SHUTOFF", host="metal2"), "is SHUTOFF on metal2"),
        (Step("i1", "web", MIGRATE), None, "was deleted"),
    ],
)
def test_what_brings_an_instance_back(step: Step, instance: Instance | None, back: str) -> None:
    assert restoring(Record(True, (step,)), "metal1", {"i1": instance}) == {"i1": back}


_STEP = {"id": "i1", "name": "web", "action": "migrate"}


@pytest.mark.parametrize(
    "record",
    [
        {"steps": []},
        {"disable": "no", "steps": []},
        *({"disable": True, "steps": steps} for steps in ([{"id": "i1"}], [{"host": 1}], 5, [{**_STEP, "action": "delete"}], [{**_STEP, "stop": "no"}])),
        {"disable": True, "steps": [{**_STEP, "id": ["i1"]}]},
    ],
)
def test_a_damaged_record_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(InputError, match="^record: is not what this module returned"):
        parse_record(record)
