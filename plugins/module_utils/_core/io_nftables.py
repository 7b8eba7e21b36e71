# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nftables rules of this host, managed with ``nft``."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

NFT = "/usr/sbin/nft"
_HINT = "Install nftables and a kernel with nf_tables, or set footprint_allow_list to false to disable allow-lists."


class PacketFilter:
    """The nftables packet filter of this host."""

    @staticmethod
    def installed() -> bool:
        """Whether the program ``nft`` is installed."""
        return os.access(NFT, os.X_OK)

    @staticmethod
    def chains() -> dict[str, set[str]]:
        """Table name → names of its chains, for the family ``inet``; empty if ``nft`` is not installed."""
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
        """Check rules with the kernel without loading them.

        :arg path: the file of the rules, for the message.
        """
        try:
            run([NFT, "-c", "-f", "-"], stdin=text, timeout=60)
        except CommandError as error:
            raise BackendError(f"the kernel refuses the allow-list: {error.message}.", path, _HINT) from error

    @staticmethod
    def load(path: str) -> None:
        """Load a rules file as one transaction."""
        run([NFT, "-f", path], timeout=60, hint=_HINT)

    @staticmethod
    def delete(table: str) -> None:
        """Delete a table of the family ``inet``."""
        run([NFT, "delete", "table", "inet", table], timeout=60)


def _json(text: str) -> list[dict[str, t.Any]]:
    try:
        return list(json.loads(text)["nftables"]) if text.strip() else []
    except (ValueError, KeyError, TypeError) as error:
        raise BackendError(f"the output of nft cannot be parsed: {error}.", None, "Update nftables.") from error
