# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Explore all states of a model, breadth first, so that the first counterexample is a shortest one. Knows no subject."""

from __future__ import annotations

import dataclasses
import time
import typing as t

State = t.Hashable
Event = tuple[str, State]


class Model(t.Protocol):
    """What can happen, and what must never be."""

    def start(self) -> State:
        """Return the first state."""

    def events(self, state: t.Any) -> t.Iterable[Event]:
        """Return what can happen next: a sentence and the state after it."""

    def violation(self, state: t.Any) -> str | None:
        """Return why a state must not be."""

    def shared(self, state: t.Any) -> State:
        """Return an equal state that shares its parts with others, to save memory."""

    def returns(self, state: t.Any) -> tuple[str | None, t.Sequence[Event]]:
        """Return why service does not return from a state although nothing fails any more, and what was done meanwhile."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What was explored.

    :arg states: number of different states.
    :arg depth: largest number of events from the first state.
    :arg seconds: time that it took.
    :arg complete: all reachable states were explored.
    :arg problem: the first violation, if any; ``trace`` leads to it.
    """

    states: int
    depth: int
    seconds: float
    complete: bool
    problem: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line of figures, and the trace if there is one."""
        figures = f"{self.states:,} states, depth {self.depth}, {self.seconds:.0f} s, {'complete' if self.complete else 'stopped at the limit'}"
        steps = [f"  {number:2}. {text}" for number, text in enumerate(self.trace, 1)]
        return "\n".join([figures, *([self.problem] if self.problem else []), *steps])


def explore(model: Model, limit: int = 10**9, deadline: float = 1e9, lively: bool = True) -> Result:
    """Explore a model until a violation is found.

    :arg limit: largest number of states.
    :arg deadline: seconds after which it stops.
    :arg lively: also find states from which service does not return.
    """
    began = time.monotonic()
    first = model.start()
    before: dict[State, State] = {first: None}
    level, depth = [first], 0

    def result(complete: bool, problem: str | None = None, state: State = None, more: t.Sequence[Event] = ()) -> Result:
        trace = (*_trace(model, before, state), *(text for text, unused in more)) if problem else ()
        return Result(len(before), depth, time.monotonic() - began, complete, problem, trace)

    while level:
        following = []
        for state in level:
            problem, more = model.violation(state), ()
            if not problem and lively:
                problem, more = model.returns(state)
            if problem:
                return result(False, problem, state, more)
            for unused, after in model.events(state):
                if after not in before:
                    after = model.shared(after)
                    before[after] = state
                    following.append(after)
            if len(before) > limit or time.monotonic() - began > deadline:
                return result(False)
        level = following
        depth += bool(following)
    return result(True)


def _trace(model: Model, before: t.Mapping[State, State], state: State) -> list[str]:
    steps = []
    while (previous := before[state]) is not None:
        steps.append(next(text for text, after in model.events(previous) if after == state))
        state = previous
    return steps[::-1]
