# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hypervisor proofs: run a test guest under each hypervisor type."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_libvirt_host import LibvirtHost
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts, HypervisorProof
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_machine_proof

_GUEST_MIB = 64
_LXC_DIR = "/run/reduced.footprint/lxc-proof"
_LXC_NAME = "reduced-footprint-proof"


def prove(kind: str, facts: HostFacts, timeout: float, container_uri: str = "lxc:///system") -> HypervisorProof:
    """Run a test guest under one hypervisor type and return the result; raises no errors.

    :arg kind: ``kvm``, ``qemu`` or ``lxc``.
    :arg timeout: seconds after which the guest is considered hung.
    """
    began = time.monotonic()
    models: dict[str, str] = {}
    if kind == "lxc":
        usable, reason = _prove_lxc(container_uri, timeout)
    else:
        usable, reason, models = io_machine_proof.prove(kind, timeout)
    seconds = round(time.monotonic() - began, 2)
    return HypervisorProof(kind, usable, reason, seconds, io_facts.proof_key(kind, facts), models)


def _prove_lxc(uri: str, timeout: float) -> tuple[bool, str]:
    try:
        with LibvirtHost(uri) as host, _container_root() as root:
            return host.prove_container(_container_xml(root), timeout)
    except BackendError as error:
        return False, error.message
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
