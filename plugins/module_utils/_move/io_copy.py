# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copy the files of a VM between two hosts with all attributes, and compare them by content."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_rsync import FLAGS, Copied, transfer

_SHOWN = 5


class Copier:
    """rsync between this host and another.

    :arg limit: KiB per second, 0 for no limit.
    """

    def __init__(self, ssh: t.Sequence[str], host: str, limit: int = 0) -> None:
        self._ssh = list(ssh)
        self._host = f"[{host}]" if ":" in host else host
        self._limit = limit

    def push(self, item: Item, target: str, *, running: bool = False, progress: t.Callable[[int, int, str], None] | None = None) -> Copied:
        """Copy an item to a path on the other host.

        :arg running: the VM is running: files that vanish are ignored, because a copy after its shutdown follows.
        """
        return transfer(self._argv(item, self._local(item), self._remote(item, target), ()), tolerate_vanished=running, progress=progress)

    def pull(self, item: Item, progress: t.Callable[[int, int, str], None] | None = None) -> Copied:
        """Copy an item from the other host to the same path here."""
        return transfer(self._argv(item, self._remote(item, item.path), self._local(item), ()), progress=progress)

    def compare(self, item: Item, target: str) -> None:
        """Read both sides and compare them."""
        argv = self._argv(item, self._local(item), self._remote(item, target), ("--checksum", "--dry-run", "--itemize-changes"))
        differing = transfer(argv, dry_run=True).changes
        if differing:
            shown = ", ".join(line.split(" ", 1)[-1].strip() for line in differing[:_SHOWN])
            raise BackendError(f"the copy of {item.path} differs in {len(differing)} file(s): {shown}.", hint="Find the process that writes to it.")

    def _argv(self, item: Item, source: str, target: str, more: t.Sequence[str]) -> list[str]:
        how = [] if item.kind == "dir" else ["--inplace"]
        limit = [f"--bwlimit={self._limit}"] if self._limit else []
        info = [] if "--dry-run" in more else ["--info=progress2,stats2"]
        # -s: the path is not expanded by the remote shell
        return ["rsync", *FLAGS, "-s", *how, *limit, *info, "--stats", "--outbuf=L", *more, "-e", " ".join(self._ssh), source, target]

    @staticmethod
    def _local(item: Item) -> str:
        return f"{item.path}/" if item.kind == "dir" else item.path

    def _remote(self, item: Item, path: str) -> str:
        return f"{self._host}:{path}/" if item.kind == "dir" else f"{self._host}:{path}"
