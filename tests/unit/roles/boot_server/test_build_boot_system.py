# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of the script that builds the system for bare servers; tests/metal boots what it builds."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import typing as t

import pytest

from tests.support.program import load

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles/boot_server/files/build_boot_system.py"


@pytest.fixture(name="script")
def fixture_script() -> t.Any:
    return load("roles/boot_server/files/build_boot_system.py")


def test_a_driver_that_another_one_needs_is_kept(script: t.Any) -> None:
    needs = {
        "kernel/drivers/net/ethernet/intel/ice/ice.ko": ["kernel/drivers/gnss/gnss.ko"],
        "kernel/drivers/gnss/gnss.ko": [],
        "kernel/drivers/gnss/gnss-usb.ko": ["kernel/drivers/gnss/gnss.ko"],
        "kernel/drivers/gpu/drm/ast/ast.ko": ["kernel/drivers/gpu/drm/drm.ko"],
        "kernel/drivers/gpu/drm/drm.ko": [],
        "kernel/lib/test_bpf.ko": [],
        "kernel/lib/libcrc32c.ko": [],
        "kernel/fs/nfsd/nfsd.ko": [],
        "kernel/fs/nls/nls_ascii.ko": [],
    }
    assert script.unused(needs) == {
        "kernel/drivers/gnss/gnss-usb.ko", "kernel/drivers/gpu/drm/ast/ast.ko", "kernel/drivers/gpu/drm/drm.ko", "kernel/lib/test_bpf.ko",
        "kernel/fs/nfsd/nfsd.ko",
    }  # fmt: skip


def test_a_system_that_is_built_is_not_built_again(tmp_path: pathlib.Path) -> None:
    """Also if its caller waited for the lock, and then for the build of another one."""
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "manifest-abc.json").touch()
    (tmp_path / ".build-old").mkdir()
    argv = [sys.executable, str(SCRIPT), str(tmp_path / "system"), "--release", "none", "--key", "ssh-ed25519 AAAA", "--inputs", "abc"]
    subprocess.run(argv, check=True, env={"PATH": "/nowhere"})
    assert (tmp_path / ".build-old").exists() and [path.name for path in (tmp_path / "system").iterdir()] == ["manifest-abc.json"]
