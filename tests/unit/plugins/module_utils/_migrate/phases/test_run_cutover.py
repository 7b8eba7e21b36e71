# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests and state changes at the end of a migration; source and VM only record requests."""

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_commit, run_cutover, run_return
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import Identity
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, PARKED, QUIESCED, SERVING, Journal


class FakeSource:
    """Returns prepared answers; ``None`` for a source that is off."""

    def __init__(self):
        self.address = "192.0.2.2"
        self.identity = Identity()
        self.asked = []
        self.state = {"state": HANDED_OVER}
        self.after = {}

    def ask(self, command, given=None, timeout=0):
        self.asked.append((command, dict(given or {})))
        if self.state is None:
            raise BackendError("no route to host")
        self.state = self.after.get(command, self.state)
        return {"state": self.state}

    def commands(self):
        return [command for command, _given in self.asked]


class FakeLease:
    def arm(self):
        pass

    def end(self):
        pass

    def check(self):
        pass


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    """A migration that ended well a moment ago."""
    spec = parse_spec(
        {
            "vm": {"id": "master", "nics": [{"bridge": "b"}], "disks": [{"size": 6}]},
            "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
            "quiesce": "maintenance_boot",
            "containers": [{"engine": "podman", "name": "web"}],
        }
    )
    store = JournalStore("master", tmp_path / "migrations")
    journal = Journal("master", state="done", started=1.0, ended=2.0)
    journal.phases = {"quiesce": {"state": "done"}, "cutover": {"state": "done"}}
    journal.facts = {
        "handed_over": True,
        "vm": {"disk": "/d"},
        "source": {"interface": "eth0", "prefix": 24, "address": "192.0.2.2", "temporary_address": "192.0.2.3"},
    }
    context = Context(spec, vm_details(spec), store, journal, tmp_path, FakeSource())
    context.stopped = []
    context.heard = []
    monkeypatch.setattr(run_return, "stop_clone", lambda each: context.stopped.append(1) or True)
    monkeypatch.setattr(run_cutover.io_fence, "open_up", lambda name: None)
    monkeypatch.setattr(run_cutover.io_arp, "probe", lambda *unused, **more: context.heard.pop(0) if context.heard else None)
    monkeypatch.setattr(run_cutover, "_cards", lambda each: ["eth0"])
    monkeypatch.setattr(run_cutover, "_POLL", 0.0)
    monkeypatch.setattr(run_return, "_POLL", 0.0)
    monkeypatch.setattr(Context, "disk", lambda self: type("Disk", (), {"release": lambda self: None})())
    return context


def test_a_vm_that_serves_is_not_stopped_for_a_source_that_is_off(world):
    world.source.state = None
    with pytest.raises(BackendError) as caught:
        run_return.roll_back(world, "requested")
    assert "continues to serve" in caught.value.message and "Switch the source on" in caught.value.hint
    assert world.stopped == [] and "returning" not in world.journal.facts and world.journal.facts["handed_over"]


def test_a_return_stops_the_vm_before_the_source_is_asked_back(world):
    world.source.after = {"restore": {"state": SERVING, "running": ["a.service"], "failed": ["b.service"]}}
    run_return.roll_back(world, "requested")
    assert world.stopped == [1]
    assert world.source.commands() == ["state", "restore", "state", "mirror", "leave"]
    assert world.source.asked[-1][1]["forget"] is True
    assert world.source.asked[-1][1]["power_off"] is False
    assert world.journal.state == "rolled_back" and "handed_over" not in world.journal.facts
    # the next migration asks before it copies over it
    assert world.journal.facts[run_return.VM_DATA] == "/d"
    assert any("b.service did not start" in each for each in world.journal.warnings)


@pytest.mark.parametrize(("state", "served"), [(HANDED_OVER, True), (PARKED, False), (None, None)])
def test_a_worker_stopped_before_it_recorded_the_hand_over_may_have_admitted_clients(world, state, served):
    world.journal.state = "running"
    world.journal.facts.pop("handed_over")
    world.journal.facts["handing_over"] = "final"
    world.source.state = state and {"state": state}
    world.source.after = {"restore": {"state": SERVING}}
    if served is None:
        with pytest.raises(BackendError, match="may have handed over"):
            run_return.roll_back(world, "requested")
        assert world.stopped == []
        return
    run_return.roll_back(world, "requested")
    assert world.stopped == [1] and world.journal.state == "rolled_back"
    # the next migration must not copy over what they wrote
    assert (run_return.VM_DATA in world.journal.facts) is served


def test_a_return_that_was_begun_does_not_ask_again_who_is_there(world):
    world.journal.facts["returning"] = "boot: no"
    world.source.state = {"state": SERVING}
    run_return.roll_back(world, "boot: no")
    assert world.source.commands()[0] == "restore"


def test_a_source_that_was_never_touched_need_not_answer(world):
    world.journal.phases, world.journal.facts, world.source.state = {}, {}, None
    run_return.roll_back(world, "requested")
    assert world.journal.state == "rolled_back"
    assert "restore" not in world.source.commands()


def test_retiring_waits_for_silence_and_keeps_the_journal(world):
    world.heard = ["52:54:00:00:00:01", "52:54:00:00:00:01"]
    run_return.retire(world)
    assert world.heard == []
    assert world.source.commands() == ["state", "leave"]
    assert world.source.asked[-1][1] == {"marker": world.key_marker, "power_off": True, "forget": True}
    assert world.journal.state == "retired"
    (kept,) = (world.store.directory.parent.parent / "archive").iterdir()
    assert str(kept) == world.journal.facts["archive"] and "retired" in (kept / "journal.json").read_text()


def test_retiring_a_powered_off_source_sends_no_request(world):
    world.journal.facts["source"]["off"] = True
    run_return.retire(world)
    assert world.source.asked == [] and world.journal.state == "retired"


def test_retiring_an_unreachable_source_adds_a_warning(world):
    world.source.state = None
    run_return.retire(world)
    assert world.journal.state == "retired" and "could not be withdrawn" in world.journal.warnings[0]


def test_a_source_that_is_silent_but_there_is_not_retired(world):
    world.source.state = None
    world.heard = ["52:54:00:00:00:01"]
    with pytest.raises(BackendError):
        run_return.retire(world)
    assert world.journal.state == "done"


def test_only_a_source_that_handed_over_is_retired(world):
    world.source.state = {"state": PARKED}
    with pytest.raises(BackendError):
        run_return.retire(world)
    assert "leave" not in world.source.commands()


def test_a_shutdown_is_noted_before_it_is_asked_for(world, monkeypatch):
    world.source.state = None
    run_commit.leave(world, power_off=True, forget=True)
    assert world.store.read().facts["source"]["off"] and "may still be" in world.journal.warnings[0]


def test_a_maintenance_boot_is_waited_for(world):
    coming = {"state": QUIESCED, "stopped_at": 5.0, "maintenance": {"arrived": False}, "containers": [{"engine": "podman", "name": "web"}]}
    world.source.after = {"quiesce": coming, "state": dict(coming, maintenance={"arrived": True})}
    run_cutover.quiesce(world, FakeLease())
    given = world.source.asked[0][1]
    assert (given["quiesce"], given["containers"], given["admin"]["cards"]) == ("maintenance_boot", [{"engine": "podman", "name": "web"}], ["eth0"])
    assert world.source.commands() == ["quiesce", "state"]
    assert world.journal.facts["containers"] == coming["containers"] and world.journal.downtime["started"] == 5.0
    assert "reboot_seconds" in world.journal.facts


def test_the_pause_begins_by_the_clock_of_this_host(world):
    # the clock of the source is 45 s ahead, which preflight accepts
    world.journal.facts["source_facts"] = {**world.journal.facts.get("source_facts", {}), "clock_offset": 45.0}
    world.source.after = {"quiesce": {"state": QUIESCED, "stopped_at": 1045.0, "maintenance": {"arrived": True}}}
    run_cutover.quiesce(world, FakeLease())
    assert world.journal.downtime["started"] == 1000.0


def test_a_maintenance_boot_that_was_not_one_ends_the_pause(world):
    world.source.after = {
        "quiesce": {"state": QUIESCED, "maintenance": {"arrived": False}},
        "state": {"state": SERVING, "reason": "the source booted as usual instead of without services"},
    }
    with pytest.raises(BackendError) as caught:
        run_cutover.quiesce(world, FakeLease())
    assert "booted as usual" in caught.value.message


def test_a_worker_that_died_while_the_source_booted_waits_for_it(world):
    world.journal.facts["rebooting"] = True
    there = {"state": QUIESCED, "stopped_at": 5.0, "maintenance": {"arrived": True}, "containers": []}
    world.source.after = {"state": there, "quiesce": there}
    run_cutover.quiesce(world, FakeLease())
    assert world.source.commands() == ["state", "quiesce"] and "rebooting" not in world.journal.facts


def test_clients_do_not_reach_the_vm_in_the_cutover(world, monkeypatch):
    world.journal.facts.pop("handed_over")
    world.journal.facts["source"]["off"] = True
    world.journal.downtime = {"started": 1.0, "parts": {}}
    order = world.source.asked
    monkeypatch.setattr(run_cutover.io_fence, "open_up", lambda name: order.append(("open", {})))
    for name in ("_detach", "_boot_clone"):
        monkeypatch.setattr(run_cutover, name, lambda context, lease: None)
    monkeypatch.setattr(run_cutover, "await_answers", lambda *unused: None)
    monkeypatch.setattr(run_cutover, "_keep_clients_out", lambda each: None)
    monkeypatch.setattr(run_cutover.io_arp, "announce", lambda *unused: None)
    run_cutover.cutover(world, FakeLease())
    assert world.source.commands() == [] and "ended" not in world.journal.downtime


@pytest.mark.parametrize(
    ("state", "full", "words"),
    [
        ("paused", False, r"During its boot the VM is paused \(a possible cause is a full disk of this host\)\. Start the VM"),
        ("paused", True, "pool: full"),
        ("crashed", False, "During its boot the VM is crashed"),
        (None, False, "During its boot the VM powered itself off"),
    ],
)
def test_a_vm_that_cannot_come_up_any_more_is_not_waited_for(world, monkeypatch, state, full, words):
    class Host:
        def __enter__(self):
            return self

        def __exit__(self, *unused):
            pass

        def domain(self, uuid):
            return state and types.SimpleNamespace(active=True, state=state)

    monkeypatch.setattr(Context, "domains", lambda self: Host())
    monkeypatch.setattr(run_cutover, "full_pool", lambda image: BackendError("full", "pool") if full else None)
    # with all the time there is
    with pytest.raises(BackendError, match=words):
        run_cutover.await_answers(world, FakeLease(), [object()], float("inf"))


def test_the_source_is_known_by_a_mark_that_its_copy_has_not(world, monkeypatch):
    world.source.state = {"state": QUIESCED, "mark": "of an earlier attempt"}
    run_cutover.quiesce(world, FakeLease())
    given = world.source.asked[-1][1]
    # a program on the source that knows of no mark is asked without one
    assert len(given["new_mark"]) == 32 and world.source.identity.mark is None and "source_mark" not in world.journal.facts

    world.journal.facts["source_mark"] = given["new_mark"]
    world.source.state = {"state": QUIESCED, "mark": given["new_mark"]}
    run_cutover.quiesce(world, FakeLease())
    assert world.source.asked[-1][1]["new_mark"] == given["new_mark"] == world.source.identity.mark

    world.source.state = {"state": PARKED, "parked_at": 1.0}
    run_cutover._detach(world, FakeLease())
    assert world.source.identity.only == "192.0.2.3"
    world.source.after = {"restore": {"state": SERVING}}
    monkeypatch.setattr(Context, "mirror", lambda self: None)
    run_return.roll_back(world, "requested")
    assert world.source.identity.only is None and "source_mark" not in world.journal.facts


def test_a_slow_source_is_waited_for_as_long_as_its_lease_allows(world, monkeypatch):
    """Its answers take 25 s, and it leaves the admin address after 100 s."""
    world.spec = world.spec._replace(lease_timeout=300)
    now, timeouts = [0.0], []

    def ask(command, given=None, timeout=60):
        timeouts.append(timeout)
        now[0] += 25
        if timeout <= 25:
            raise BackendError("not finished in time")
        return {"state": {"state": PARKED, "parked_at": 1.0} if now[0] >= 100 else {"state": QUIESCED}}

    monkeypatch.setattr(world.source, "ask", ask)
    monkeypatch.setattr(run_cutover.time, "monotonic", lambda: now[0])
    run_cutover._detach(world, FakeLease())
    assert world.source.identity.only == "192.0.2.3" and now[0] == 100
