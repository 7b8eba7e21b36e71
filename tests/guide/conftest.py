# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A reader of the guide: a home directory, a key, and the servers of a lab."""

from __future__ import annotations

import pathlib
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lab"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from reader import Reader  # noqa: E402


@pytest.fixture(scope="session", name="reader")
def _reader(tmp_path_factory: pytest.TempPathFactory, reuse_lab: bool, keep_lab: bool) -> t.Iterator[Reader]:
    """A reader with a fresh lab."""
    it = Reader(tmp_path_factory.mktemp("reader"))
    if not reuse_lab:
        it.lab("down")
        it.lab("up")
        it.lab("writer", "start")
    it.lab("image")
    it.copy_key()
    yield it
    it.report()
    if not keep_lab:
        it.lab("down")
