# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's packet filter, through ``nft``."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

NFT = "/usr/sbin/nft"
_HINT = "Install nftables and a kernel with nf_tables, or set footprint_allow_list to false to go without allow-lists."


class PacketFilter:
    """The packet filter of this host."""

    @staticmethod
    def installed() -> bool:
        """Whether there is the program."""
        return os.access(NFT, os.X_OK)

    @staticmethod
    def chains() -> dict[str, set[str]]:
        """Table → the names of its chains, of the tables of the family ``inet``; nothing without the program."""
        if not PacketFilter.installed():
            return {}
        found: dict[str, set[str]] = {}
        for entry in _json(run([NFT, "-j", "list", "chains", "inet"], timeout=60, hint=_HINT).stdout):
            chain = entry.get("chain")
            if chain:
                found.setdefault(chain["table"], set()).add(chain["name"])
        return found

    @staticmethod
    def check(text: str, path: str) -> None:
        """Have the kernel look at rules without using them.

        :arg path: the file they are meant for.
        :raises BackendError: it does not take them.
        """
        try:
            run([NFT, "-c", "-f", "-"], stdin=text, timeout=60)
        except CommandError as error:
            raise BackendError(f"the kernel refuses the allow-list: {error.message}.", path, _HINT) from error

    @staticmethod
    def load(path: str) -> None:
        """Use a file, all of it or nothing."""
        run([NFT, "-f", path], timeout=60, hint=_HINT)

    @staticmethod
    def delete(table: str) -> None:
        """Remove a table of the family ``inet``."""
        run([NFT, "delete", "table", "inet", table], timeout=60)


def _json(text: str) -> list[dict[str, t.Any]]:
    try:
        return list(json.loads(text)["nftables"]) if text.strip() else []
    except (ValueError, KeyError, TypeError) as error:
        raise BackendError(f"nft answers what is not understood: {error}.", None, "Update nftables.") from error
