# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A lab of its own for every gate that needs one.

Its name tells the gate and the checkout, its network is one that nothing on this
machine touches. So a demo that runs, a lab somebody keeps up, or the gates of
another checkout neither stop a gate nor are stopped by it.
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
#: Where a gate's network is looked for: away from the ones the documentation names, then wherever private networks are.
RANGES = tuple(ipaddress.IPv4Network(text) for text in ("10.192.0.0/12", "172.16.0.0/12", "192.168.0.0/16", "10.0.0.0/8"))


class NoNetwork(Exception):
    """Every private network is in use."""


def name(gate: str, root: pathlib.Path = workspace.ROOT) -> str:
    """The name of a gate's lab: at most 15 characters, the same in every run of this checkout."""
    return f"{gate[:8]}-{hashlib.sha256(str(root).encode()).hexdigest()[:6]}"


def choose(lab: str, taken: t.Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """A /24 that overlaps nothing in ``taken``.

    Each name begins its search elsewhere, so that a route that appears a moment
    later, as those of two checkouts do, seldom meets it.

    :raises NoNetwork: none is left.
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
    """The lab of one gate, from its claim to its end."""

    name: str
    cidr: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """What makes ``lab/lab`` and everything that asks the lab's settings mean this lab."""
        return {"LAB_NAME": self.name, "LAB_NETWORK": self.cidr} if self.cidr else {"LAB_NAME": self.name}

    def claim(self) -> None:
        """Clear what a killed run left and keep a free network until the lab is released.

        :raises RuntimeError: another run of this gate is under way, or the remains cannot be cleared.
        """
        with registry.locked():
            other = registry.promises().get(self.name)
            if other and other["pid"] != os.getpid():
                raise RuntimeError(f"process {other['pid']} runs this gate in this checkout now")
            registry.promise(self.name)
        try:
            argv = [COMMAND, "down"]
            down = subprocess.run(argv, env={**os.environ, "LAB_NAME": self.name}, capture_output=True, text=True, check=False, timeout=180)
            if down.returncode:
                raise RuntimeError(f"what an earlier run left cannot be cleared: {down.stderr.strip()}")
            with registry.locked():
                taken = [one for one, _words in network.in_use() + registry.networks(but=self.name)]
                self.cidr = str(choose(self.name, taken))
                registry.promise(self.name, self.cidr)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Others may have the network now."""
        with registry.locked():
            registry.withdraw(self.name)
        self.cidr = ""


def with_lab(gate: Gate) -> Gate:
    """The gate with a lab of its own: every step finds its name and network in LAB_NAME and LAB_NETWORK.

    The lab is up only if a step brings it up, and is down when the gate ends.
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
            yield Step([COMMAND, "down"], workspace.ROOT, env=lab.environment, timeout=180)
            lab.release()

    return dataclasses.replace(gate, steps=steps, cleanup=cleanup)


def state(gate: str) -> pathlib.Path:
    """The directory of a gate's lab."""
    return Lab(name(gate), "").state
