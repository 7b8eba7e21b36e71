# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proof that machines run on this host: a test guest that enters 64-bit long mode.

Neither a device node nor libvirt's capabilities are sufficient. ``/dev/kvm`` may exist and abort with
the CPU model of the guests, or run so slowly that no kernel ever completes its boot.
"""

from __future__ import annotations

import os
import pathlib
import tempfile

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor.io_boot_sector import (
    BOOT_SECTOR,
    EXIT_NO_LONG_MODE,
    EXIT_PROVEN,
    STAGES,
)

# the CPU models of guests: the first one, used by the default template, decides
CPU_MODELS = {"kvm": ("host", "qemu64"), "qemu": ("max",)}
_ACCELERATOR = {"kvm": "kvm", "qemu": "tcg"}
# the firmware ignores smaller disks
_DISK_BYTES = 1024 * 1024
_GUEST_MIB = 64


def prove(kind: str, timeout: float) -> tuple[bool, str, dict[str, str]]:
    """Run a test guest; returns whether it ran, the reason, and CPU model → outcome.

    :arg kind: ``kvm`` or ``qemu``.
    :arg timeout: seconds after which the guest is considered hung.
    """
    if kind == "kvm" and not io_kvm.has_kvm_device():
        return False, f"{io_kvm.KVM_DEVICE} does not exist", {}
    binary = io_kvm.qemu_binary()
    if binary is None:
        return False, "QEMU is not installed", {}
    if os.uname().machine != "x86_64":
        return False, f"the architecture {os.uname().machine} is not supported by the test guest", {}
    models = {}
    for model in CPU_MODELS[kind]:
        usable, outcome = _boot(binary, _ACCELERATOR[kind], model, timeout)
        models[model] = outcome
        if usable:
            break
    first = CPU_MODELS[kind][0]
    if len(models) == 1:
        return usable, f"-cpu {first}: {outcome}", models
    # guests use the first model; another one that works is reported only
    return False, "; ".join(f"-cpu {model}: {outcome}" for model, outcome in models.items()), models


def _boot(binary: str, accelerator: str, model: str, timeout: float) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory(prefix="reduced-footprint-proof-") as folder:
        disk = pathlib.Path(folder, "disk.raw")
        disk.write_bytes(BOOT_SECTOR.ljust(_DISK_BYTES, b"\x00"))
        serial = os.path.join(folder, "serial")
        argv = [
            binary, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none",
            "-machine", "q35", "-accel", accelerator, "-cpu", model, "-m", str(_GUEST_MIB),
            "-drive", f"file={disk},format=raw,if=virtio,readonly=on",
            "-serial", f"file:{serial}", "-device", "isa-debug-exit,iobase=0xf4,iosize=1",
        ]  # fmt: skip
        try:
            done = run(argv, timeout=timeout, ok=(EXIT_PROVEN, EXIT_NO_LONG_MODE))
        except CommandError as error:
            return False, _why(error, read_text(serial) or "", timeout)
        if done.rc == EXIT_NO_LONG_MODE:
            return False, "the CPU model has no 64-bit long mode"
        return True, "a guest ran in 64-bit long mode"


def _why(error: CommandError, serial: str, timeout: float) -> str:
    """Return the error of QEMU, or the last stage of a hung guest."""
    if error.rc is None:
        reached = [STAGES[letter] for letter in serial if letter in STAGES]
        return f"hung after {timeout:g} s; last stage: {reached[-1] if reached else 'none'}"
    lines = [line.strip() for line in error.stderr.splitlines() if line.strip()]
    how = f"killed by signal {-error.rc}" if (error.rc or 0) < 0 else f"exit code {error.rc}"
    return f"{' | '.join(lines[-3:]) or 'no error output of QEMU'} ({how})"
