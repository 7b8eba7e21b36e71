# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real files and commands, also those that do not end."""

from __future__ import annotations

import os
import pathlib
import sys
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import io_sources
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.model_piece import Piece


def program(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_the_end_of_what_a_command_prints() -> None:
    found = io_sources.output("x", program("for n in range(100000): print('line', n)"), 1000, 20)
    lines = found.text.splitlines()
    assert lines[0].startswith("line ") and lines[-1] == "line 99999" and len(found.text) <= 1000
    assert found.lost + len(found.text) == sum(len(f"line {number}\n") for number in range(100000)) and not found.error


def test_a_command_that_fails_or_does_not_end_keeps_what_it_printed() -> None:
    failed = io_sources.output("x", program("import sys; print('part', flush=True); sys.exit('broken')"), 1000, 20)
    assert failed == Piece("x", "part\nbroken\n", error=f"{sys.executable} ended with exit code 1")
    begun = time.monotonic()
    late = io_sources.output("x", program("import time; print('part', flush=True); time.sleep(600)"), 1000, 2)
    assert late == Piece("x", "part\n", error=f"{sys.executable} did not end within 2 s") and time.monotonic() - begun < 60
    assert io_sources.output("x", ("/does/not/exist",), 1000, 1) == Piece("x", error="/does/not/exist is not installed")


def test_the_end_of_a_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"first line\nsecond line\n\xff\n")
    assert io_sources.end_of_file("x", file, 100, "/log", False) == Piece("x", "first line\nsecond line\n\ufffd\n", "/log")
    assert io_sources.end_of_file("x", file, 20, "/log", False) == Piece("x", "second line\n\ufffd\n", "/log", 11)
    assert io_sources.end_of_file("x", tmp_path / "none", 20, "", False).error == "cannot be read: No such file or directory"


@pytest.mark.parametrize("follow", [False, True])
def test_links_and_pipes(follow: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "secret").write_text("hidden")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    assert io_sources.end_of_file("x", tmp_path / "link", 100, "", follow).text == ("hidden" if follow else "")
    # no program writes into it
    assert io_sources.end_of_file("x", tmp_path / "pipe", 100, "", follow).error == "is not a regular file"


def test_files_by_pattern_and_time(tmp_path: pathlib.Path) -> None:
    for name in ("etc/a/x.conf", "etc/a/deep/y.conf", "etc/a/z.key", "etc/a/old.conf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    os.utime(tmp_path / "etc/a/old.conf", (1, 1))
    (tmp_path / "etc/a/gone.conf").symlink_to(tmp_path / "none")
    found = io_sources.files(tmp_path, ("etc/**/*.conf", "etc/a/*.conf"), time.time() - 60)
    assert sorted(map(str, found)) == ["etc/a/deep/y.conf", "etc/a/x.conf"]
