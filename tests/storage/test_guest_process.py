# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process of a real guest is recognised without asking libvirt, and one of another user with its arguments is not."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_lease
from storage_host import StorageHost


def test_a_guest_is_recognised_by_its_user_and_by_its_pid_file(host: StorageHost, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = host.folder.parent / "run" / "qemu"
    monkeypatch.setattr(io_lease, "QEMU", folder)
    host.one({"id": "a"})
    domain = host.domain("a")
    pid = int((folder / "a.pid").read_text())
    user = pathlib.Path(f"/proc/{pid}").stat().st_uid
    fake = subprocess.Popen(["/bin/sh", "-c", "read line", "-uuid", domain.UUIDString()], user=65534, cwd="/", stdin=subprocess.PIPE)
    try:
        assert user != 0 and io_lease.processes(domain.UUIDString()) == [pid]
        # libvirt forgets one that it could not kill
        (folder / "a.pid").unlink()
        assert io_lease.processes(domain.UUIDString()) == [pid]
        # one that runs as a user of its own
        (folder / "a.pid").write_text(str(pid))
        os.chown(folder / "dbus", 1, 1)
        assert io_lease.processes(domain.UUIDString()) == [pid]
        assert io_lease.kill(domain.UUIDString(), 5) and fake.poll() is None
    finally:
        os.chown(folder / "dbus", user, -1)
        fake.kill()
