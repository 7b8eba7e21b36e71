# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run gates: with streamed output, logs, counts and cleanup; commands that hang are ended.

The gates of a lane run one after the other, the lanes run in parallel. The longest gates, which mostly wait for machines to boot, have a
separate lane. Gates that only need processors run in a third lane with lower priority.
"""

from __future__ import annotations

import collections
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

import processes
from counts import Count, count_exit, count_junit, table

if t.TYPE_CHECKING:
    from evidence import Evidence

NICE = "10"
INTERRUPTED, NOT_REACHED = "interrupted", "not reached"
MAIN, BESIDE, ASIDE = LANES = ("main", "beside", "aside")
_CONSOLE = threading.Lock()
_REASON = re.compile(r"(fatal|failed): |\[?ERROR\b")


class Interrupted(BaseException):
    """The run was interrupted by the user or the CI. Not an ``Exception``, so that no gate catches it."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One command of a gate.

    :arg reports: directory of the command's JUnit files; ``None``: the command is one test.
    :arg report_names: pattern of its files in this directory.
    :arg silence: seconds after which it hangs.
    :arg refuse: a pattern that no line of the output may match, for tools whose exit code ignores warnings.
    :arg expect: patterns that must each match a line of the output.
    """

    argv: t.Sequence[str]
    cwd: pathlib.Path
    env: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    reports: pathlib.Path | None = None
    report_names: str = "*.xml"
    silence: float = processes.SILENCE
    refuse: str | None = None
    expect: t.Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Gate:
    """A named group of steps.

    :arg steps: called when the gate starts, so that it can use the results of earlier gates.
    :arg cleanup: commands that always run afterwards; they are not counted as tests, but a failing one is a failure.
    :arg lane: ``BESIDE``: shares no resources with other gates, so it runs in parallel;
        ``ASIDE``: needs processors and has no time-dependent tests, so it also has lower priority.
    :arg inputs: paths that can change its result besides the product, as git pathspecs; see ``evidence.inputs``.
    """

    name: str
    title: str
    steps: t.Callable[[], t.Iterable[Step]]
    suites: frozenset[str]
    cleanup: t.Callable[[], t.Iterable[Step]] = tuple
    lane: str = MAIN
    inputs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Extra:
    """A gate after the others.

    :arg choose: gets the seconds that the others took; ``None``: no gate fits.
    :arg limit: seconds after the start of the run at which it is ended.
    """

    choose: t.Callable[[float], Gate | None]
    limit: float = float("inf")


@dataclasses.dataclass
class Outcome:
    """The result of a gate."""

    name: str
    count: Count = dataclasses.field(default_factory=Count)
    seconds: float = 0.0
    remark: str = ""
    began: float = 0.0


class Log:
    """Output to the file of a gate, and to the console: immediately, or at the end while other lanes are shown."""

    def __init__(self, path: pathlib.Path, seen: t.Callable[[], bool] = lambda: True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._seen = seen
        self._held: list[str] = []

    def line(self, text: str) -> None:
        print(text, file=self._file, flush=True)
        self._held.append(text)
        if self._seen():
            self._show()

    def _show(self) -> None:
        with _CONSOLE:
            for text in self._held:
                print(text)
            sys.stdout.flush()
        self._held.clear()

    def close(self) -> None:
        self._show()
        self._file.close()


class Lane(threading.Thread):
    """Runs gates one after the other. ``stop`` ends the running gate with its cleanup, and starts no other.

    :arg before: the lanes whose output is shown first.
    :arg back: run its commands with lower priority.
    """

    def __init__(
        self, gates: t.Sequence[Gate], logs: pathlib.Path, before: t.Sequence[Lane] = (), back: bool = False, evidence: Evidence | None = None
    ) -> None:
        super().__init__(name=gates[0].lane if gates else MAIN, daemon=True)
        self.outcomes: dict[str, Outcome] = {}
        self._gates = gates
        self._back = back
        self._evidence = evidence
        self._zero = time.monotonic()
        self._logs = logs
        self._before = before
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._handing = threading.Lock()

    def run(self) -> None:
        for gate in self._gates:
            if self._stopped.is_set():
                return
            try:
                known = self._evidence and self._evidence.known(gate)
                outcome = self.outcomes[gate.name] = known or self._gate(gate)
                if self._evidence and not known and not self._stopped.is_set():
                    self._evidence.add(gate, outcome.count, outcome.seconds)
            except BaseException as error:  # a lane must not end without an outcome
                self.outcomes[gate.name] = Outcome(gate.name, Count(failed=1), remark=f"broken gate: {error!r}")

    def stop(self) -> None:
        """End the running command, except for a cleanup; return when it has ended."""
        with self._handing:
            self._stopped.set()
            process = self._process
        if process:
            processes.end(process)

    def _seen(self) -> bool:
        return not any(lane.is_alive() for lane in self._before)

    def _gate(self, gate: Gate) -> Outcome:
        """Run a gate until its end or an interruption, and clean up."""
        outcome = Outcome(gate.name)
        log = Log(self._logs / f"{gate.name}.log", self._seen)
        started = time.monotonic()
        log.line(f"\n=== {gate.name}: {gate.title}")
        try:
            for step in gate.steps():
                count, remark = self.step(step, log)
                outcome.count += count
                outcome.remark = outcome.remark or remark
        except Interrupted:
            outcome.remark = INTERRUPTED
            outcome.count += Count(failed=1)
        except Exception as error:  # a broken gate is a failure, the other gates still run
            log.line(f"the gate raised an error: {error!r}")
            outcome.remark = f"broken gate: {error!r}"
            outcome.count += Count(failed=1)
        for step in gate.cleanup():
            count, remark = self.step(step, log, cleanup=True)
            if count.failed:
                outcome.count += Count(failed=1)
                outcome.remark = outcome.remark or f"cleanup failed: {remark}"
        if outcome.count.passed + outcome.count.failed == 0:
            outcome.count += Count(failed=1)
            outcome.remark = "no test ran"
        outcome.began, outcome.seconds = started - self._zero, time.monotonic() - started
        log.line(f"=== {gate.name}: {outcome.count} in {outcome.seconds:.1f} s{' (' + outcome.remark + ')' if outcome.remark else ''}")
        log.close()
        return outcome

    def step(self, step: Step, log: Log, cleanup: bool = False) -> tuple[Count, str]:
        """Run one command, and write its output line by line to the log.

        :returns: its count and a remark, empty if it passed.
        :raises Interrupted: the lane was stopped; never for a cleanup.
        """
        log.line(f"$ {' '.join(step.argv)}")
        for old in step.reports.glob(step.report_names) if step.reports else ():
            old.unlink()
        try:
            process = self._start(step, cleanup)
        except OSError as error:
            log.line(f"cannot run {step.argv[0]}: {error}")
            return Count(failed=1), f"cannot run {step.argv[0]}"
        watch = processes.Watch(process, step.silence)
        watch.start()
        refused = ""
        wanted = list(step.expect)
        reasons = collections.deque[str](maxlen=2)
        try:
            for raw in t.cast(t.IO[str], process.stdout):
                watch.heard()
                text = raw.rstrip("\n")
                log.line(text)
                if _REASON.match(text):
                    reasons.append(text[:400])
                if step.refuse and not refused and re.search(step.refuse, text):
                    refused = text.strip()
                wanted = [pattern for pattern in wanted if not re.search(pattern, text)]
            rc = process.wait()
        except BaseException:
            processes.end(process)
            raise
        finally:
            watch.stop()
            self._process = None
        if self._stopped.is_set() and not cleanup:
            raise Interrupted
        count = count_junit(sorted(step.reports.glob(step.report_names)), rc) if step.reports else count_exit(rc, ": ".join([" ".join(step.argv), *reasons]))
        remark = ""
        if watch.late:
            remark = f"ended after {step.silence:.0f} s without output or work"
        elif rc != 0:
            remark = f"exit code {rc}"
        elif refused:
            remark = f"refused output: {refused[:60]}"
        elif wanted:
            remark = f"missing output: {wanted[0]}"
        elif count.failed:
            remark = "no test ran" if not count.passed else ""
        if remark and not count.failed:
            count = dataclasses.replace(count, failed=1, passed=max(count.passed - 1, 0))
        return count, remark

    def _start(self, step: Step, cleanup: bool) -> subprocess.Popen[str]:
        with self._handing:
            if self._stopped.is_set() and not cleanup:
                raise Interrupted
            process = subprocess.Popen(
                ["nice", "-n", NICE, *step.argv] if self._back else list(step.argv),
                cwd=step.cwd,
                env={**os.environ, **step.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                encoding="utf-8",
                errors="replace",
            )
            self._process = None if cleanup else process
        if self._back:
            _step_back(process.pid)
        return process


def _step_back(pid: int) -> None:
    """Lower the priority of a session; with the kernel's autogroups, the priority of processes alone has no effect."""
    try:
        pathlib.Path(f"/proc/{pid}/autogroup").write_text(NICE, encoding="ascii")
    except OSError:
        pass  # it has already ended, or the kernel has no autogroups


def _lanes(gates: t.Sequence[Gate], logs: pathlib.Path, evidence: Evidence | None) -> list[Lane]:
    """Return the lanes with gates; the first one is shown immediately, and a single one runs with normal priority."""
    lanes: list[Lane] = []
    for name in LANES:
        its = [gate for gate in gates if gate.lane == name]
        if its:
            lanes.append(Lane(its, logs, tuple(lanes), back=bool(lanes) and name == ASIDE, evidence=evidence))
    return lanes


def _finish(lanes: t.Sequence[Lane], interrupted: threading.Event, until: float = float("inf")) -> bool:
    """Run lanes until they end, are interrupted, or a time of the monotonic clock.

    :returns: whether the time ended them.
    """
    for lane in lanes:
        lane.start()
    stopping: list[threading.Thread] = []
    late = False
    while any(lane.is_alive() for lane in lanes):
        late = late or time.monotonic() > until
        # Only once: a second Ctrl-C must not interrupt the cleanup.
        if (interrupted.is_set() or late) and not stopping:
            stopping = [threading.Thread(target=lane.stop) for lane in lanes]
            for thread in stopping:
                thread.start()
        for lane in lanes:
            lane.join(0.1)
    return late and not interrupted.is_set()


def _run_extra(extra: Extra, began: float, lanes: list[Lane], output: pathlib.Path, evidence: Evidence | None, interrupted: threading.Event) -> list[Gate]:
    """Run the gate that is chosen when all others have ended. One that is ended by the limit counts as skipped: it neither passed nor failed."""
    gate = None if interrupted.is_set() else extra.choose(time.monotonic() - began)
    if not gate:
        return []
    lanes.append(Lane([gate], output / "gates", evidence=evidence))
    late = _finish(lanes[-1:], interrupted, began + extra.limit)
    outcome = lanes[-1].outcomes.get(gate.name)
    if late and outcome and outcome.remark == INTERRUPTED:
        outcome.count = dataclasses.replace(outcome.count, failed=outcome.count.failed - 1, skipped=outcome.count.skipped + 1)
        outcome.remark = f"ended after {extra.limit / 60:.0f} minutes of the whole run"
    return [gate]


def run_all(gates: t.Sequence[Gate], output: pathlib.Path, evidence: Evidence | None = None, extra: Extra | None = None) -> int:
    """Run gates, print the table and the total count.

    :arg output: directory for logs, reports and ``summary.txt`` (what failed, and the count, again).
    :arg evidence: keeps which gates passed, and knows those that need not run again.
    :arg extra: one more gate, if one fits after the others.
    :returns: exit code, 0 only if nothing failed and something passed.
    """
    summary = output / "summary.txt"
    output.mkdir(parents=True, exist_ok=True)
    summary.unlink(missing_ok=True)
    lanes = _lanes(gates, output / "gates", evidence)
    interrupted = threading.Event()
    before = {number: signal.signal(number, lambda *_unused: interrupted.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    began = time.monotonic()
    try:
        _finish(lanes, interrupted)
        if extra:
            gates = [*gates, *_run_extra(extra, began, lanes, output, evidence, interrupted)]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if evidence:
        evidence.publish()
    reached = {name: outcome for lane in lanes for name, outcome in lane.outcomes.items()}
    outcomes = [reached.get(gate.name) or Outcome(gate.name, Count(failed=1), remark=NOT_REACHED) for gate in gates]
    total = sum((outcome.count for outcome in outcomes), Count())
    if total.passed + total.failed == 0:
        total = Count(failed=1)
    failed = [(one.name, name) for one in outcomes if one.count.failed for name in dict.fromkeys(one.count.names) or [one.remark]]
    end = "".join(f"failed: {gate}: {name}\n" for gate, name in failed) + f"{total}\n"
    summary.write_text(end, encoding="utf-8")
    print()
    print(table([(one.name, one.count, one.began, one.seconds, one.remark) for one in outcomes]))
    slowest = sorted(outcomes, key=lambda one: one.seconds, reverse=True)[:3]
    print(f"{time.monotonic() - began:.0f} s, slowest: {', '.join(f'{one.name} {one.seconds:.0f} s' for one in slowest)}; logs: {output}")
    for line in evidence.lines(outcomes) if evidence else ():
        print(line)
    print(end, end="", flush=True)
    return 130 if interrupted.is_set() else 1 if total.failed else 0
