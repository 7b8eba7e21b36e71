# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo of a cloud has the inventory of the guide, on the addresses of the lab. The demo itself is run by `make demo CLOUD=1`."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Variables of the connection, and what only an operator chooses.
CONNECTION = ("expert_mode", "ansible_user", "footprint_cluster")


@pytest.fixture(name="demo")
def fixture_demo(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    monkeypatch.setenv("LAB_RELEASE", "bookworm")
    monkeypatch.setenv("LAB_NETWORK", "10.0.0.0/24")
    monkeypatch.syspath_prepend(str(ROOT / "lab"))
    loader = importlib.machinery.SourceFileLoader("demo_cloud", str(ROOT / "lab" / "demo-cloud"))
    spec = importlib.util.spec_from_loader("demo_cloud", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def blocks() -> dict[str, t.Any]:
    """The files of the guide by their names, which are the first line of each."""
    text = (ROOT / "docs" / "first-cloud.md").read_text("utf-8")
    found = re.findall(r"^```yaml\n# inventory/(\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return {name: yaml.safe_load(content) for name, content in found}


def test_hosts_are_those_of_the_guide(demo: t.Any) -> None:
    assert demo.HOSTS == blocks()["hosts.yml"]


def test_variables_are_those_of_the_guide(demo: t.Any) -> None:
    guide = {name: value for name, value in blocks()["group_vars/all.yml"].items() if name not in CONNECTION}
    assert guide["cloud_bootstrap_networks"][0] in demo.VARIABLES["cloud_bootstrap_networks"]
    assert {name: demo.VARIABLES[name] for name in guide if name != "cloud_bootstrap_networks"} == {
        name: value for name, value in guide.items() if name != "cloud_bootstrap_networks"
    }


def test_table_shows_the_steps_of_the_verification(demo: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "REPORT", tmp_path / "verify.json")
    demo.REPORT.write_text('{"seconds": 12.5, "steps": [{"step": "Server of a is ACTIVE", "seconds": 7.25, "detail": ""}]}')
    ((name, text),) = demo.verification()
    assert name == "verify_cloud" and text.splitlines() == ["   7.2 s  Server of a is ACTIVE", "  12.5 s  all"]


@pytest.mark.parametrize(
    ("reached", "gap"),
    [((1, 2, 3, 4), 1), ((), 5), ((1, 2), 3), ((4, 4.5), 4), ((-3, 9), 5)],
    ids=["always", "never", "not at the end", "not at the beginning", "only before and after"],
)
def test_a_server_that_is_not_reached_is_noticed(demo: t.Any, reached: tuple[float, ...], gap: float) -> None:
    assert demo.longest_gap(reached, 0, 5) == gap
