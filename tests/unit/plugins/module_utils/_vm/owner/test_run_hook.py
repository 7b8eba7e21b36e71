# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook of libvirt as it is installed, run by itself: what cannot be read refuses the start of a managed VM."""

from __future__ import annotations

import os
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_hook
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import CLUSTER, FORMER, INCOMING, LIVE, MOVE, STOPPED, Operation, Record

UUID = "11111111-2222-4333-8444-555555555555"
RECORD = Record("lab", "master", UUID, "lab-master")
MANAGED = "<metadata><f:vm xmlns:f='https://reduced.footprint/xmlns/domain/1'/></metadata>"


@pytest.fixture(autouse=True)
def fixture_host(tmp_path, monkeypatch):
    monkeypatch.setattr(io_owner, "HOME", tmp_path / "vms")
    monkeypatch.setattr(io_owner, "RUN", tmp_path / "run")
    monkeypatch.setattr(io_owner, "PERMITS", tmp_path / "run/standby")
    io_owner.prepare()


def refused(tmp_path, name="lab-master", metadata=MANAGED, operation="prepare"):
    """Return why the hook refuses the start, ``None`` if it does not."""
    hook = tmp_path / "hook"
    hook.write_text(run_hook.text(), "ascii")
    hook.chmod(0o755)
    document = f"<domain><name>{name}</name><uuid>{UUID}</uuid>{metadata}</domain>"
    done = subprocess.run([str(hook), name, operation, "begin", "-"], input=document, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if done.stderr else 0) and not done.stdout and "Traceback" not in done.stderr
    return done.stderr or None


@pytest.mark.parametrize("metadata", [MANAGED, ""])
def test_a_vm_without_a_record_starts(tmp_path, metadata):
    assert refused(tmp_path, metadata=metadata) is None


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (RECORD, None),
        (RECORD._replace(role=FORMER, to="metal2"), "it belongs to metal2"),
        (RECORD._replace(role=INCOMING, to="metal1"), "role incoming"),
        (RECORD._replace(role=INCOMING, operation=Operation(MOVE, "1", "metal1", step=LIVE)), None),
        (RECORD._replace(operation=Operation(MOVE, "1", "metal2", step=STOPPED)), "its last data are being copied to metal2"),
        (RECORD._replace(start=CLUSTER), "only the cluster manager"),
    ],
)
def test_the_record_decides(tmp_path, record, why):
    io_owner.write(record)
    found = refused(tmp_path)
    assert found is None if why is None else why in found
    assert refused(tmp_path, operation="stopped") is None


def test_a_guarded_vm_needs_a_permit(tmp_path):
    io_owner.RUN.mkdir()
    io_owner.guard(RECORD, permitted=True)
    # the name of a domain may change
    assert refused(tmp_path, name="renamed") is None
    # a restart of the server
    (io_owner.PERMITS / UUID).unlink()
    assert "no other machine has confirmed" in refused(tmp_path) and "no other" in refused(tmp_path, metadata="")
    assert io_owner.release(UUID) and refused(tmp_path) is None and not io_owner.release(UUID)


def test_records_that_cannot_be_read_refuse_managed_vms(tmp_path):
    io_owner.write(RECORD)
    (io_owner.HOME / f"{UUID}.json").write_text("{half")
    assert "damaged" in refused(tmp_path)
    # not mounted: an empty folder, or none
    os.rename(io_owner.HOME, tmp_path / "away")
    assert "cannot be read" in refused(tmp_path) and refused(tmp_path, metadata="") is None
    io_owner.HOME.mkdir()
    assert "cannot be read" in refused(tmp_path) and refused(tmp_path, metadata="") is None
    # an error that is not "does not exist"
    io_owner.HOME.rmdir()
    io_owner.HOME.symlink_to(io_owner.HOME)
    assert "cannot be read" in refused(tmp_path)
