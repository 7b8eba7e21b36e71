# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records the mount points of pools on their own file system, to detect when such a file system is not mounted.

Without the mount there is an empty folder of the root file system, which libvirt would use as the pool.
"""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, model_errors, model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_mounts

STATE = pathlib.Path("/var/lib/reduced.footprint/pool-mounts.json")


class PoolMounts:
    """The mount points of the pools of this host.

    The state file maps the path of a pool to its mount point, or to ``null`` where the operator declared that none is required.
    """

    def __init__(self, state: pathlib.Path | None = None, mounts: str = io_mounts.MOUNTS) -> None:
        self._state = state or STATE
        self._mounts = mounts

    def point(self, path: str) -> str | None:
        """The current mount point of a path, ``None`` for the root file system."""
        real = os.path.realpath(path)
        found = [point for point in self._points() if real == point or real.startswith(f"{point}/")]
        return max(found, key=len, default=None)

    def recorded(self, path: str) -> str | None:
        """The recorded mount point of a pool."""
        return self._read().get(_key(path))

    def missing(self, path: str) -> str | None:
        """The recorded mount point of a pool if nothing is mounted there, else ``None``."""
        point = self.recorded(path)
        if point is None:
            return None
        # triggers a mount on demand by systemd or autofs
        os.path.exists(os.path.join(point, "."))
        return point if point not in self._points() else None

    def check(self, name: str, path: str, where: str) -> None:
        """Check that the file system a pool is on is mounted.

        :arg where: path of the pool's name in the user's input.
        :raises RefusedError: it is not; writing there would fill the root file system.
        """
        point = self.missing(path)
        if point is not None:
            raise unmounted(name, path, point, where)

    def remember(self, path: str) -> None:
        """Record the current mount point of a pool, unless it was declared that none is required."""
        state, key, point = self._read(), _key(path), self.point(path)
        if point is not None and state.get(key, "") not in (None, point):
            self._write({**state, key: point})

    def declare(self, path: str, needed: bool) -> None:
        """Record the operator's setting: whether the pool must be on its own file system."""
        state, value = self._read(), self.point(path) if needed else None
        if state.get(_key(path), "") != value:
            self._write({**state, _key(path): value})

    def _read(self) -> dict[str, str | None]:
        try:
            data = model_schema.POOL_MOUNTS.load(io_files.read_text(self._state) or "{}", self._state)
        except ValueError as error:
            raise model_errors.BackendError(
                f"{self._state} is damaged: {error}.", hint="Mount the file systems of all storage pools, then remove that file: it is created again."
            ) from error
        return {str(path): point for path, point in data.items() if point is None or isinstance(point, str)}

    def _write(self, state: t.Mapping[str, str | None]) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        io_files.write_atomic(self._state, json.dumps(model_schema.POOL_MOUNTS.mark(state), indent=2, sort_keys=True) + "\n")

    def _points(self) -> set[str]:
        """The current mount points; pending mounts on demand do not count."""
        # the last mount at the same place is the visible one
        found = {mount.point: mount.kind for mount in io_mounts.mounts(self._mounts)}
        return {point for point, kind in found.items() if point != "/" and kind != "autofs"}


def unmounted(name: str, path: str, point: str, where: str) -> model_errors.RefusedError:
    """The error for a pool whose file system is not mounted."""
    return model_errors.RefusedError(
        f"the storage pool {name} at {path} is on the file system of {point}, which is not mounted.",
        where,
        f"Mount it (mount {point}, and check /etc/fstab), then run again. If the pool will be on the root file system from now on, "
        f"set mounted: false for it in the pools of virt_node.",
    )


def _key(path: str) -> str:
    return os.path.normpath(path)
