# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supervisor process of a machine.

It boots the machine, attaches its port to the bridge, boots it again after a reboot, and removes all its resources at the end.
SIGTERM: clean shutdown. SIGUSR1: power loss.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from . import cgroups, loops, machines, network, procs
from .say import run, say
from .settings import Lab, Machine, current

REBOOT = 133  # systemd-nspawn --keep-unit: the machine asked to be started again


class Supervisor:
    def __init__(self, lab: Lab, machine: Machine) -> None:
        self.lab = lab
        self.machine = machine
        self.nspawn: subprocess.Popen | None = None
        self.group = lab.unit(machine.name)
        self.ending = False
        self.cutting = False

    def on_signal(self, number: int, _frame: object) -> None:
        self.ending = True
        if number == signal.SIGUSR1:
            self.cutting = True
            self._cut()
        elif self.nspawn:
            self.nspawn.send_signal(signal.SIGTERM)

    def _cut(self) -> None:
        # Repeat until no process is left: new ones may be started between two kills.
        groups = cgroups.find(self.group)
        for unused in range(50):
            pids = cgroups.processes(groups)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not pids:
                return

    def boot_once(self) -> int:
        say(f"power on: {self.machine.name}")
        self.clear()
        groups = cgroups.make(self.group)
        console = self.lab.state / "log" / f"{self.machine.name}-console.log"
        with open(console, "ab") as stream:
            self.nspawn = subprocess.Popen(machines.nspawn(self.lab, self.machine), stdin=subprocess.DEVNULL,
                                           stdout=stream, stderr=stream, start_new_session=True,
                                           preexec_fn=lambda: cgroups.enter(groups))
        if self.ending:
            self.nspawn.send_signal(signal.SIGTERM)
        self.plug()
        code = self.nspawn.wait()
        self.nspawn = None
        procs.forget(self.lab, f"{self.machine.name}-init")
        say(f"{self.machine.name} ended with code {code}")
        self.clear()
        return code

    def plug(self) -> None:
        """Attach the machine's port to the bridge, and set its MAC address."""
        nic = self.lab.host_nic(self.machine.name)
        deadline = time.monotonic() + 20
        while self.nspawn.poll() is None and time.monotonic() < deadline:
            leader = self._leader()
            if leader and os.path.exists(f"/sys/class/net/{nic}"):
                inside = ["nsenter", f"--net=/proc/{leader}/ns/net", "ip", "link", "set", "dev", self.machine.nic]
                if run([*inside, "address", self.machine.mac], check=False).returncode == 0:
                    network.attach(self.lab, nic)
                    procs.note(self.lab, f"{self.machine.name}-init", pid=leader)
                    return
            time.sleep(0.02)
        say(f"{self.machine.name}: its port {nic} did not appear")

    def _leader(self) -> int | None:
        """Return the pid of the machine's init: a child of nspawn in another pid namespace."""
        pid = self.nspawn.pid
        try:
            mine = os.readlink("/proc/self/ns/pid")
            for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                if os.readlink(f"/proc/{child}/ns/pid") != mine:
                    return int(child)
        except OSError:
            pass
        return None

    def clear(self) -> None:
        """Remove processes, groups, port and loop devices of an earlier boot."""
        cgroups.kill(self.group)
        nic = self.lab.host_nic(self.machine.name)
        if os.path.exists(f"/sys/class/net/{nic}"):
            run(["ip", "link", "del", nic], check=False)
        if self.machine.kind == "server":
            home = machines.home(self.lab, self.machine)
            loops.release(home / "libvirt", [home / "root"])
        shutil.rmtree(f"/run/systemd/nspawn/propagate/{self.group}", ignore_errors=True)

    def main(self) -> int:
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self.on_signal)
        procs.note(self.lab, self.machine.name)
        code = REBOOT
        while code == REBOOT and not self.ending:
            code = self.boot_once()
        say(f"power off: {self.machine.name}")
        procs.forget(self.lab, self.machine.name)
        return 0


if __name__ == "__main__":
    _lab = current()
    sys.exit(Supervisor(_lab, _lab.machine(sys.argv[1])).main())
