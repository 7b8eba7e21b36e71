# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of the script that builds the system for bare servers; tests/metal boots what it builds."""

from __future__ import annotations

import argparse
import json
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


def test_the_system_has_the_keys_of_the_operators_and_no_identity(script: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "root").mkdir()
    monkeypatch.setattr(script.subprocess, "run", lambda *unused, **more: None)
    script.configure(tmp_path, argparse.Namespace(key=["ssh-ed25519 AAAA one", "ssh-rsa BBBB two"], release="bookworm"))
    keys = tmp_path / "root/.ssh/authorized_keys"
    assert keys.read_text("utf-8") == "ssh-ed25519 AAAA one\nssh-rsa BBBB two\n" and keys.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "etc/machine-id").read_text("utf-8") == "" and not list(tmp_path.glob("etc/ssh/ssh_host_*"))
    assert (tmp_path / "init").readlink() == pathlib.Path("usr/lib/systemd/systemd")
    assert json.loads((tmp_path / script.MARK).read_text("utf-8")) == {"release": "bookworm"}
    assert all((tmp_path / "etc/systemd/system" / unit).readlink() == pathlib.Path("/dev/null") for unit in script.MASKED)


def test_a_system_that_is_built_is_not_built_again(tmp_path: pathlib.Path) -> None:
    """Also if its caller waited for the lock, and then for the build of another one."""
    (tmp_path / "system").mkdir()
    (tmp_path / "system" / "manifest-abc.json").touch()
    (tmp_path / ".build-old").mkdir()
    argv = [sys.executable, str(SCRIPT), str(tmp_path / "system"), "--release", "none", "--key", "ssh-ed25519 AAAA", "--inputs", "abc"]
    subprocess.run(argv, check=True, env={"PATH": "/nowhere"})
    assert (tmp_path / ".build-old").exists() and [path.name for path in (tmp_path / "system").iterdir()] == ["manifest-abc.json"]


@pytest.mark.parametrize(
    "line, mac",
    [
        ("initrd=initrd footprint.mac=52:54:00:AA:00:01 quiet", "PermanentMACAddress=52:54:00:aa:00:01"),
        ("quiet", "Type=ether"),
        ("footprint.mac=${netX/mac}", "Type=ether"),
    ],
)
def test_only_the_card_that_booted_asks_for_an_address(script: t.Any, tmp_path: pathlib.Path, line: str, mac: str) -> None:
    (tmp_path / "cmdline").write_text(line, "utf-8")
    text = script.BOOT_NIC.replace("/proc/cmdline", str(tmp_path / "cmdline")).replace("/run/systemd", str(tmp_path / "systemd"))
    subprocess.run([sys.executable, "-c", text], check=True)
    assert f"[Match]\n{mac}\n\n[Network]\nDHCP=ipv4\n" in (tmp_path / "systemd/network/10-boot.network").read_text("utf-8")
