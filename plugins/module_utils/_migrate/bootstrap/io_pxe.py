# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wire on which a bootstrap system is served and reached: a systemd unit with a network namespace, and a card between it and a bridge.

Nothing of the host's own network changes, no port of it is used, and its packet filter has no part in it.
Namespace and card go with the unit, however that ends.
"""

from __future__ import annotations

import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_SETTLE = 10.0


def start(unit: str, argv: t.Sequence[str], description: str) -> None:
    """Start a unit in a network namespace of its own.

    :raises CommandError: systemd refuses.
    """
    run(["systemctl", "reset-failed", unit], ok=range(256))
    run(["systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--description={description}", "--property=PrivateNetwork=yes", "--", *argv])


def stop(unit: str, outer: str) -> None:
    """End the unit and take its card away; one that does not run is fine.

    :arg outer: the card's end on the bridge: the kernel takes its time to clear a namespace away.
    """
    run(["systemctl", "stop", unit], ok=range(256), timeout=60)
    run(["ip", "link", "delete", "dev", outer], ok=range(256), timeout=60)


def process(unit: str) -> int | None:
    """The process that holds the namespace, ``None`` while the unit does not run.

    :raises BackendError: systemd gave it no namespace of its own.
    """
    done = run(["systemctl", "show", "--property=MainPID,ActiveState", "--", unit], ok=range(256))
    told = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    number = int(told.get("MainPID") or 0)
    if not number or told.get("ActiveState") != "active":
        return None
    until = time.monotonic() + _SETTLE
    while _network(number) == _network(1):
        # between the fork and the program itself
        if time.monotonic() > until:
            raise BackendError(f"{unit} has no network of its own.", hint="Look whether systemd may make network namespaces on this host.")
        time.sleep(0.05)
    return number


def _network(number: int) -> str:
    try:
        return os.readlink(f"/proc/{number}/ns/net")
    except OSError as error:
        raise BackendError(f"The process {number} is gone: {error.strerror}.", hint="Look at the log of its unit.") from error


def inside(number: int, argv: t.Sequence[str]) -> list[str]:
    """A command line that runs in the namespace of a process."""
    return ["nsenter", "--target", str(number), "--net", "--", *argv]


def connect(number: int, bridge: str, inner: str, outer: str, mac: str, address: str, prefix: int) -> None:
    """Lay the wire: a card in the namespace, its other end a port of the bridge. What lies of it is taken as it is.

    :arg inner: name of the card in there, ``outer`` of its other end, with the MAC ``mac``.
    :arg address: of the card in there.
    """
    if run(inside(number, ["ip", "link", "show", "dev", inner]), ok=range(256)).rc:
        # of a namespace that is about to go
        run(["ip", "link", "delete", "dev", outer], ok=range(256))
        # a bridge's MTU is that of its smallest port
        mtu = pathlib.Path("/sys/class/net", bridge, "mtu").read_text(encoding="ascii").strip()
        ends = ["ip", "link", "add", "name", outer, "address", mac, "mtu", mtu, "type", "veth", "peer", "name", inner, "mtu", mtu, "netns", str(number)]
        run(ends, timeout=30)
    run(["ip", "link", "set", "dev", outer, "master", bridge, "up"], timeout=30)
    run(inside(number, ["ip", "address", "replace", f"{address}/{prefix}", "dev", inner]), timeout=30)
    run(inside(number, ["ip", "link", "set", "dev", "lo", "up"]), timeout=30)
    run(inside(number, ["ip", "link", "set", "dev", inner, "up"]), timeout=30)
