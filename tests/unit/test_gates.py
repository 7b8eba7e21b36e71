# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate runner must not be able to look better than what it ran."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import typing as t

import pytest

RUNNER = pathlib.Path(__file__).resolve().parents[1] / "runner"
sys.path.insert(0, str(RUNNER))

import counts  # noqa: E402
import engine  # noqa: E402
import evidence  # noqa: E402
import gates  # noqa: E402
import processes  # noqa: E402
import steps  # noqa: E402
import workspace  # noqa: E402

LAST_LINE = re.compile(r"\d+ passed, \d+ failed(, \d+ skipped)?")


def report(*cases: str) -> str:
    inside = "".join(f"<testcase name='x'>{case}</testcase>" for case in cases)
    return f"<testsuites><testsuite>{inside}</testsuite></testsuites>"


@pytest.mark.parametrize(
    ("text", "rc", "expected"),
    [
        (report("", ""), 0, counts.Count(2, 0, 0)),
        (report("", "<failure/>"), 1, counts.Count(1, 1, 0)),
        (report("<error/>", "<skipped/>"), 1, counts.Count(0, 1, 1)),
        (report("", "<skipped message='No tests applicable.'/>"), 0, counts.Count(1, 0, 0)),
        (report(""), 2, counts.Count(1, 1, 0)),
        (report(), 0, counts.Count(0, 1, 0)),
        (report("<skipped/>"), 0, counts.Count(0, 1, 1)),
        ("<testsuites>", 0, counts.Count(0, 1, 0)),
    ],
    ids=["passed", "failed", "error", "nothing applicable", "crashed after a pass", "nothing ran", "all skipped", "broken report"],
)
def test_reports_are_counted(text: str, rc: int, expected: counts.Count, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(text)
    assert counts.count_junit([path], rc) == expected


def test_a_failure_does_not_stop_the_rest(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys, gate("one", "exit 3", "true"), gate("two", "true")) == (1, "2 passed, 1 failed")
    assert run(tmp_path, capsys, gate("one", "true", "true"), gate("two", "true")) == (0, "3 passed, 0 failed")
    assert counts.count_junit([], 0) == counts.Count(failed=1), "no report"


def gate(name: str, *scripts: str, cleanup: str = "", **options: t.Any) -> engine.Gate:
    """A gate of shell one-liners."""

    def steps() -> t.Iterator[engine.Step]:
        for script in scripts:
            yield engine.Step(["sh", "-c", script], pathlib.Path("/"), **options)

    def after() -> t.Iterator[engine.Step]:
        if cleanup:
            yield engine.Step(["sh", "-c", cleanup], pathlib.Path("/"))

    return engine.Gate(name, name, steps, frozenset({"test"}), after)


def run(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], *wanted: engine.Gate) -> tuple[int, str]:
    code = engine.run_all(wanted, tmp_path)
    lines = capsys.readouterr().out.splitlines()
    *failed, last = (tmp_path / "summary.txt").read_text().splitlines()
    assert lines[-len(failed) - 1 :] == [*failed, last] and LAST_LINE.fullmatch(last)
    assert bool(code) == bool(failed) and all(line.startswith("failed: ") for line in failed)
    return code, last


@pytest.mark.parametrize(
    "bad",
    [
        gate("empty"),
        engine.Gate("broken", "broken", lambda: iter([1 // 0]), frozenset()),
        gate("hangs", "sleep 60", silence=0.2),
        gate("warns", "echo WARNING: x", refuse="^WARNING"),
        gate("silent", "true", expect=["hello"]),
        gate("dirty", "true", cleanup="false"),
        engine.Gate("absent", "absent", lambda: [engine.Step(["/no/such/program"], pathlib.Path("/"))], frozenset()),
        gate("reportless", "true", reports=pathlib.Path("/nonexistent")),
    ],
    ids=lambda one: one.name,
)
def test_what_is_not_a_pass_is_a_failure(bad: engine.Gate, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, last = run(tmp_path, capsys, gate("good", "true"), bad)
    assert code == 1
    assert re.search(r" [1-9]\d* failed", last)


@pytest.mark.parametrize("script", ["for _ in 1 2 3 4; do sleep 0.5; echo x; done", "timeout 2 sh -c 'while :; do :; done' || :"], ids=["prints", "works"])
def test_a_slow_command_is_not_ended(script: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "IDLE", 0.05)
    assert run(tmp_path, capsys, gate("slow", script, silence=1.0)) == (0, "1 passed, 0 failed")


def test_reports_of_others_are_neither_counted_nor_removed(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.xml"
    other.write_text('<testsuite><testcase name="a"><failure/></testcase></testsuite>')
    one = "<testsuite><testcase name='b'/></testsuite>"
    step = engine.Step(["sh", "-c", f'echo "{one}" > own-1.xml'], tmp_path, reports=tmp_path, report_names="own-*.xml")
    assert run(tmp_path, capsys, engine.Gate("one", "one", lambda: [step], frozenset())) == (0, "1 passed, 0 failed")
    assert other.exists()


def test_clean_up_runs_after_a_failure(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tmp_path, capsys, gate("one", "false", cleanup=f"touch {tmp_path}/cleaned"))
    assert (tmp_path / "cleaned").exists()


def test_a_resumed_run_repeats_what_failed_alone(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = tmp_path / "ran"
    wanted = (gate("good", f"echo good >> {ran}"), gate("bad", f"echo bad >> {ran}; test -e {tmp_path}/well"))

    def again(state: str, resume: bool) -> tuple[int, str]:
        kept = evidence.Evidence(tmp_path / "passed.json", tmp_path / "no.json", resume=resume, facts=(lambda _gate: state, str, str))
        code = engine.run_all(wanted, tmp_path, kept)
        return code, capsys.readouterr().out.splitlines()[-1]

    assert again("one", False) == (1, "1 passed, 1 failed")
    assert again("one", True) == (1, "1 passed, 1 failed") and ran.read_text().split() == ["good", "bad", "bad"]
    (tmp_path / "well").touch()
    assert again("one", True) == (0, "2 passed, 0 failed")
    # nothing is left to run, nothing is lost of the count; another state begins from the start
    assert again("one", True) == (0, "2 passed, 0 failed") and ran.read_text().split().count("bad") == 3
    assert again("two", True) == (0, "2 passed, 0 failed") and ran.read_text().split().count("good") == 2
    (tmp_path / "passed.json").write_text("{")
    assert again("two", True) == (0, "2 passed, 0 failed") and ran.read_text().split().count("good") == 3


def aside(one: engine.Gate) -> engine.Gate:
    return dataclasses.replace(one, lane=engine.ASIDE)


WAIT = "for _ in $(seq 300); do [ -e {0} ] && exit 0; sleep 0.1; done; exit 1"


SAYS = "echo 'fatal: [web1]: late'; echo 'FAILED - RETRYING: [web1]'; exit 2"


def test_what_failed_is_named_below_the_table(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.xml").write_text("<t><testcase classname='a.b' name='c'><failure message='no room&#10;at all'/></testcase><testcase name='d'/></t>")
    copied = engine.Step(["sh", "-c", f"cp {tmp_path}/one.xml {tmp_path}/out.xml; exit 1"], tmp_path, reports=tmp_path, report_names="out.xml")
    assert engine.run_all([engine.Gate("g", "g", lambda: [copied], frozenset()), gate("plain", "exit 3", "true", SAYS)], tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    failed = [line for line in lines if line.startswith("failed: ")]
    assert failed == ["failed: g: a.b::c: no room", "failed: plain: sh -c exit 3", f"failed: plain: sh -c {SAYS}: fatal: [web1]: late"]
    assert LAST_LINE.fullmatch(lines[-1])


def test_gates_aside_run_beside_the_others_and_are_shown_whole(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    main = gate("main", f"echo main begins; touch {one}; {WAIT.format(two)}", "sleep 0.3; echo main ends")
    beside = gate("beside", f"echo beside begins; {WAIT.format(one)}", f"touch {two}", "nice; echo beside ends")
    code = engine.run_all([aside(beside), main], tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert (code, lines[-1]) == (0, "5 passed, 0 failed")
    first, last = lines.index("=== beside: beside"), lines.index("beside ends")
    assert lines.index("main begins") < first
    assert lines[last - 1] == str(min(19, os.nice(0) + 10)), "it steps back for the others"
    assert not [line for line in lines[first:last] if "main" in line]
    table = [line.split()[0] for line in lines[lines.index(next(line for line in lines if line.startswith("----"))) + 1 : -2]]
    assert table == ["beside", "main"]
    for name in ("main", "beside"):
        assert f"{name} ends" in (tmp_path / "gates" / f"{name}.log").read_text()


def test_a_failure_aside_is_a_failure(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, capsys, gate("main", "true"), aside(gate("beside", "true", "exit 3"))) == (1, "2 passed, 1 failed")
    broken = engine.Gate("broken", "broken", lambda: iter([1 // 0]), frozenset(), lane=engine.ASIDE)
    assert run(tmp_path, capsys, gate("main", "true"), broken) == (1, "1 passed, 1 failed")


def test_a_lane_that_breaks_is_not_overlooked(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    def cleanup() -> t.Iterator[engine.Step]:
        sys.exit(0)

    broken = engine.Gate("broken", "broken", lambda: [engine.Step(["true"], pathlib.Path("/"))], frozenset(), cleanup)
    assert run(tmp_path, capsys, broken, gate("next", "true")) == (1, "1 passed, 1 failed")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_all_lanes_and_their_children_and_cleans_up_after_all(first: signal.Signals, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        f"import pathlib, sys\nsys.path.insert(0, {str(RUNNER)!r})\nfrom engine import Gate, Step, run_all\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "def sh(text):\n    return lambda: [Step(['sh', '-c', text], here)]\n"
        "def gate(name, lane):\n"
        "    work = f'sleep 300 & echo $! > {name}.pid; touch {name}-runs; wait'\n"
        "    return Gate(name, name, sh(work), frozenset(), sh(f'sleep 1; touch {name}-cleaned'), lane)\n"
        "before = Gate('before', 'before', sh('true'), frozenset())\n"
        "sys.exit(run_all([before, gate('main', 'main'), gate('beside', 'beside'), gate('aside', 'aside'), gate('later', 'aside')], here))\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        for _attempt in range(300):
            if all((tmp_path / f"{name}-runs").exists() for name in engine.LANES):
                break
            time.sleep(0.1)
        process.send_signal(first)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)  # impatience must not cut the clean-up short
        said = process.communicate(timeout=60)[0]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "1 passed, 4 failed"
    assert all((tmp_path / f"{name}-cleaned").exists() for name in engine.LANES)
    assert "not reached" in said and not (tmp_path / "later-runs").exists()
    for name in engine.LANES:
        # A zombie waiting for init is dead enough.
        state = pathlib.Path(f"/proc/{(tmp_path / f'{name}.pid').read_text().strip()}/stat")
        assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.parametrize(
    ("make", "code", "last"),
    [
        ("echo '5 passed, 0 failed' >tests/output/summary.txt; echo noise", 0, "5 passed, 0 failed"),
        ("echo '5 passed, 1 failed' >tests/output/summary.txt; echo noise >&2; exit 2", 2, "5 passed, 1 failed"),
        ("exit 2", 2, "0 passed, 1 failed"),
        ("exit 0", 1, "0 passed, 1 failed"),
        ("read -r line && exit 0; echo \"$CI\" >tests/output/summary.txt; exit 3", 3, "true"),
    ],
    ids=["passed", "failed", "set-up failed", "no count", "no stdin, CI is set"],
)
def test_ci_ends_with_the_count_and_the_exit_code(make: str, code: int, last: str, tmp_path: pathlib.Path) -> None:
    for folder in (".ci", "bin", "tests/output"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(RUNNER.parents[1] / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "tests" / "output" / "summary.txt").write_text("99 passed, 0 failed\n")
    (tmp_path / "bin" / "make").write_text(f"#!/bin/sh\n{make}\n")
    (tmp_path / "bin" / "make").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([str(tmp_path / ".ci" / "run")], env=environment, input="input", capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last)


def test_make_test_has_the_whole_of_what_make_check_has_a_part_of() -> None:
    assert {one.name for one in gates.GATES if one.suites == {"check"}} == {"quick", "changed"}
    assert {"units", "lint", "sanity", "docs", "site", "artifact", "ee"} <= {one.name for one in gates.GATES if "test" in one.suites}


def test_all_stories_are_in_torture_and_some_in_test() -> None:
    stories = {path.parent.name for path in (workspace.ROOT / "extensions" / "molecule").glob("*/molecule.yml")}

    in_torture = {step.argv[-1] for gate in gates.LONG if "extensions" in gate.inputs for step in _without_lab(gate)}
    assert in_torture == stories == {*steps.scenarios(True), *steps.scenarios(False)}
    assert steps.STORIES < stories


def _without_lab(gate: engine.Gate) -> t.Iterable[engine.Step]:
    inner = next(cell.cell_contents for cell in gate.steps.__closure__ or () if isinstance(cell.cell_contents, engine.Gate))
    return inner.steps()


def test_what_changed_since_a_commit_is_found() -> None:
    first = subprocess.run(["git", "rev-list", "--max-parents=0", "HEAD"], cwd=workspace.ROOT, check=True, capture_output=True, text=True).stdout.split()[-1]
    assert "tests/unit/test_gates.py" in workspace.changed(first)
    assert all((workspace.ROOT / name).is_file() for name in workspace.changed())
