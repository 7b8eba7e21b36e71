# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fence around a VM that is not trusted yet: this host may ask it, nobody else can tell it anything.

What a client told a VM that is thrown away afterwards would be lost, so clients are let in only
when all health checks passed. What the VM itself asks of others passes.
"""

from __future__ import annotations

import hashlib

from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import run


def table(name: str) -> str:
    """Name of the table in the host's packet filter; any migration's name makes a legal one."""
    return f"reduced_footprint_{hashlib.sha256(name.encode('utf-8')).hexdigest()[:12]}"


def rules(name: str, mac: str) -> str:
    """The fence as nft reads it: no new connection and no question to a well-known port reaches the card.

    Frames of the host itself do not pass the forward hook of the bridge.
    """
    return (
        # made and deleted first, so that closing a closed fence is no error
        f"table bridge {table(name)}\n"
        f"delete table bridge {table(name)}\n"
        f"table bridge {table(name)} {{\n"
        "  chain forward {\n"
        "    type filter hook forward priority -200; policy accept;\n"
        f"    ether daddr {mac} tcp flags & (fin | syn | rst | ack) == syn drop\n"
        f"    ether daddr {mac} udp dport 1-1023 drop\n"
        "  }\n"
        "}\n"
    )


def close(name: str, mac: str) -> None:
    """Keep clients out; survives the death of the caller.

    :raises CommandError: the host has no nft, or its kernel no filter for bridges.
    """
    run(["nft", "-f", "-"], stdin=rules(name, mac), timeout=30, mend="Install nftables on the destination.")


def open_up(name: str) -> None:
    """Let everybody in; an open fence is fine."""
    run(["nft", "-f", "-"], stdin=f"table bridge {table(name)}\ndelete table bridge {table(name)}\n", timeout=30)
