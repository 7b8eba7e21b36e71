# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read files, and write and rename them atomically: after a power loss a file has either the old or the new content. Nothing else renames."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import stat
import tempfile

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

#: Runtime files of root: locks, mount points, keys of bootstrap systems.
RUN = pathlib.Path("/run/reduced.footprint")


def private_folder(path: pathlib.Path) -> pathlib.Path:
    """Return a folder with mode 0700, created if missing; its parent must exist.

    The mode of an existing folder of this user is corrected. Symbolic links and folders of other users are refused,
    because the owner of a folder can replace the files in it.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise model_errors.BackendError(f"the folder {path} cannot be created: {error.strerror}.") from error
    handle = -1
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(handle)
        if found.st_uid == os.geteuid():
            if stat.S_IMODE(found.st_mode) & 0o077:
                os.fchmod(handle, 0o700)
            return path
        problem = f"belongs to the user {found.st_uid}"
    except OSError as error:
        problem = "is a link or a file" if not path.is_dir() or path.is_symlink() else str(error.strerror)
    finally:
        if handle >= 0:
            os.close(handle)
    raise model_errors.BackendError(f"{path} is not a folder of this user: it {problem}.", hint="Find out which program created it, remove it, and run again.")


def read_text(path: str | os.PathLike[str]) -> str | None:
    """Return the text of a file, ``None`` if it does not exist; bytes that are not UTF-8 are preserved by :func:`write_atomic`."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None


def meminfo(root: str = "/") -> dict[str, int]:
    """Return the sizes in ``/proc/meminfo`` in bytes, e.g. of ``MemTotal``; empty if there is none."""
    rows = (line.split() for line in (read_text(os.path.join(root, "proc/meminfo")) or "").splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows if row[2:] == ["kB"]}


def make_folder(path: pathlib.Path, mode: int = 0o777) -> None:
    """Create a folder and its parents, which survive a power loss; existing ones are kept."""
    if path.is_dir():
        return
    make_folder(path.parent, mode)
    # created by another process meanwhile
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=mode)
    sync_path(path.parent)


def write_atomic(
    path: str | os.PathLike[str], text: str | bytes, mode: int = 0o600, owner: tuple[int, int] | None = None, *, new: bool = False
) -> None:
    """Replace a file atomically, with a synced temporary file in the same directory.

    :arg owner: uid and gid; default those of this process.
    :raises FileExistsError: with ``new``, there is one.
    """
    target = pathlib.Path(path)
    make_folder(target.parent)
    handle, temporary = tempfile.mkstemp(dir=str(target.parent), prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            if owner:
                os.fchown(stream.fileno(), *owner)
            os.fchmod(stream.fileno(), mode)
            stream.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        rename(temporary, target, new=new)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def rename(source: str | os.PathLike[str], target: str | os.PathLike[str], *, new: bool, flush: bool = True) -> None:
    """Rename a file or folder on the same file system, so that it survives a power loss with its content.

    :arg new: never replace anything, on any file system; otherwise a file or an empty folder is replaced.
    :arg flush: flush a file to the disk first; the content of a folder must have been flushed.
    :raises FileExistsError: with ``new``, there is something.
    :raises OSError: it cannot be renamed, or not be flushed.
    """
    if flush and not os.path.islink(source):
        sync_path(source)
    if new:
        _rename_new(source, target)
    else:
        os.replace(source, target)
    for folder in {os.path.dirname(os.path.abspath(each)) for each in (source, target)}:
        sync_path(folder)


def _rename_new(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    import ctypes  # most runs do not need it

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, no_replace = -100, 1  # AT_FDCWD, RENAME_NOREPLACE
    if call is not None and call(here, os.fsencode(source), here, os.fsencode(target), no_replace) == 0:
        return
    number = ctypes.get_errno() if call is not None else errno.ENOSYS
    if number not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(number, os.strerror(number), str(source), None, str(target))
    # not supported by the file system: these never replace anything but an empty folder either
    if os.path.isdir(source) and not os.path.islink(source):
        os.mkdir(target)
        os.rename(source, target)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        # after a kill between both
        if not os.path.samestat(os.lstat(source), os.lstat(target)):
            raise
    os.unlink(source)


def sync_path(path: str | os.PathLike[str]) -> None:
    """Flush a file, a device or a folder to its disk; that of a folder makes renames and removals in it survive a power loss.

    :raises OSError: the data could not be written.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_link(link: pathlib.Path, target: pathlib.Path) -> None:
    """Create a symbolic link, and the folder for it, that survives a power loss; an existing link is kept."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)
        sync_path(link.parent)
