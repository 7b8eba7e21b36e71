# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network on which a bootstrap system is served and reached: the network namespace of a systemd unit, with the card of one VM.

No other machine reaches it. The host's network configuration is unchanged, none of its ports is used, and its packet filter is not
involved. The namespace, with the card's host end, is removed with the unit, for whatever reason it ends.
"""

from __future__ import annotations

import os
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


def stop(unit: str) -> None:
    """Stop the unit; a stopped unit is accepted."""
    run(["systemctl", "stop", unit], ok=range(256), timeout=60)


def process(unit: str) -> int | None:
    """Return the PID of the process that holds the namespace, ``None`` while the unit does not run."""
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


def connected(number: int, tap: str) -> bool:
    """Whether the card's host end is in the namespace of a process."""
    return run(inside(number, ["ip", "link", "show", "dev", tap]), ok=range(256)).rc == 0


def connect(number: int, tap: str, address: str) -> None:
    """Move the card's host end into the namespace of a process, and give it an address with its prefix length."""
    run(["ip", "link", "set", "dev", tap, "netns", str(number)], timeout=30)
    run(inside(number, ["ip", "address", "replace", address, "dev", tap]), timeout=30)
    run(inside(number, ["ip", "link", "set", "dev", "lo", "up"]), timeout=30)
    run(inside(number, ["ip", "link", "set", "dev", tap, "up"]), timeout=30)
