# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labs of several gates and checkouts on one machine keep out of each other's way."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "runner"))

import engine  # noqa: E402
import gates  # noqa: E402
import labs  # noqa: E402
from rflab import network, registry, settings, teardown  # noqa: E402
from rflab.say import LabError  # noqa: E402

WITH_A_LAB = ("lab", "molecule", "e2e", "torture-faults")


def net(text: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(text)


@pytest.fixture(name="machine")
def _machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A machine without labs; its own addresses and routes stay what they are."""
    monkeypatch.setattr(registry, "REGISTRY", tmp_path / "registry")
    monkeypatch.setattr(labs, "COMMAND", "true")
    return tmp_path


# Names and networks


def test_names_contain_gate_and_checkout_and_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {labs.name(gate, root) for gate in (*WITH_A_LAB, "a-very-long-gate-name") for root in (ROOT, pathlib.Path("/elsewhere"))}
    assert len(names) == 10
    for one in names:
        assert len(one) < 16  # one more is added by the lab's own tests
        monkeypatch.setenv("LAB_NAME", one)
        assert settings.current().name == one
    assert labs.name("lab") == labs.name("lab")


def test_chosen_network_does_not_overlap_networks_in_use() -> None:
    free = labs.choose("e2e", [])
    assert labs.choose("e2e", []) == free
    assert labs.choose("lab", []) != free
    for taken in ([free], [free.supernet(new_prefix=20)], [next(free.subnets(new_prefix=30))], [free, net("172.16.0.0/12")]):
        other = labs.choose("e2e", taken)
        assert other.prefixlen == 24 and other.is_private
        assert not any(other.overlaps(one) for one in taken)


# Claims


def test_occupied_networks_are_not_chosen(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = labs.GateLab("mine")
    first = labs.choose("mine", [])
    monkeypatch.setattr(network, "in_use", lambda: [(first, "eth7 has it")])
    second = labs.choose("mine", [first])
    with registry.locked():
        registry.write("other", {"state": str(machine), "cidr": str(second)})
    lab.claim()
    assert net(lab.cidr) not in (first, second)
    assert lab.environment == {"LAB_NAME": "mine", "LAB_NETWORK": lab.cidr}
    lab.release()


def test_two_claims_never_get_one_network(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labs, "choose", lambda _name, taken, choose=labs.choose: choose("same", taken))
    one, two = labs.GateLab("one"), labs.GateLab("two")
    one.claim()
    two.claim()
    assert one.cidr != two.cidr
    three = settings.Lab("three", one.cidr.removesuffix(".0/24"))
    with pytest.raises(LabError, match="reserved for the lab one"):
        network.check_free(three)
    network.check_free(settings.Lab("one", one.cidr.removesuffix(".0/24")))
    for lab in (one, two):
        lab.release()
    network.check_free(three)
    assert not registry.REGISTRY.exists()


def test_reservation_ends_with_its_process(machine: pathlib.Path) -> None:
    script = f"import sys; sys.path[:0] = {[str(ROOT / 'lab')]!r}\nimport pathlib\nfrom rflab import registry\n"
    script += f"registry.REGISTRY = pathlib.Path({str(registry.REGISTRY)!r})\n"
    script += "with registry.locked():\n    registry.promise('mine', '10.192.0.0/24')\nprint('promised', flush=True)\nsys.stdin.read()\n"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "promised\n"
        assert [one for one, _words in registry.networks()] == [net("10.192.0.0/24")]
        with pytest.raises(RuntimeError, match=f"process {other.pid} is already running this gate"):
            labs.GateLab("mine").claim()
        other.kill()
    assert registry.networks() == []
    labs.GateLab("mine").claim()


def test_remains_that_cannot_be_cleared_fail_the_gate(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = machine / "lab"
    command.write_text("#!/bin/sh\necho lab: still mounted >&2; exit 1\n")
    command.chmod(0o755)
    monkeypatch.setattr(labs, "COMMAND", str(command))
    with pytest.raises(RuntimeError, match="still mounted"):
        labs.GateLab("mine").claim()
    assert not registry.REGISTRY.exists()


# Gates


def test_every_step_of_a_gate_is_in_its_lab_which_goes_down(machine: pathlib.Path) -> None:
    step = engine.Step(["true"], machine, env={"MORE": "1"})
    gate = labs.with_lab(engine.Gate("story", "story", lambda: iter([step, step]), frozenset(), lambda: iter([step])))
    first, second = list(gate.steps())
    assert first == second
    assert first.env["LAB_NAME"] == labs.name("story") and first.env["MORE"] == "1"
    assert first.env["LAB_NETWORK"] == registry.promises()[labs.name("story")]["cidr"]
    again, down = list(gate.cleanup())
    assert again == first
    assert list(down.argv) == [labs.COMMAND, "down"] and down.env.items() <= first.env.items()
    assert not registry.REGISTRY.exists()


def test_gates_on_a_lab_have_one_of_their_own() -> None:
    wrapped = {gate.name for gate in gates.GATES if gate.steps.__module__ == "labs"}
    assert set(WITH_A_LAB) <= wrapped
    fixed = re.compile(r"LAB_(NAME|NETWORK)\W+[\"'][\w.]")
    assert not fixed.search((ROOT / "tests" / "runner" / "gates.py").read_text("utf-8"))


# Labs whose checkout is gone


def entry(title: str, state: pathlib.Path, **facts: t.Any) -> None:
    with registry.locked():
        registry.write(title, {"state": str(state), "bridge": "rflab-none", "cidr": "10.192.0.0/24", **facts})


def test_dead_lab_of_a_missing_checkout_is_reported_and_removed(machine: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry("ghost", machine / "gone" / ".lab-ghost")
    teardown.sweep(settings.Lab("mine", "10.192.1"))
    said = capsys.readouterr().out
    assert "'ghost'" in said and "is dead" in said and str(machine / "gone" / ".lab-ghost") in said
    assert "ghost" not in registry.entries()


def test_running_lab_is_kept_unless_it_is_named(machine: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = machine / "gone"
    entry("ghost", home / ".lab-ghost")
    environment = {"LAB_NAME": "ghost", "PYTHONPATH": str(home / "lab"), "PATH": os.environ["PATH"]}
    # A process of a lab is known by its words and its environment.
    (home / "lab" / "rflab").mkdir(parents=True)
    (home / "lab" / "rflab" / "mirror.py").write_text("import time; print(1, flush=True); time.sleep(600)")
    with subprocess.Popen([sys.executable, "-m", "rflab.mirror"], env=environment, stdout=subprocess.PIPE) as alive:
        try:
            assert alive.stdout and alive.stdout.readline()
            (home / "lab").rename(machine / "moved")
            teardown.sweep(settings.Lab("mine", "10.192.1"))
            assert "ghost" in registry.entries()
            ghost = settings.Lab("ghost", "10.192.0")
            with pytest.raises(LabError, match="still running .1 processes.") as refused:
                teardown.sweep(ghost)
            assert refused.value.hint and "LAB_NAME=ghost lab/lab down --force" in refused.value.hint
            assert alive.poll() is None
            teardown.sweep(ghost, force=True)
            assert alive.wait(10) != 0
        finally:
            alive.kill()
    assert "removing its remains" in capsys.readouterr().out
    assert registry.entries() == {}


def test_labs_of_checkouts_that_are_there_are_not_swept(machine: pathlib.Path) -> None:
    for title, state in (("up", machine / ".lab-up"), ("dead", machine / ".lab-dead")):
        entry(title, state)
    (machine / ".lab-up").mkdir()
    (machine / "lab").mkdir()
    (machine / "lab" / "lab").touch()
    teardown.sweep(settings.Lab("mine", "10.192.1"))
    teardown.sweep(settings.Lab("up", "10.192.1"))
    assert set(registry.entries()) == {"up", "dead"}
    assert teardown.elsewhere(settings.Lab("up", "10.192.1")) == str(machine / ".lab-up")
    # The lab program of that checkout is missing, so the lab cannot be taken down there.
    (machine / "lab" / "lab").unlink()
    assert teardown.elsewhere(settings.Lab("up", "10.192.1")) is None
    teardown.sweep(settings.Lab("up", "10.192.1"))
    assert registry.entries() == {}
    assert not (machine / ".lab-up").exists()
