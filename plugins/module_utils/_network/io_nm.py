# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the NetworkManager profiles of the links that will be changed."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._network import io_nm_checkpoint
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Link
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_nm import NmProfile, NmState

_LIST = ("UUID", "NAME", "TYPE", "DEVICE", "FILENAME", "AUTOCONNECT", "AUTOCONNECT-PRIORITY")
#: Settings that move to the device that takes over the addresses of a link.
_SETTINGS = ("connection.interface-name", "connection.zone", "connection.metered", "connection.mdns", "connection.llmnr", "ipv4", "ipv6")
#: Default values of profile settings.
_USUAL = {
    "-1": ("mdns", "llmnr", "route-metric", "replace-local-rule", "required-timeout", "dad-timeout", "auto-route-ext-gw", "ip6-privacy"),
    "0": ("dns-priority", "route-table", "dhcp-timeout", "ra-timeout", "link-local"),
    "0x0": ("dhcp-hostname-flags",),
    "auto": ("mtu",),
    "no": ("ignore-auto-routes", "ignore-auto-dns", "never-default"),
    "unknown": ("metered",),
    "yes": ("dhcp-send-hostname", "may-fail"),
}
#: The dispatcher that runs ifupdown's scripts under Debian's NetworkManager, and the script that detaches a link from its bond.
_DISPATCHER = "/etc/NetworkManager/dispatcher.d/01-ifupdown"
_IFENSLAVE = "/etc/network/if-post-down.d/ifenslave"
_BINDING = "connection.interface-name"
#: Folder of profiles that do not survive a reboot.
_VOLATILE = "/run/"


def profiles(links: t.Mapping[str, Link], names: t.Sequence[str]) -> NmState:
    """Return the active profiles of the links and their ports; links without a profile are omitted."""
    wanted = set(names) | {port for name in names if name in links for port in links[name].ports}
    listed = run(["nmcli", "--terse", "--escape", "yes", "--fields", ",".join(_LIST), "connection", "show"], timeout=30).stdout
    found: dict[str, NmProfile] = {}
    in_use: dict[str, bool] = {}
    for line in listed.splitlines():
        row = dict(zip(_LIST, fields(line)))
        in_use[row["NAME"]] = in_use.get(row["NAME"], False) or bool(row["DEVICE"])
        if row["DEVICE"] in wanted:
            found[row["DEVICE"]] = _profile(row)
    detaching = all(os.path.isfile(path) and os.access(path, os.X_OK) for path in (_DISPATCHER, _IFENSLAVE))
    return NmState(found, in_use, io_nm_checkpoint.__loader__.get_source(io_nm_checkpoint.__name__), _IFENSLAVE if detaching else None)


def fields(line: str) -> list[str]:
    r"""Split a terse line at its colons; a colon inside a field is escaped as ``\:``."""
    return [re.sub(r"\\(.)", r"\1", field) for field in re.findall(r"(?:^|:)((?:\\.|[^\\:])*)", line)]


def settings(text: str) -> dict[str, str]:
    """Return the settings of a profile that differ from the defaults, by name."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value for key, unused, value in pairs if value and key.partition(".")[2] not in _USUAL.get(value, ())}


def _profile(row: t.Mapping[str, str]) -> NmProfile:
    output = run(["nmcli", "--terse", "--escape", "no", "--fields", ",".join(_SETTINGS), "connection", "show", "uuid", row["UUID"]], timeout=30).stdout
    values = settings(output)
    return NmProfile(
        uuid=row["UUID"],
        name=row["NAME"],
        kind=row["TYPE"],
        bound=values.get(_BINDING) == row["DEVICE"],
        saved=not row["FILENAME"].startswith(_VOLATILE),
        autoconnect=row["AUTOCONNECT"] == "yes",
        priority=int(row["AUTOCONNECT-PRIORITY"] or 0),
        settings={key: value for key, value in values.items() if key != _BINDING},
    )
