# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate lab for every gate that needs one.

Its name is derived from the gate and the checkout, and its network is free on this machine. So there are no conflicts with a running
demo, other labs, or gates of another checkout.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import os
import pathlib
import subprocess
import sys
import typing as t

import workspace
from engine import Gate, Step

sys.path.insert(0, str(workspace.ROOT / "lab"))

from rflab import network, registry  # noqa: E402
from rflab.settings import Lab  # noqa: E402

COMMAND = str(workspace.ROOT / "lab" / "lab")
#: Ranges to search for a free network: first a range that the documentation does not use, then all private networks.
RANGES = tuple(ipaddress.IPv4Network(text) for text in ("10.192.0.0/12", "172.16.0.0/12", "192.168.0.0/16", "10.0.0.0/8"))


class NoNetwork(Exception):
    """Every private network is in use."""


def name(gate: str, root: pathlib.Path = workspace.ROOT) -> str:
    """Return the name of a gate's lab: at most 15 characters, the same in every run of this checkout."""
    return f"{gate[:8]}-{hashlib.sha256(str(root).encode()).hexdigest()[:6]}"


def choose(lab: str, taken: t.Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """Return a /24 that overlaps nothing in ``taken``.

    The search starts at a position that depends on the name, so that concurrent runs of two checkouts rarely choose the same network.

    :raises NoNetwork: no network is free.
    """
    used = list(taken)
    for whole in RANGES:
        number = 2 ** (24 - whole.prefixlen)
        first = int.from_bytes(hashlib.sha256(lab.encode()).digest()[:4], "big")
        blocking = [one for one in used if one.overlaps(whole)]
        if any(whole.subnet_of(one) for one in blocking):
            continue
        for step in range(number):
            found = ipaddress.IPv4Network((int(whole.network_address) + (first + step) % number * 256, 24))
            if not any(found.overlaps(one) for one in blocking):
                return found
    raise NoNetwork("no private /24 is free on this machine")


@dataclasses.dataclass
class GateLab:
    """The lab of one gate."""

    name: str
    cidr: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that select this lab."""
        return {"LAB_NAME": self.name, "LAB_NETWORK": self.cidr} if self.cidr else {"LAB_NAME": self.name}

    def claim(self) -> None:
        """Remove remains of a killed run, and reserve a free network until the lab is released.

        :raises RuntimeError: another run of this gate is running, or the remains cannot be removed.
        """
        with registry.locked():
            other = registry.promises().get(self.name)
            if other and other["pid"] != os.getpid():
                raise RuntimeError(f"process {other['pid']} is already running this gate in this checkout")
            registry.promise(self.name)
        try:
            argv = [COMMAND, "down"]
            down = subprocess.run(argv, env={**os.environ, "LAB_NAME": self.name}, capture_output=True, text=True, check=False, timeout=600)
            if down.returncode:
                raise RuntimeError(f"cannot remove the lab of an earlier run: {down.stderr.strip()}")
            with registry.locked():
                taken = [one for one, _words in network.in_use() + registry.networks(but=self.name)]
                self.cidr = str(choose(self.name, taken))
                registry.promise(self.name, self.cidr)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the reserved network."""
        with registry.locked():
            registry.withdraw(self.name)
        self.cidr = ""


def with_lab(gate: Gate) -> Gate:
    """Return the gate with a separate lab: every step finds its name and network in LAB_NAME and LAB_NETWORK.

    The lab is only started by a step, and removed when the gate ends.
    """
    lab = GateLab(name(gate.name))

    def inside(step: Step) -> Step:
        return dataclasses.replace(step, env={**lab.environment, **step.env})

    def steps() -> t.Iterator[Step]:
        lab.claim()
        for step in gate.steps():
            yield inside(step)

    def cleanup() -> t.Iterator[Step]:
        for step in gate.cleanup():
            yield inside(step)
        if lab.cidr:
            yield Step([COMMAND, "down"], workspace.ROOT, env=lab.environment)
            lab.release()

    return dataclasses.replace(gate, steps=steps, cleanup=cleanup)


def state(gate: str) -> pathlib.Path:
    """Return the directory of a gate's lab."""
    return Lab(name(gate), "").state
