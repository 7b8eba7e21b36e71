# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a file system was last mounted, read from real ones, and an archive that is not received to its end."""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._metal import io_install


@pytest.mark.parametrize("place", ["/", io_install.TARGET, "/" + 62 * "x"])
def test_the_place_of_the_last_mount(tmp_path: pathlib.Path, place: str) -> None:
    disk = tmp_path / "disk"
    with disk.open("wb") as stream:
        stream.truncate(8 << 20)
    assert io_install.last_mounted(str(disk)) == ""
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", str(disk)], check=True, capture_output=True)
    assert io_install.last_mounted(str(disk)) == ""
    subprocess.run(["/sbin/tune2fs", "-M", place, str(disk)], check=True, capture_output=True)
    assert io_install.last_mounted(str(disk)) == place


def test_a_short_device_was_never_mounted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "disk").write_bytes(b"x" * 512)
    assert io_install.last_mounted(str(tmp_path / "disk")) == ""


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), TimeoutError("timed out"), http.client.IncompleteRead(b"")])
def test_a_lost_connection_to_the_boot_server_is_an_error_with_its_url(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Stream:
        """One block, then the error."""

        blocks = iter([b"x" * 512])

        def read(self, size: int) -> bytes:
            """The next block."""
            found = next(self.blocks, b"")
            if not found:
                raise error
            return found

    @contextlib.contextmanager
    def opened(url: str) -> t.Iterator[Stream]:
        yield Stream()

    monkeypatch.setattr(io_install, "_opened", opened)
    monkeypatch.setattr(io_install, "TARGET", str(tmp_path))
    with pytest.raises(BackendError, match="http://192.0.2.5:8070/root.tar.zst was not received to its end"):
        io_install.unpack("http://192.0.2.5:8070", "0" * 64)


#: As on a system with systemd: mounts are shared, and a service has a mount namespace that follows them.
NAMESPACES = """
import pathlib, subprocess, sys, time
from ansible_collections.reduced.footprint.plugins.module_utils._metal import io_install
target, image = sys.argv[1:]
subprocess.run(["mount", "--make-rshared", "/"], check=True)
service = subprocess.Popen(["unshare", "--mount", "--propagation", "slave", "sleep", "60"])
while pathlib.Path(f"/proc/{service.pid}/comm").read_text() != "sleep\\n":
    time.sleep(0.05)
run = io_install._run
io_install.TARGET, io_install._inside = target, lambda *argv: ""
io_install._run = lambda *argv, **more: "" if argv[0] == "udevadm" else run(*argv, **more)
io_install.mount(image, "")
for name in io_install._INSIDE:
    (pathlib.Path(target) / name).mkdir()
io_install.boot_loader("/dev/none", False)
inside = sum(target in line for line in open("/proc/self/mountinfo"))
io_install.release(())
print(inside > 4, sum(target in line for line in open(f"/proc/{service.pid}/mountinfo")))
service.kill()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_no_service_keeps_the_target_mounted(tmp_path: pathlib.Path) -> None:
    image = tmp_path / "disk"
    with image.open("wb") as stream:
        stream.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    argv = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", NAMESPACES, str(tmp_path / "target"), str(image)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == ["True", "0"], done.stdout + done.stderr


@pytest.mark.parametrize("used", [False, True])
def test_a_volume_group_that_is_in_use_when_all_is_written_is_no_failure(monkeypatch: pytest.MonkeyPatch, used: bool) -> None:
    commands = []

    def run(*argv: str, **unused: t.Any) -> str:
        commands.append(argv[0])
        if used and argv[0] == "vgchange":
            raise CommandError(argv, 5, "Logical volume vms/root contains a filesystem in use.")
        return ""

    monkeypatch.setattr(io_install, "_run", run)
    monkeypatch.setattr(io_install, "_mounted", lambda: False)
    io_install.finish("vms", "/dev/vda2")
    assert commands == ["sync", "vgchange", "sync"]
