# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes that are files and folders of this host: created completely or not at all, grown, wiped, removed.

A volume is created under a temporary name, synced and renamed: a killed run leaves a partial file
that is never used and is removed by the next run. A volume to remove is renamed first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import re
import shutil
import stat
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, io_files, model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_mounts, io_room, model_storage
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_disk_header import note_origin

_QEMU_TOOLS = "qemu-utils"
_PARTIAL = ".partial"
_REMOVING = ".removing"
_WIPING = ".wiping"
# a derived name is longer than that of its VM, which has up to 63 characters
_LEFTOVER = re.compile(r"\A\.[A-Za-z0-9][A-Za-z0-9._-]{0,126}\.(partial|removing|wiping)\Z")
_CHUNK = 4 * 1024 * 1024

# A worker that outlives its killed run would write into files that the next run removes. So it requests a SIGKILL when its
# parent dies (1 is PR_SET_PDEATHSIG, 9 is SIGKILL), then checks its parent: setpriv would miss a death between fork and request.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the run that started this has ended")
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(sys.argv[2] + ": " + error.strerror)
"""


def with_us() -> tuple[str, ...]:
    """The command prefix for a command that must not outlive this process."""
    return (sys.executable or "/usr/bin/python3", "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()))


def run_tool(argv: t.Sequence[str], package: str, hint: str | None = None) -> None:
    """Run a program that must not outlive this process."""
    try:
        io_command.run([*with_us(), *argv])
    except model_errors.CommandError as error:
        if f"{argv[0]}: {os.strerror(errno.ENOENT)}" in error.stderr:
            hint = f"Install {package} on the host."
        raise model_errors.CommandError(argv, error.rc, error.stderr, hint=hint) from error


@contextlib.contextmanager
def created_atomically(final: pathlib.Path) -> t.Iterator[pathlib.Path]:
    """Yield a temporary path next to ``final``, which is renamed at the end and never replaces a file; after a failure nothing is left."""
    partial = _sibling(final, _PARTIAL)
    remove_path(partial)
    try:
        yield partial
        io_files.rename(partial, final, new=True)
    except OSError as error:
        remove_path(partial)
        raise model_errors.BackendError(f"cannot create {final}: {error.strerror or error}.", hint="Check the space and permissions of the pool.") from error
    except BaseException:
        remove_path(partial)
        raise


def create(plan: model_storage.VolumePlan, final: pathlib.Path) -> None:
    """Create a volume.

    :raises BackendError: it could not be created; nothing usable is left behind.
    """
    with io_room.explained(plan.pool, str(final), lambda: io_room.need_of(plan)), created_atomically(final) as partial:
        if plan.disk.format == "dir":
            _make_tree(plan, partial)
        else:
            _make_file(plan, partial)
        if plan.image is not None:
            note_origin(partial, plan.image.name, plan.image.path)


def grow(path: str, form: str, size: int) -> None:
    """Grow a file that no running domain has open, which qemu-img itself checks.

    :arg size: in bytes.
    :raises BackendError: it is in use, or the pool is full.
    """
    io_command.run([*with_us(), "qemu-img", "resize", "-q", "-f", form, path, str(size)], hint="Stop the process that has it open, or grow it there.")


def clear_leftovers(folder: str) -> None:
    """Remove the leftovers of killed runs in a pool; the caller holds the pool's lock, so no other run is active there.

    One that cannot be removed stays: a guest may have made a file immutable, which must not prevent the next VM.
    """
    with os.scandir(folder) as entries:
        left = [entry.path for entry in entries if _LEFTOVER.match(entry.name)]
    for path in left:
        with contextlib.suppress(OSError):
            _clear(pathlib.Path(path), path.endswith(_WIPING))


def remove(final: pathlib.Path, wipe: bool) -> None:
    """Remove a volume, or complete a killed removal; with ``wipe`` its content is overwritten first.

    :raises BackendError: a file system is mounted below it, or the file system reported an error.
    """
    below = mounts_below(str(final))
    if below:
        raise model_errors.BackendError(f"cannot remove {final}: {below[0]} is mounted there.", hint="Unmount it, then run again.")
    leaving = _sibling(final, _WIPING if wipe else _REMOVING)
    try:
        if os.path.lexists(final):
            _clear(leaving, wipe)
            io_files.rename(final, leaving, new=True, flush=False)
        for ending in (_WIPING, _REMOVING):
            _clear(_sibling(final, ending), wipe or ending == _WIPING)
        io_files.sync_path(final.parent)
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
        # what root itself is not permitted
        guest = f" Remove attributes that the guest set: chattr -R -ia {leaving}." if error.errno == errno.EPERM else ""
        raise model_errors.BackendError(f"cannot remove {final}: {what}.", hint=f"Check the permissions of the pool.{guest}") from error


def leaving(final: str) -> bool:
    """Whether a killed run left a partial removal of this volume."""
    path = pathlib.Path(final)
    return any(os.path.lexists(_sibling(path, ending)) for ending in (_WIPING, _REMOVING))


def remove_path(path: pathlib.Path) -> None:
    """Remove a file or a whole folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def mounts_below(path: str) -> list[str]:
    """The mount points at or below a path."""
    real = os.path.realpath(path)
    return [mount.point for mount in io_mounts.mounts() if mount.point == real or mount.point.startswith(real + "/")]


def _sibling(final: pathlib.Path, ending: str) -> pathlib.Path:
    return final.with_name(f".{final.name}{ending}")


def _clear(path: pathlib.Path, wipe: bool) -> None:
    if not os.path.lexists(path):
        return
    if wipe:
        _wipe(path)
    remove_path(path)


def _wipe(path: pathlib.Path) -> None:
    """Overwrite a file, or every file of a tree that has no hard link outside of it."""
    if not path.is_dir() or path.is_symlink():
        _overwrite(path)
        return
    names: dict[tuple[int, int], list[pathlib.Path]] = {}
    for folder, unused, files in os.walk(path):
        for name in files:
            file = pathlib.Path(folder) / name
            state = file.lstat()
            if stat.S_ISREG(state.st_mode):
                names.setdefault((state.st_dev, state.st_ino), []).append(file)
    for files_of_one in names.values():
        if files_of_one[0].lstat().st_nlink <= len(files_of_one):
            _overwrite(files_of_one[0])


def _overwrite(path: pathlib.Path) -> None:
    """Overwrite all allocated blocks of a file with zeros and sync it."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return
    handle = os.open(str(path), os.O_RDWR | os.O_NOFOLLOW)
    try:
        end = os.fstat(handle).st_size
        at = 0
        while at < end:
            try:
                start = os.lseek(handle, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break
                raise
            at = os.lseek(handle, start, os.SEEK_HOLE)
            for offset in range(start, at, _CHUNK):
                _write_all(handle, offset, min(_CHUNK, at - offset))
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, offset: int, length: int) -> None:
    zeros = memoryview(bytes(length))
    while zeros:
        written = os.pwrite(handle, zeros, offset)
        zeros, offset = zeros[written:], offset + written


def _make_file(plan: model_storage.VolumePlan, partial: pathlib.Path) -> None:
    form = plan.disk.format
    # readable only for the hypervisor, also while it is being written
    os.close(os.open(str(partial), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if plan.how == model_storage.EMPTY and form == "raw":
        os.truncate(partial, plan.size)
    elif plan.how == model_storage.EMPTY:
        run_tool(["qemu-img", "create", "-q", "-f", form, str(partial), str(plan.size)], _QEMU_TOOLS)
    elif plan.how == model_storage.BACKING:
        image = image_of(plan)
        run_tool(["qemu-img", "create", "-q", "-f", form, "-b", image.path, "-F", image.format, str(partial), str(plan.size)], _QEMU_TOOLS)
    else:
        image = image_of(plan)
        run_tool(["qemu-img", "convert", "-f", image.format, "-O", form, image.path, str(partial)], _QEMU_TOOLS)
        if plan.size > image.virtual_size:
            run_tool(["qemu-img", "resize", "-q", "-f", form, str(partial), str(plan.size)], _QEMU_TOOLS)
    os.chmod(partial, 0o600)
    io_files.sync_path(partial)


def _make_tree(plan: model_storage.VolumePlan, partial: pathlib.Path) -> None:
    partial.mkdir(mode=0o755)
    if plan.how == model_storage.UNPACK:
        image = image_of(plan)
        keep = ["--numeric-owner", "--same-owner", "--preserve-permissions", "--xattrs", "--xattrs-include=*", "--acls", "--sparse"]
        run_tool(["tar", "--extract", "--file", image.path, "--directory", str(partial), *keep], "tar", hint="Fetch the base image again.")
        if not any(os.path.lexists(partial / place) for place in ("sbin/init", "usr/sbin/init")):
            raise model_errors.BackendError(f"{image.path} contains no /sbin/init.", hint="Use a tar archive of a complete root file system with an init.")
    if plan.host_key is not None:
        # imported for new containers only; most runs create none
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_host_key

        io_host_key.write(str(partial), plan.host_key)
    if plan.authorized_keys:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_authorized_keys

        io_authorized_keys.add(str(partial), plan.authorized_keys)
    # one call for the whole file system instead of thousands of files
    io_command.run(["sync", "--file-system", str(partial)])


def image_of(plan: model_storage.VolumePlan) -> model_storage.Image:
    """The base image of a plan that has one."""
    if plan.image is None:
        raise model_errors.BackendError(f"internal error: the plan for {plan.disk.name} has no base image.")
    return plan.image
