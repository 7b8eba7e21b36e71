# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes in file pools of another host: everything goes through libvirt, no path is opened on this host.

libvirt itself creates, clones and resizes a volume completely, also if the run is killed meanwhile. If its host loses power, half a copy
remains under the final name: that of a disk has a marker on this host, that of an image still has its upload, under a temporary name,
next to it. A seed is compared in each run.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import struct
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_pools, model_storage
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_escape import escape

_PARTIAL = ".partial"
_REFRESH_TIMEOUT = 60.0
# libvirt's protocol has messages of at most 4 MiB
_CHUNK = 1024 * 1024


class RemoteVolumes(io_volume_pools.PoolVolumes):
    """The volumes of one file pool of another host.

    :arg images: returns the pool (and its libvirt object) whose folder holds the base images.
    """

    def __init__(self, pool: model_storage.Pool, handle: t.Any, markers: pathlib.Path, connection: t.Any, images: t.Any) -> None:
        super().__init__(pool, handle, markers)
        self._connection = connection
        self._images = images
        self._found_places: list[t.Any] = []

    def create(self, plan: model_storage.VolumePlan) -> None:
        """Create a volume, from its base image where it has one; an image of this host is uploaded first."""
        if plan.image is None:
            super().create(plan)
            return
        place = plan.image.path
        if plan.image.upload is not None:
            place = self._uploaded(plan.image, plan.image.upload)
        name = plan.disk.name
        marked = self._marked(name)
        self._unfinished(plan)
        self._mark(name)
        with io_domains.libvirt_errors(f"cannot create the volume {name} from the base image {plan.image.name}", "Check the free space of the pool."):
            try:
                self._clone(plan, place, plan.image.format)
            except io_domains.libvirt.libvirtError as error:
                # libvirt removes what it does not complete, unless it ends itself; what exists already is that of another run
                with contextlib.suppress(model_errors.BackendError):
                    if error.get_error_code() == io_domains.libvirt.VIR_ERR_STORAGE_VOL_EXIST and not marked or self._lookup(name) is None:
                        self._unmark(name)
                raise
        self._unmark(name)

    def _clone(self, plan: model_storage.VolumePlan, place: str, form: str) -> None:
        name = plan.disk.name
        if plan.how == model_storage.BACKING:
            self._handle.createXML(_xml(name, plan.disk.format, plan.size, backing=(place, form)), 0)
            return
        made = self._handle.createXMLFrom(_xml(name, plan.disk.format, plan.size), self._connection.storageVolLookupByPath(place), 0)
        if made.info()[1] < plan.size:
            made.resize(plan.size, 0)

    def grow(self, name: str, size: int) -> None:
        """Grow a volume that no running domain has open; ``size`` in bytes."""
        with io_domains.libvirt_errors(f"cannot grow the volume {name}", "Check the free space of the pool."):
            self._handle.storageVolLookupByName(name).resize(size, 0)

    def layers_over(self, path: str) -> list[str]:
        """Names of the volumes of the pool whose backing file is this path."""
        found = []
        with io_domains.libvirt_errors(f"cannot list the volumes of {self._pool.name}"):
            for volume in self._handle.listAllVolumes(0):
                # one that vanishes meanwhile needs nothing
                with contextlib.suppress(io_domains.libvirt.libvirtError):
                    if xml_domain.parse(volume.XMLDesc(0)).findtext("backingStore/path") == path:
                        found.append(volume.name())
        return sorted(found)

    def image(self, file: str) -> model_storage.Image | None:
        """A base image by its file name; ``None`` if it does not exist, or only an incomplete copy.

        :raises BackendError: it cannot be read, or needs a backing file.
        """
        with io_domains.libvirt_errors(f"cannot look up the base image {file}"):
            for handle in self._places():
                with contextlib.suppress(io_domains.libvirt.libvirtError):
                    volume = handle.storageVolLookupByName(file)
                    if self._has_upload(handle, file) and not self.layers_over(volume.path()):
                        continue
                    document = xml_domain.parse(volume.XMLDesc(0))
                    if document.findtext("backingStore/path"):
                        raise model_errors.BackendError(f"the base image {volume.path()} needs a backing file.", hint="Flatten it with qemu-img convert.")
                    form = document.find("target/format")
                    return model_storage.Image(file, volume.path(), "raw" if form is None else form.get("type", "raw"), int(volume.info()[1]))
        return None

    @staticmethod
    def _has_upload(handle: t.Any, file: str) -> bool:
        """Whether the upload of an image is still there, which is removed when the copy with the final name is complete."""
        try:
            handle.storageVolLookupByName(f"{file}{_PARTIAL}")
        except io_domains.libvirt.libvirtError:
            return False
        return True

    def read_seed(self, name: str) -> dict[str, bytes] | None:
        """The files of a seed; ``None`` if it does not exist or is not a seed."""
        # imported for seeds only, as in run_volumes
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed

        volume = self._lookup(name)
        if volume is None:
            return None
        with io_domains.libvirt_errors(f"cannot read the volume {name}"):
            if volume.info()[1] > io_seed.MOST:
                return None
            content = self.read(volume.path())
        with contextlib.suppress(struct.error, UnicodeDecodeError, IndexError):
            return io_seed.files_of(content)
        return None

    def read(self, path: str, length: int = 0) -> bytes:
        """The first bytes of a volume; a length of 0 reads all of them."""
        parts: list[bytes] = []
        with io_domains.libvirt_errors(f"cannot read {path}"):
            stream = self._connection.newStream(0)
            self._connection.storageVolLookupByPath(path).download(stream, 0, length, 0)
            stream.recvAll(lambda unused, data, more: parts.append(data), None)
            stream.finish()
        return b"".join(parts)

    def write_seed(self, name: str, image: pathlib.Path) -> None:
        """Create or replace a seed; a running guest keeps the old one until it is restarted."""
        with io_domains.libvirt_errors(f"cannot write the seed {name}", "Check the free space of the pool."):
            volume = self._lookup(name)
            if volume is not None:
                volume.delete(0)
            self._upload(self._handle, name, image)

    def _places(self) -> list[t.Any]:
        """The pools that can hold base images: that of the folder of images, if there is one, and this one."""
        if not self._found_places:
            images = self._images()
            if images is not None:
                # fails while another process refreshes it
                with contextlib.suppress(io_domains.libvirt.libvirtError):
                    images.refresh(0)
            self._refresh_once()
            self._found_places = [handle for handle in (images, self._handle) if handle is not None]
        return self._found_places

    @property
    def image_pool(self) -> str:
        """Name of the pool to which images are uploaded."""
        return str(self._places()[0].name())

    def _uploaded(self, image: model_storage.Image, file: str) -> str:
        """The path of a base image of this host in the pool, uploaded if it is not there yet.

        libvirt cannot rename a volume: the upload has a temporary name, and libvirt makes a complete copy with the final one.
        """
        there = self.image(file)
        if there is not None:
            return there.path
        handle, part = self._places()[0], f"{file}{_PARTIAL}"
        with io_domains.libvirt_errors(f"cannot upload the base image {image.name} to the pool {handle.name()}", "Check the free space of the pool."):
            for leftover in (file, part):
                with contextlib.suppress(io_domains.libvirt.libvirtError):
                    handle.storageVolLookupByName(leftover).delete(0)
            self._upload(handle, part, pathlib.Path(image.path))
            self._refresh(handle)
            volume = handle.storageVolLookupByName(part)
            made = handle.createXMLFrom(_xml(file, image.format, image.virtual_size), volume, 0)
            volume.delete(0)
            return made.path()

    def _upload(self, handle: t.Any, name: str, source: pathlib.Path) -> None:
        with open(source, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            volume = handle.createXML(_xml(name, "raw", size), 0)
            stream = self._connection.newStream(0)
            try:
                volume.upload(stream, 0, size, 0)
                stream.sendAll(lambda unused, length, more: file.read(min(length, _CHUNK)), None)
                stream.finish()
            except io_domains.libvirt.libvirtError:
                with contextlib.suppress(io_domains.libvirt.libvirtError):
                    stream.abort()
                with contextlib.suppress(io_domains.libvirt.libvirtError):
                    volume.delete(0)
                raise

    @staticmethod
    def _refresh(handle: t.Any) -> None:
        """Let libvirt detect the format of what was uploaded; after an upload it does so itself, and refuses a second time meanwhile."""
        until = time.monotonic() + _REFRESH_TIMEOUT
        while True:
            try:
                handle.refresh(0)
                return
            except io_domains.libvirt.libvirtError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.1)


def find_image(
    there: RemoteVolumes,
    pool: model_storage.Pool,
    name: str,
    where: str,
    folder: str | None,
    pending: t.Container[str],
    known: dict[str, model_storage.Image],
) -> model_storage.Image:
    """Find a base image in a pool of another host, otherwise in a folder of this host.

    :arg where: path of its name in the user's input.
    :arg folder: folder of this host with images to upload.
    :arg pending: file names that count as present in that folder although they are not fetched yet.
    :arg known: key → image of those found already; extended by this call.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_images

    key = f"{pool.name}/{name}"
    if key in known:
        # the first disk uploads it
        return known[key]
    for ending in io_images.DISK_ENDINGS:
        file = f"{name}{ending}"
        found = there.image(file)
        if found is not None:
            io_images.refuse_packed(there.read(found.path, io_images.HEAD), found.path, where)
            if ending in (".qcow2", ".raw") and found.format != ending[1:]:
                raise model_errors.InputError(f"{found.path} has the suffix {ending}, but its format is {found.format}.", where, "Replace the image.")
            known[key] = found._replace(name=name)
            return known[key]
        local = pathlib.Path(folder or "/nonexistent", file)
        if folder is not None and (local.is_file() or file in pending):
            image = model_storage.Image(name, str(local), "qcow2" if ending == ".qcow2" else "raw", 0)
            if local.is_file():
                image = io_images.inspect(name, local, False, where)
            known[key] = image._replace(upload=file)
            return image._replace(upload=file, uploads=f"{there.image_pool}/{file}")
    names = ", ".join(f"{name}{ending}" for ending in io_images.DISK_ENDINGS)
    raise model_errors.InputError(
        f"the base image {name!r} is not a volume of the pool {pool.name}, nor of a pool of its folder images.",
        where,
        f"Add one of {names} there, or set images_path to a folder of this host that contains it.",
    )


def write_seed(there: RemoteVolumes, name: str, seed: t.Any) -> None:
    """Create the ISO image of a seed in a private folder of this host, and upload it."""
    import tempfile

    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed

    with tempfile.TemporaryDirectory(prefix="reduced-footprint-") as folder:
        image = pathlib.Path(folder, "seed.iso")
        io_seed.write_iso(image, seed)
        there.write_seed(name, image)


def _xml(name: str, form: str, size: int, backing: tuple[str, str] | None = None) -> str:
    """The document of a volume that only the hypervisor can read."""
    layer = f"<backingStore><path>{escape(backing[0])}</path><format type='{escape(backing[1])}'/></backingStore>" if backing else ""
    return (
        f"<volume><name>{escape(name)}</name><capacity unit='bytes'>{size}</capacity><allocation unit='bytes'>0</allocation>"
        f"<target><format type='{form}'/><permissions><mode>0600</mode></permissions></target>{layer}</volume>"
    )
