# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A compute server is emptied of its instances and gets them back, also after a kill at any request and if Nova refuses, fails or is silent."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._cloud import run_evacuation
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_instances import Instance, Service
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.plan_evacuation import REASON
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError


class Killed(BaseException):
    """The module is killed."""


class Nova:
    """Two compute servers, whose instances change when they are read the second time after a request.

    :ivar requests: what was requested, for example ``migrate i1``.
    :ivar fails: requests that Nova accepts and does not carry out.
    :ivar kill_after: the number of requests after which the module is killed.
    """

    def __init__(self, **statuses: str) -> None:
        self.known = {f"metal{number}": Service(f"s{number}", f"metal{number}", True, True) for number in (1, 2)}
        self.servers = {name: Instance(name, f"name-{name}", "metal1", status) for name, status in statuses.items()}
        self.requests: list[str] = []
        self.fails: set[str] = set()
        self.kill_after = 99
        self._later: dict[str, Instance] = {}

    def services(self) -> list[Service]:
        return list(self.known.values())

    def instances(self, host: str) -> list[Instance]:
        found = [self.instance(name) for name in list(self.servers)]
        return [one for one in found if one and one.host == host]

    def instance(self, server: str) -> Instance | None:
        now = self.servers.get(server)
        if server in self._later:
            self.servers[server] = self._later.pop(server)
        return now

    def reason(self, server: str) -> str:
        return "MigrationPreCheckError"

    def enable(self, service: Service, reason: str = "") -> None:
        self._request(f"{'disable' if reason else 'enable'} {service.host}")
        self.known[service.host] = service._replace(enabled=not reason, reason=reason)

    def act(self, verb: str, server: str, host: str = "") -> None:
        one = self.servers[server]
        assert verb != "migrate" or host or not self.known["metal1"].enabled, "Nova may choose the same server again"
        later = {"migrate": one._replace(host=host or "metal2"), "stop": one._replace(status="SHUTOFF"), "start": one._replace(status="ACTIVE")}
        self._change(f"{verb} {server}", later[verb], verb)

    def _change(self, request: str, later: Instance, task: str) -> None:
        one = self.servers[later.id]
        self._later[later.id] = one if request in self.fails else later
        self.servers[later.id] = one._replace(task=task)
        self._request(request)

    def _request(self, text: str) -> None:
        self.requests.append(text)
        if len(self.requests) >= self.kill_after:
            self.kill_after = 99
            raise Killed


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_evacuation, "_POLL", 0)


def call(nova: Nova, state: str, record: dict[str, t.Any] | None = None, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
    params = {"server": "metal1", "state": state, "stop": False, "removal": False, "record": record or {}, "wait_timeout": 5, "cloud": "x", **options}
    return run_evacuation.evacuate(params, check_mode=check_mode, backend=nova)


def planned(nova: Nova, **options: t.Any) -> dict[str, t.Any]:
    before = len(nova.requests)
    found = call(nova, "emptied", check_mode=True, **options)
    assert len(nova.requests) == before
    return dict(found["record"])


def test_instances_leave_and_come_back() -> None:
    nova = Nova(i1="ACTIVE", i2="SHUTOFF", i3="PAUSED")
    record = planned(nova)
    assert call(nova, "emptied", record, check_mode=True)["actions"] == [
        "disable the compute service of metal1", "migrate instance name-i1 to metal2", "migrate instance name-i3 to metal2",
    ]  # fmt: skip
    done = call(nova, "emptied", record)
    checked = call(Nova(i1="ACTIVE", i3="PAUSED"), "emptied", check_mode=True)
    assert done["changed"] and [action.split(":")[0] for action in done["actions"]] == checked["actions"]
    assert {one.host for one in nova.servers.values() if one.status != "SHUTOFF"} == {"metal2"} and nova.known["metal1"].reason == REASON
    assert not call(nova, "emptied", record)["changed"]
    assert call(nova, "restored", record, check_mode=True)["actions"] == [
        "enable the compute service of metal1", "migrate instance name-i1 to metal1", "migrate instance name-i3 to metal1",
    ]  # fmt: skip
    assert call(nova, "restored", record)["changed"]
    assert {one.host for one in nova.servers.values()} == {"metal1"} and nova.known["metal1"].enabled
    assert not call(nova, "restored", record)["changed"]
    assert nova.requests == ["disable metal1", "migrate i1", "migrate i3", "enable metal1", "migrate i1", "migrate i3"]


@pytest.mark.parametrize("kill_after", range(1, 9))
def test_a_killed_run_is_continued(kill_after: int) -> None:
    nova = Nova(i1="ACTIVE", i2="ACTIVE", i3="SHUTOFF")
    nova.fails = {"migrate i2"}
    record = planned(nova, stop=True)
    nova.kill_after = kill_after
    for state in ("emptied", "restored"):
        try:
            call(nova, state, record, stop=True)
        except Killed:
            # the next run plans again, with the record
            record = planned(nova, stop=True, record=record) if state == "emptied" else record
            call(nova, state, record, stop=True)
        if state == "emptied":
            assert (nova.servers["i1"].host, nova.servers["i2"].status) == ("metal2", "SHUTOFF")
            nova.fails.clear()
    assert {(one.host, one.status) for one in nova.servers.values() if one.id != "i3"} == {("metal1", "ACTIVE")}
    assert nova.servers["i3"].status == "SHUTOFF" and nova.known["metal1"].enabled


def test_a_failed_migration_without_consent_is_reported_after_the_others() -> None:
    nova = Nova(i1="ACTIVE", i2="ACTIVE")
    nova.fails = {"migrate i1"}
    with pytest.raises(BackendError, match="Nova did not migrate instance name-i1, which is ACTIVE on metal1: MigrationPreCheckError.") as error:
        call(nova, "emptied", planned(nova))
    assert "Run the same command again" in str(error.value) and nova.servers["i2"].host == "metal2" and "stop i1" not in nova.requests


def test_consent_to_stop_that_is_given_after_a_failure_applies_to_the_same_instances() -> None:
    nova = Nova(i1="ACTIVE", i2="ACTIVE")
    nova.fails = {"migrate i1"}
    record = planned(nova)
    with pytest.raises(BackendError):
        call(nova, "emptied", record)
    # without a new plan, its record does not say that it is to be started again
    with pytest.raises(RefusedError, match="consent to stop them has changed"):
        call(nova, "emptied", record, stop=True)
    record = planned(nova, stop=True, record=record)
    call(nova, "emptied", record, stop=True)
    assert nova.servers["i1"].status == "SHUTOFF"
    call(nova, "restored", record)
    assert {(one.host, one.status) for one in nova.servers.values()} == {("metal1", "ACTIVE")}


def test_a_service_that_a_run_without_a_record_has_disabled_is_enabled() -> None:
    nova = Nova(i1="ACTIVE")
    call(nova, "emptied", planned(nova))
    record = planned(nova)
    call(nova, "emptied", record)
    call(nova, "restored", record)
    assert nova.known["metal1"].enabled


def test_nothing_is_changed_if_one_is_refused() -> None:
    nova = Nova(i1="ACTIVE", i2="ERROR", i3="RESCUE")
    with pytest.raises(RefusedError, match="name-i2 is ERROR.*name-i3 is RESCUE"):
        call(nova, "emptied")
    assert not nova.requests


def test_an_instance_that_came_after_the_plan_is_refused() -> None:
    nova = Nova(i1="ACTIVE")
    record = planned(nova)
    nova.servers["i2"] = Instance("i2", "name-i2", "metal1", "ACTIVE")
    with pytest.raises(RefusedError, match="metal1 got other instances"):
        call(nova, "emptied", record)
    assert nova.servers["i2"].host == "metal1"
    call(nova, "emptied", planned(nova, record=record))
    assert nova.servers["i2"].host == "metal2"


def test_an_instance_that_arrives_while_others_leave_is_refused() -> None:
    nova = Nova(i1="ACTIVE")
    record, act = planned(nova), nova.act

    def arrive(verb: str, server: str, host: str = "") -> None:
        act(verb, server, host)
        nova.servers["i2"] = Instance("i2", "name-i2", "metal1", "ACTIVE")

    nova.act = arrive  # type: ignore[method-assign]
    with pytest.raises(RefusedError, match="metal1 got other instances"):
        call(nova, "emptied", record)
    assert nova.servers["i1"].host == "metal2"


def test_an_instance_that_remains_busy_is_unknown() -> None:
    nova = Nova(i1="ACTIVE")
    record = planned(nova)
    nova.servers["i1"] = nova.servers["i1"]._replace(task="migrating")
    with pytest.raises(RefusedError, match="is being changed \\(migrating\\)"):
        call(nova, "emptied", record, wait_timeout=0)
    with pytest.raises(BackendError, match="is still being changed \\(migrating\\) after 0 s"):
        call(nova, "restored", record, wait_timeout=0)


def test_a_service_that_someone_else_disabled_is_not_enabled() -> None:
    nova = Nova(i1="ACTIVE")
    record = planned(nova)
    call(nova, "emptied", record)
    nova.known["metal1"] = nova.known["metal1"]._replace(reason="broken fan")
    call(nova, "restored", record)
    assert not nova.known["metal1"].enabled and nova.servers["i1"].host == "metal1"


def test_a_service_that_is_down_is_not_enabled() -> None:
    nova = Nova(i1="ACTIVE")
    record = planned(nova)
    call(nova, "emptied", record)
    nova.known["metal1"] = nova.known["metal1"]._replace(up=False)
    with pytest.raises(BackendError, match="nova-compute of metal1 is down after 0 s"):
        call(nova, "restored", record, wait_timeout=0)


@pytest.mark.parametrize(("seconds", "state"), [(60.0, "metal2"), (0.0, "metal1")])
def test_nova_may_be_silent_for_some_time_while_an_instance_is_migrated(seconds: float, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_evacuation, "_SILENT", seconds)
    nova = Nova(i1="ACTIVE")
    record = planned(nova)
    silent, answers = [3], nova.instance

    def instance(server: str) -> Instance | None:
        if nova.requests[-1:] == ["migrate i1"] and silent[0]:
            silent[0] -= 1
            raise BackendError("cannot read the instance i1: 503 Service Unavailable.")
        return answers(server)

    nova.instance = instance  # type: ignore[method-assign]
    if seconds:
        call(nova, "emptied", record)
    else:
        with pytest.raises(BackendError, match="503"):
            call(nova, "emptied", record)
    assert nova.servers["i1"].host == state and nova.requests == ["disable metal1", "migrate i1"]
