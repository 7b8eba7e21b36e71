# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A compute server is mapped into its cell by any controller that can do it."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import HERE, ControlNode


def mapped(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, script: str, first: dict[str, t.Any]) -> tuple[int, str, int]:
    """Map metal2; returns the exit code and output of the run, and how often the command was run."""
    control = ControlNode(folder)
    control.more = {"metal1": first, "metal2": HERE}
    control.program(monkeypatch, "runuser", f"echo ran >> {folder}/ran\n{script}")
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.compute", "tasks_from": "map"}}
    code, output = control.play([role], "metal2", "-e", "nova_group=virt")
    runs = (folder / "ran").read_text("utf-8").count("ran") if (folder / "ran").exists() else 0
    return code, output, runs


DOWN = {"ansible_host": "127.0.0.1", "ansible_port": 1}


def test_another_controller_maps_it_while_the_first_one_is_down(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, runs = mapped(tmp_path, monkeypatch, "echo \"Creating host mapping for compute host 'metal2'\"", DOWN)
    assert code == 0 and runs == 1 and "changed: [metal2] => (item=metal2)" in output, output


def test_one_controller_is_enough(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, runs = mapped(tmp_path, monkeypatch, "echo Found 1 cell mappings.", HERE)
    assert code == 0 and runs == 1 and "changed=0" in output, output


def test_no_controller_that_can_do_it_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, runs = mapped(tmp_path, monkeypatch, "echo no database >&2; exit 1", HERE)
    assert code != 0 and runs == 2 and "metal1: no database; metal2: no database" in " ".join(output.split()), output
