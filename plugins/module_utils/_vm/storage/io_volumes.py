# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage behind one connection: pools by name, base images, and the volumes in both kinds of pools.

File pools of this host are handled directly (:mod:`io_volume_files`), every other pool through
libvirt (:mod:`io_volume_pools`). Every change of a pool holds its lock.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import re
import threading
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, io_pool_mounts, model_storage, xml_devices

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_pools import PoolVolumes

_MARKERS = pathlib.Path("/var/lib/reduced.footprint/volumes")
# of a user who is not root, for volumes on another host
_OWN_MARKERS = "~/.local/state/reduced.footprint/volumes"

_ODD = re.compile(r"[^A-Za-z0-9._-]")
# lock of a pool → the threads of this process that take it, one after the other
_THREADS: dict[str, t.Any] = {}


class VolumeStore:
    """The storage behind one connection; pools are looked up once.

    :arg markers: folder for the markers of unfinished volumes in pools that are not files.
    :arg pending: file names of base images that count as present although they are not fetched yet (check mode).
    :arg lock_timeout: seconds to wait for another process that changes the same pool.
    :arg remember: whether the mount points of pools are recorded (not in check mode).
    :arg images: folder of this host with base images for another host, which are uploaded.
    """

    def __init__(
        self,
        host: io_domains.DomainHost,
        markers: pathlib.Path | None = None,
        pending: t.Container[str] = (),
        lock_timeout: float = 300,
        remember: bool = True,
        images: str | None = None,
    ) -> None:
        self.host = host
        self._markers = markers or _MARKERS
        if not host.local:
            # hosts can have pools of the same name
            own = pathlib.Path(_OWN_MARKERS).expanduser() if markers is None and os.geteuid() != 0 else self._markers
            self._markers = own / _digest(host.uri)
        self._image_folder = images
        self._pending = pending
        self._lock_timeout = lock_timeout
        self._remember = remember
        self._mounts = io_pool_mounts.PoolMounts()
        self._pools: dict[str, tuple[model_storage.Pool, t.Any]] = {}
        self._images: dict[str, model_storage.Image] = {}
        self._stale: set[str] = set()
        self._others: dict[str, t.Any] = {}
        self._left: dict[str, int] = {}

    def pool(self, name: str, path: str) -> model_storage.Pool:
        """An existing, active pool."""
        if name not in self._pools:
            try:
                handle = self.host.connection.storagePoolLookupByName(name)
            except io_domains.libvirt.libvirtError as error:
                if error.get_error_code() != io_domains.libvirt.VIR_ERR_NO_STORAGE_POOL:
                    message = error.get_error_message() or error
                    raise model_errors.BackendError(
                        f"cannot look up the pool {model_errors.shown(name)}: {message}.", hint="Make sure that libvirtd runs on the host."
                    ) from error
                raise model_errors.InputError(
                    f"the host has no storage pool {model_errors.shown(name)}.", path, "Define the pool first (role virt_host), or use another one."
                ) from error
            with io_domains.libvirt_errors(f"cannot read the pool {name}"):
                if not handle.isActive():
                    raise model_errors.InputError(f"the storage pool {name!r} is not active.", path, "Start the pool and enable its autostart.")
                document = xml_domain.parse(handle.XMLDesc(0))
            pool = model_storage.Pool(name, document.get("type", ""), document.findtext("target/path") or "", not self.host.local)
            if pool.files and pool.path and self.host.local:
                self._mounts.check(name, pool.path, path)
                if self._remember:
                    self._mounts.remember(pool.path)
            self._pools[name] = (pool, handle)
        return self._pools[name][0]

    def pool_of(self, path: str) -> tuple[model_storage.Pool, str] | None:
        """The active pool of a volume and its name there, ``None`` when it is outside of all pools."""
        with io_domains.libvirt_errors("cannot list the pools"):
            for handle in self.host.connection.listAllStoragePools(io_domains.libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
                with contextlib.suppress(model_errors.InputError, model_errors.RefusedError):
                    self.pool(handle.name(), "pool")
        for pool, unused in self._pools.values():
            if pool.path and os.path.dirname(path) == pool.path.rstrip("/"):
                return pool, os.path.basename(path)
        return None

    @functools.cached_property
    def folders(self) -> dict[str, str]:
        """Real path of the folder of each pool, active or not → its name."""
        # imported for folders and removals only; see _files
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists

        real = os.path.realpath if self.host.local else os.path.normpath
        return {real(folder): name for folder, name in io_domain_lists.pool_folders(self.host, inactive=True).items()}

    def source(self, pool: model_storage.Pool, disk: model_vm.Disk, path: str = "pool") -> model_storage.DiskSource:
        """The source of an existing or future disk."""
        if not pool.files and not pool.whole:
            found = self._through(pool).find(disk.name, path)
            if found is None:
                raise model_errors.InputError(
                    f"the pool {pool.name} is of type {pool.type} and has no volume {disk.name!r}; creating volumes is not supported there.",
                    f"{path}.name",
                    "Use an existing volume of the pool, or a pool of type dir or logical.",
                )
            return model_storage.DiskSource(found.type, found.path, pool.name)
        kind = "dir" if disk.format == "dir" else "file" if pool.files else "block"
        return model_storage.DiskSource(kind, self.place(pool, disk.name), pool.name)

    def left(self, pool: model_storage.Pool) -> int:
        """Free bytes of a pool minus those reserved by this call (:meth:`promise`)."""
        if pool.name not in self._left:
            self._left[pool.name] = self._through(pool).left()
        return self._left[pool.name]

    def promise(self, pool: model_storage.Pool, size: int) -> None:
        """Reserve bytes of a pool for the rest of this call."""
        self._left[pool.name] = self.left(pool) - size

    def holds(self, pool: model_storage.Pool, name: str) -> int:
        """Bytes allocated by a volume, complete or unfinished, in a pool that allocates all bytes at creation."""
        return self._through(pool).holds(name)

    def place(self, pool: model_storage.Pool, name: str) -> str:
        """The path of a volume by its name."""
        return f"{pool.path.rstrip('/')}/{name}"

    def find(self, pool: model_storage.Pool, disk: model_vm.Disk, path: str, raw: bool = False) -> model_storage.Volume | None:
        """The existing volume of a disk, ``None`` when there is none (or only an unfinished one).

        :arg raw: whether it is known to be raw, whatever its content.
        :raises RefusedError: its path is something else; other VMs can be processed.
        """
        if not local(pool):
            return self._through(pool).find(disk.name, path)
        place = self.place(pool, disk.name)
        if not os.path.lexists(place):
            return None
        io_disk_header.refuse_link(place)
        if (disk.format == "dir") != os.path.isdir(place):
            raise model_errors.RefusedError(
                f"{place} is {'not a directory' if disk.format == 'dir' else 'a directory'}.", hint="Move it away, or give the disk another name."
            )
        try:
            return io_disk_header.inspect(place, "raw" if raw else None)
        except OSError as error:
            raise model_errors.RefusedError(f"{place} cannot be read: {error.strerror or error}.", hint="Check the file and its permissions.") from error

    def has(self, pool: model_storage.Pool, name: str) -> bool:
        """Whether a volume exists, also one that a killed run left partly removed."""
        if not local(pool):
            through = self._through(pool)
            return through.leaving(name) or through.find(name, "pool") is not None
        place = self.place(pool, name)
        return os.path.lexists(place) or _files().leaving(place)

    def image(self, pool: model_storage.Pool, disk: model_vm.Disk, path: str, spare: model_storage.Pool | None = None) -> model_storage.Image | None:
        """The inspected base image of a disk; ``None`` where the disk names none.

        :arg spare: the pool whose images are used where the disk's own pool has no files.
        """
        if disk.image is None:
            return None
        # imported for new disks only; see _files
        if pool.remote:
            return self._remote_image(pool, disk.image, f"{path}.image")
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_images

        place = spare if spare is not None and not pool.files else pool
        return io_images.find(place, disk.image, disk.format == "dir", f"{path}.image", self._pending, self._images)

    def create(self, plan: model_storage.VolumePlan) -> bool:
        """Create a volume; false where another process has created it meanwhile.

        :raises BackendError: it could not be created; nothing usable is left behind.
        """
        with self.locked(plan.pool):
            if self.find(plan.pool, plan.disk, "pool") is not None:
                return False
            if local(plan.pool):
                _files().clear_leftovers(plan.pool.path)
                _files().create(plan, pathlib.Path(self.place(plan.pool, plan.disk.name)))
            else:
                self._through(plan.pool).create(plan)
            return True

    def grow(self, plan: model_storage.VolumePlan, grow_open: t.Callable[[str, int], None]) -> None:
        """Grow a volume.

        :arg grow_open: grows a disk that a running domain has open; called with its path and the size in bytes.
        """
        with self.locked(plan.pool):
            path = plan.found.path if plan.found else self.place(plan.pool, plan.disk.name)
            if not local(plan.pool) and not (plan.online and plan.pool.files):
                self._through(plan.pool).grow(plan.disk.name, plan.size)
            if plan.online:
                grow_open(path, plan.size)
            elif local(plan.pool):
                io_disk_header.refuse_link(path)
                _files().grow(path, plan.disk.format, plan.size)
            if not local(plan.pool):
                self._through(plan.pool).grown(plan.disk.name)

    def remove(self, removal: model_storage.Removal) -> None:
        """Remove a volume of a VM that is removed."""
        with self.locked(removal.pool):
            if local(removal.pool):
                _files().remove(pathlib.Path(self.place(removal.pool, removal.name)), removal.wipe)
            else:
                self._through(removal.pool).remove(removal.name, removal.wipe)

    @contextlib.contextmanager
    def locked(self, pool: model_storage.Pool) -> t.Iterator[None]:
        """Hold a pool's lock; :meth:`refresh` then reads its list of volumes again."""
        # two daemons can have pools of the same name; the lock is for the folder or volume group
        key = _digest(f"{self.host.uri if pool.remote else ''}{pool.type}:{pool.path}")
        name = f"pool-{_ODD.sub('_', pool.name)}-{key}"
        # the timeout is for other processes: wiping the disks of several VMs takes any time
        with _THREADS.setdefault(name, threading.RLock()), host_lock(name, self._lock_timeout):
            self._stale.add(pool.name)
            yield

    def open_disks(self, document: t.Any) -> dict[str, str | None]:
        """Path of every disk of a document → the format of its driver; a disk given by pool and volume is included with its path."""
        if document is None:
            return {}
        found = xml_devices.open_disks(document)
        for (pool, volume), form in xml_devices.pool_disks(document).items():
            with contextlib.suppress(model_errors.FootprintError):
                found[self.place(self.pool(pool, "pool"), volume)] = form
        return found

    def expect_refresh(self, name: str) -> None:
        """Let :meth:`refresh` read a pool again although this call has not changed it: a killed run may have."""
        with contextlib.suppress(model_errors.FootprintError):
            self.pool(name, "pool")
            self._stale.add(name)

    def refresh(self) -> None:
        """Refresh the changed pools in libvirt, which is required before a domain with a disk given by pool and volume starts."""
        for name in sorted(self._stale):
            # fails while another process refreshes it, with the same result
            with contextlib.suppress(io_domains.libvirt.libvirtError):
                self._pools[name][1].refresh(0)
        self._stale.clear()

    def layers_over(self, path: str, folder: str, raw: t.Container[str] = ()) -> list[str]:
        """Names of the files in a pool's folder whose backing file is an image, or is in a folder.

        :arg raw: real paths of the disks that are known to be raw, so that they have none.
        """
        found = []
        real = os.path.realpath(path)
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and os.path.realpath(entry.path) not in raw:
                    if any(model_storage.inside(below, real) for below in io_disk_header.chain(entry.path)[:1]):
                        found.append(entry.name)
        return sorted(found)

    def through(self, pool: model_storage.Pool) -> t.Any:
        """The volumes of a file pool of another host."""
        return self._through(pool)

    def _remote_image(self, pool: model_storage.Pool, name: str, path: str) -> model_storage.Image:
        """The base image of a disk on another host."""
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_remote_volumes

        if not pool.files:
            message = f"base images are not supported over a remote connection in the pool {pool.name} of type {pool.type}."
            raise model_errors.InputError(message, path, "Run the module on that host, without uri, or use a pool of type dir.")
        return io_remote_volumes.find_image(self._through(pool), pool, name, path, self._image_folder, self._pending, self._images)

    def _images_pool(self, pool: model_storage.Pool) -> t.Any:
        """The active pool of the folder with the base images of a pool; ``None`` if there is none."""
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists

        name = io_domain_lists.pool_folders(self.host).get(f"{pool.path.rstrip('/')}/{model_storage.IMAGES_FOLDER}")
        with io_domains.libvirt_errors(f"cannot look up the pool {name}"):
            return self.host.connection.storagePoolLookupByName(name) if name is not None else None

    def _through(self, pool: model_storage.Pool) -> PoolVolumes:
        # imported for other pools only; see _files
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_pools import PoolVolumes

        if pool.name not in self._others and pool.remote and pool.files:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_remote_volumes import RemoteVolumes

            handle = self._pools[pool.name][1]
            self._others[pool.name] = RemoteVolumes(pool, handle, self._markers, self.host.connection, lambda: self._images_pool(pool))
        elif pool.name not in self._others:
            self._others[pool.name] = PoolVolumes(pool, self._pools[pool.name][1], self._markers)
        return self._others[pool.name]


def _files() -> t.Any:
    """The module that changes files, imported on demand: most runs change nothing, and each import costs every run."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_files

    return io_volume_files


def local(pool: model_storage.Pool) -> bool:
    """Whether the volumes of a pool are files that this process can access."""
    return pool.files and not pool.remote and os.path.isdir(pool.path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def grow_open(host: io_domains.DomainHost, uuid: str, path: str, size: int) -> None:
    """Grow a disk that a running domain has open, through its block layer, which notifies the guest.

    :arg size: in bytes.
    """
    with io_domains.libvirt_errors(f"cannot grow {path} in the running domain", "Shut the VM down and run again."):
        host.connection.lookupByUUIDString(uuid).blockResize(path, size, io_domains.libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
