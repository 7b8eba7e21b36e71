# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A directory of keystone's keys: one file per key, its name the number."""

from __future__ import annotations

import base64
import os
import pathlib
import pwd
import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_MODE = 0o600
_FOLDER_MODE = 0o700


class KeyRepository:
    """One directory of keys.

    :arg path: the directory.
    :arg user: who reads them, and owns them.
    :arg pause: seconds that a reader which has listed the directory is given to read the files.
    """

    def __init__(self, path: str, user: str, pause: float = 1.0) -> None:
        self.path = pathlib.Path(path)
        self.user = user
        self.pause = pause

    def keys(self) -> dict[int, str]:
        """Number → key; what is no number, and empty files, which keystone passes over too, are left out."""
        try:
            names = [entry.name for entry in self.path.iterdir()]
        except FileNotFoundError:
            return {}
        found = {int(name): (read_text(self.path / name) or "").strip() for name in names if name.isascii() and name.isdigit()}
        return {number: key for number, key in sorted(found.items()) if key}

    def written(self) -> dict[int, float]:
        """Number → when the file was written."""
        return {number: (self.path / str(number)).stat().st_mtime for number in self.keys()}

    def now(self) -> float:
        """The time of the clock that wrote them."""
        return time.time()

    def new_key(self) -> str:
        """A key that is worth the name."""
        return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii")

    def tidy(self) -> tuple[str, ...]:
        """What is not as it has to be: the directory, owners and modes; in words."""
        wrong = []
        owner = self._owner()
        for path, mode in [(self.path, _FOLDER_MODE)] + [(self.path / str(number), _MODE) for number in self.keys()]:
            if not path.exists():
                wrong.append(f"create {path}")
                continue
            there = path.stat()
            if owner is None or (there.st_uid, there.st_gid) != owner:
                wrong.append(f"give {path} to {self.user}")
            if there.st_mode & 0o7777 != mode:
                wrong.append(f"set the mode of {path} to {mode:04o}")
        return tuple(wrong)

    def secure(self) -> None:
        """The directory, with the owners and modes it has to have."""
        self.path.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        for path, mode in [(self.path, _FOLDER_MODE)] + [(self.path / str(number), _MODE) for number in self.keys()]:
            self._give(path)
            path.chmod(mode)

    def write(self, number: int, key: str) -> None:
        """One key, whole or not at all, and never readable for others."""
        self.secure()
        # owned before it has its name: keystone must be able to read it the moment it is there
        waiting = self.path / f".{number}.new"
        write_atomic(waiting, key, _MODE)
        self._give(waiting)
        os.replace(waiting, self.path / str(number))
        self._settle()

    def remove(self, number: int) -> None:
        """One key less."""
        (self.path / str(number)).unlink()
        self._settle()

    def let_readers_finish(self) -> None:
        """Who listed the directory before the last change has read it after this."""
        time.sleep(self.pause)

    def _settle(self) -> None:
        folder = os.open(str(self.path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _owner(self) -> tuple[int, int] | None:
        try:
            entry = pwd.getpwnam(self.user)
        except KeyError:
            return None
        return entry.pw_uid, entry.pw_gid

    def _give(self, path: pathlib.Path) -> None:
        owner = self._owner()
        if owner is None:
            raise BackendError(f"there is no user {self.user} on this host.", hint="Install keystone first.")
        os.chown(path, *owner)
