# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's keys in the root of a container."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_authorized_keys


def test_keys_join_those_of_the_image(tmp_path: pathlib.Path) -> None:
    io_authorized_keys.add(str(tmp_path), ["one"])
    file = tmp_path / "root/.ssh/authorized_keys"
    assert file.read_text() == "one\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.write_bytes(b"\xff kept\n")
    io_authorized_keys.add(str(tmp_path), ["one", "two"])
    assert file.read_bytes() == b"\xff kept\none\ntwo\n"


def test_a_link_is_not_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "root/.ssh")
    with pytest.raises(BackendError, match="cannot write authorized_keys into .*root/.ssh"):
        io_authorized_keys.add(str(tmp_path), ["one"])
    assert not list((tmp_path / "elsewhere").iterdir())
