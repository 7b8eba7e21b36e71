# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes that are created through libvirt: in volume groups, on partitions, in any pool that is not files of this host.

A marker file on this host identifies an unfinished volume: it counts as missing and is created again.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, model_errors, model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_files, model_storage
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_escape import escape

# as libvirt numbers them
_TYPES = {0: "file", 1: "block", 2: "dir"}


class PoolVolumes:
    """The volumes of one pool, through libvirt."""

    def __init__(self, pool: model_storage.Pool, handle: t.Any, markers: pathlib.Path) -> None:
        self._pool = pool
        self._handle = handle
        self._markers = markers
        self._refreshed = False

    def find(self, name: str, path: str) -> model_storage.Volume | None:
        """A complete volume by its name, ``None`` when there is none."""
        handle = self._lookup(name)
        if handle is None or self._marked(name):
            return None
        with io_domains.libvirt_errors(f"cannot read the volume {name}"):
            kind, capacity, allocation = handle.info()
            place = handle.path()
            document = xml_domain.parse(handle.XMLDesc(0))
        if kind not in _TYPES:
            raise model_errors.InputError(
                f"the volume {name} of the pool {self._pool.name} is accessible only over the network.", path, "Use a pool with paths on the host."
            )
        form = document.find("target/format")
        # the format of a partition is its type in the partition table; the guest sees it as raw
        qcow2 = form is not None and form.get("type") == "qcow2"
        kind_name = _TYPES[kind]
        backing = document.findtext("backingStore/path") or None
        # a run may have been killed before the running domain was resized; another run may remove the marker now
        size = read_text(self._growing(name))
        if size is not None:
            capacity = min(int(capacity), int(model_schema.VOLUME_GROWN.load(size, self._growing(name), "capacity")["capacity"]))
        return model_storage.Volume(place, kind_name, "dir" if kind_name == "dir" else "qcow2" if qcow2 else "raw", int(capacity), int(allocation), backing)

    def left(self) -> int:
        """Free bytes, after a refresh that includes volumes created without libvirt."""
        self._refresh_once()
        with io_domains.libvirt_errors(f"cannot read the pool {self._pool.name}"):
            return int(self._handle.info()[3])

    def holds(self, name: str) -> int:
        """Capacity in bytes of a volume, 0 when it does not exist."""
        handle = self._lookup(name)
        if handle is None:
            return 0
        with io_domains.libvirt_errors(f"cannot read the volume {name}"):
            return int(handle.info()[1])

    def create(self, plan: model_storage.VolumePlan) -> None:
        """Create a volume, and write the image to it where there is one.

        :raises BackendError: libvirt or qemu-img failed; the marker remains for the next run.
        """
        name = plan.disk.name
        unfinished = self._unfinished(plan)
        if plan.image is None:
            if unfinished is None:
                with io_domains.libvirt_errors(f"cannot create the volume {name}"):
                    self._handle.createXML(_volume_xml(plan), 0)
            self._unmark(name)
            return
        self._mark(name)
        with io_domains.libvirt_errors(f"cannot create the volume {name}"):
            device = (unfinished or self._handle.createXML(_volume_xml(plan), 0)).path()
        # -n: into the existing device; -t none: written to disk before the marker is removed
        io_command.run([*io_volume_files.with_us(), "qemu-img", "convert", "-n", "-t", "none", "-f", plan.image.format, "-O", "raw", plan.image.path, device])
        self._unmark(name)

    def grow(self, name: str, size: int) -> None:
        """Grow a volume; ``size`` in bytes. It is reported with its old size until :meth:`grown` is called."""
        with io_domains.libvirt_errors(f"cannot grow the volume {name}", "Check the free space of the pool, and that its type supports growing volumes."):
            handle = self._handle.storageVolLookupByName(name)
            capacity, place = int(handle.info()[1]), handle.path()
            if not self._growing(name).exists():
                write_atomic(self._growing(name), json.dumps(model_schema.VOLUME_GROWN.mark({"capacity": capacity})) + "\n")
            if capacity >= size:
                return
            if self._pool.type != "logical":
                handle.resize(size, 0)
                return
            # libvirt creates and removes logical volumes, but does not resize them
            io_command.run(["lvextend", "--quiet", "--size", f"{size}b", place], hint="Check the free space of the volume group (vgs).")
            self._handle.refresh(0)

    def grown(self, name: str) -> None:
        """Record that a running domain has been given the new size."""
        self._growing(name).unlink(missing_ok=True)

    def remove(self, name: str, wipe: bool) -> None:
        """Remove a volume; with ``wipe`` it is overwritten first, and a marker prevents the use of a partly wiped volume."""
        handle = self._lookup(name)
        if handle is None:
            self._unmark(name)
            self.grown(name)
            return
        if wipe:
            self._mark(name)
            with io_domains.libvirt_errors(f"cannot wipe the volume {name}"):
                handle.wipe(0)
        with io_domains.libvirt_errors(f"cannot remove the volume {name}"):
            handle.delete(0)
        self._unmark(name)
        self.grown(name)

    def leaving(self, name: str) -> bool:
        """Whether a killed run left the volume unfinished or partly wiped."""
        return self._marked(name)

    def _unfinished(self, plan: model_storage.VolumePlan) -> t.Any:
        """Remove the leftover of a killed run; returns it for reuse where it cannot be removed and is large enough.

        libvirt cannot remove partitions from every device (``loop0``, ``nvme0n1``).
        """
        name = plan.disk.name
        if not self._marked(name):
            return None
        with contextlib.suppress(io_domains.libvirt.libvirtError):
            handle = self._handle.storageVolLookupByName(name)
            with contextlib.suppress(io_domains.libvirt.libvirtError):
                handle.delete(0)
                return None
            return handle if handle.info()[1] >= plan.size else None
        return None

    def _lookup(self, name: str) -> t.Any:
        with io_domains.libvirt_errors(f"cannot look up the volume {name}"):
            try:
                return self._handle.storageVolLookupByName(name)
            except io_domains.libvirt.libvirtError as error:
                if error.get_error_code() != io_domains.libvirt.VIR_ERR_NO_STORAGE_VOL:
                    raise
        return self._lookup(name) if self._refresh_once() else None

    def _refresh_once(self) -> bool:
        """Refresh the pool once per call, so that libvirt finds volumes created without it; true if it was refreshed now."""
        if self._refreshed:
            return False
        self._refreshed = True
        # fails while another process creates a volume there; libvirt's list is current then
        with contextlib.suppress(io_domains.libvirt.libvirtError):
            self._handle.refresh(0)
        return True

    def _marker(self, name: str) -> pathlib.Path:
        return self._markers / f"{self._pool.name}.{name}.unfinished"

    def _mark(self, name: str) -> None:
        write_atomic(self._marker(name), json.dumps(model_schema.VOLUME_UNFINISHED.mark({"volume": f"{self._pool.name}/{name}"})) + "\n")

    def _unmark(self, name: str) -> None:
        """Remove a marker durably: after a power loss it would declare a volume unfinished that a guest has written to."""
        if self._marker(name).exists():
            self._marker(name).unlink()
            sync_path(self._markers)

    def _marked(self, name: str) -> bool:
        text = read_text(self._marker(name))
        if text is None:
            return False
        model_schema.VOLUME_UNFINISHED.load(text, self._marker(name), "volume")
        return True

    def _growing(self, name: str) -> pathlib.Path:
        return self._markers / f"{self._pool.name}.{name}.growing"


def _volume_xml(plan: model_storage.VolumePlan) -> str:
    name = escape(plan.disk.name)
    # block devices have no file format: for partitions libvirt would interpret it as a partition type and refuse it
    form = f"<target><format type='{plan.disk.format}'/></target>" if plan.pool.files else ""
    return (
        f"<volume><name>{name}</name><capacity unit='bytes'>{plan.size}</capacity>"
        f"<allocation unit='bytes'>{0 if plan.pool.files else plan.size}</allocation>"
        f"{form}</volume>"
    )
