# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server whose files are in a temporary folder, a clock that the test sets, and a process that looks like a guest."""

from __future__ import annotations

import subprocess
import sys
import threading
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_grants, io_lease, io_lease_units, io_store
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner

from tests.support.leases import UUID


@pytest.fixture(autouse=True, name="clock")
def fixture_homes(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("server")
    for module, name in (
        (io_copies, "HOME"), (io_store, "HOME"), (io_grants, "HOME"), (io_grants, "WATCHES"), (io_lease, "ARMED"), (io_owner, "HOME"),
        (io_owner, "PERMITS"), (io_lease, "_FENCED"), (io_grants, "_NOTES"), (io_lease, "RUN"), (io_grants, "RUN"), (io_owner, "RUN"), (io_lease, "QEMU"),
    ):  # fmt: skip
        (home / f"{module.__name__.rpartition('.')[2]}-{name}").mkdir()
        monkeypatch.setattr(module, name, home / f"{module.__name__.rpartition('.')[2]}-{name}")
    io_owner.prepare()
    monkeypatch.setattr(io_lease, "_STATE", home / "state.json")
    for name in ("install_lease", "install_takeover"):
        monkeypatch.setattr(io_lease_units, name, lambda *given: False)
    for name in ("remove_lease", "remove_takeover", "start_guard"):
        monkeypatch.setattr(io_lease_units, name, lambda: None)
    clock = types.SimpleNamespace(now=1000.0)
    monkeypatch.setattr(io_grants, "clock", lambda: clock.now)
    monkeypatch.setattr(io_lease, "clock", lambda: clock.now)
    return clock


@pytest.fixture(name="guest")
def fixture_guest(tmp_path):
    """A process that looks like that of a guest, and ignores polite requests."""
    script = "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    (tmp_path / "qemu-system-x86_64").symlink_to(sys.executable)
    process = subprocess.Popen([str(tmp_path / "qemu-system-x86_64"), "-c", script, "-uuid", UUID, "-m", "32"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    # otherwise it stays as a zombie
    threading.Thread(target=process.wait, daemon=True).start()
    yield process
    process.kill()
