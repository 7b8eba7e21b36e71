# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service on the server of the VM, with made-up machines that grant leases."""

from __future__ import annotations

import threading
import time
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_lease, io_store, run_guard, run_lease, run_standby, run_standby_info
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import LEASE
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record

from tests.support.leases import JOB, PARAMS, UUID


@pytest.fixture(name="service")
def fixture_service(monkeypatch):
    """The service with its VM, whose machines do not answer by themselves."""
    monkeypatch.setattr(run_lease.Renewer, "start", lambda self: None)
    sent = []
    monkeypatch.setattr(io_lease, "notify", sent.append)
    monkeypatch.setattr(io_lease, "reset_server", lambda: sent.append("reset"))
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    io_owner.guard(Record("blue", "m", UUID, "blue-m"), permitted=True)
    service = run_lease.Service()
    service.sent, service.store = sent, store
    return service


def grant(service, at):
    for each in service.renewers["m"]:
        each.sent, each.answered, each.problem, each.known = at, at, None, 0


def test_a_vm_needs_a_lease_only_after_its_first_one(service, clock, guest):
    service.tick()
    assert service.sent == [], "before the VMs are known, nothing is proven"
    service.refresh()
    service._loaded.set()
    clock.now += 500
    service.tick()
    assert service.sent == ["WATCHDOG=1"] and guest.poll() is None and service.renewal("m") == {"arm": None, "running": True, "grantors": ["metal2", "w1"]}
    grant(service, clock.now)
    service.refresh()
    assert service.renewal("m")["arm"] == io_lease.armed(UUID)
    clock.now += LEASE - 0.1
    service.tick()
    assert guest.poll() is None and io_lease.is_valid("m", 0.0) and not io_lease.is_valid("m", 1.0)
    clock.now += 0.1
    service.tick()
    assert not io_lease.processes(UUID) and not io_owner.is_permitted(UUID) and io_lease.was_fenced("m")
    assert service.sent[-1] == "WATCHDOG=1" and service.renewal("m")["running"] is None
    # it waits for the guard
    grant(service, clock.now)
    service.tick()
    assert service.renewal("m")["running"] is None
    io_owner.permit(UUID)
    service.tick()
    assert service.renewal("m")["running"] is False


def test_a_standby_that_would_not_start_the_vm_is_reported(service, monkeypatch):
    answers = [{"granted": True, "arm": 5, "idle": "its service does not run"}, {"granted": True, "arm": 5}]
    session = types.SimpleNamespace(ask=lambda asked, seconds: answers.pop(0))
    service.refresh()
    grant(service, 1000.0)
    renewer = service.renewers["m"][0]
    for problem in ("metal2: its service does not run", "it is not under leases yet"):
        renewer._renew(session)
        service.tick()
        (entry,) = run_standby_info.standbys()
        assert entry["automatic_problem"] == problem


def test_a_changed_request_keeps_the_lease(service, clock, guest):
    """For example while the automatic start is ended: the request says so before a machine has confirmed it."""
    io_lease.arm(UUID, 5)
    service.refresh()
    grant(service, clock.now)
    service.store.write_job(job_data(JOB._replace(automatic=False)))
    service.refresh()
    service.tick()
    assert guest.poll() is None and all(each.sent is None for each in service.renewers["m"])
    clock.now += LEASE
    service.tick()
    assert not io_lease.processes(UUID)


def test_the_next_instance_continues_with_the_lease(service, clock, guest):
    io_lease.arm(UUID, 5)
    io_lease.write_state({"m": {"sent": clock.now - 20}})
    after = run_lease.Service()
    after.refresh()
    after._loaded.set()
    after.tick()
    assert guest.poll() is None
    # the state is that of the instance before until there is an answer
    clock.now += 10
    run_lease.Service().tick()
    (entry,) = run_standby_info.standbys()
    assert entry["automatic_problem"] == "the service of its leases does not report it"
    last = run_lease.Service()
    last.refresh()
    last.tick()
    assert not io_lease.processes(UUID)


def test_a_guest_that_cannot_be_killed_resets_the_server(service, clock, monkeypatch):
    io_lease.arm(UUID, 5)
    monkeypatch.setattr(io_lease, "kill", lambda given, seconds: False)
    service.refresh()
    service._loaded.set()
    for unused in range(12):
        service.tick()
        clock.now += 1
    assert service.sent[0] == "reset" and "WATCHDOG=1" not in service.sent


@pytest.mark.parametrize(("confirms", "ends"), [({"w1"}, False), (set(), True)])
def test_a_stop_of_the_service_leaves_no_vm_without_a_lease(service, guest, monkeypatch, confirms, ends):
    io_lease.arm(UUID, 5)
    service.refresh()

    def host(job, voter):
        return types.SimpleNamespace(ask=lambda kind, given, timeout: {"granted": voter.name in confirms and given == {"do": "disarm", "number": 5}})

    monkeypatch.setattr(run_lease, "host", host)
    assert service.stop(_ended()) is True
    assert bool(io_lease.processes(UUID)) is not ends and (io_lease.armed(UUID) is None) is not ends


def test_a_stop_uses_the_open_connections(service, guest, monkeypatch):
    """A new one takes longer than the service may wait on a busy server; the machine would be killed, and started on its standby."""
    asked = []

    class Session:
        def __init__(self, argv):
            pass

        def ask(self, given, seconds):
            asked.append(given)
            return {"granted": True, "arm": 5}

        def close(self):
            asked.append("closed")

    def host(job, voter):
        return types.SimpleNamespace(ask=lambda *given, **more: time.sleep(60), program=lambda *given: [])

    monkeypatch.setattr(run_lease, "host", host)
    monkeypatch.setattr(run_lease.io_session, "LeaseSession", Session)
    io_lease.arm(UUID, 5)
    service.refresh()
    for each in service.renewers["m"]:
        threading.Thread.start(each)
    while not all(each.sent for each in service.renewers["m"]):
        time.sleep(0.01)
    began = time.monotonic()
    assert service.stop(_ended()) is True
    assert io_lease.processes(UUID) and io_lease.armed(UUID) is None and time.monotonic() - began < 5
    assert {"do": "disarm", "number": 5} in asked


def _ended():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    return thread


def test_a_period_that_another_machine_has_ended_is_replaced(service, clock):
    io_lease.arm(UUID, 5)
    service.refresh()
    grant(service, clock.now)
    service.renewers["m"][0].known = 6
    service.refresh()
    assert io_lease.armed(UUID) > 5


def test_a_paused_vm_needs_no_lease(service, clock, guest, monkeypatch):
    io_lease.arm(UUID, 5)
    monkeypatch.setattr(run_standby.io_timers, "stop", lambda vm_id: None)
    monkeypatch.setattr(run_standby, "_forget_checkpoints", lambda job: None)
    monkeypatch.setattr(run_lease, "host", lambda job, voter: types.SimpleNamespace(ask=lambda *given, **more: {"granted": False}))
    with pytest.raises(RefusedError, match="neither metal2 nor w1 confirms"):
        run_standby.apply({**PARAMS, "state": "paused"}, check_mode=False)
    assert service.store.paused_seconds() is None and io_lease.armed(UUID) == 5
    monkeypatch.setattr(run_lease, "host", lambda job, voter: types.SimpleNamespace(ask=lambda *given, **more: {"granted": True}))
    assert run_standby.apply({**PARAMS, "state": "paused"}, check_mode=False)["changed"]
    service.refresh()
    grant(service, clock.now)
    service.refresh()
    clock.now += 10 * LEASE
    service.tick()
    assert io_lease.armed(UUID) is None and guest.poll() is None
    service.store.resume()
    grant(service, clock.now)
    service.refresh()
    assert io_lease.armed(UUID) is not None


@pytest.mark.parametrize(("state", "confirmed", "answers", "ended"), [
    ("disarmed", None, True, True), ("disarmed", None, False, False), ("absent", None, False, False), ("absent", "metal3", False, False),
    ("absent", "metal2", False, True), ("absent", None, True, True),
])
def test_the_end_of_the_automatic_start(service, monkeypatch, state, confirmed, answers, ended):
    monkeypatch.setattr(run_standby.io_timers, "remove", lambda vm_id: None)
    monkeypatch.setattr(run_standby, "_forget_checkpoints", lambda job: None)
    monkeypatch.setattr(run_lease, "host", lambda job, voter: types.SimpleNamespace(ask=lambda *given, **more: {"granted": answers}))
    io_lease.arm(UUID, 5)
    given = {**PARAMS, "state": state, "confirmed": confirmed}
    assert run_standby.apply(given, check_mode=True)["changed"] and io_lease.armed(UUID) == 5
    if ended:
        assert run_standby.apply(given, check_mode=False)["changed"] and io_lease.armed(UUID) is None
    else:
        with pytest.raises(RefusedError, match="neither metal2 nor w1 confirms"):
            run_standby.apply(given, check_mode=False)
        assert io_lease.armed(UUID) == 5 and service.store.job() is not None


@pytest.mark.parametrize(("armed", "left", "starts"), [(False, None, True), (True, None, False), (True, 10.0, False), (True, 20.0, True)])
def test_the_guard_starts_a_vm_under_leases_only_with_one(service, clock, monkeypatch, armed, left, starts):
    io_owner.revoke(UUID)
    if armed:
        io_lease.arm(UUID, 5)
    if left is not None:
        io_lease.write_state({"m": {"until": clock.now + left}})
    started = []
    host = types.SimpleNamespace(
        __enter__=None, domain=lambda given: types.SimpleNamespace(autostart=True, active=False), start=started.append
    )

    class Host:
        def __init__(self, uri): ...

        def __enter__(self):
            return host

        def __exit__(self, *unused): ...

    monkeypatch.setattr(run_guard, "DomainHost", Host)
    monkeypatch.setattr(run_guard, "records", lambda job, store: [{"state": "receiving"}])
    monkeypatch.setattr(run_guard.io_timers, "start", lambda vm_id: None)
    assert run_guard.settle("m") is starts and bool(started) is starts and io_owner.is_permitted(UUID) is starts


def test_a_vm_whose_request_cannot_be_read_is_still_held(service, clock, guest, monkeypatch):
    service.refresh()
    grant(service, clock.now)
    service.refresh()
    service._loaded.set()
    # the file system with the requests is not mounted any more
    monkeypatch.setattr(io_store, "names", list)
    with pytest.raises(BackendError, match=UUID):
        service.refresh()
    clock.now += LEASE + 1
    service.tick()
    assert guest.wait(5) == -9
    # nor does a new instance believe that no VM exists
    with pytest.raises(BackendError, match=UUID):
        run_lease.Service().refresh()
