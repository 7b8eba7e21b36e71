# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes that only libvirt can make: in volume groups, on partitions, in any pool that is not files of this host.

A marker on this host's disk tells an unfinished one: it counts as not there and is made anew.
"""

from __future__ import annotations

import contextlib
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_files, model_storage
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_escape import escape

# as libvirt numbers them
_TYPES = {0: "file", 1: "block", 2: "dir"}


class PoolVolumes:
    """The volumes of one pool, through libvirt.

    :arg handle: libvirt's own object of the pool.
    :arg markers: folder for the markers of unfinished volumes.
    """

    def __init__(self, pool: model_storage.Pool, handle: t.Any, markers: pathlib.Path) -> None:
        self._pool = pool
        self._handle = handle
        self._markers = markers
        self._looked = False

    def find(self, name: str, path: str) -> model_storage.Volume | None:
        """A whole volume by its name, ``None`` when there is none.

        :arg path: of the disk in the user's input.
        :raises InputError: it stands where no path of this host leads.
        """
        handle = self._lookup(name)
        if handle is None or self._marker(name).exists():
            return None
        with io_domains.libvirt_errors(f"cannot read the volume {name}"):
            kind, capacity, allocation = handle.info()
            place = handle.path()
            document = xml_domain.parse(handle.XMLDesc(0))
        if kind not in _TYPES:
            raise model_errors.InputError(
                f"the volume {name} of the pool {self._pool.name} is reached over the network only.", path, "Use a pool with paths on the host."
            )
        form = document.find("target/format")
        # a partition's format is what the table says of it; what a guest sees is raw
        qcow2 = form is not None and form.get("type") == "qcow2"
        kind_name = _TYPES[kind]
        backing = document.findtext("backingStore/path") or None
        # a run may have been killed before a running domain knew of it; another may end just now
        with contextlib.suppress(FileNotFoundError):
            capacity = min(int(capacity), int(self._growing(name).read_text(encoding="ascii")))
        return model_storage.Volume(place, kind_name, "dir" if kind_name == "dir" else "qcow2" if qcow2 else "raw", int(capacity), int(allocation), backing)

    def left(self) -> int:
        """Bytes that are free, what others made beside libvirt counted."""
        self._look_again()
        with io_domains.libvirt_errors(f"cannot read the pool {self._pool.name}"):
            return int(self._handle.info()[3])

    def holds(self, name: str) -> int:
        """Bytes of a volume of that name, 0 where there is none."""
        handle = self._lookup(name)
        if handle is None:
            return 0
        with io_domains.libvirt_errors(f"cannot read the volume {name}"):
            return int(handle.info()[1])

    def create(self, plan: model_storage.VolumePlan) -> None:
        """Make a volume, and fill it from the image where there is one.

        :raises BackendError: libvirt or qemu-img failed; the marker tells the next run.
        """
        name = plan.disk.name
        there = self._unfinished(plan)
        if plan.image is None:
            if there is None:
                with io_domains.libvirt_errors(f"cannot make the volume {name}"):
                    self._handle.createXML(_volume_xml(plan), 0)
            self._marker(name).unlink(missing_ok=True)
            return
        marker = self._marker(name)
        write_atomic(marker, f"{plan.pool.name}/{name}\n")
        with io_domains.libvirt_errors(f"cannot make the volume {name}"):
            device = (there or self._handle.createXML(_volume_xml(plan), 0)).path()
        # -n: into the device that is there; -t none: through to the disk before the marker goes
        io_command.run([*io_volume_files.with_us(), "qemu-img", "convert", "-n", "-t", "none", "-f", plan.image.format, "-O", "raw", plan.image.path, device])
        marker.unlink()

    def grow(self, name: str, size: int) -> None:
        """Grow a volume; ``size`` in bytes. It counts as small as it was until :meth:`grown` is called.

        :raises BackendError: the pool cannot do that.
        """
        with io_domains.libvirt_errors(f"cannot grow the volume {name}", "Check the space of the pool, and that its type can grow volumes."):
            handle = self._handle.storageVolLookupByName(name)
            capacity, place = int(handle.info()[1]), handle.path()
            if not self._growing(name).exists():
                write_atomic(self._growing(name), f"{capacity}\n")
            if capacity >= size:
                return
            if self._pool.type != "logical":
                handle.resize(size, 0)
                return
            # libvirt makes and removes logical volumes, but does not resize them
            io_command.run(["lvextend", "--quiet", "--size", f"{size}b", place], hint="Look whether the volume group has room (vgs).")
            self._handle.refresh(0)

    def grown(self, name: str) -> None:
        """Whoever has the volume open knows its new size."""
        self._growing(name).unlink(missing_ok=True)

    def remove(self, name: str, wipe: bool) -> None:
        """Remove a volume; with ``wipe`` it is overwritten first, and a marker keeps half a wipe from being used."""
        handle = self._lookup(name)
        marker = self._marker(name)
        if handle is None:
            marker.unlink(missing_ok=True)
            self.grown(name)
            return
        if wipe:
            write_atomic(marker, f"{self._pool.name}/{name}\n")
            with io_domains.libvirt_errors(f"cannot wipe the volume {name}"):
                handle.wipe(0)
        with io_domains.libvirt_errors(f"cannot remove the volume {name}"):
            handle.delete(0)
        marker.unlink(missing_ok=True)
        self.grown(name)

    def leaving(self, name: str) -> bool:
        """Whether a volume is there that a killed run left unfinished or half wiped."""
        return self._marker(name).exists()

    def _unfinished(self, plan: model_storage.VolumePlan) -> t.Any:
        """Clear what a killed run left; what cannot be removed and is large enough is used again.

        libvirt cannot take a partition away from every device (``loop0``, ``nvme0n1``).
        """
        name = plan.disk.name
        if not self._marker(name).exists():
            return None
        with contextlib.suppress(io_domains.libvirt.libvirtError):
            handle = self._handle.storageVolLookupByName(name)
            with contextlib.suppress(io_domains.libvirt.libvirtError):
                handle.delete(0)
                return None
            return handle if handle.info()[1] >= plan.size else None
        return None

    def _lookup(self, name: str) -> t.Any:
        with io_domains.libvirt_errors(f"cannot look for the volume {name}"):
            try:
                return self._handle.storageVolLookupByName(name)
            except io_domains.libvirt.libvirtError as error:
                if error.get_error_code() != io_domains.libvirt.VIR_ERR_NO_STORAGE_VOL:
                    raise
        return self._lookup(name) if self._look_again() else None

    def _look_again(self) -> bool:
        """Show libvirt what others made beside it, once per call; whether that was done now."""
        if self._looked:
            return False
        self._looked = True
        # not while somebody makes a volume there; what libvirt knows then is fresh
        with contextlib.suppress(io_domains.libvirt.libvirtError):
            self._handle.refresh(0)
        return True

    def _marker(self, name: str) -> pathlib.Path:
        return self._markers / f"{self._pool.name}.{name}.unfinished"

    def _growing(self, name: str) -> pathlib.Path:
        return self._markers / f"{self._pool.name}.{name}.growing"


def _volume_xml(plan: model_storage.VolumePlan) -> str:
    name = escape(plan.disk.name)
    # block devices have no format of a file: partitions take the word for a type of theirs and refuse it
    form = f"<target><format type='{plan.disk.format}'/></target>" if plan.pool.files else ""
    return (
        f"<volume><name>{name}</name><capacity unit='bytes'>{plan.size}</capacity>"
        f"<allocation unit='bytes'>{0 if plan.pool.files else plan.size}</allocation>"
        f"{form}</volume>"
    )
