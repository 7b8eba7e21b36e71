# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A key repository of keystone: a directory with one file per key, named by its number."""

from __future__ import annotations

import base64
import os
import pathlib
import pwd
import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, rename, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_MODE = 0o600
_FOLDER_MODE = 0o700


class KeyRepository:
    """One key repository.

    :arg path: directory.
    :arg user: system user that reads and owns the keys.
    :arg pause: seconds to wait for a reader that has listed the directory to read the files.
    """

    def __init__(self, path: str, user: str, pause: float = 1.0) -> None:
        self.path = pathlib.Path(path)
        self.user = user
        self.pause = pause

    def keys(self) -> dict[int, str]:
        """Return number → key. Other file names and empty files are ignored, as keystone does."""
        try:
            names = [entry.name for entry in self.path.iterdir()]
        except FileNotFoundError:
            return {}
        found = {int(name): (read_text(self.path / name) or "").strip() for name in names if name.isascii() and name.isdigit()}
        return {number: key for number, key in sorted(found.items()) if key}

    def written(self) -> dict[int, float]:
        """Return number → modification time of the file, in seconds since the epoch."""
        return {number: (self.path / str(number)).stat().st_mtime for number in self.keys()}

    def now(self) -> float:
        """Return the current time of the host's clock."""
        return time.time()

    def new_key(self) -> str:
        """Generate a random Fernet key."""
        return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii")

    def tidy(self) -> tuple[str, ...]:
        """Return the required fixes to directory, owners and modes, as text."""
        fixes = []
        owner = self._owner()
        for path, mode in [(self.path, _FOLDER_MODE)] + [(self.path / str(number), _MODE) for number in self.keys()]:
            if not path.exists():
                fixes.append(f"create {path}")
                continue
            there = path.stat()
            if owner is None or (there.st_uid, there.st_gid) != owner:
                fixes.append(f"set the owner of {path} to {self.user}")
            if there.st_mode & 0o7777 != mode:
                fixes.append(f"set the mode of {path} to {mode:04o}")
        return tuple(fixes)

    def secure(self) -> None:
        """Create the directory and set owners and modes."""
        self.path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        for path, mode in [(self.path, _FOLDER_MODE)] + [(self.path / str(number), _MODE) for number in self.keys()]:
            self._chown(path)
            path.chmod(mode)

    def write(self, number: int, key: str) -> None:
        """Write one key atomically, never readable by other users."""
        self.secure()
        # change the owner before the rename: keystone must be able to read the file as soon as it has its name
        waiting = self.path / f".{number}.new"
        write_atomic(waiting, key, _MODE)
        self._chown(waiting)
        rename(waiting, self.path / str(number), new=False)

    def remove(self, number: int) -> None:
        """Remove one key."""
        (self.path / str(number)).unlink()
        sync_path(self.path)

    def let_readers_finish(self) -> None:
        """Wait until readers that listed the directory before the last change have read the files."""
        time.sleep(self.pause)

    def _owner(self) -> tuple[int, int] | None:
        try:
            entry = pwd.getpwnam(self.user)
        except KeyError:
            return None
        return entry.pw_uid, entry.pw_gid

    def _chown(self, path: pathlib.Path) -> None:
        owner = self._owner()
        if owner is None:
            raise BackendError(f"the user {self.user} does not exist on this host.", hint="Install keystone first.")
        os.chown(path, *owner)
