# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of two servers and a witness: cut links in each direction, stopped processes, an interface that flaps, a full disk, a clock, lost power.

The machines are named by what they do when a fault begins: ``holder`` has the virtual address, ``other`` is the other server, ``witness`` has no data.
The clients are on the machine of the lab and reach all three in every fault but that of an interface.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import itertools
import pathlib
import subprocess
import threading
import time
import typing as t

from support import eventually
from witness_lab import WitnessLab

Act = t.Callable[[WitnessLab, t.Mapping[str, str]], None]
MACHINES = ("holder", "other", "witness")
TABLE = "footprint_faults"
DATA_DISK = "/var/tmp/data.img"
DATA = "/var/lib/mysql"
#: Of libfaketime, on the machine of the lab; it reads the offset of the clock from a file, again each second.
FAKETIME = "usr/lib/*/faketime/libfaketimeMT.so.1"
LIBRARY, CLOCK, DROP_IN = "/usr/local/lib/footprint-faketime.so", "/run/footprint-clock", "footprint-clock-fault.conf"
JUMP = 3600


def _nothing(_lab: WitnessLab, _names: t.Mapping[str, str]) -> None:
    pass


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault.

    :arg begin: starts it; gets the lab and the names of the machines.
    :arg end: repairs it.
    :arg seconds: how long it lasts.
    :arg most: longest accepted time without an acknowledged row at the virtual address, ``None`` if there is no limit.
    :arg before: prepares it, before the clients start.
    :arg after: removes what ``before`` made, after the clients ended.
    """

    name: str
    begin: Act
    end: Act
    seconds: float = 40
    most: float | None = None
    before: Act = _nothing
    after: Act = _nothing


# links ------------------------------------------------------------------------------------------------------------------


def cut(lab: WitnessLab, directions: t.Iterable[tuple[str, str]]) -> None:
    """Drop all frames from one machine to another, for each direction."""
    drops = "".join(f'  iifname "{lab.settings.host_nic(one)}" oifname "{lab.settings.host_nic(other)}" drop\n' for one, other in directions)
    table = f"{TABLE}_{lab.settings.bridge.replace('-', '_')}"
    rules = f"table bridge {table}\ndelete table bridge {table}\n"
    rules += f"table bridge {table} {{\n chain forward {{\n  type filter hook forward priority -300;\n{drops} }}\n}}\n"
    subprocess.run(["nft", "-f", "-"], input=rules, encoding="ascii", check=True)


def repair(lab: WitnessLab, _names: t.Mapping[str, str] | None = None) -> None:
    """Remove all cuts."""
    table = f"{TABLE}_{lab.settings.bridge.replace('-', '_')}"
    subprocess.run(["nft", "delete", "table", "bridge", table], check=False, capture_output=True)


def _cut(*directions: tuple[str, str]) -> Act:
    return lambda lab, names: cut(lab, [(names[one], names[other]) for one, other in directions])


def links() -> t.Iterator[Fault]:
    """Yield each link cut in both directions and in each, and each machine cut off from both others."""
    for one, other in itertools.combinations(MACHINES, 2):
        yield Fault(f"no frames between {one} and {other}", _cut((one, other), (other, one)), repair, most=10)
        yield Fault(f"no frames from {one} to {other}", _cut((one, other)), repair, most=10)
        yield Fault(f"no frames from {other} to {one}", _cut((other, one)), repair, most=10)
    for one in MACHINES:
        others = [name for name in MACHINES if name != one]
        yield Fault(f"{one} cut off from both others", _cut(*((one, each) for each in others), *((each, one) for each in others)), repair, most=10)


class Flapping:
    """An interface that goes down and up again."""

    def __init__(self, down: float = 1, up: float = 2) -> None:
        self.down, self.up = down, up
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, lab: WitnessLab, name: str) -> None:
        """Start."""
        self._end.clear()
        self._thread = threading.Thread(target=self._flap, args=(lab.settings.host_nic(name),), daemon=True)
        self._thread.start()

    def _flap(self, nic: str) -> None:
        while not self._end.is_set():
            subprocess.run(["ip", "link", "set", nic, "down"], check=True)
            self._end.wait(self.down)
            subprocess.run(["ip", "link", "set", nic, "up"], check=True)
            self._end.wait(self.up)

    def end(self) -> None:
        """Leave it up."""
        self._end.set()
        if self._thread:
            self._thread.join(timeout=10)


def flaps() -> t.Iterator[Fault]:
    """Yield an interface of each machine that is down for one of three seconds."""
    for one in MACHINES:
        flapping = Flapping()
        yield Fault(
            f"the interface of {one} flaps",
            lambda lab, names, one=one, flapping=flapping: flapping.begin(lab, names[one]),
            lambda _lab, _names, flapping=flapping: flapping.end(),
        )


# processes and machines -------------------------------------------------------------------------------------------------


def _signal(machine: str, unit: str, signal: str) -> Act:
    def send(lab: WitnessLab, names: t.Mapping[str, str]) -> None:
        lab.run(names[machine], ["systemctl", "kill", f"--signal={signal}", unit])

    return send


def daemons() -> t.Iterator[tuple[str, str]]:
    """Yield each machine and unit of the quorum and of the way to it."""
    for machine in ("holder", "other"):
        yield from ((machine, unit) for unit in ("mariadb.service", "rabbitmq-server.service", "haproxy.service", "keepalived.service"))
    yield from (("witness", unit) for unit in ("garbd@lab.service", "rabbitmq-server.service"))


def hangs() -> t.Iterator[Fault]:
    """Yield each daemon stopped by SIGSTOP: it keeps its connections and does not answer."""
    for machine, unit in daemons():
        yield Fault(f"{unit.partition('.')[0].partition('@')[0]} of {machine} hangs", _signal(machine, unit, "STOP"), _signal(machine, unit, "CONT"))


def kills() -> t.Iterator[Fault]:
    """Yield each daemon killed; systemd starts it again."""
    for machine, unit in daemons():
        yield Fault(f"{unit.partition('.')[0].partition('@')[0]} of {machine} killed", _signal(machine, unit, "KILL"), _nothing, 20, most=12)


def power() -> t.Iterator[Fault]:
    """Yield power losses of each machine and of all; they are powered on at the end of the fault."""
    for machine in MACHINES:
        yield Fault(
            f"{machine} loses power",
            lambda lab, names, machine=machine: lab.lose_power(names[machine]),
            lambda lab, names, machine=machine: lab.power_on(names[machine]),
            most=12,
        )
    yield Fault("all lose power", lambda lab, names: lab.lose_power(*names.values()), lambda lab, names: lab.power_on(*names.values()), 5)


# disks ------------------------------------------------------------------------------------------------------------------


def _small_disk(lab: WitnessLab, host: str) -> None:
    """Move the data of a member to a small file system of its own."""
    lab.run(host, ["systemctl", "stop", "mariadb.service"])
    used = int(lab.run(host, ["du", "--summarize", "--block-size=M", DATA]).split("M")[0])
    lab.run(host, ["truncate", f"--size={used + 160}M", DATA_DISK])
    lab.run(host, ["mkfs.ext4", "-q", "-F", DATA_DISK])
    lab.run(host, ["cp", "--archive", DATA, f"{DATA}.whole"])
    lab.run(host, ["mount", "-o", "loop", DATA_DISK, DATA])
    lab.run(host, ["cp", "--archive", f"{DATA}.whole/.", DATA])
    lab.run(host, ["chown", "mysql:mysql", DATA])
    lab.run(host, ["systemctl", "start", "mariadb.service"])


def _fill(lab: WitnessLab, host: str) -> None:
    for size in ("1M", "4k", "512"):
        lab.run(host, ["dd", "if=/dev/zero", f"of={DATA}/filler.{size}", f"bs={size}"], check=False)


def _empty(lab: WitnessLab, host: str) -> None:
    """Free the disk, and start the database if it has given up."""
    lab.run(host, ["rm", "-f", *(f"{DATA}/filler.{size}" for size in ("1M", "4k", "512"))])
    with contextlib.suppress(AssertionError):
        lab.run(host, ["systemctl", "start", "mariadb.service"])


def _whole_disk(lab: WitnessLab, host: str) -> None:
    """Move the data back to the file system of the machine."""
    lab.run(host, ["systemctl", "stop", "mariadb.service"])
    lab.run(host, ["rm", "-rf", f"{DATA}.whole"])
    lab.run(host, ["cp", "--archive", DATA, f"{DATA}.whole"])
    lab.run(host, ["umount", DATA])
    lab.run(host, ["rm", "-rf", DATA, DATA_DISK])
    lab.run(host, ["mv", f"{DATA}.whole", DATA])
    lab.run(host, ["systemctl", "start", "mariadb.service"])


def disks() -> t.Iterator[Fault]:
    """Yield the disk of the database of a member full while rows are written."""
    for machine in ("holder", "other"):
        yield Fault(
            f"the disk of the database of {machine} is full",
            lambda lab, names, machine=machine: _fill(lab, names[machine]),
            lambda lab, names, machine=machine: _empty(lab, names[machine]),
            60,
            before=lambda lab, names, machine=machine: _small_disk(lab, names[machine]),
            after=lambda lab, names, machine=machine: _whole_disk(lab, names[machine]),
        )


# clocks -----------------------------------------------------------------------------------------------------------------


def library() -> pathlib.Path | None:
    """Return the library of the package ``libfaketime`` on this machine, ``None`` if it is missing."""
    return next(pathlib.Path("/").glob(FAKETIME), None)


def _voters(machine: str) -> list[str]:
    """Return the units of a machine that vote."""
    return [unit for one, unit in daemons() if one == machine and unit.startswith(("mariadb.", "garbd@", "rabbitmq-server."))]


def _set_clock(lab: WitnessLab, host: str, offset: int) -> None:
    """Set the offset in seconds; daemons never read a half-written file."""
    lab.run(host, ["sh", "-c", f"cat > {CLOCK}.new && mv {CLOCK}.new {CLOCK}"], stdin=f"{offset:+d}\n")


def _ahead(lab: WitnessLab, host: str) -> float:
    """Return how many seconds the clock of a broker is ahead."""
    tool = ["env", "HOME=/var/lib/rabbitmq", "/usr/lib/rabbitmq/bin/rabbitmqctl", "-q"]
    return int(lab.run(host, [*tool, "eval", "os:system_time(second)."])) - time.time()


def _jump(lab: WitnessLab, host: str) -> None:
    """Jump forward, and make sure of it."""
    _set_clock(lab, host, JUMP)
    eventually(f"the clock of {host} is {JUMP} s ahead", lambda: abs(_ahead(lab, host) - JUMP) < 60, 20)


def _own_clock(lab: WitnessLab, host: str, units: t.Iterable[str]) -> None:
    """Give daemons a clock of their own: the machines of the lab share that of the kernel. Clocks that measure durations remain."""
    found = library()
    assert found, "libfaketime is not installed on the machine of the lab"
    lab.run(host, ["sh", "-c", f"base64 --decode > {LIBRARY}"], stdin=base64.b64encode(found.read_bytes()).decode("ascii"))
    _set_clock(lab, host, 0)
    variables = f"LD_PRELOAD={LIBRARY} FAKETIME_TIMESTAMP_FILE={CLOCK} FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1"
    for unit in units:
        lab.run(host, ["mkdir", "-p", f"/etc/systemd/system/{unit}.d"])
        lab.run(host, ["tee", f"/etc/systemd/system/{unit}.d/{DROP_IN}"], stdin=f"[Service]\nEnvironment={variables}\n")
    try:
        _restart(lab, host, units)
        for unit in units:
            mapped = f'grep -q {LIBRARY} "/proc/$(systemctl show --property=MainPID --value {unit})/maps"'
            eventually(f"{unit} of {host} has its own clock", lambda mapped=mapped: lab.answers(host, ["sh", "-c", mapped]), 20)
    except AssertionError:
        _shared_clock(lab, host, units)
        raise


def _shared_clock(lab: WitnessLab, host: str, units: t.Iterable[str]) -> None:
    """Give daemons the clock of the kernel again."""
    lab.run(host, ["rm", "-f", *(f"/etc/systemd/system/{unit}.d/{DROP_IN}" for unit in units)])
    _restart(lab, host, units)
    lab.run(host, ["sh", "-c", f"rm -f {LIBRARY} {CLOCK} /dev/shm/*faketime_*"])


def _restart(lab: WitnessLab, host: str, units: t.Iterable[str]) -> None:
    lab.run(host, ["systemctl", "daemon-reload"])
    for unit in units:
        lab.run(host, ["systemctl", "restart", unit])


def clocks() -> t.Iterator[Fault]:
    """Yield a clock of each machine that jumps forward by an hour, then back, for its daemons that vote."""
    for machine in MACHINES:
        units = _voters(machine)
        yield Fault(
            f"the clock of {machine} jumps",
            lambda lab, names, machine=machine: _jump(lab, names[machine]),
            lambda lab, names, machine=machine: _set_clock(lab, names[machine], 0),
            most=10,
            before=lambda lab, names, machine=machine, units=units: _own_clock(lab, names[machine], units),
            after=lambda lab, names, machine=machine, units=units: _shared_clock(lab, names[machine], units),
        )


def every() -> list[Fault]:
    """Return all faults."""
    return [*links(), *hangs(), *power(), *flaps(), *kills(), *disks(), *clocks()]
