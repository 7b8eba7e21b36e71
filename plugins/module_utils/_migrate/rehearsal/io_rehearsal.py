# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in of a VM on the host: overlays over its disks, a domain that is gone with whoever started it, its console."""

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
    # DomainHost says so before anything here is used
    libvirt = None

# libvirt's own folder for what its guests say; nothing else is writable for its log daemon everywhere
CONSOLES = pathlib.Path("/var/log/libvirt/qemu")
# what a block device's overlay goes to
IMAGES = pathlib.Path("/var/lib/libvirt/images")
# a console that is told without end is looked at from its end
_MOST = 1024 * 1024


def overlay_path(disk: str, name: str, index: int) -> str:
    """Where a disk's overlay lies: beside it, where its growth fits the best."""
    folder = pathlib.Path(disk).parent if os.path.isfile(disk) else IMAGES
    return str(folder / f".{name}-{index}.qcow2")


def make_overlay(disk: str, kind: str, path: str) -> None:
    """An empty overlay over a disk, which itself is only read from now on."""
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", kind, "-b", disk, path], timeout=60, hint="Install qemu-img (qemu-utils) on the destination.")
    os.chmod(path, 0o600)


def copy_variables(origin: str, path: str) -> None:
    """A copy of the firmware's variables; where there are none yet, libvirt makes them."""
    if origin and os.path.exists(origin):
        shutil.copyfile(origin, path)


def start_paused(host: DomainHost, xml: str) -> None:
    """Start a domain that libvirt forgets when it stops, and stops when this process is gone."""
    flags = libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY
    with libvirt_errors("libvirt does not start the stand-in", "Look at the log of libvirt on the destination."):
        host.connection.createXML(xml, flags)


def destroy(host: DomainHost, uuid: str) -> bool:
    """Cut the stand-in's power; false when there was none."""
    with libvirt_errors("cannot stop the stand-in"):
        try:
            host.connection.lookupByUUIDString(uuid).destroy()
            return True
        except libvirt.libvirtError as error:
            if error.get_error_code() not in (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
                raise
            return False


def check_alive(host: DomainHost, uuid: str) -> None:
    """See to it that the stand-in runs.

    :raises BackendError: it does not, with the reason.
    """
    record = host.domain(uuid)
    if record is None or not record.active:
        raise BackendError("the VM switched itself off")
    if record.state in ("paused", "crashed"):
        full = " (a full disk of this host does that)" if record.state == "paused" else ""
        raise BackendError(f"the VM is {record.state}{full}")


def read_console(path: str) -> str:
    """What the console said, its last part when it is long."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MOST))
            return stream.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
