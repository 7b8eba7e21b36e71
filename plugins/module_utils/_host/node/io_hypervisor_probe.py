# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hypervisor proofs: run a test guest under each hypervisor type.

Neither a device node nor libvirt's capabilities are sufficient. ``/dev/kvm`` may exist and abort with
the CPU model of the guests, or run so slowly that no kernel ever completes its boot.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_boot_sector import (
    BOOT_SECTOR,
    EXIT_NO_LONG_MODE,
    EXIT_PROVEN,
    STAGES,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_libvirt_host import LIBVIRT_MISSING, LibvirtHost
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts, HypervisorProof

# the CPU models of guests: the first one, used by the default template, decides
CPU_MODELS = {"kvm": ("host", "qemu64"), "qemu": ("max",)}
_ACCELERATOR = {"kvm": "kvm", "qemu": "tcg"}
# the firmware ignores smaller disks
_DISK_BYTES = 1024 * 1024
_GUEST_MIB = 64
_LXC_DIR = "/run/reduced.footprint/lxc-proof"
_LXC_NAME = "reduced-footprint-proof"


def prove(kind: str, facts: HostFacts, timeout: float, container_uri: str = "lxc:///system") -> HypervisorProof:
    """Run a test guest under one hypervisor type and return the result; raises no errors.

    :arg kind: ``kvm``, ``qemu`` or ``lxc``.
    :arg timeout: seconds after which the guest is considered hung.
    :arg container_uri: connection URI of libvirt's driver for containers.
    """
    began = time.monotonic()
    models: dict[str, str] = {}
    if kind == "lxc":
        usable, reason = _prove_lxc(container_uri, timeout)
    else:
        usable, reason, models = _prove_machine(kind, timeout)
    seconds = round(time.monotonic() - began, 2)
    return HypervisorProof(kind, usable, reason, seconds, io_facts.proof_key(kind, facts), models)


def _prove_machine(kind: str, timeout: float) -> tuple[bool, str, dict[str, str]]:
    if kind == "kvm" and not io_facts.has_kvm_device():
        return False, f"{io_facts.KVM_DEVICE} does not exist", {}
    binary = io_facts.qemu_binary()
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


def _prove_lxc(uri: str, timeout: float) -> tuple[bool, str]:
    try:
        with LibvirtHost(uri) as host, _container_root() as root:
            return host.prove_container(_container_xml(root), timeout)
    except BackendError as error:
        return False, LIBVIRT_MISSING if LIBVIRT_MISSING in error.message else error.message
    except OSError as error:
        return False, f"cannot create a root file system for the container: {error}"


@contextlib.contextmanager
def _container_root() -> t.Iterator[str]:
    """Create a temporary root with the host's symbolic links into ``/usr``; locked, and leftovers of a killed run are removed."""
    folder = pathlib.Path(_LXC_DIR)
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with open(f"{folder}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(folder, ignore_errors=True)
        for name in ("usr", "proc", "sys", "dev"):
            (folder / name).mkdir(mode=0o755, parents=True)
        for name in ("bin", "sbin", "lib", "lib32", "lib64"):
            if os.path.islink(f"/{name}"):
                (folder / name).symlink_to(os.readlink(f"/{name}"))
        folder.chmod(0o755)
        try:
            yield str(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _container_xml(root: str) -> str:
    return f"""
        <domain type='lxc'>
          <name>{_LXC_NAME}</name>
          <memory unit='MiB'>{_GUEST_MIB}</memory>
          <os><type>exe</type><init>/usr/bin/sleep</init><initarg>60</initarg></os>
          <on_poweroff>destroy</on_poweroff><on_reboot>destroy</on_reboot><on_crash>destroy</on_crash>
          <devices>
            <filesystem type='mount'><source dir='{root}'/><target dir='/'/></filesystem>
            <filesystem type='mount'><source dir='/usr'/><target dir='/usr'/><readonly/></filesystem>
            <console type='pty'/>
          </devices>
        </domain>"""
