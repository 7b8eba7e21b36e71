# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and routes of a source that is set aside and returns."""

from __future__ import annotations

import contextlib
import json
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_facts import unit_state


def addresses() -> list[dict[str, t.Any]]:
    """All static global addresses: dev, address with its prefix length.

    Addresses from DHCP or a router are not included.
    """
    found = []
    for link in json.loads(run(["ip", "-json", "address", "show"]).stdout or "[]"):
        for each in link.get("addr_info", []):
            if each.get("scope") == "global" and not each.get("dynamic") and each.get("local"):
                found.append({"dev": link["ifname"], "address": f"{each['local']}/{each['prefixlen']}"})
    return found


def upon(cards: t.Iterable[str], sys_class: pathlib.Path = pathlib.Path("/sys/class/net")) -> set[str]:
    """The cards and every VLAN, bridge or bond on top of them."""
    found = set(cards)
    while True:
        above = {each.parent.name for each in sys_class.glob("*/lower_*") if each.name[len("lower_") :] in found} - found
        if not above:
            return found
        found |= above


def drop(wanted: t.Container[str]) -> bool:
    """Remove addresses (without prefix length) from all interfaces; returns whether one was removed."""
    dropped = False
    for each in addresses():
        if each["address"].partition("/")[0] in wanted:
            run(["ip", "address", "del", each["address"], "dev", each["dev"]], ok=range(256))
            dropped = True
    return dropped


def put(address: str, interface: str, *, needed: bool = True) -> None:
    """Add an address with its prefix length to an interface, or keep an existing one; it may fail if it is not needed."""
    run(["ip", "address", "replace", address, "dev", interface], ok=(0,) if needed else range(256))


def keep(wanted: t.Iterable[t.Mapping[str, str]]) -> bool:
    """Restore addresses that a network manager removed; returns whether one was missing.

    systemd-networkd removes the addresses of a card while it reconfigures it, and does not restore them if that fails.
    """
    present = {(each["dev"], each["address"]) for each in addresses()}
    missing = [each for each in wanted if (each["dev"], each["address"]) not in present]
    for each in missing:
        put(each["address"], each["dev"], needed=False)
    return bool(missing)


# states of a next hop and the number of a shared one, which ``ip route replace`` does not accept
_STATES = {"dead", "linkdown", "offload", "offload_failed", "trap", "rt_offload", "rt_trap", "rt_offload_failed"}


def routes() -> list[list[str]]:
    """All routes that the kernel does not create with an address, as arguments of ``ip``; those without a gateway come first.

    Routes from a router and those that expire are not included.
    """
    found = []
    for family in ("-4", "-6"):
        for line in run(["ip", family, "-oneline", "route", "show", "table", "all"], ok=range(256)).stdout.splitlines():
            words = [word for word in line.replace("\\", " ").split() if word not in _STATES]
            pairs = set(zip(words, words[1:]))
            if not words or {("proto", "kernel"), ("proto", "ra"), ("proto", "redirect")} & pairs or {"expires", "error"} & set(words):
                continue
            if "nhid" in words:
                del words[words.index("nhid") : words.index("nhid") + 2]
            found.append([family, "route", "replace", *words])
    # "onlink" or a route to the gateway itself makes a gateway outside the network reachable
    return sorted(found, key=lambda each: "via" in each)


def put_routes(wanted: t.Iterable[t.Sequence[str]]) -> None:
    """Restore routes that were removed with an address; a route whose gateway is not reachable is skipped.

    A route from an address that this machine does not have now continues from the one that it has.
    """
    for each in wanted:
        if run(["ip", *each], ok=range(256)).rc != 0 and "src" in each:
            place = list(each).index("src")
            run(["ip", *each[:place], *each[place + 2 :]], ok=range(256))


def promote_secondaries(interface: str) -> None:
    """Let the kernel keep the other addresses of a network when the primary one is removed."""
    with contextlib.suppress(OSError):
        pathlib.Path(f"/proc/sys/net/ipv4/conf/{interface}/promote_secondaries").write_text("1", encoding="ascii")


def reload_manager() -> None:
    """Let a running network manager reload its changed files, so that it does not restore the old addresses.

    Best effort: the addresses are set directly, and errors must not keep a source from returning.
    """
    commands = {
        "systemd-networkd.service": (["netplan", "generate"], ["networkctl", "reload"]),
        "NetworkManager.service": (["nmcli", "connection", "reload"],),
    }
    for unit, argvs in commands.items():
        if unit_state(unit)["active"] != "active":
            continue
        for argv in argvs:
            with contextlib.suppress(CommandError):
                run(argv, timeout=30)
