# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running gates one after the other: streamed, timed, logged, counted and always cleaned up."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import typing as t

from counts import Count, count_exit, count_junit, table

#: Seconds a command gets to end itself after SIGTERM; a lab needs a while to take itself down.
GRACE = 60


class Interrupted(BaseException):
    """The person or the CI asked us to stop. No ``Exception``, so that no gate swallows it."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of a gate.

    :arg reports: directory the command writes JUnit files to; ``None``: the command is one test.
    :arg refuse: a pattern no line of the output may match, for tools whose exit code hides warnings.
    :arg expect: patterns that some line of the output must match each.
    """

    argv: t.Sequence[str]
    cwd: pathlib.Path
    env: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    reports: pathlib.Path | None = None
    timeout: float = 600
    refuse: str | None = None
    expect: t.Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Gate:
    """A named group of steps that together answer one question.

    :arg steps: called when the gate's turn comes, so it sees what earlier gates left.
    :arg cleanup: commands run afterwards whatever happened; they are no tests, but a failing one is a failure.
    """

    name: str
    title: str
    steps: t.Callable[[], t.Iterable[Step]]
    suites: frozenset[str]
    cleanup: t.Callable[[], t.Iterable[Step]] = tuple


@dataclasses.dataclass
class Outcome:
    """What became of a gate."""

    name: str
    count: Count = dataclasses.field(default_factory=Count)
    seconds: float = 0.0
    remark: str = ""


class Log:
    """Output to the console and to the gate's own file."""

    def __init__(self, path: pathlib.Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")

    def line(self, text: str) -> None:
        print(text, flush=True)
        print(text, file=self._file, flush=True)

    def close(self) -> None:
        self._file.close()


def _end(process: subprocess.Popen[str]) -> None:
    """End a command and everything it started."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def run_step(step: Step, log: Log) -> tuple[Count, str]:
    """Run one command, its output line by line to the log.

    :returns: its count and a remark, empty when all is well.
    """
    log.line(f"$ {' '.join(step.argv)}")
    before = set(step.reports.glob("*.xml")) if step.reports else set()
    for old in before:
        old.unlink()
    try:
        process = subprocess.Popen(
            list(step.argv),
            cwd=step.cwd,
            env={**os.environ, **step.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        log.line(f"cannot run {step.argv[0]}: {error}")
        return Count(failed=1), f"cannot run {step.argv[0]}"
    late = threading.Event()

    def on_time() -> None:
        late.set()
        _end(process)

    timer = threading.Timer(step.timeout, on_time)
    timer.daemon = True
    timer.start()
    refused = ""
    wanted = list(step.expect)
    try:
        for raw in t.cast(t.IO[str], process.stdout):
            text = raw.rstrip("\n")
            log.line(text)
            if step.refuse and not refused and re.search(step.refuse, text):
                refused = text.strip()
            wanted = [pattern for pattern in wanted if not re.search(pattern, text)]
        rc = process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        timer.cancel()
    count = count_junit(sorted(step.reports.glob("*.xml")), rc) if step.reports else count_exit(rc)
    remark = ""
    if late.is_set():
        remark = f"no end after {step.timeout:.0f} s"
    elif rc != 0:
        remark = f"exit code {rc}"
    elif refused:
        remark = f"said: {refused[:60]}"
    elif wanted:
        remark = f"never said: {wanted[0]}"
    elif count.failed:
        remark = "no test ran" if not count.passed else ""
    if remark and not count.failed:
        count = dataclasses.replace(count, failed=1, passed=max(count.passed - 1, 0))
    return count, remark


def run_gate(gate: Gate, logs: pathlib.Path) -> Outcome:
    """Run a gate to its end. Only an interruption escapes, after the clean-up."""
    outcome = Outcome(gate.name)
    log = Log(logs / f"{gate.name}.log")
    started = time.monotonic()
    log.line(f"\n=== {gate.name}: {gate.title}")
    interrupted = False
    try:
        for step in gate.steps():
            count, remark = run_step(step, log)
            outcome.count += count
            outcome.remark = outcome.remark or remark
    except Interrupted:
        interrupted = True
        outcome.remark = "interrupted"
        outcome.count += Count(failed=1)
    except Exception as error:  # a broken gate is a failed gate, the others still run
        log.line(f"the gate itself failed: {error!r}")
        outcome.remark = f"broken gate: {error!r}"
        outcome.count += Count(failed=1)
    for step in gate.cleanup():
        count, remark = run_step(step, log)
        if count.failed:
            outcome.count += Count(failed=1)
            outcome.remark = outcome.remark or f"clean-up: {remark}"
    if outcome.count.passed + outcome.count.failed == 0:
        outcome.count += Count(failed=1)
        outcome.remark = "no test ran"
    outcome.seconds = time.monotonic() - started
    log.line(f"=== {gate.name}: {outcome.count} in {outcome.seconds:.1f} s{' (' + outcome.remark + ')' if outcome.remark else ''}")
    log.close()
    if interrupted:
        raise InterruptedGate(outcome)
    return outcome


class InterruptedGate(Interrupted):
    """Carries what an interrupted gate had counted."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.name)
        self.outcome = outcome


def run_all(gates: t.Sequence[Gate], output: pathlib.Path) -> int:
    """Run gates in order, print the table and, last, the honest count.

    :arg output: directory for logs, reports and ``summary.txt`` (the count again).
    :returns: exit code, 0 only if nothing failed and something passed.
    """
    summary = output / "summary.txt"
    output.mkdir(parents=True, exist_ok=True)
    summary.unlink(missing_ok=True)

    def stop(number: int, frame: t.Any) -> None:
        # Once is enough: a second Ctrl-C must not cut the clean-up short.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Interrupted

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    outcomes: list[Outcome] = []
    code = 0
    try:
        for gate in gates:
            outcomes.append(run_gate(gate, output / "gates"))
    except InterruptedGate as interruption:
        outcomes.append(interruption.outcome)
        code = 130
    except Interrupted:
        outcomes.append(Outcome("interrupted", Count(failed=1)))
        code = 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for gate in gates[len(outcomes):]:
        outcomes.append(Outcome(gate.name, Count(failed=1), remark="not reached"))
    total = sum((outcome.count for outcome in outcomes), Count())
    if total.passed + total.failed == 0:
        total = Count(failed=1)
    summary.write_text(f"{total}\n", encoding="utf-8")
    print()
    print(table([(one.name, one.count, one.seconds, one.remark) for one in outcomes]))
    print(f"logs: {output}")
    print(total, flush=True)
    sys.stdout.flush()
    return code or (1 if total.failed else 0)
