# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rehearsal VM: overlays of the VM's disks, a transient domain that ends with this process, and its console."""

from __future__ import annotations

import os
import pathlib
import shutil

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, libvirt_errors

try:
    import libvirt
except ImportError:
    # DomainHost reports the missing library first
    libvirt = None

# libvirt's folder for guest logs, which its log daemon may write to on all distributions
CONSOLES = pathlib.Path("/var/log/libvirt/qemu")
# folder for the overlays of block devices
IMAGES = pathlib.Path("/var/lib/libvirt/images")
# only the end of a very long console log is read
_MOST = 1024 * 1024


def overlay_path(disk: str, name: str, index: int) -> str:
    """Return the path of a disk's overlay: in the folder of the disk, or in libvirt's image folder for a block device."""
    folder = pathlib.Path(disk).parent if os.path.isfile(disk) else IMAGES
    return str(folder / f".{name}-{index}.qcow2")


def make_overlay(disk: str, kind: str, path: str) -> None:
    """Create an empty overlay of a disk, which itself is only read."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", kind, "-b", disk, path], timeout=60, hint="Install qemu-img (qemu-utils) on the destination.")
    os.chmod(path, 0o600)


def copy_variables(origin: str, path: str) -> None:
    """Copy the firmware's variables; if there are none yet, libvirt creates them."""
    if origin and os.path.exists(origin):
        shutil.copyfile(origin, path)


def start_paused(host: DomainHost, xml: str, *, outlives: bool = False) -> None:
    """Start a transient domain; unless it ``outlives`` this process, libvirt destroys it when the process ends."""
    flags = libvirt.VIR_DOMAIN_START_PAUSED | (0 if outlives else libvirt.VIR_DOMAIN_START_AUTODESTROY)
    with libvirt_errors("libvirt could not start the temporary VM", "Check the log of libvirt on the destination."):
        host.connection.createXML(xml, flags)


def destroy(host: DomainHost, uuid: str) -> bool:
    """Destroy a temporary domain; returns whether it ran."""
    with libvirt_errors("libvirt could not stop the temporary VM"):
        try:
            host.connection.lookupByUUIDString(uuid).destroy()
            return True
        except libvirt.libvirtError as error:
            if error.get_error_code() not in (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
                raise
            return False


def check_alive(host: DomainHost, uuid: str) -> None:
    """Check that a VM runs."""
    record = host.domain(uuid)
    if record is None or not record.active:
        raise BackendError("the VM powered itself off")
    if record.state in ("paused", "crashed"):
        full = " (a possible cause is a full disk of this host)" if record.state == "paused" else ""
        raise BackendError(f"the VM is {record.state}{full}")


def read_console(path: str) -> str:
    """Return the console's output, only the end of a very long one."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MOST))
            return stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
