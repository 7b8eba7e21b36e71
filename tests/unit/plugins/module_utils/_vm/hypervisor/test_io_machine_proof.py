# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_boot_sector, io_kvm, io_machine_proof

SOURCE = pathlib.Path(__file__).parents[6] / "plugins" / "module_utils" / "_vm" / "hypervisor" / "io_boot_sector.asm"
# a loaded machine is slow, a broken one is a thousand times slower
PATIENCE = 60


def test_the_boot_sector_is_one():
    assert len(io_boot_sector.BOOT_SECTOR) == 512
    assert io_boot_sector.BOOT_SECTOR[-2:] == b"\x55\xaa"


def test_the_bytes_are_what_the_source_says(tmp_path):
    binary = tmp_path / "boot_sector.bin"
    subprocess.run(["nasm", "-f", "bin", "-o", str(binary), str(SOURCE)], check=True)
    assert binary.read_bytes() == io_boot_sector.BOOT_SECTOR


needs_qemu = pytest.mark.skipif(io_kvm.qemu_binary() is None or os.uname().machine != "x86_64", reason="QEMU for x86_64 is not installed")


@needs_qemu
def test_emulation_is_proven():
    usable, reason, models = io_machine_proof.prove("qemu", PATIENCE)
    assert usable, reason
    assert reason == "-cpu max: a guest ran in 64-bit long mode"
    assert models == {"max": "a guest ran in 64-bit long mode"}


@needs_qemu
def test_cpu_without_long_mode_fails_the_proof(monkeypatch):
    monkeypatch.setitem(io_machine_proof.CPU_MODELS, "qemu", ("qemu32",))
    usable, reason, unused = io_machine_proof.prove("qemu", PATIENCE)
    assert not usable and "no 64-bit long mode" in reason


@needs_qemu
def test_hung_guest_fails_the_proof(monkeypatch):
    # cli; hlt
    monkeypatch.setattr(io_machine_proof, "BOOT_SECTOR", b"\xfa\xf4".ljust(510, b"\x00") + b"\x55\xaa")
    usable, reason, unused = io_machine_proof.prove("qemu", 2)
    assert not usable
    assert reason == "-cpu max: hung after 2 s; last stage: none"


@needs_qemu
def test_unknown_cpu_model_reports_the_qemu_error(monkeypatch):
    monkeypatch.setitem(io_machine_proof.CPU_MODELS, "qemu", ("pentium99",))
    usable, reason, unused = io_machine_proof.prove("qemu", PATIENCE)
    assert not usable and "unable to find CPU model 'pentium99'" in reason


def test_no_device_no_kvm(monkeypatch):
    monkeypatch.setattr(io_kvm, "KVM_DEVICE", "/nonexistent/kvm")
    assert io_machine_proof.prove("kvm", PATIENCE) == (False, "/nonexistent/kvm does not exist", {})


def test_second_usable_cpu_model_is_reported_only(monkeypatch, tmp_path):
    monkeypatch.setattr(io_kvm, "KVM_DEVICE", str(tmp_path))
    monkeypatch.setattr(io_kvm, "qemu_binary", lambda: "/usr/bin/qemu")
    monkeypatch.setattr(io_machine_proof, "_boot", lambda binary, accelerator, model, timeout: (model == "qemu64", f"said {model}"))
    usable, reason, models = io_machine_proof.prove("kvm", 1)
    assert not usable
    assert reason == "-cpu host: said host; -cpu qemu64: said qemu64"
    assert set(models) == {"host", "qemu64"}


@pytest.mark.parametrize(
    "error, serial, reason",
    [
        (CommandError(["qemu"], None, "no end"), "RPL", "hung after 15 s; last stage: 64-bit long mode"),
        (CommandError(["qemu"], None, "no end"), "", "hung after 15 s; last stage: none"),
        (CommandError(["qemu"], -6, "error: failed to set MSR\nAssertion failed\n"), "", "error: failed to set MSR | Assertion failed (killed by signal 6)"),
        (CommandError(["qemu"], 1, ""), "", "no error output of QEMU (exit code 1)"),
    ],
)
def test_reasons(error, serial, reason):
    assert io_machine_proof._why(error, serial, 15) == reason
