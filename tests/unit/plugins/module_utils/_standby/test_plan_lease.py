# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leases: each decision as a table, and random schedules of failures in which the VM never runs twice."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._standby import plan_lease
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import (
    HANG,
    LEASE,
    RENEW,
    RESTARTS,
    STOP,
    WAIT,
    WATCHDOG,
    Grants,
    Renewal,
    Seen,
)

ALL = ("metal2", "w1")
HELD = Grants(arm=5, running=True, grantors=ALL)
OLD = Seen(0.0, 100.0)


@pytest.mark.parametrize(("grants", "asked", "started", "kept", "reason"), [
    (Grants(), Renewal(5, True, ALL), False, HELD, None),
    # without a number only the time counts
    (Grants(), Renewal(None, True, ALL), False, Grants(), None),
    (HELD, Renewal(5, False, ALL), False, HELD._replace(running=False), None),
    # undecided: what was known stays
    (HELD, Renewal(5, None, ALL), False, HELD, None),
    (HELD, Renewal(6, True, ("metal2",)), False, Grants(6, 0, True, ("metal2",)), None),
    # a late one of an earlier period
    (HELD, Renewal(4, False, ("x",)), False, HELD, None),
    (HELD._replace(claim=9), Renewal(5, True, ALL), False, HELD._replace(claim=9), "its standby has claimed it"),
    (HELD, Renewal(5, True, ALL), True, HELD, "it was started on its standby"),
])
def test_a_renewal(grants, asked, started, kept, reason):
    found = plan_lease.renewed(grants, OLD, asked, 150.0, started)
    assert found == (kept, OLD if reason else Seen(0.0, 150.0), reason)


@pytest.mark.parametrize(("grants", "started", "kept", "reason"), [
    (HELD, False, HELD._replace(disarmed=5), None),
    (HELD._replace(disarmed=7), False, HELD._replace(disarmed=7), None),
    # too late: it is given away
    (HELD._replace(claim=9), False, HELD._replace(claim=9), "its standby has claimed it"),
    (HELD, True, HELD, "it was started on its standby"),
])
def test_the_end_of_the_automatic_start(grants, started, kept, reason):
    assert plan_lease.disarmed(grants, 5, started) == (kept, reason)


LATE = 100.0 + WAIT


@pytest.mark.parametrize(("grants", "seen", "arm", "number", "now", "started", "reason"), [
    (HELD, OLD, 5, 9, LATE, False, None),
    (HELD, OLD, 5, 9, LATE - 0.1, False, "was silent for less"),
    # what was before its boot is not known
    (HELD, Seen(150.0), 5, 9, LATE, False, "was silent for less"),
    (HELD, Seen(150.0), 5, 9, 150.0 + WAIT, False, None),
    (Grants(), Seen(0.0), 5, 9, LATE, False, "has not reported"),
    (HELD._replace(disarmed=5), OLD, 5, 9, LATE, False, "has ended the automatic start"),
    (HELD._replace(running=False), OLD, 5, 9, LATE, False, "was not running"),
    (HELD, OLD, 4, 9, LATE, False, "under leases again since"),
    (HELD, OLD, 6, 9, LATE, False, "under leases again since"),
    (HELD, OLD, 5, 9, LATE, True, "recorded already"),
    (HELD._replace(withdrawn=9), OLD, 5, 9, LATE, False, "withdrawn meanwhile"),
    # of an earlier attempt of the same standby, and of another one
    (HELD._replace(claim=8, claimed_by="metal2"), Seen(LATE), 5, 9, LATE, False, None),
    (HELD._replace(claim=8, claimed_by="metal3"), OLD, 5, 9, LATE, False, "metal3 has claimed it"),
])
def test_a_claim(grants, seen, arm, number, now, started, reason):
    kept, found = plan_lease.claimed(grants, seen, arm, number, "metal2", now, started)
    assert (found is None) == (reason is None) and (reason or "") in (found or "")
    assert kept == (grants._replace(claim=9, claimed_by="metal2") if reason is None else grants)


@pytest.mark.parametrize(("claim", "number", "left"), [(8, 8, None), (8, 9, None), (9, 8, 9), (None, 8, None)])
def test_a_late_withdrawal_does_not_end_a_newer_claim(claim, number, left):
    found = plan_lease.withdrawn(HELD._replace(claim=claim, claimed_by="metal2"), number)
    assert found.claim == left and found.withdrawn == number


@pytest.mark.parametrize(("now", "known", "number"), [(1.0, (), 1000), (1.0, (2000, None), 2001), (0.0, (), 1)])
def test_numbers_grow(now, known, number):
    assert plan_lease.next_number(now, *known) == number


@pytest.mark.parametrize(("armed", "sent", "now", "verdict"), [
    (False, [], 0.0, plan_lease.FREE),
    (True, [], 0.0, plan_lease.FENCES),
    (True, [None, 100.0], 129.9, plan_lease.HOLDS),
    (True, [None, 100.0], 130.0, plan_lease.FENCES),
    (True, [110.0, 100.0], 130.0, plan_lease.HOLDS),
])
def test_the_lease_of_a_vm(armed, sent, now, verdict):
    assert plan_lease.verdict(armed, plan_lease.valid_until(sent), now) == verdict


@pytest.mark.parametrize(("automatic", "paused", "until", "may"), [
    (True, False, 130.0, True), (True, False, 119.9, False), (True, False, None, False), (False, False, 130.0, False), (True, True, 130.0, False),
])
def test_a_vm_needs_a_lease_only_once_it_has_one(automatic, paused, until, may):
    assert plan_lease.may_arm(automatic, paused, until, 100.0) is may


def test_a_machine_that_grants_leases_is_asked_for_its_claim():
    assert plan_lease.lacking(["metal2", "w1"], HELD) == [] and plan_lease.lacking(["metal2"], HELD) == ["w1"]


#: The longest time between the end of a lease and that of the VM: three kills of a service that hangs, its VMs are killed by systemd, the watchdog.
LONGEST = RESTARTS * (HANG + 1) + 8 + WATCHDOG


def test_the_waiting_time_is_sufficient():
    # clocks that differ by 1 % in both directions
    assert (LEASE * 1.01 + 2 + LONGEST) < WAIT * 0.99 and WAIT <= 100


class Machine:
    """A machine that grants leases; what it keeps survives a restart, what it has seen does not."""

    def __init__(self, rate):
        self.rate, self.offset = rate, 0.0
        self.kept, self.up = Grants(), True
        self.seen = None

    def clock(self, at):
        return (at - self.offset) * self.rate

    def look(self, at):
        self.seen = self.seen or Seen(self.clock(at))
        return self.seen

    def restart(self, at):
        self.offset, self.seen = at, None


class World:
    """Server, standby and witnesses, in steps of a second; requests and answers may be delayed, each machine has a clock of its own rate."""

    def __init__(self, seed, witnesses):
        self.chance = random.Random(seed)
        self.machines = {name: Machine(self.chance.uniform(0.99, 1.01)) for name in ("metal2", *(f"w{number}" for number in range(witnesses)))}
        self.rate = self.chance.uniform(0.99, 1.01)
        self.at, self.number = 0.0, 1
        self.vm, self.armed, self.sent, self.up, self.hangs, self.expired = True, None, {}, True, None, None
        self.there, self.copied, self.claim, self.stopped = False, None, None, False
        self.starts = 0
        self.cut: dict[tuple[str, str], float] = {}
        self.flying: list[tuple[float, object]] = []

    def clock(self):
        return self.at * self.rate

    def linked(self, one, other):
        return self.cut.get((one, other), 0) <= self.at and self.cut.get((other, one), 0) <= self.at

    def later(self, action, most=8.0):
        self.flying.append((self.at + self.chance.uniform(0, most), action))

    # the server of the VM

    def renew(self, name):
        sent, asked = self.clock(), Renewal(self.armed, self.vm or None, tuple(self.machines))

        def arrive():
            if not self.machines[name].up or not self.linked("metal1", name):
                return
            machine = self.machines[name]
            machine.kept, machine.seen, reason = plan_lease.renewed(machine.kept, machine.look(self.at), asked, machine.clock(self.at), self.there)
            if reason is None:
                self.later(lambda: self.up and self.linked("metal1", name) and self.sent.__setitem__(name, max(sent, self.sent.get(name, 0.0))))

        self.later(arrive)

    def server(self):
        until = plan_lease.valid_until(self.sent.values())
        verdict = plan_lease.verdict(self.armed is not None, until, self.clock())
        if self.armed is None and plan_lease.may_arm(True, False, until, self.clock()):
            known = max(max(each.kept.arm, each.kept.disarmed) for each in self.machines.values())
            self.armed = self.number = plan_lease.next_number(0, known, self.number)
        if verdict == plan_lease.FENCES and self.expired is None:
            # the worst case, of which the pieces are tested elsewhere
            self.expired = self.at + (LONGEST if self.hangs else self.chance.uniform(0, STOP))
        if verdict != plan_lease.FENCES and not self.hangs:
            self.expired = None
        if self.expired is not None and self.at >= self.expired:
            self.vm, self.hangs = False, None
        if not self.hangs and self.up and not self.there:
            if not self.vm and verdict != plan_lease.FENCES and self.asks():
                self.vm = True
            if int(self.at) % int(RENEW) == 0:
                for name in self.machines:
                    self.renew(name)

    def asks(self):
        """The guard: whether one of them says that the VM was neither started nor claimed, and none that it was."""
        answers = [each.kept for name, each in self.machines.items() if each.up and self.linked("metal1", name)]
        return bool(answers) and not self.there and all(each.claim is None for each in answers)

    def ends(self):
        """A stop of the service, a move: ends the automatic start on the machines that answer."""
        number = self.armed
        confirmed = False
        for name, machine in self.machines.items():
            if machine.up and self.linked("metal1", name) and number is not None and self.chance.random() < 0.7:
                machine.kept, reason = plan_lease.disarmed(machine.kept, number, self.there)
                confirmed = confirmed or reason is None
        if confirmed:
            self.armed = None

    # the standby

    def standby(self):
        own = self.machines["metal2"]
        if not own.up or self.there or self.stopped:
            return
        if self.claim is None:
            if plan_lease.unready(own.kept) or plan_lease.silence(own.look(self.at), own.clock(self.at)) < WAIT:
                return
            number = plan_lease.next_number(0, own.kept.withdrawn, own.kept.claim, self.number)
            self.number = max(self.number, number)
            own.kept, reason = plan_lease.claimed(own.kept, own.look(self.at), own.kept.arm, number, "metal2", own.clock(self.at), False)
            if reason is None:
                self.claim = {"number": number, "left": set(self.machines) - {"metal2"}, "failed": False, "at": self.at}
                for name in sorted(self.claim["left"]):
                    self.ask(name, own.kept.arm, number)
            return
        if self.claim["failed"] or self.at - self.claim["at"] > 20:
            number = self.claim["number"]
            self.claim = None
            for name, machine in self.machines.items():
                self.later(lambda machine=machine: setattr(machine, "kept", plan_lease.withdrawn(machine.kept, number)))
        elif not self.claim["left"]:
            self.there = True
            self.starts += 1

    def ask(self, name, arm, number):
        def arrive():
            machine = self.machines[name]
            if not machine.up or not self.linked("metal2", name):
                return
            machine.kept, reason = plan_lease.claimed(machine.kept, machine.look(self.at), arm, number, "metal2", machine.clock(self.at), False)

            def answer():
                if self.claim is not None and self.claim["number"] == number:
                    self.claim["left"].discard(name) if reason is None else self.claim.__setitem__("failed", True)

            self.later(answer)

        self.later(arrive)

    def back(self):
        """It is moved back, and runs there without leases until its server arms it again."""
        self.claim, self.there, self.vm, self.up, self.hangs = None, False, True, True, None
        self.armed, self.sent, self.expired = None, {}, None
        self.flying = []
        for machine in self.machines.values():
            machine.kept = plan_lease.returned(machine.kept)

    # failures

    def fail(self):
        kind = self.chance.choice(["cut", "cut all", "heal", "hang", "power", "witness", "standby", "stop", "freeze", "alone", "alone"])
        names = ["metal1", *self.machines]
        if kind == "cut":
            self.cut[tuple(self.chance.sample(names, 2))] = self.at + self.chance.uniform(5, 300)
        elif kind in ("cut all", "alone"):
            for name in self.machines:
                self.cut["metal1", name] = self.at + self.chance.uniform(60, 400)
        elif kind == "heal":
            self.cut.clear()
        elif kind == "hang":
            self.hangs = True
        elif kind == "power":
            # its memory is lost, what it wrote is not
            self.vm, self.sent, self.hangs, self.expired = False, {}, None, None
            self.up = self.chance.random() < 0.5
        elif kind == "witness":
            name = self.chance.choice(list(self.machines))
            self.machines[name].up = not self.machines[name].up
            self.machines[name].restart(self.at)
        elif kind == "standby":
            # the service is killed, and withdraws its claims when it returns
            self.claim = {**self.claim, "failed": True} if self.claim else None
        elif kind == "stop" and self.up and not self.hangs:
            self.ends()
        elif kind == "freeze":
            self.stopped = not self.stopped
        self.up = self.up or self.chance.random() < 0.1

    def run(self, seconds):
        while self.at < seconds:
            if self.chance.random() < 0.02:
                self.fail()
            due = [each for each in self.flying if each[0] <= self.at]
            self.flying = [each for each in self.flying if each[0] > self.at]
            for unused, action in sorted(due, key=lambda each: each[0]):
                action()
            self.server()
            self.standby()
            assert not (self.there and self.vm), f"the VM runs twice after {self.at:.0f} s"
            if self.there and not self.vm and self.chance.random() < 0.01:
                self.back()
            self.at += 1.0
        return self.starts


@given(seed=st.integers(0, 1 << 60), witnesses=st.integers(1, 3))
@settings(deadline=None)
def test_never_two_copies(seed, witnesses):
    World(seed, witnesses).run(1500)


def test_the_schedules_reach_starts_on_the_standby():
    """Otherwise the test before would say nothing."""
    assert sum(World(seed, 1 + seed % 3).run(1500) for seed in range(100)) > 20
