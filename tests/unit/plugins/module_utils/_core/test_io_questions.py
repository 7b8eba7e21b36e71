# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions that are asked at once, for a limited time."""

from __future__ import annotations

import os
import pathlib
import subprocess
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_questions import answers
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError


def refuse() -> t.Any:
    raise BackendError("libvirt does not answer.", hint="Start it.")


def crash() -> t.Any:
    raise KeyError("vms")


def hang(file: pathlib.Path) -> t.Any:
    # a program that it started, which has its output open
    with subprocess.Popen(["sleep", "600"]) as program:
        file.write_text(f"{os.getpid()} {program.pid}", "ascii")
    return []


def ended(pid: str) -> bool:
    path = pathlib.Path("/proc") / pid / "stat"
    return not path.exists() or path.read_text("ascii").rpartition(") ")[2][0] == "Z"


def test_each_is_answered_by_itself() -> None:
    large = ["x" * 100] * 10000
    found = answers({"one": lambda: {"a": 1}, "large": lambda: large, "refuse": refuse, "crash": crash, "end": lambda: os._exit(0), "text": object}, 60)
    assert found["one"] == {"value": {"a": 1}} and found["large"] == {"value": large}
    assert found["refuse"] == {"error": "libvirt does not answer. Start it."}
    assert found["crash"] == {"error": "cannot be read: KeyError('vms')"}
    assert found["end"] == found["text"] == {"error": "ended without an answer"}


def test_one_that_hangs_delays_no_other_and_leaves_nothing(tmp_path: pathlib.Path) -> None:
    began = time.monotonic()
    found = answers({"hang": lambda: hang(tmp_path / "pids"), "slow": lambda: time.sleep(1) or "slow", "quick": os.getpid}, 5)
    assert found["hang"] == {"error": "no answer within 5 s"} and found["slow"] == {"value": "slow"}
    assert found["quick"]["value"] != os.getpid() and time.monotonic() - began < 60
    deadline = time.monotonic() + 30
    while not all(map(ended, (tmp_path / "pids").read_text("ascii").split())):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_nothing_is_printed_and_no_input_is_read(capfd: pytest.CaptureFixture[str]) -> None:
    found = answers({"one": lambda: [os.read(0, 1).decode(), os.write(1, b"noise"), os.write(2, b"noise")]}, 60)
    assert found == {"one": {"value": ["", 5, 5]}} and capfd.readouterr() == ("", "")
