# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands that feed one another."""

from __future__ import annotations

import sys

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_pipeline import pipeline
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError


def python(code):
    return [sys.executable, "-c", code]


def test_from_file_to_file(tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 3_000_000)
    said = pipeline([["gzip", "-c"], ["gzip", "-d", "-c"]], source=tmp_path / "in", target=tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"x" * 3_000_000
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    assert said == ("", "")


def test_existing_file_is_not_overwritten(tmp_path):
    (tmp_path / "out").write_text("mine", encoding="ascii")
    with pytest.raises(FileExistsError):
        pipeline([["true"]], target=tmp_path / "out")
    assert (tmp_path / "out").read_text(encoding="ascii") == "mine"


def test_failed_command_is_named(tmp_path):
    endless = python("import sys\nwhile True: sys.stdout.write('x' * 65536)")
    fails = python("import sys; sys.stdin.read(10); sys.exit('no room')")
    with pytest.raises(CommandError, match="no room") as caught:
        pipeline([endless, fails], target=tmp_path / "out")
    assert caught.value.argv == fails and caught.value.rc == 1


def test_failure_before_the_last_command_is_reported(tmp_path):
    with pytest.raises(CommandError, match="broken") as caught:
        pipeline([python("import sys; sys.exit('broken')"), ["cat"]], target=tmp_path / "out")
    assert caught.value.rc == 1


def test_missing_program_is_named(tmp_path):
    with pytest.raises(CommandError, match="no-such-program is not installed"):
        pipeline([["cat"], ["no-such-program"]], source="/dev/zero", target=tmp_path / "out")


def test_long_standard_error_does_not_block(tmp_path):
    loud = python("import sys; sys.stderr.write('w' * 1_000_000 + 'end')")
    said = pipeline([loud, loud], target=tmp_path / "out")
    assert all(words.endswith("end") and len(words) == 20000 for words in said)
