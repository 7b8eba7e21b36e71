# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Storage pools, base images and volumes.

Volumes in file pools of this host are made beside their place and renamed into it, synced: a
killed run leaves a partial file that is never used and is cleared by the next. In other pools
libvirt makes the volume, and a marker on disk tells an unfinished one.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import sys
import typing as t
import xml.sax.saxutils

from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import run
from ansible_collections.reduced.footprint.plugins.module_utils._backend.domains import DomainHost, libvirt, told
from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, CommandError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._model.storage import BACKING, EMPTY, IMAGES_FOLDER, UNPACK, DiskSource, Image, Pool, VolumePlan
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import Disk
from ansible_collections.reduced.footprint.plugins.module_utils._xml.domain import parse

_DISK_ENDINGS = ("", ".qcow2", ".img", ".raw")
_ROOT_ENDINGS = ("", ".tar", ".tar.gz", ".tar.xz", ".tar.zst", ".tgz")
_MARKERS = pathlib.Path("/var/lib/reduced.footprint/volumes")

# A worker that outlived its killed run would write into what the next run clears. So it asks to die with us (1 is
# PR_SET_PDEATHSIG, 9 is SIGKILL), then looks whether we still live: setpriv would miss a death between fork and request.
_DIE_WITH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the run that started this is gone")
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(sys.argv[2] + ": " + error.strerror)
"""


def _with_us() -> tuple[str, ...]:
    """What to put before a command that must not outlive this process."""
    return (sys.executable or "/usr/bin/python3", "-I", "-S", "-c", _DIE_WITH, str(os.getpid()))


class VolumeStore:
    """The storage behind one connection; pools are looked up once.

    :arg host: an open connection.
    :arg markers: folder for the markers of unfinished volumes in pools that are not files.
    :arg pending: file names of base images that count as there though they are not yet (check mode).
    """

    def __init__(self, host: DomainHost, markers: pathlib.Path = _MARKERS, pending: t.Container[str] = ()) -> None:
        self._host = host
        self._markers = markers
        self._pending = pending
        self._pools: dict[str, tuple[Pool, t.Any]] = {}
        self._images: dict[str, Image] = {}

    def pool(self, name: str, path: str) -> Pool:
        """An existing, active pool.

        :arg path: where its name stands in the user's input.
        :raises InputError: there is no such pool, or it is not active.
        """
        if name not in self._pools:
            try:
                handle = self._host.connection.storagePoolLookupByName(name)
            except libvirt.libvirtError as error:
                raise InputError(f"the host has no storage pool {name!r}.", path, "Define the pool first (role virt_host), or name another.") from error
            with told(f"cannot read the pool {name}"):
                if not handle.isActive():
                    raise InputError(f"the storage pool {name!r} is not active.", path, "Start the pool and set it to autostart.")
                document = parse(handle.XMLDesc(0))
            pool = Pool(name, document.get("type", ""), document.findtext("target/path") or "")
            self._pools[name] = (pool, handle)
        return self._pools[name][0]

    def source(self, pool: Pool, disk: Disk) -> DiskSource:
        """Where a disk stands, or will."""
        kind = "dir" if disk.format == "dir" else "file" if pool.files else "block"
        return DiskSource(kind, f"{pool.path.rstrip('/')}/{disk.name}", pool.name)

    def exists(self, pool: Pool, disk: Disk) -> bool:
        """Whether the volume is there, whole."""
        path = self.source(pool, disk).path
        if _local(pool):
            if not os.path.lexists(path):
                return False
            if (disk.format == "dir") != os.path.isdir(path):
                raise BackendError(
                    f"{path} is {'no directory' if disk.format == 'dir' else 'a directory'}.", mend="Move it away, or give the disk another name."
                )
            return True
        if self._marker(pool, disk).exists():
            return False
        try:
            self._pools[pool.name][1].storageVolLookupByName(disk.name)
            return True
        except libvirt.libvirtError:
            return False

    def image(self, pool: Pool, disk: Disk, path: str) -> Image | None:
        """The base image of a disk, looked at; ``None`` where the disk names none.

        :arg path: of the disk in the user's input.
        :raises InputError: it is not there or not what it says.
        """
        if disk.image is None:
            return None
        where = f"{path}.image"
        if not pool.path or not os.path.isdir(pool.path):
            raise InputError(f"the pool {pool.name} has no folder on this host to keep base images in.", where, "Use a pool of type dir for it.")
        folder = pathlib.Path(pool.path) / IMAGES_FOLDER
        endings = _ROOT_ENDINGS if disk.format == "dir" else _DISK_ENDINGS
        for ending in endings:
            candidate = folder / f"{disk.image}{ending}"
            if candidate.is_file():
                key = str(candidate)
                if key not in self._images:
                    self._images[key] = _inspect(disk.image, candidate, disk.format == "dir", where)
                return self._images[key]
        for ending in endings:
            if f"{disk.image}{ending}" in self._pending:
                form = "tar" if disk.format == "dir" else "qcow2" if ending == ".qcow2" else "raw"
                return Image(disk.image, str(folder / f"{disk.image}{ending}"), form, 0)
        names = ", ".join(f"{disk.image}{ending}" for ending in endings)
        raise InputError(f"there is no base image {disk.image!r} in {folder}.", where, f"Put one of {names} there (virt_guests_images does).")

    def create(self, plan: VolumePlan) -> None:
        """Make a volume.

        :raises BackendError: it could not be made; nothing usable is left behind.
        """
        if not _local(plan.pool):
            self._create_by_libvirt(plan)
            return
        final = pathlib.Path(self.source(plan.pool, plan.disk).path)
        partial = final.with_name(f".{final.name}.partial")
        _remove(partial)
        try:
            if plan.disk.format == "dir":
                _make_tree(plan, partial)
            else:
                _make_file(plan, partial)
            os.rename(partial, final)
        except OSError as error:
            _remove(partial)
            raise BackendError(f"cannot make {final}: {error.strerror or error}.", mend="Check space and permissions of the pool.") from error
        except BaseException:
            _remove(partial)
            raise
        _sync_folder(final.parent)
        # so that libvirt's own tools list it; the domain does not need that
        with contextlib.suppress(libvirt.libvirtError):
            self._pools[plan.pool.name][1].refresh(0)

    def _create_by_libvirt(self, plan: VolumePlan) -> None:
        handle, marker = self._pools[plan.pool.name][1], self._marker(plan.pool, plan.disk)
        if plan.image is None:
            with told(f"cannot make the volume {plan.disk.name}"):
                handle.createXML(_volume_xml(plan), 0)
            return
        if marker.exists():
            with contextlib.suppress(libvirt.libvirtError):
                handle.storageVolLookupByName(plan.disk.name).delete(0)
        write_atomic(marker, f"{plan.pool.name}/{plan.disk.name}\n")
        with told(f"cannot make the volume {plan.disk.name}"):
            device = handle.createXML(_volume_xml(plan), 0).path()
        # -n: into the device that is there; -t none: through to the disk before the marker goes
        run([*_with_us(), "qemu-img", "convert", "-n", "-t", "none", "-f", plan.image.format, "-O", "raw", plan.image.path, device])
        marker.unlink()

    def _marker(self, pool: Pool, disk: Disk) -> pathlib.Path:
        return self._markers / f"{pool.name}.{disk.name}.unfinished"


def _local(pool: Pool) -> bool:
    return pool.files and os.path.isdir(pool.path)


def _inspect(name: str, path: pathlib.Path, container: bool, where: str) -> Image:
    mend = "Fetch the image again; its checksum in virt_guests_images tells whether it is whole."
    if container:
        try:
            with path.open("rb") as stream:
                head = stream.read(512)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}.", where, mend) from error
        magics = (b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"BZh")
        if head[257:262] != b"ustar" and not head.startswith(magics):
            raise InputError(f"{path} is not a tar.", where, mend)
        return Image(name, str(path), "tar", 0)
    argv = ["qemu-img", "info", "--output=json"]
    argv += ["-f", path.suffix[1:]] if path.suffix in (".qcow2", ".raw") else []
    try:
        facts = json.loads(run([*argv, str(path)], mend="Install qemu-utils on the host.").stdout)
    except CommandError as error:
        if error.rc == 127:
            raise
        raise InputError(f"{path} is not what its name says: {error.message}.", where, mend) from error
    if facts.get("backing-filename"):
        raise InputError(f"{path} needs another image ({facts['backing-filename']}) behind it.", where, "Flatten it with qemu-img convert.")
    if facts["format"] not in ("raw", "qcow2"):
        raise InputError(f"{path} is {facts['format']}.", where, "Convert it to qcow2 or raw.")
    return Image(name, str(path), facts["format"], int(facts["virtual-size"]))


def _make_file(plan: VolumePlan, partial: pathlib.Path) -> None:
    form = plan.disk.format
    if plan.how == EMPTY and form == "raw":
        with partial.open("wb") as stream:
            stream.truncate(plan.size)
    elif plan.how == EMPTY:
        run([*_with_us(), "qemu-img", "create", "-q", "-f", form, str(partial), str(plan.size)], mend="Install qemu-utils on the host.")
    elif plan.how == BACKING:
        image = _image(plan)
        run([*_with_us(), "qemu-img", "create", "-q", "-f", form, "-b", image.path, "-F", image.format, str(partial), str(plan.size)])
    else:
        image = _image(plan)
        run([*_with_us(), "qemu-img", "convert", "-f", image.format, "-O", form, image.path, str(partial)])
        if plan.size > image.virtual_size:
            run([*_with_us(), "qemu-img", "resize", "-q", "-f", form, str(partial), str(plan.size)])
    os.chmod(partial, 0o600)
    with partial.open("rb") as stream:
        os.fsync(stream.fileno())


def _make_tree(plan: VolumePlan, partial: pathlib.Path) -> None:
    partial.mkdir(mode=0o755)
    if plan.how == UNPACK:
        image = _image(plan)
        keep = ["--numeric-owner", "--same-owner", "--preserve-permissions", "--xattrs", "--xattrs-include=*", "--acls", "--sparse"]
        run([*_with_us(), "tar", "--extract", "--file", image.path, "--directory", str(partial), *keep], mend="Fetch the base image again.")
        if not any(os.path.lexists(partial / place) for place in ("sbin/init", "usr/sbin/init")):
            raise BackendError(f"{image.path} holds no /sbin/init.", mend="Use a tar of a whole root file system with an init.")
    # one call for the whole file system: thousands of files are synced at once
    run(["sync", "--file-system", str(partial)])


def _image(plan: VolumePlan) -> Image:
    if plan.image is None:
        raise BackendError(f"the plan for {plan.disk.name} lost its base image.")
    return plan.image


def _volume_xml(plan: VolumePlan) -> str:
    name = xml.sax.saxutils.escape(plan.disk.name)
    return (
        f"<volume><name>{name}</name><capacity unit='bytes'>{plan.size}</capacity>"
        f"<allocation unit='bytes'>{0 if plan.pool.files else plan.size}</allocation>"
        f"<target><format type='{plan.disk.format}'/></target></volume>"
    )


def _remove(path: pathlib.Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        path.unlink()


def _sync_folder(folder: pathlib.Path) -> None:
    handle = os.open(str(folder), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
