# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a folder whose content is not trusted, such as the copy of another machine or the root of a container, which may run.

Every path is resolved by the kernel with that folder as the root (``openat2`` with ``RESOLVE_IN_ROOT``): absolute symbolic links
and ``..`` lead to the same file as on that machine, and never out of the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fnmatch
import os
import stat
import struct
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

# the same number on all architectures
_OPENAT2 = 437
_RESOLVE = 0x10 | 0x02  # RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS
_MISSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_ATTEMPTS = 1000
# larger files are not configuration; they would only fill the memory of this host
_MOST = 16 << 20


class Tree:
    """A folder; all paths start there, with or without a leading slash.

    :raises BackendError: (all methods) the kernel does not support ``openat2``.
    """

    def __init__(self, top: str | os.PathLike[str]) -> None:
        self._top = os.fspath(top)

    def open(self, path: str | bytes, flags: int = os.O_PATH, mode: int = 0) -> int:
        """Return a file descriptor.

        :raises OSError: as from ``os.open``.
        """
        top = os.open(self._top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            how = struct.pack("=QQQ", flags | os.O_CLOEXEC, mode, _RESOLVE)
            library = ctypes.CDLL(None, use_errno=True)
            for _attempt in range(_ATTEMPTS):
                handle = library.syscall(_OPENAT2, top, os.fsencode(path) or b"/", how, len(how))
                # the kernel does not resolve ".." while anything on this host is renamed or mounted
                if handle >= 0 or ctypes.get_errno() != errno.EAGAIN:
                    break
        finally:
            os.close(top)
        if handle >= 0:
            return int(handle)
        number = ctypes.get_errno()
        if number == errno.ENOSYS:
            raise model_errors.BackendError("This kernel does not support openat2.", hint="Use Linux 5.6 or newer.")
        raise OSError(number, os.strerror(number), os.fsdecode(path))

    @contextlib.contextmanager
    def _opened(self, path: str | bytes, flags: int = os.O_PATH) -> t.Iterator[int]:
        handle = self.open(path, flags)
        try:
            yield handle
        finally:
            os.close(handle)

    @contextlib.contextmanager
    def _parent(self, path: str | bytes) -> t.Iterator[tuple[int, str]]:
        """The folder of a path, opened, and the last name."""
        folder, _slash, name = os.fsdecode(path).rstrip("/").rpartition("/")
        if name in ("", ".", ".."):
            raise model_errors.BackendError(f"{os.fsdecode(path)!r} is not the path of a file.")
        with self._opened(folder, os.O_PATH | os.O_DIRECTORY) as handle:
            yield handle, name

    def status(self, path: str | bytes, *, follow: bool = True) -> os.stat_result | None:
        """Return the status of a file, ``None`` if it does not exist."""
        try:
            with self._opened(path, os.O_PATH | (0 if follow else os.O_NOFOLLOW)) as handle:
                return os.fstat(handle)
        except OSError as error:
            if error.errno in _MISSING:
                return None
            raise

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder; empty if there is none."""
        try:
            with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as handle:
                return sorted(os.listdir(handle))
        except OSError as error:
            if error.errno in _MISSING:
                return []
            raise

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern; a wildcard does not match a leading dot."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if any(each in part for each in "*?["):
                names = [(top, name) for top in found for name in self.names(top) if part.startswith(".") or not name.startswith(".")]
                found = [f"{top}/{name}" for top, name in names if fnmatch.fnmatchcase(name, part)]
            else:
                found = [f"{top}/{part}" for top in found]
        return [each for each in found if self.status(each, follow=False) is not None]

    def read(self, path: str, *, follow: bool = True, most: int = _MOST) -> bytes | None:
        """Return the content of a regular file of at most ``most`` bytes, ``None`` for all others."""
        status = self.status(path, follow=follow)
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with open(self.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)), "rb") as stream:
            # a running container can replace or enlarge it meanwhile
            content = stream.read(most + 1) if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else None
        return content if content is not None and len(content) <= most else None

    def read_text(self, path: str, *, follow: bool = True) -> str | None:
        """As :meth:`read`, as text; bytes that are not UTF-8 are preserved by :meth:`write`."""
        content = self.read(path, follow=follow)
        return None if content is None else content.decode("utf-8", errors="surrogateescape")

    def write(self, path: str, content: str | bytes, *, mode: int | None = None, folder_mode: int = 0o755) -> None:
        """Replace a file atomically, and create its folder if missing. Owner and mode are kept; those of a new file are root and 0644.

        :arg mode: for root and with this mode in any case.
        :arg folder_mode: mode of a new folder; those above it have 0755.
        """
        data = content.encode("utf-8", errors="surrogateescape") if isinstance(content, str) else content
        self.make_folder(os.path.dirname(path), folder_mode)
        before = self.status(path, follow=False) if mode is None else None
        with _refused(path), self._parent(path) as (folder, name):
            temporary = f".{name[:200]}.footprint"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
            try:
                with open(handle, "wb") as stream:
                    regular = before is not None and stat.S_ISREG(before.st_mode)
                    if before is not None and regular:
                        os.fchown(stream.fileno(), before.st_uid, before.st_gid)
                    os.fchmod(stream.fileno(), before.st_mode & 0o7777 if before is not None and regular else mode or 0o644)
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise
        self.sync(os.path.dirname(path))

    def sync(self, path: str) -> None:
        """Flush a folder to its disk."""
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as handle:
            os.fsync(handle)

    def unlink(self, path: str) -> None:
        """Remove a file or a link; one that does not exist is not an error."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def make_folder(self, path: str, mode: int = 0o755) -> str:
        """Create a folder and those above it, if missing; returns its path on this host, see :meth:`place`."""
        done, whole = "", path.strip("/")
        with _refused(path):
            for part in whole.split("/") if whole else ():
                with self._opened(done, os.O_PATH | os.O_DIRECTORY) as handle, contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=handle)
                    # a worker's umask is not that of the copied machine; a running container may have replaced it by a link
                    with self._opened(f"{done}/{part}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as made:
                        os.fchmod(made, mode if f"{done}/{part}" == f"/{whole}" else 0o755)
                done += f"/{part}"
            with self._opened(done, os.O_PATH | os.O_DIRECTORY) as handle:
                return os.readlink(f"/proc/self/fd/{handle}")

    def place(self, path: str | bytes, *, follow: bool = True) -> str:
        """Return the path of an existing file on this host, without symbolic links, for programs of this host.

        It is valid as long as nothing in the folder is changed: no program of a copied machine may run meanwhile.

        :arg follow: follow a symbolic link at the end of the path; without it, the file need not exist.
        """
        with _refused(path):
            if not follow:
                with self._parent(path) as (folder, name):
                    return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)
            with self._opened(path) as handle:
                return os.readlink(f"/proc/self/fd/{handle}")

    def mounted(self, path: str) -> str | None:
        """Return the path on this host of a folder where a file system is mounted, ``None`` if none is."""
        try:
            place = self.place(path)
        except (OSError, model_errors.BackendError):
            return None
        return place if os.path.ismount(place) else None


@contextlib.contextmanager
def _refused(path: str | bytes) -> t.Iterator[None]:
    """Report a path that is not what it must be; other errors, such as a full disk, are not changed."""
    try:
        yield
    except OSError as error:
        if error.errno not in (*_MISSING, errno.EEXIST, errno.EISDIR, errno.EINVAL):
            raise
        raise model_errors.BackendError(
            f"{os.fsdecode(path)} of the copy cannot be used: {error.strerror}.", hint="Check the symbolic links in that path on the source."
        ) from error


@contextlib.contextmanager
def writing(what: str, place: str, hint: str) -> t.Iterator[None]:
    """Report which files could not be written into a folder of a container."""
    try:
        yield
    except (OSError, model_errors.BackendError) as error:
        reason = getattr(error.__cause__ or error, "strerror", None) or error
        raise model_errors.BackendError(f"cannot write {what} into {place}: {reason}.", hint=hint) from error
