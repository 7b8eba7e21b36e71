# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The key ``standby`` of VM details: the server that gets copies of the VM's disks."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, number
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_bool, parse_name

KEYS = ("server", "interval", "copies", "automatic")
DEFAULT_INTERVAL, LEAST_INTERVAL, MOST_INTERVAL = 900, 10, 7 * 24 * 3600
DEFAULT_COPIES, MOST_COPIES = 2, 30
#: Disks of the VM's size that the standby needs: one full copy, and the disk with which the VM is started.
SPACE_FACTOR = 2


class Standby(t.NamedTuple):
    """``interval`` is in seconds, ``copies`` the number of copies that are kept; ``automatic``: the standby starts the VM by itself."""

    server: str
    interval: int
    copies: int
    automatic: bool = False


def parse_standby(value: t.Any, path: str, hypervisor: str, disks: t.Sequence[t.Any]) -> Standby | None:
    """Parse the name of a server, or a mapping with it; ``None`` without a value."""
    if value is None or value == "":
        return None
    entry = value if isinstance(value, t.Mapping) else {"server": value}
    check_known(entry, KEYS, path, "Write the name of a server, or {server: metal2, interval: 900, copies: 2, automatic: false}.")
    if entry.get("server") in (None, ""):
        raise InputError("is missing.", f"{path}.server", "Set the name of another server with the role virt.")
    found = Standby(
        server=parse_name(entry["server"], f"{path}.server" if isinstance(value, t.Mapping) else path),
        interval=number(entry.get("interval"), DEFAULT_INTERVAL, LEAST_INTERVAL, MOST_INTERVAL, f"{path}.interval"),
        copies=number(entry.get("copies"), DEFAULT_COPIES, 1, MOST_COPIES, f"{path}.copies"),
        automatic=parse_bool(entry.get("automatic") or False, f"{path}.automatic"),
    )
    if hypervisor == "lxc":
        raise InputError(
            "is not supported for containers: libvirt has no copy of a folder at one point in time.", path, "Remove it, or use another hypervisor type."
        )
    shared = next((index for index, disk in enumerate(disks) if disk.shareable), None)
    if shared is not None:
        raise InputError(f"is not supported for a VM with a shared disk (disks[{shared}]).", path, "Remove it, or make the disk of this VM its own.")
    if not disks:
        raise InputError("is not useful for a VM without disks.", path, "Remove it; such a VM can be created again on any server.")
    return found


def servers_error(standby: Standby, here: str | None, roles: t.Mapping[str, t.Collection[str]], path: str) -> InputError | None:
    """Return the error of a standby that is not another server with the role virt, else ``None``.

    :arg here: the server of the VM, ``None`` if it has none yet.
    :arg roles: server → roles.
    """
    others = ", ".join(sorted(name for name, has in roles.items() if "virt" in has and name != here)) or "none, add a server"
    if standby.server not in roles:
        return InputError(f"{standby.server!r} is not a server.", path, f"Use one of {others}.")
    if "virt" not in roles[standby.server]:
        return InputError(f"server {standby.server} does not have the role virt, so it cannot start the VM.", path, f"Use one of {others}.")
    if standby.server == here:
        return InputError(f"{here} is the server of the VM itself; its copies would be lost with it.", path, f"Use one of {others}.")
    return None
