# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The copies of a VM on the standby: images in the folder ``standby`` of each pool, manifests and digests apart from them.

An image is an overlay of the one before it. A copy exists from the moment its manifest does, which is written when all of it was
read back; everything else is the remains of a killed run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, rename, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import STANDBY_PARTIAL, STANDBY_RECORD
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import standby_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import RECEIVING, Copy, CopyDisk, packed, parse_copy, unpacked
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_pool_mounts import PoolMounts
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import with_us

HOME = pathlib.Path("/var/lib/reduced.footprint/standby-copies")
FOLDER = "standby"
_PARTIAL = "partial"
_LOCK = 30.0
_STARTING = "starting"


class CopyStore:
    """The copies of one VM of a cluster, and its record."""

    def __init__(self, cluster: str, vm_id: str, home: pathlib.Path | None = None) -> None:
        self.cluster, self.vm_id = cluster, vm_id
        # several clusters may use one standby or witness
        self.directory = (home or HOME) / cluster / vm_id

    @contextlib.contextmanager
    def locked(self, *, channel: bool = False, starting: bool = False) -> t.Iterator[None]:
        """Hold the lock of the copies.

        The channel of a lost connection may still hold it; there is only one process that sends copies of a VM, so it is ended.

        :raises RefusedError: another process than a channel holds the lock.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.directory / "lock", "a+", encoding="ascii") as handle:
            until = time.monotonic() + _LOCK
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    handle.seek(0)
                    self._end_channel(handle.read())
                    if time.monotonic() > until:
                        raise RefusedError(f"the copies of {self.vm_id} are in use by another process.", hint="Wait until it ends.") from error
                    time.sleep(0.1)
            handle.truncate(0)
            handle.write(str(os.getpid()) if channel else _STARTING if starting else "")
            handle.flush()
            yield

    def starting(self) -> bool:
        """Whether a process is making the disks of the VM from a copy, after which it records the start. A killed one does not count."""
        try:
            with open(self.directory / "lock", encoding="ascii") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return handle.read() == _STARTING
        except FileNotFoundError:
            pass
        return False

    def _end_channel(self, text: str) -> None:
        key = standby_key(self.cluster, self.vm_id)
        if text.isdigit() and key in (words := (read_text(f"/proc/{text}/cmdline") or "").split("\0")) and "-m" in words:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # with its qemu-nbd
                os.killpg(int(text), signal.SIGKILL)

    # the record

    def record(self) -> dict[str, t.Any]:
        """Return the record of the VM on this server; by default copies are accepted."""
        text = read_text(self.directory / "record.json")
        return {"state": RECEIVING, **(STANDBY_RECORD.load(text, self.directory / "record.json") if text else {})}

    def write_record(self, record: t.Mapping[str, t.Any]) -> None:
        """Store the record durably; the folders of the images, and the witnesses, are kept in it."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        values = STANDBY_RECORD.mark({"folders": sorted(self._folders()), "witnesses": self.witnesses(), **record})
        write_atomic(self.directory / "record.json", json.dumps(values, indent=1, sort_keys=True) + "\n")
        sync_path(self.directory)

    # complete copies

    def copies(self) -> list[Copy]:
        """Return the complete copies, oldest first."""
        return [each for each in self._manifests() if all(os.path.isfile(disk.file) for disk in each.disks)]

    def _manifests(self) -> list[Copy]:
        """Return all copies that were complete, oldest first; an image can be missing, for example because its file system is not mounted."""
        return [copy for copy in self._described().values() if copy is not None]

    def _described(self) -> dict[pathlib.Path, Copy | None]:
        """Return each file that describes a copy, and the copy, ``None`` if it is damaged."""
        return {path: parse_copy(read_text(path), path) for path in sorted(self.directory.glob("[!.]*/copy.json"))}

    def digests(self, copy: Copy, disk: CopyDisk) -> list[bytes] | None:
        """Return the digests of a disk in a copy."""
        try:
            content = (self.directory / copy.id / f"{disk.target}.digests").read_bytes()
        except FileNotFoundError:
            return None
        return unpacked(content, disk.capacity)

    def commit(self, copy: Copy, digests: t.Mapping[str, t.Sequence[bytes]]) -> None:
        """Turn the partial copy into a complete one."""
        for disk in copy.disks:
            partial = self.image(disk.path, _PARTIAL, disk.target)
            if os.path.lexists(partial):
                rename(partial, disk.file, new=False)
            else:
                sync_path(os.path.dirname(disk.file))
        new = self.directory / f".{copy.id}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        for target, values in digests.items():
            path = new / f"{target}.digests"
            write_atomic(path, packed(values))
        write_atomic(new / "copy.json", copy.to_json())
        rename(new, self.directory / copy.id, new=False)
        (self.directory / "partial.json").unlink(missing_ok=True)

    # the partial copy

    def image(self, path: str, copy_id: str, target: str) -> str:
        """The image of a disk in a copy."""
        return os.path.join(os.path.dirname(path), FOLDER, self.cluster, f"{self.vm_id}-{copy_id}-{target}.qcow2")

    def partial(self) -> dict[str, t.Any] | None:
        """Return what the partial copy is based on, ``None`` if there is none."""
        text = read_text(self.directory / "partial.json")
        return (STANDBY_PARTIAL.load(text, self.directory / "partial.json") or None) if text else None

    def prepare(self, base: Copy | None, disks: t.Sequence[CopyDisk]) -> bool:
        """Create the images of a partial copy, or keep those of an interrupted one with the same base; returns whether they were kept."""
        wanted = {"base": base.id if base else None, "disks": [[disk.target, disk.path, disk.capacity] for disk in disks]}
        images = {disk.target: self.image(disk.path, _PARTIAL, disk.target) for disk in disks}
        if self.partial() == wanted and all(os.path.isfile(path) for path in images.values()):
            return True
        self.discard_partial()
        for disk in disks:
            folder = os.path.dirname(images[disk.target])
            os.makedirs(folder, mode=0o711, exist_ok=True)
            below = next((each.file for each in base.disks if each.target == disk.target), None) if base else None
            backing = ["-b", below, "-F", "qcow2"] if below else []
            with contextlib.suppress(FileNotFoundError):
                os.unlink(images[disk.target])
            os.close(os.open(images[disk.target], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            run([*with_us(), "qemu-img", "create", "-q", "-f", "qcow2", *backing, images[disk.target], str(disk.capacity)])
        write_atomic(self.directory / "partial.json", json.dumps(STANDBY_PARTIAL.mark(wanted)) + "\n")
        return False

    def discard_partial(self) -> None:
        """Remove the partial copy, and images that belong to no copy."""
        (self.directory / "partial.json").unlink(missing_ok=True)
        # without a complete copy, one of which an image is missing may be the only one that can be repaired
        copies = self.copies() or self._manifests()
        kept = {disk.file for copy in copies for disk in copy.disks}
        # those of a copy whose description is damaged may be the only ones
        known = None not in self._described().values()
        try:
            kept |= {layer for path in kept for layer in self.layers(path)}
        except BackendError:
            # any image may be a layer, except for those of the partial copy
            known = False
        for folder in {os.path.dirname(path) for path in kept} | self._folders():
            for path in pathlib.Path(folder).glob(f"{self.vm_id}-*.qcow2"):
                if str(path) not in kept and self._own(path.name) and (known or path.name.startswith(f"{self.vm_id}-{_PARTIAL}-")):
                    path.unlink()
        for left in self.directory.glob("*Z"):
            if left.name.startswith(".") or not (left / "copy.json").exists():
                shutil.rmtree(left, ignore_errors=True)

    def _own(self, name: str) -> bool:
        """Whether an image is of this VM, and not of one whose ID begins in the same way."""
        rest = name[len(self.vm_id) + 1 :]
        return rest.startswith(f"{_PARTIAL}-") or rest[:16].endswith("Z") and rest[:8].isdigit()

    def _folders(self) -> set[str]:
        return set(self.record().get("folders") or ())

    def witnesses(self) -> list[str] | None:
        """Return the machines that the server of the VM asks beside this one before it starts the VM after a boot, ``None`` if that is not known."""
        return self.record().get("witnesses")

    def note_witnesses(self, names: t.Sequence[str]) -> None:
        """Record the witnesses."""
        if list(names) != self.witnesses():
            self.write_record({**self.record(), "witnesses": list(names)})

    def note_folders(self, disks: t.Iterable[CopyDisk]) -> None:
        """Record where images of this VM are, for their removal."""
        found = self._folders() | {os.path.dirname(self.image(disk.path, _PARTIAL, disk.target)) for disk in disks}
        if found != self._folders():
            self.write_record({**self.record(), "folders": sorted(found)})

    @staticmethod
    def layers(path: str) -> list[str]:
        """Return the images below an image.

        :raises BackendError: they cannot be read, so they are not known.
        """
        said = run(["qemu-img", "info", "--force-share", "--backing-chain", "--output=json", path])
        try:
            unused, *below = [each["filename"] for each in json.loads(said.stdout)]
            return below
        except (ValueError, KeyError, TypeError) as error:
            raise BackendError(f"qemu-img describes no image of {path}.") from error

    def allocated(self, disk: CopyDisk) -> list[tuple[int, int]]:
        """Return the extents that the partial image itself contains."""
        path = self.image(disk.path, _PARTIAL, disk.target)
        said = run(["qemu-img", "map", "--output=json", path])
        return [(each["start"], each["length"]) for each in json.loads(said.stdout) if each["depth"] == 0 and each.get("present", True)]

    # retention

    def prune(self, surplus: t.Iterable[str]) -> None:
        """Merge the oldest copies into their successors.

        :arg surplus: their names, oldest first.
        """
        for copy_id in surplus:
            # from here it does not count as a copy any more, but it is still the base of the next one
            (self.directory / copy_id / "copy.json").unlink()
            sync_path(self.directory / copy_id)
            shutil.rmtree(self.directory / copy_id)
        self.merge()

    def merge(self) -> None:
        """Merge images that do not count as copies any more into the oldest copy; idempotent.

        The content of the oldest copy is written into the image below it, which then takes its name: the copies above it see the
        same content at any time.
        """
        copies = self.copies()
        if not copies:
            return
        for disk in copies[0].disks:
            below = self.layers(disk.file)
            for layer in below[:1]:
                if len(below) > 1:
                    # two merges were interrupted: into the lowest one first
                    run(["qemu-img", "commit", "-q", "-d", "-b", below[-1], disk.file])
                    layer = below[-1]
                else:
                    run(["qemu-img", "commit", "-q", "-d", "-b", layer, disk.file])
                rename(layer, disk.file, new=False)
        if self.partial() is None:
            self.discard_partial()

    def remove(self) -> bool:
        """Remove all copies and the record; returns whether there was anything."""
        if not self.directory.is_dir():
            return False
        for path in self._described():
            shutil.rmtree(path.parent)
        self.discard_partial()
        shutil.rmtree(self.directory)
        return True

    def used(self) -> int:
        """Return the bytes that the images occupy."""
        files = [path for folder in self._folders() for path in pathlib.Path(folder).glob(f"{self.vm_id}-*.qcow2") if self._own(path.name)]
        return sum(path.stat().st_blocks * 512 for path in files)


def check_room(folder: str, needed: int, vm_id: str) -> None:
    """Check that the file system of a pool is mounted and has enough free space."""
    point = PoolMounts().missing(folder)
    if point is not None:
        raise BackendError(
            f"the storage pool {folder} on the standby is on the file system of {point}, which is not mounted.",
            hint=f"Mount it there (mount {point}, and check /etc/fstab); the complete copies are kept until then.",
        )
    if not os.path.isdir(folder):
        raise BackendError(f"the folder {folder} of the disks of {vm_id} does not exist on the standby.", hint="Create a pool with the same path there.")
    usage = os.statvfs(folder)
    free = usage.f_bavail * usage.f_frsize
    if free < needed:
        raise BackendError(
            f"{folder} on the standby has {free} bytes free, the copy of {vm_id} needs up to {needed}.", hint="Free space there, or keep fewer copies."
        )


def names(home: pathlib.Path | None = None) -> list[tuple[str, str]]:
    """Return cluster and ID of the VMs that have copies or a record on this server."""
    return sorted((each.parent.name, each.name) for each in (home or HOME).glob("*/*") if each.is_dir())
