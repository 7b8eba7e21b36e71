# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which faults a round has, and when, by its seed; without input and output.

Voters are numbers: 0 is the member that clients write to when the faults begin, then the other members, and the witness last.
"""

from __future__ import annotations

import itertools
import random
import typing as t


class Step(t.NamedTuple):
    """One method of the lab, ``at`` seconds after the first one; its arguments are voters, or pairs of them."""

    at: float
    act: str
    voters: t.Tuple[t.Any, ...] = ()


class Voters:
    """The voters of a topology, and random choices among them."""

    def __init__(self, seed: int, members: int, witnesses: int) -> None:
        self.random = random.Random(seed)
        self.members = tuple(range(members))
        self.all = tuple(range(members + witnesses))

    def one(self) -> int:
        """Return the writer in half of the cases."""
        return self.random.choice((0, self.random.choice(self.all)))

    def others(self, *these: int) -> tuple[int, ...]:
        """Return all but these."""
        return tuple(each for each in self.all if each not in these)

    def between(self, low: float, high: float) -> float:
        """Return a time."""
        return round(self.random.uniform(low, high), 2)


Scenario = t.Callable[[Voters], t.List[Step]]


def _apart(one: int, others: t.Iterable[int]) -> tuple[tuple[int, int], ...]:
    return tuple(pair for other in others for pair in ((one, other), (other, one)))


def _kill(voters: Voters) -> list[Step]:
    return [Step(0, "kill", (voters.one(),))]


def _hang(voters: Voters) -> list[Step]:
    one = voters.one()
    return [Step(0, "hang", (one,)), Step(voters.between(3, 15), "resume", (one,))]


def _freeze(voters: Voters) -> list[Step]:
    one = voters.one()
    return [Step(0, "freeze", (one,)), Step(voters.between(3, 15), "resume", (one,))]


def _power(voters: Voters) -> list[Step]:
    one = voters.one()
    return [Step(0, "power_off", (one,)), Step(voters.between(2, 9), "boot", (one,))]


def _cut(voters: Voters) -> list[Step]:
    one = voters.one()
    return [Step(0, "cut", _apart(one, voters.others(one))), Step(voters.between(6, 15), "connect")]


def _cut_link(voters: Voters) -> list[Step]:
    """No frames between two, or in one direction only."""
    pair = tuple(voters.random.sample(voters.all, 2))
    pairs = voters.random.choice(((pair,), (pair, pair[::-1])))
    return [Step(0, "cut", pairs), Step(voters.between(6, 15), "connect")]


def _cut_all(voters: Voters) -> list[Step]:
    return [Step(0, "cut", tuple(itertools.permutations(voters.all, 2))), Step(voters.between(6, 14), "connect")]


def _kill_all(voters: Voters) -> list[Step]:
    gap = voters.between(0, 1)
    return [Step(number * gap, "kill", (each,)) for number, each in enumerate(voters.random.sample(voters.all, len(voters.all)))]


def _power_all(voters: Voters) -> list[Step]:
    """At the same moment, or one after the other; powered on in another order."""
    gap = voters.random.choice((0, voters.between(0, 1)))
    off = [Step(number * gap, "power_off", (each,)) for number, each in enumerate(voters.random.sample(voters.all, len(voters.all)))]
    off = off if gap else [Step(0, "power_off", voters.all)]
    return [*off, *(Step(4 + number, "boot", (each,)) for number, each in enumerate(voters.random.sample(voters.all, len(voters.all))))]


def _transfer_power(voters: Voters) -> list[Step]:
    """A member without data receives those of another one; all lose power as soon as that is recorded."""
    one = voters.random.choice(voters.members[1:])
    return [Step(0, "lose_data", (one,)), Step(1, "settle"), Step(2, "power_off", voters.all), Step(3, "boot", voters.all)]


def _transfer_hang(voters: Voters) -> list[Step]:
    """The donor of a member without data is excluded: the member aborts, and leaves the witness Primary alone, without data."""
    one = voters.random.choice(voters.members[1:])
    return [Step(0, "lose_data", (one,)), Step(voters.between(2, 6), "hang", tuple(each for each in voters.members if each != one)),
            Step(12, "resume", voters.members)]  # fmt: skip


def _crash(voters: Voters, these: t.Sequence[int], how: str, at: float, gap: float = 0) -> list[Step]:
    """Kill machines' voting processes or their power, at once or one after the other."""
    act = {"kill": "kill", "power": "power_off"}[how]
    steps = [Step(at + number * gap, act, (each,)) for number, each in enumerate(these)] if gap else [Step(at, act, tuple(these))]
    return [*steps, *([Step(at + len(these) * gap + voters.between(2, 9), "boot", tuple(these))] if how == "power" else [])]


def _older(how: str) -> Scenario:
    """A member is cut off and continues to run, the others serve for some seconds, then all of them crash; it is connected again."""

    def plan(voters: Voters) -> list[Step]:
        one = voters.random.choice(voters.members)
        crash = voters.between(10, 15)
        return [Step(0, "cut", _apart(one, voters.others(one))), *_crash(voters, voters.others(one), how, crash), Step(crash + 0.3, "connect")]

    return plan


def _majority(how: str) -> Scenario:
    """All but one member crash within some seconds, the writer last: it acknowledges what the others no longer receive."""

    def plan(voters: Voters) -> list[Step]:
        stays = voters.random.choice(voters.members[1:])
        return _crash(voters, voters.others(0, stays) + (0,), how, 0, voters.random.choice((0, 0.05, 0.5, 2, 4)))

    return plan


def _cut_crash(how: str) -> Scenario:
    """One member is cut off, the others crash at any moment around their new view; later it crashes too, or not."""

    def plan(voters: Voters) -> list[Step]:
        one = voters.random.choice(voters.members)
        crash = voters.between(0, 8)
        back = crash + voters.between(2, 10)
        late = [Step(back - 0.5, "kill", (one,))] if voters.random.random() < 0.5 else []
        return [Step(0, "cut", _apart(one, voters.others(one))), *_crash(voters, voters.others(one), how, crash), *late, Step(back, "connect")]

    return plan


SINGLE: t.Mapping[str, Scenario] = {
    "kill": _kill, "hang": _hang, "freeze": _freeze, "power": _power, "cut": _cut, "cut-link": _cut_link,
}  # fmt: skip
WHOLE: t.Mapping[str, Scenario] = {
    "cut-all": _cut_all, "kill-all": _kill_all, "power-all": _power_all, "transfer-power": _transfer_power, "transfer-hang": _transfer_hang,
}  # fmt: skip
PAIRS: t.Mapping[str, Scenario] = {
    f"{name}-{how}": scenario(how) for name, scenario in (("older", _older), ("majority", _majority), ("cut-crash", _cut_crash)) for how in ("kill", "power")
}


def _together(number: int) -> Scenario:
    """Several faults that begin within some seconds."""

    def plan(voters: Voters) -> list[Step]:
        steps = []
        for kind in voters.random.choices(list(SINGLE), k=number):
            after = voters.between(0, 6)
            steps += [step._replace(at=step.at + after) for step in SINGLE[kind](voters)]
        return steps

    return plan


SCENARIOS: t.Mapping[str, Scenario] = {**SINGLE, **WHOLE, **PAIRS, "two": _together(2), "three": _together(3)}
#: Random rounds are pairs and triples above all.
_OFTEN = {name: 1 for name in (*SINGLE, *WHOLE)} | {name: 2 for name in PAIRS} | {"two": 8, "three": 8}


class Round(t.NamedTuple):
    """Name and seed of a round: the whole of it, written as ``NAME:SEED``."""

    name: str
    seed: int

    def __str__(self) -> str:
        return f"{self.name}:{self.seed}"

    def steps(self, members: int, witnesses: int) -> list[Step]:
        """Return the faults in their order."""
        return sorted(SCENARIOS[self.name](Voters(self.seed, members, witnesses)), key=lambda step: step.at)


def parse(text: str) -> Round:
    """Return the round of ``NAME:SEED``, or of a seed alone, which then also decides the name.

    :raises ValueError: unknown name, or no number.
    """
    name, _colon, seed = text.rpartition(":")
    if name and name not in SCENARIOS:
        raise ValueError(f"{text}: unknown faults {name}; known are {', '.join(SCENARIOS)}")
    if not seed.isdigit():
        raise ValueError(f"{text}: must be NAME:SEED or SEED, with a number as the seed")
    return Round(name or random.Random(int(seed)).choices(list(_OFTEN), list(_OFTEN.values()))[0], int(seed))
