# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a guest, with a process that looks like one."""

from __future__ import annotations

import subprocess
import sys

from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_lease, io_lease_units
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_guard

from tests.support.leases import UUID


def test_only_the_guest_itself_is_ended(guest):
    others = [subprocess.Popen(["sleep", "60"]), subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", UUID])]
    try:
        assert io_lease.processes(UUID) == [guest.pid] and io_lease.processes(UUID[:-1]) == []
        assert io_lease.kill(UUID, 5) and io_lease.processes(UUID) == [] and all(each.poll() is None for each in others)
    finally:
        for each in others:
            each.kill()


def test_the_script_that_needs_no_python_ends_the_guest(guest, tmp_path):
    io_lease.arm(UUID, 5)
    script = tmp_path / "script"
    text = io_lease_units._KILLER.replace(str(io_lease_units.ARMED), str(io_lease.ARMED)).replace(str(io_lease_units.PERMITS), str(io_guard.PERMITS))
    script.write_text(text, "ascii")
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", UUID])
    (io_guard.PERMITS / "blue-m").touch()
    assert subprocess.run(["sh", str(script)], check=False).returncode == 0
    guest.wait(5)
    assert other.poll() is None
    other.kill()
    assert not io_lease.processes(UUID) and not io_guard.is_permitted("blue-m")
