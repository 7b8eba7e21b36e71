# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network on which a bootstrap system is served and reached: a systemd unit with a network namespace, and a veth pair to a bridge.

The host's network configuration is unchanged, none of its ports is used, and its packet filter is not involved.
Namespace and veth pair are removed with the unit, for whatever reason it ends.
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
    """Start a unit in a private network namespace.

    :raises CommandError: systemd does not start it.
    """
    run(["systemctl", "reset-failed", unit], ok=range(256))
    run(["systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--description={description}", "--property=PrivateNetwork=yes", "--", *argv])


def stop(unit: str, outer: str) -> None:
    """Stop the unit and remove its veth pair; a stopped unit is accepted.

    :arg outer: the bridge end of the veth pair, removed explicitly because the kernel removes a namespace with delay.
    """
    run(["systemctl", "stop", unit], ok=range(256), timeout=60)
    run(["ip", "link", "delete", "dev", outer], ok=range(256), timeout=60)


def process(unit: str) -> int | None:
    """Return the PID of the process that holds the namespace, ``None`` while the unit does not run.

    :raises BackendError: the process has no private namespace.
    """
    done = run(["systemctl", "show", "--property=MainPID,ActiveState", "--", unit], ok=range(256))
    properties = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    number = int(properties.get("MainPID") or 0)
    if not number or properties.get("ActiveState") != "active":
        return None
    until = time.monotonic() + _SETTLE
    while _network(number) == _network(1):
        # systemd has forked, but not executed the program yet
        if time.monotonic() > until:
            raise BackendError(f"{unit} has no private network namespace.", hint="Check that systemd may create network namespaces on this host.")
        time.sleep(0.05)
    return number


def _network(number: int) -> str:
    try:
        return os.readlink(f"/proc/{number}/ns/net")
    except OSError as error:
        raise BackendError(f"The process {number} has ended: {error.strerror}.", hint="Check the log of its unit.") from error


def inside(number: int, argv: t.Sequence[str]) -> list[str]:
    """Return a command line that runs in the network namespace of a process."""
    return ["nsenter", "--target", str(number), "--net", "--", *argv]


def connect(number: int, bridge: str, inner: str, outer: str, mac: str, address: str, prefix: int) -> None:
    """Create the veth pair between namespace and bridge; an existing one is reused.

    :arg inner: name of the interface in the namespace; ``outer`` is the bridge end, with the MAC ``mac``.
    :arg address: address of the interface in the namespace.
    """
    if run(inside(number, ["ip", "link", "show", "dev", inner]), ok=range(256)).rc:
        # left by a namespace that is being removed
        run(["ip", "link", "delete", "dev", outer], ok=range(256))
        # a bridge uses the smallest MTU of its ports
        mtu = pathlib.Path("/sys/class/net", bridge, "mtu").read_text(encoding="ascii").strip()
        ends = ["ip", "link", "add", "name", outer, "address", mac, "mtu", mtu, "type", "veth", "peer", "name", inner, "mtu", mtu, "netns", str(number)]
        run(ends, timeout=30)
    run(["ip", "link", "set", "dev", outer, "master", bridge, "up"], timeout=30)
    run(inside(number, ["ip", "address", "replace", f"{address}/{prefix}", "dev", inner]), timeout=30)
    run(inside(number, ["ip", "link", "set", "dev", "lo", "up"]), timeout=30)
    run(inside(number, ["ip", "link", "set", "dev", inner, "up"]), timeout=30)
