# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a guest, with a process that looks like one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_lease, io_lease_units
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner

from tests.support.leases import UUID


def test_only_the_guest_itself_is_ended(guest):
    others = [subprocess.Popen(["sleep", "60"]), subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", UUID])]
    try:
        assert io_lease.processes(UUID) == [guest.pid] and io_lease.processes(UUID[:-1]) == []
        assert io_lease.kill(UUID, 5) and io_lease.processes(UUID) == [] and all(each.poll() is None for each in others)
    finally:
        for each in others:
            each.kill()


OTHER, GUESTS = 65534, 64055


def script(tmp_path):
    """The script of the unit, for the folders of the test."""
    text = io_lease_units._KILLER.replace(str(io_lease_units.ARMED), str(io_lease.ARMED)).replace("/run/reduced.footprint/standby", str(io_owner.PERMITS))
    text = text.replace("/etc/reduced.footprint/vms", str(io_owner.HOME))
    path = tmp_path / "script"
    path.write_text(text.replace(str(io_lease_units.QEMU), str(io_lease.QEMU)), "ascii")
    return ["sh", str(path)]


@pytest.mark.parametrize(
    "user, folder, named, counts",
    [
        (OTHER, True, False, False),
        (OTHER, True, True, True),
        (GUESTS, True, False, True),
        (0, True, False, True),
        # without libvirt's folder it is unknown whose it is
        (OTHER, False, False, True),
    ],
)
@pytest.mark.parametrize("ends", ["service", "script"])
def test_a_process_of_any_user_is_not_the_guest(tmp_path, user, folder, named, counts, ends):
    # it waits without a second process
    process = subprocess.Popen(["/bin/sh", "-c", "read line", "-uuid", UUID], user=user, cwd="/", stdin=subprocess.PIPE)
    try:
        if folder:
            (io_lease.QEMU / "dbus").mkdir(parents=True)
            os.chown(io_lease.QEMU / "dbus", GUESTS, GUESTS)
            (io_lease.QEMU / "other.pid").write_text("1")
            if named:
                (io_lease.QEMU / "blue-m.pid").write_text(str(process.pid))
        assert io_lease.processes(UUID) == ([process.pid] if counts else [])
        io_lease.arm(UUID, 5)
        if ends == "service":
            assert io_lease.kill(UUID, 5) or counts
        else:
            subprocess.run(script(tmp_path), check=False)
        if counts:
            assert process.wait(10) == -9
        else:
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_the_script_that_needs_no_python_ends_the_guest(guest, tmp_path):
    io_lease.arm(UUID, 5)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", UUID])
    (io_owner.PERMITS / UUID).touch()
    assert subprocess.run(script(tmp_path), check=False).returncode == 0
    guest.wait(5)
    assert other.poll() is None
    other.kill()
    assert not io_lease.processes(UUID) and not io_owner.is_permitted(UUID)


def test_the_script_believes_only_a_folder_that_can_be_read(tmp_path):
    io_lease.ARMED.rmdir()
    assert subprocess.run(script(tmp_path), check=False).returncode == 0
    # the file system with both is not mounted, or has errors
    (io_owner.HOME / ".present").rename(tmp_path / "present")
    assert subprocess.run(script(tmp_path), check=False).returncode == 1
    (tmp_path / "present").rename(io_owner.HOME / ".present")
    io_lease.ARMED.write_text("")
    io_lease.ARMED.unlink()
    io_lease.ARMED.symlink_to(io_lease.ARMED)
    (io_owner.HOME / ".present").unlink()
    assert subprocess.run(script(tmp_path), check=False).returncode == 1
