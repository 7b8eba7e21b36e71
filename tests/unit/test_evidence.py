# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The evidence never says more than what ran, and nothing is left out of a run in silence."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "runner"), str(ROOT / "tests" / "support")]

import engine  # noqa: E402
import evidence  # noqa: E402
import evidence_pages  # noqa: E402
import gates  # noqa: E402
import long_gates  # noqa: E402
import workspace  # noqa: E402


@dataclasses.dataclass
class World:
    """A checkout and a machine."""

    tmp: pathlib.Path
    commit: str = "c1"
    machine: str = "debian 12"
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)

    def evidence(self, **options: t.Any) -> evidence.Evidence:
        facts = (lambda gate: self.inputs.get(gate.name, "i1"), lambda: self.commit, lambda: self.machine)
        return evidence.Evidence(self.tmp / "passed.json", self.tmp / "evidence.json", facts=facts, **options)

    def committed(self) -> dict[str, t.Any]:
        return evidence.load(self.tmp / "evidence.json")

    def ran(self) -> list[str]:
        path = self.tmp / "ran"
        names = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return names

    def gate(self, name: str, command: str = "true") -> engine.Gate:
        return engine.Gate(name, name, lambda: [engine.Step(["sh", "-c", f"echo {name} >> {self.tmp}/ran; {command}"], self.tmp)], frozenset({"test"}))


@pytest.fixture(name="world")
def fixture_world(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(evidence, "SHORT", 0.0)
    return World(tmp_path)


def test_what_passed_is_recorded_with_its_commit_and_inputs(world: World) -> None:
    engine.run_all([world.gate("good"), world.gate("bad", "exit 1")], world.tmp, world.evidence(write=True))
    entry = world.committed().pop("good")
    assert {"commit": "c1", "inputs": "i1", "environment": "debian 12", "passed": 1, "failed": 0, "skipped": 0}.items() <= entry.items()
    assert list(world.committed()) == ["good"]


@pytest.mark.parametrize("case", ["not asked", "changes", "changed meanwhile", "committed meanwhile"])
def test_nothing_is_recorded_that_no_commit_has(case: str, world: World) -> None:
    world.commit = "" if case == "changes" else "c1"
    kept = world.evidence(write=case != "not asked")
    gate = world.gate("good")
    kept.known(gate)
    if case == "changed meanwhile":
        world.inputs["good"] = "i2"
    elif case == "committed meanwhile":
        world.commit = "c2"
    kept.add(gate, engine.Count(passed=1), 5.0)
    assert world.committed() == {} and not kept.written


def test_a_failure_removes_earlier_evidence(world: World) -> None:
    engine.run_all([world.gate("one")], world.tmp, world.evidence(write=True))
    engine.run_all([world.gate("one", "exit 1")], world.tmp, world.evidence(write=True))
    assert world.committed() == {}


@pytest.mark.parametrize("case", ["same", "inputs", "machine", "old", "short", "not wanted", "damaged"])
def test_only_the_same_inputs_on_the_same_class_of_machine_are_reused(
    case: str, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.run_all([world.gate("long")], world.tmp, world.evidence(write=True))
    assert world.ran() == ["long"]
    if case == "inputs":
        world.inputs["long"] = "i2"
    elif case == "machine":
        world.machine = "debian 13"
    elif case == "old":
        entries_now = world.committed()
        entries_now["long"]["date"] = "2026-01-01"
        evidence.save(world.tmp / "evidence.json", entries_now)
    elif case == "short":
        monkeypatch.setattr(evidence, "SHORT", 60.0)
    elif case == "damaged":
        (world.tmp / "evidence.json").write_text('{"long": {"inputs": "i1"}}')
    capsys.readouterr()
    assert engine.run_all([world.gate("long"), world.gate("always", "true")], world.tmp, world.evidence(reuse=case != "not wanted")) == 0
    lines = capsys.readouterr().out.splitlines()
    if case == "same":
        assert world.ran() == ["always"] and lines[-1] == "1 passed, 0 failed"
        date = world.committed()["long"]["date"]
        assert lines[-3:-1] == ["ran: always", f"reused: long, 1 passed on {date} at c1"]
    else:
        assert world.ran() == ["long", "always"] and lines[-1] == "2 passed, 0 failed"


def test_what_did_not_run_is_named(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    every = [world.gate(name) for name in ("ran", "old", "current", "never")]
    engine.run_all(every[1:3], world.tmp, world.evidence(write=True))
    world.inputs["old"] = "i2"
    capsys.readouterr()
    engine.run_all(every[:1], world.tmp, world.evidence(gates=every))
    lines = capsys.readouterr().out.splitlines()
    date = world.committed()["old"]["date"]
    assert lines[-4:] == ["ran: ran", f"stale: old, shown on {date} at c1", "not run, and not recorded: never", "1 passed, 0 failed"]


def test_what_an_earlier_run_passed_did_not_run(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    engine.run_all([world.gate("one")], world.tmp, world.evidence())
    engine.run_all([world.gate("one"), world.gate("two")], world.tmp, world.evidence(resume=True))
    assert capsys.readouterr().out.splitlines()[-3:] == ["ran: two", "passed in an earlier run: one", "2 passed, 0 failed"]


def test_nothing_recorded_is_said(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.commit = ""
    engine.run_all([world.gate("one")], world.tmp, world.evidence(write=True))
    assert capsys.readouterr().out.splitlines()[-2] == "nothing was recorded: the checkout has changes that are not committed"


def entries(**seconds: float) -> str:
    kept = {"commit": "c1", "date": "2026-01-01", "passed": 1, "skipped": 0, "inputs": "old", "environment": "debian 12"}
    return json.dumps({name: {**kept, "seconds": each} for name, each in seconds.items()})


def test_the_stalest_long_gate_that_fits_is_chosen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.tmp / "evidence.json").write_text(entries(little=600, much=900, huge=7200, current=60))
    world.inputs["current"] = "old"
    since = {"little": 3, "much": 5, "huge": 99}
    monkeypatch.setattr(evidence, "commits_since", lambda gate, _commit: since[gate.name])
    every = [world.gate(name) for name in ("little", "much", "huge", "current", "never")]

    def chosen(minutes: float) -> str:
        gate = world.evidence().stalest(every, minutes * 60)
        return gate.name if gate else ""

    assert [chosen(minutes) for minutes in (40, 45, 50, 52)] == ["much", "much", "little", ""]
    since["little"] = None  # type: ignore[assignment]
    assert chosen(40) == "little", "an unknown commit is the oldest"
    world.machine = "debian 13"
    assert chosen(0) == "", "how long it takes on another class of machine says nothing"


def test_a_long_gate_is_ended_at_the_limit_and_neither_passed_nor_failed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    kept = world.evidence(write=True)
    slow = dataclasses.replace(world.gate("slow", "sleep 60"), cleanup=lambda: [engine.Step(["touch", "cleaned"], world.tmp)])
    assert engine.run_all([world.gate("one")], world.tmp, kept, engine.Extra(lambda _elapsed: slow, 1.0)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 0 failed, 1 skipped" and (world.tmp / "cleaned").exists()
    assert [line for line in lines if line.startswith("slow ") and "ended after" in line]
    assert list(world.committed()) == ["one"]


def test_a_long_gate_that_fails_is_a_failure(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert engine.run_all([world.gate("one")], world.tmp, None, engine.Extra(lambda _elapsed: world.gate("two", "exit 1"), 60.0)) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed"
    assert engine.run_all([world.gate("one")], world.tmp, None, engine.Extra(lambda _elapsed: None)) == 0


@pytest.mark.parametrize("gate", gates.GATES, ids=lambda gate: gate.name)
def test_the_inputs_of_a_gate_exist(gate: engine.Gate) -> None:
    own = [name for name in evidence.inputs(gate) if not name.startswith(":")]
    assert [name for name in own if not (ROOT / name).exists()] == []
    if own != ["."]:
        assert {"plugins", "roles", "playbooks", "lab"} < set(own) and own[-1].startswith(("tests", "extensions"))


def test_the_hash_of_inputs_ignores_the_evidence_itself_and_documentation_of_the_product() -> None:
    by_name = {gate.name: gate for gate in gates.GATES}

    def touched(gate: str) -> set[str]:
        return set(workspace.git("ls-files", "--", *evidence.inputs(by_name[gate])).split("\n"))

    assert "docs/faq.md" in touched("site") and "docs/faq.md" not in touched("e2e")
    for name in ("site", "e2e", "units"):
        assert not touched(name) & {"tests/evidence.json", "docs/evidence.md"}
        assert "plugins/modules/vm_define.py" in touched(name)


def test_commits_since_another_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        return subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    gate = engine.Gate("one", "one", list, frozenset(), inputs=("tests/one",))
    git("init", "--quiet")
    commits = []
    for path in ("tests/one/a.py", "docs/a.md", "plugins/a.py", "plugins/a.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
        git("add", path)
        git("commit", "--quiet", "--message", path)
        commits.append(git("rev-parse", "HEAD").strip())
    monkeypatch.setattr(evidence.workspace, "git", git)
    assert [evidence.commits_since(gate, commit) for commit in commits] == [1, 1, 0, 0]
    assert evidence.commits_since(gate, "1" * 40) is None
    assert evidence.clean_commit() == commits[-1]
    (tmp_path / "plugins" / "a.py").write_text("y")
    assert evidence.clean_commit() == ""


def test_pages_are_current() -> None:
    hint = "Run: .venv/bin/python tests/runner/gates.py --pages"
    known = evidence.load()
    assert (ROOT / "docs" / "evidence.md").read_text("utf-8") == evidence_pages.page(known, gates.SHOWN), hint


def test_pages_show_current_stale_and_missing() -> None:
    kept = json.loads(entries(units=200, e2e=2000))
    kept["units"]["commits_since"], kept["e2e"]["commits_since"] = 0, 4
    text = evidence_pages.systems(kept)
    assert "`units`: 2026-01-01, `c1`: 1 passed; current" in text and "`e2e`: 2026-01-01, `c1`: 1 passed; stale since: 4 commits touched its inputs" in text
    assert "`torture-guide`: not recorded yet" in text
    names = {name for row in evidence_pages.SYSTEMS for name in row[2]}
    assert names <= {gate.name for gate in gates.SHOWN}


def test_the_repository_has_no_evidence_of_a_failure() -> None:
    assert [name for name, entry in evidence.load().items() if entry.get("failed", 1) or not entry["passed"]] == []


def test_every_long_test_file_is_a_part_of_a_gate() -> None:
    steps = [" ".join(step.argv) for gate in long_gates.LONG if gate.inputs for step in _steps(gate)]
    folders = "add_server awx cloud controllers drift e2e guide lvm metal migrate model move network rehearse replace source standby torture witness"
    for folder in folders.split():
        for path in sorted((ROOT / "tests" / folder).rglob("test_*.py")):
            name = str(path.relative_to(ROOT))
            assert any(name in step or step.split()[4] == f"tests/{folder}" for step in steps if len(step.split()) > 4), name


def _steps(gate: engine.Gate) -> t.Iterator[engine.Step]:
    """The commands of a gate, without its lab."""
    function = gate.steps.__closure__ or ()
    inner = next((cell.cell_contents for cell in function if isinstance(cell.cell_contents, engine.Gate)), gate)
    yield from inner.steps()
