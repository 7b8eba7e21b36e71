# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every course a hand-over can take, with the real decisions: never two owners, never none for longer than the lease.

From the moment the VM has passed its checks, anything may happen at any time: the link is cut and fixed, a
question or its answer is lost, the worker is killed, stopped, continued, the power of either machine goes and
comes. All states that can be reached are looked at, not a sample. Time goes in ticks, ten to a lease.
"""

from __future__ import annotations

import functools
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import resume
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import model_handover
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import (
    ASK,
    ASKED,
    BACK,
    CONFIRM,
    FENCE,
    FINAL,
    FINISH,
    GUARD,
    LENT,
)
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, PARKED, PHASES, SERVING, Journal

LEASE = 10
LIVE, STOPPED, KILLED, ENDED = "live", "stopped", "killed", "ended"


class State(t.NamedTuple):
    """The whole world. ``known`` is what the worker heard last, ``back`` that it is on its way back."""

    source: str = PARKED
    left: int = LEASE
    source_on: bool = True
    link: bool = True
    host_on: bool = True
    vm: bool = True
    guarded: bool = True
    clients: bool = False
    worker: str = LIVE
    known: str | None = PARKED
    said: str | None = None
    handed_over: bool = False
    back: bool = False
    age: int = 0


class Rules(t.NamedTuple):
    """What of the mechanism is there; the tests take it away to see that it is missed."""

    guard: bool = True
    grace: bool = True
    asks_again: bool = True
    autostart_asks: bool = True


def connected(world: State) -> bool:
    return world.link and world.source_on and world.host_on


def command(world: State, word: str | None, rules: Rules) -> t.Iterator[tuple[State, str | None]]:
    """What comes of one command to the source: the world afterwards and the answer."""
    if connected(world):
        after = model_handover.source_after(world.source, word or "state")
        if word == "hand_over" and not rules.grace:
            after = HANDED_OVER if world.source in LENT else world.source
        changed = world._replace(source=after)
        if after in LENT and word in ("hand_over", "renew"):
            changed = changed._replace(left=LEASE)
        yield changed, after
        # the link goes with the answer
        yield changed._replace(link=False), None
    # it goes with the question
    yield world._replace(link=False), None


def stop_vm(world: State) -> State:
    return world._replace(vm=False, guarded=False)


def finish(world: State) -> State:
    """As commit does it once it is known that the source let go."""
    return world._replace(handed_over=True, guarded=False, vm=True, clients=True, worker=ENDED)


def work(world: State, rules: Rules) -> t.Iterator[State]:
    """The worker's next step."""
    if world.back:
        world = stop_vm(world)
        if connected(world):
            yield world._replace(source=SERVING, worker=ENDED, back=False, said=None, known=SERVING)
        elif world.said == FINAL:
            yield world
        else:
            yield world._replace(worker=ENDED)
        return
    in_time = world.age < FENCE * LEASE
    step = model_handover.next_step(world.known, world.said, world.vm, in_time)
    if step == model_handover.WAIT and not rules.asks_again:
        step = BACK
    if step == FINISH:
        yield finish(world)
    elif step == BACK:
        yield world._replace(back=True)
    else:
        word = {ASK: "hand_over", CONFIRM: "confirm"}.get(step)
        said = {ASK: ASKED, CONFIRM: FINAL}.get(step, world.said)
        for after, answer in command(world._replace(said=said), word, rules):
            yield after._replace(known=answer)


def start_worker(world: State) -> State:
    """A new worker finds out how things stand, as far as it can."""
    world = world._replace(worker=LIVE)
    if world.handed_over:
        return finish(world)
    if world.back:
        return world
    answer = world.source if connected(world) else None
    journal = Journal("m")
    for phase in PHASES[: PHASES.index("commit")]:
        journal.begin(phase, 1.0)
        journal.end(phase, 2.0)
    journal.begin("commit", 3.0)
    found = resume(journal, answer, world.vm)
    if found.stop_clone:
        world = stop_vm(world)
    if found.phase == "precopy":
        return world._replace(worker=ENDED, said=None, known=answer)
    if found.phase == "cutover":
        # the source is set aside again, and the VM boots with a new lease
        return world._replace(source=PARKED, left=LEASE, age=0, vm=True, guarded=True, said=None, known=PARKED)
    if answer in LENT:
        return world._replace(left=LEASE, age=0, known=answer)
    if answer is None and world.said != FINAL:
        return world._replace(known=None, back=True)
    return world._replace(known=answer)


def timers(world: State, rules: Rules) -> State:
    """Who looks at a clock: the worker, the guard, the source; in the order that is worst."""
    taken = world.link and world.host_on and world.vm
    if world.source_on and model_handover.source_returns(world.source, world.left, taken):
        world = world._replace(source=SERVING)
    if not (world.host_on and world.vm and world.guarded):
        return world
    if world.worker == LIVE and model_handover.stop_is_due(world.age, LEASE, FENCE):
        world = stop_vm(world)
    elif rules.guard and model_handover.stop_is_due(world.age, LEASE, GUARD):
        world = stop_vm(world)
        if world.worker == STOPPED:
            world = world._replace(worker=KILLED)
    return world


def tick(world: State, rules: Rules) -> State:
    left = world.left - 1 if world.source_on and world.source in LENT else world.left
    return timers(world._replace(left=max(left, 0), age=min(world.age + 1, LEASE + 2)), rules)


def host_boots(world: State, rules: Rules) -> State:
    world = world._replace(host_on=True)
    if world.handed_over or not rules.autostart_asks:
        world = world._replace(vm=True)
    return world if world.worker == ENDED else start_worker(world)


def events(world: State, rules: Rules) -> t.Iterator[State]:
    """Everything that may happen next."""
    yield tick(world, rules)
    if world.host_on and world.worker == LIVE:
        yield from work(world, rules)
        if not world.back:
            for after, answer in command(world, "renew", rules):
                if answer == SERVING:
                    yield after._replace(known=SERVING)
                else:
                    yield after._replace(age=0) if answer in LENT else after
        yield world._replace(worker=KILLED)
        yield world._replace(worker=STOPPED)
    if world.worker == STOPPED:
        yield world._replace(worker=LIVE)
    if world.host_on and world.worker == KILLED:
        yield start_worker(world)
        # systemctl stop, or whatever keeps it from being started again
        yield stop_vm(world)._replace(worker=ENDED) if world.guarded else world._replace(worker=ENDED)
    yield world._replace(link=not world.link)
    if world.host_on:
        yield world._replace(host_on=False, vm=False, guarded=False, worker=world.worker if world.worker == ENDED else KILLED)
    else:
        yield host_boots(world, rules)
    if world.source_on:
        yield world._replace(source_on=False)
    else:
        yield world._replace(source_on=True, source=PARKED if world.source in LENT else world.source, left=LEASE)


def all_states(rules: Rules) -> set[State]:
    seen, todo = {State()}, [State()]
    while todo:
        for after in events(todo.pop(), rules):
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return seen


def two_owners(world: State) -> bool:
    return world.vm and world.host_on and world.source == SERVING and world.source_on


def forgets_clients(world: State) -> bool:
    """Data clients sent to the VM is lost, because the source could serve."""
    return world.clients and world.source != HANDED_OVER


@functools.lru_cache(maxsize=None)
def undisturbed(world: State) -> State:
    """One tick without external events."""
    for unused in range(6):
        if world.host_on and world.worker == KILLED:
            world = start_worker(world)
        if world.host_on and world.worker == LIVE:
            link = world.link
            # the first one is that in which nothing is lost
            world = next(work(world, Rules()))._replace(link=link)
    return tick(world, Rules())


def after_a_while(world: State) -> State:
    """The state after two leases without further events."""
    for unused in range(2 * LEASE):
        world = undisturbed(world)
    return world


def no_owner_serves(world: State) -> bool:
    return not (world.source == SERVING and world.source_on) and not (world.vm and world.host_on and world.clients)


@pytest.fixture(name="states", scope="module")
def fixture_states():
    return all_states(Rules())


def test_never_two_owners_and_no_client_is_forgotten(states):
    assert len(states) > 10000
    assert not [each for each in states if two_owners(each)][:3]
    assert not [each for each in states if forgets_clients(each)][:3]


def test_never_no_owner_for_longer_than_the_lease_unless_the_answer_to_confirm_is_lost(states):
    for world in states:
        if not world.source_on:
            continue
        later = after_a_while(world)
        if no_owner_serves(later):
            no_worker_asks = not (world.link and world.host_on) or later.worker == ENDED or world.worker == STOPPED
            assert world.source == HANDED_OVER and no_worker_asks, (world, later)


def test_with_power_and_connection_the_owner_serves_without_help(states):
    for world in states:
        if world.worker in (LIVE, KILLED) and world.source_on and world.link:
            repaired = world if world.host_on else host_boots(world, Rules())
            later = after_a_while(repaired)
            assert not no_owner_serves(later) and not two_owners(later), (world, later)


@pytest.mark.parametrize(
    ("rules", "wrong"),
    [
        # without the guard, the VM of a stopped worker keeps running
        (Rules(guard=False), two_owners),
        # libvirt starts the VM with its host without asking the source
        (Rules(autostart_asks=False), two_owners),
    ],
)
def test_a_removed_rule_is_detected(rules, wrong):
    assert any(wrong(each) for each in all_states(rules))


@pytest.mark.parametrize("rules", [Rules(asks_again=False)])
def test_a_worker_that_stops_asking_leaves_no_owner(rules):
    lost = [
        each
        for each in all_states(rules)
        if each.source == HANDED_OVER and each.source_on and each.link and each.host_on and each.worker == ENDED and no_owner_serves(each)
    ]
    assert lost
