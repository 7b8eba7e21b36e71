# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control plane that loses machines, links and processes at the same time: three servers, or two and a witness."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import typing as t

import faults
from controllers_lab import SERVERS
from data_disk import DataDisk
from rflab import cgroups, machines, transactions
from support import eventually
from witness_lab import COMPONENTS, DATA, WITNESS, WitnessLab

#: Topology → members with data, witnesses.
TOPOLOGIES: t.Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {"witness": (DATA, (WITNESS,)), "three": (SERVERS, ())}
VOTERS = ("mariadbd", "garbd")
#: Seconds within which all members must serve again, without a person, once all machines and links are back.
RETURN = 180


class ConsistencyLab(WitnessLab):
    """The lab in one topology; faults add up until ``heal`` ends all of them.

    :ivar members: the servers with data.
    :ivar voters: these and the witness.
    """

    def __init__(self, topology: str) -> None:
        super().__init__()
        self.members, self.witnesses = TOPOLOGIES[topology]
        self.voters = (*self.members, *self.witnesses)
        self._disks = {name: DataDisk(self.settings, self.settings.machine(name)) for name in self.members}
        self._cuts: set[tuple[str, str]] = set()
        self._stopped: dict[str, tuple[str, ...]] = {}

    @property
    def account(self) -> transactions.Account:
        """How the clients log in."""
        return transactions.Account("writer", (self.state / "writer-password").read_text(encoding="utf-8").strip(), "footprint")

    def create(self) -> None:
        """Bring up the machines, and give each member a file system for its data."""
        self.connect()
        self.command("down")
        self.command("up", "--servers", str(len(self.members)))
        self.power_off(*self.members, stop=False)
        for name in self.members:
            self._disks[name].create()
        self.power_on(*self.members)

    def deploy(self, messages: bool) -> None:
        """Deploy the database and the way to it, and the message broker if wanted."""
        here = f"{self.net}.1"
        wanted = [name for name in COMPONENTS if (messages or name != "rabbitmq") and (self.witnesses or name != "witness")]
        groups = {"controller": self.members, **({"witness": self.witnesses} if self.witnesses else {})}
        hosts = {WITNESS: {"ansible_host": self.master}} if self.witnesses else {}
        self.write_inventory({"footprint_components": wanted, "galera_allowed": [here], "rabbitmq_allowed": [here, self.master]}, groups, hosts)
        self.deploys()

    # what is served -----------------------------------------------------------------------------------------------------

    def serving(self) -> list[str]:
        """Return the members that serve, with all votes or without some."""
        found = {name: transactions.status(self.account, self.addresses[name]) for name in self.members}
        return [name for name, each in found.items() if transactions.whole(each)]

    def whole(self) -> bool:
        """Whether all members serve, with all votes."""
        return all(transactions.whole(transactions.status(self.account, self.addresses[name]), len(self.voters)) for name in self.members)

    def settled(self) -> bool:
        """Whether all members serve, and have recorded that they have all data of this component on their disks."""
        return self.whole() and all(self._recorded(name) for name in self.members)

    def _recorded(self, name: str) -> bool:
        variable = machines.root(self.settings, self.settings.machine(name)) / "var" / "lib"
        try:
            caught_up = json.loads((variable / "footprint-galera" / "kept.json").read_text(encoding="utf-8"))["caught_up"]
            return bool(caught_up) and f"view_id: {caught_up}\n" in (variable / "mysql" / "gvwstate.dat").read_text(encoding="utf-8")
        except (OSError, ValueError, KeyError):
            return False

    def writer(self) -> str:
        """Return the member that clients at the virtual address write to."""
        return str(self.writer_sql("SELECT @@hostname")[0][0])

    def checksums(self, name: str) -> dict[str, str]:
        """Return the checksum of each table that services have on a member."""
        listing = "SELECT CONCAT('CHECKSUM TABLE `', table_schema, '`.`', table_name, '`;') FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
        listing += " AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
        statements = self.run(name, ["mariadb", "-BN"], stdin=listing)
        return dict(line.split("\t", 1) for line in self.run(name, ["mariadb", "-BN"], stdin=statements).splitlines())

    def log(self, name: str) -> str:
        """Return what the database and the broker of a machine logged; the broker also has a file."""
        units = ("mariadb.service", "footprint-galera-guard.service", "garbd@*.service", "rabbitmq-server.service", "footprint-rabbitmq-guard.service")
        journal = self.run(name, ["journalctl", "--no-pager", *(f"--unit={unit}" for unit in units)], check=False)
        return journal + self.run(name, ["sh", "-c", "tail -n 5000 /var/log/rabbitmq/rabbit@*.log"], check=False)

    # faults -------------------------------------------------------------------------------------------------------------

    def _signal(self, name: str, number: signal.Signals, only: t.Container[str] | None = None) -> None:
        """Send a signal to the processes of a machine that have one of these names, or to all."""
        for pid in cgroups.processes(cgroups.find(self.settings.unit(name))):
            with contextlib.suppress(OSError):
                if only is None or pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() in only:
                    os.kill(pid, number)

    def kill(self, *names: str) -> None:
        """Kill the voting process of machines; systemd starts it again."""
        for name in names:
            self._signal(name, signal.SIGKILL, VOTERS)

    def lose_data(self, *names: str) -> None:
        """Empty the data directory of members: the others have to send all data."""
        script = "systemctl kill --signal=SIGKILL mariadb; systemctl stop mariadb; find /var/lib/mysql -mindepth 1 -delete; systemctl start --no-block mariadb"
        for name in names:
            self.run(name, ["sh", "-ec", script])

    def settle(self) -> None:
        """Wait until all members serve, with all data on their disks."""
        eventually("all members have recorded that they have all data", self.settled, 120)

    def hang(self, *names: str) -> None:
        """Stop the voting process of machines: it keeps its connections."""
        for name in names:
            self._signal(name, signal.SIGSTOP, VOTERS)

    def freeze(self, *names: str) -> None:
        """Stop everything on machines."""
        for name in names:
            self._signal(name, signal.SIGSTOP)

    def resume(self, *names: str) -> None:
        """Continue what was stopped on machines."""
        for name in names:
            self._signal(name, signal.SIGCONT)

    def cut(self, *directions: tuple[str, str]) -> None:
        """Drop all frames from one machine to another, for each direction, also of what is cut already. The clients reach all machines."""
        self._cuts.update(directions)
        faults.cut(self, sorted(self._cuts))

    def connect(self) -> None:
        """Connect all machines again."""
        self._cuts.clear()
        faults.repair(self)

    def power_off(self, *names: str, stop: bool = True) -> None:
        """Power loss, of all of them at the same moment: nothing leaves the machine any more, and its disk has what was synchronised."""
        on = [name for name in names if machines.is_on(self.settings, self.settings.machine(name))]
        for name in on:
            # a machine that boots may have no port yet
            subprocess.run(["ip", "link", "set", self.settings.host_nic(name), "down"], check=False, capture_output=True)
            if stop and name in self._disks:
                self._disks[name].stop()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: machines.cut(self.settings, self.settings.machine(name)), on))
        for name in on if stop else ():
            if name in self._disks:
                self._disks[name].unmount()
                self._disks[name].mount()

    def boot(self, *names: str) -> None:
        """Power on those that are off, without waiting for what they run."""
        for name in names:
            if not machines.is_on(self.settings, self.settings.machine(name)):
                machines.start(self.settings, self.settings.machine(name))

    def heal(self) -> None:
        """End all faults."""
        self.connect()
        self.resume(*self.voters)
        self.boot(*self.voters)

    def restart_lost(self) -> None:
        """Restart the database of members that do not serve, as a person would, and wait for them."""
        for name in set(self.members) - set(self.serving()):
            self.run(name, ["systemctl", "--no-block", "restart", "mariadb.service"], check=False)
        self.returns()

    def returns(self) -> float | None:
        """Return the seconds until all members serve, ``None`` if they do not."""
        try:
            return eventually("all members serve", self.whole, RETURN)
        except AssertionError:
            return None
