# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that downloads virtual media; tests/metal runs it in the service."""

from __future__ import annotations

import io
import os
import pathlib
import types

import pytest

from tests.support.program import load

GIB, PART = 1024**3, 1024**2


@pytest.fixture(name="program")
def fixture_program() -> types.ModuleType:
    return load("roles/redfish_emulator/files/footprint_download.py")


@pytest.mark.parametrize(("free", "kept"), [(GIB + 8 * PART, 5 * PART), (GIB + 2 * PART, 3 * PART), (GIB - 1, 0)])
def test_media_do_not_fill_the_file_system_of_the_host(
    program: types.ModuleType, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, free: int, kept: int
) -> None:
    def space(handle: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(f_bavail=(free - os.fstat(handle).st_size) // 4096, f_frsize=4096)

    monkeypatch.setattr(os, "fstatvfs", space)
    with open(tmp_path / "medium", "wb", buffering=0) as target:
        try:
            program.store(io.BytesIO(b"x" * 5 * PART), target)
        except OSError as error:
            assert str(error) == "the virt host has too little free space for it"
    assert os.path.getsize(tmp_path / "medium") == kept
