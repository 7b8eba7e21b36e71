# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof of KVM where virt_node has recorded nothing: made once, and again when what it depends on changes."""

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm, io_kvm_record, io_machine_proof


class Prover:
    """Counts the test guests."""

    def __init__(self) -> None:
        self.guests = 0

    def prove(self, kind: str, timeout: float) -> tuple[bool, str, dict[str, str]]:
        """A guest that runs."""
        self.guests += 1
        return True, "a guest ran", {}


@pytest.fixture(name="prover")
def fixture_prover(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Prover:
    """A host with a device and a QEMU of its own."""
    prover = Prover()
    (tmp_path / "qemu").write_text("1")
    (tmp_path / "boot_id").write_text("one\n")
    monkeypatch.setattr(io_machine_proof, "prove", prover.prove)
    monkeypatch.setattr(io_kvm, "has_kvm_device", lambda: True)
    monkeypatch.setattr(io_kvm, "qemu_binary", lambda: str(tmp_path / "qemu"))
    monkeypatch.setattr(io_kvm_record, "_BOOT", str(tmp_path / "boot_id"))
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    return prover


def test_once_per_boot_and_qemu(prover: Prover, tmp_path: pathlib.Path) -> None:
    for unused in range(3):
        proof = io_kvm_record.proof(remember=True)
        assert (proof["usable"], proof["reason"]) == (True, "a guest ran")
    assert prover.guests == 1
    os.utime(tmp_path / "qemu", (1, 1))
    io_kvm_record.proof(remember=True)
    assert prover.guests == 2
    (tmp_path / "boot_id").write_text("two\n")
    io_kvm_record.proof(remember=True)
    io_kvm_record.proof(remember=True)
    assert prover.guests == 3
    assert io_kvm_record.record_path().stat().st_mode & 0o777 == 0o600


def test_check_mode_records_nothing(prover: Prover) -> None:
    io_kvm_record.proof(remember=False)
    assert not io_kvm_record.record_path().exists()
    io_kvm_record.proof(remember=True)
    io_kvm_record.proof(remember=False)
    assert prover.guests == 2


@pytest.mark.parametrize("text", ["", "{half", "[1]", '{"key": "other", "usable": false}'])
def test_a_damaged_record_is_made_again(prover: Prover, text: str) -> None:
    io_kvm_record.record_path().parent.mkdir()
    io_kvm_record.record_path().write_text(text)
    assert io_kvm_record.proof(remember=True)["usable"]
    assert prover.guests == 1


def test_without_a_device_there_is_nothing_to_record(prover: Prover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_kvm, "has_kvm_device", lambda: False)
    io_kvm_record.proof(remember=True)
    assert not io_kvm_record.record_path().exists()
