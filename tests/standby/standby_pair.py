# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers of the lab, a counting machine on the first, and its copies on the second."""

from __future__ import annotations

import pathlib
import struct
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "move")]

from move_pair import POOL, Refused, Server, eventually  # noqa: E402, F401  # pylint: disable=unused-import
from rflab.settings import current  # noqa: E402

CLUSTER = "standbys"
VM = "m1"
HOME = "/var/lib/reduced.footprint/standby"
COPIES = "/var/lib/reduced.footprint/standby-copies"
UNIT = f"reduced-footprint-standby-{VM}"
# runs on a server: appends a line for each sample in which the VM runs there, five times a second
SAMPLER = f"""
import subprocess, sys, time
while True:
    said = subprocess.run(["virsh", "-q", "domstate", "{VM}"], capture_output=True, text=True).stdout.strip()
    with open("/root/samples", "a") as out:
        out.write(f"{{time.time():.2f}} {{said or 'gone'}}\\n")
    time.sleep(0.2)
"""
# the same without libvirt, whose answers may take longer than a sample
PROCESSES = """
import glob, time
while True:
    found = "gone"
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().split(b"\\0")
        except OSError:
            continue
        if b"qemu" in words[0] and b"-uuid" in words:
            found = "running"
    with open("/root/samples", "a") as out:
        out.write(f"{time.time():.2f} {found}\\n")
    time.sleep(0.2)
"""
# runs on the server of the VM: kills the worker as soon as its journal is in a phase
KILLER = f"""
import json, subprocess, sys, time
phase, until = sys.argv[1], time.monotonic() + 120
while time.monotonic() < until:
    try:
        now = json.load(open("{HOME}/{VM}/journal.json"))
    except (OSError, ValueError):
        now = {{}}
    if now.get("state") == "running" and now["phase"] == phase:
        print(subprocess.run(["systemctl", "kill", "--kill-who=all", "--signal=KILL", "{UNIT}.service"]).returncode, flush=True)
        break
    time.sleep(0.001)
"""


def machine(form: str = "qcow2", size: str = "64MiB", disks: int = 1) -> dict[str, t.Any]:
    """Return the details of the counting machine; its first disk starts from an image."""
    first = {"size": size, "image": "counter", "format": form, "name": f"{VM}-disk0", **({"backing": True} if form == "qcow2" else {})}
    more = [{"size": "32MiB", "format": "raw", "name": f"{VM}-disk{number}"} for number in range(1, disks)]
    return {"id": VM, "cpu": 1, "ram": "32MiB", "hypervisor": "qemu", "nics": [{"bridge": "br-admin"}], "disks": [first, *more]}


class Pair:
    """The server of the VM and its standby."""

    def __init__(self) -> None:
        net = current().net
        self.here, self.there = Server("metal1", f"{net}.11"), Server("metal2", f"{net}.12")

    def define(self, **options: t.Any) -> None:
        """Define and start the machine on the first server."""
        self.here.call("define", {"cluster": CLUSTER, "vms": [machine(**options)], "autostart": True})

    def present(self, *, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Copy the machine to the second server, with the key that the role places."""
        key = self.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "prepared"})["public_key"]
        place = {"name": VM, "cluster": CLUSTER, "purpose": "standby", "state": "present", "public_key": key, "allowed_from": [self.here.address]}
        self.there.call("key", place)
        keys = self.there.ssh("cat", "/etc/ssh/ssh_host_ed25519_key.pub").splitlines()
        standby = {"host": self.there.address, "name": self.there.name, "host_keys": keys}
        given = {"id": VM, "cluster": CLUSTER, "state": "present", "standby": standby, "interval_seconds": 3600, **options}
        return self.here.call("standby", given, check)

    def copy(self, check: bool = True) -> dict[str, t.Any]:
        """Make a copy now; returns its entry on the first server."""
        self.here.ssh("systemctl", "start", f"{UNIT}.service", check=False)
        entry = self.entry(self.here)
        assert not check or entry["state"] == "copied", (entry, self.log())
        return entry

    def entry(self, server: Server) -> dict[str, t.Any]:
        """Return what ``vm_standby_info`` says on a server."""
        found = t.cast("list[dict[str, t.Any]]", server.call("standbys", {"id": VM, "cluster": CLUSTER}))
        # after its release, the first server knows who accepts its key; a server that was its standby before has old copies
        (entry, *unused) = sorted((each for each in found if each["part"] != "ended"), key=lambda each: each["part"] != "source")
        return entry

    def copies(self) -> list[str]:
        """Return the copies on the standby, oldest first."""
        return [each["id"] for each in self.entry(self.there)["copies"]]

    def log(self) -> str:
        """Return the end of the log, for messages."""
        return self.here.ssh(f"tail -20 {HOME}/{VM}/log; journalctl -n 15 --no-pager -u {UNIT}", check=False)

    def start(self, *, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Start the VM from its copy on the standby."""
        return self.there.call("standby", {"id": VM, "cluster": CLUSTER, "state": "started", "source": "metal1", **options}, check)

    def counter(self) -> int:
        """Return the number that the machine has written most recently, from its memory."""
        said = self.here.ssh("virsh", "qemu-monitor-command", "--hmp", VM, "'xp /1xw 0x8000'")
        return int(said.split()[1], 16)


class Trio(Pair):
    """The pair with a witness, the lab's laptop, and management controllers; the cluster starts the machine by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.witness = Server("laptop", f"{current().net}.2")

    def sample(self, server: Server) -> None:
        """Sample the machine on a server."""
        server.ssh("systemctl reset-failed sampler 2>/dev/null; systemd-run --quiet --unit=sampler python3 /root/sampler.py", check=False)

    def split(self, *pairs: tuple[Server, Server]) -> None:
        """Drop all frames between two machines, for each pair."""
        nic = current().host_nic
        both = [each for one, other in pairs for each in ((one.name, other.name), (other.name, one.name))]
        drops = "".join(f'  iifname "{nic(one)}" oifname "{nic(other)}" drop\n' for one, other in both)
        rules = f"table bridge {self._table}\ndelete table bridge {self._table}\n"
        rules += f"table bridge {self._table} {{\n chain forward {{\n  type filter hook forward priority -300;\n{drops} }}\n}}\n"
        subprocess.run(["nft", "-f", "-"], input=rules, encoding="ascii", check=True)

    def join(self) -> None:
        """Remove all cuts."""
        subprocess.run(["nft", "delete", "table", "bridge", self._table], check=False, capture_output=True)

    @property
    def _table(self) -> str:
        return f"rf_standby_{current().bridge.replace('-', '_')}"


def written(server: Server, path: str, form: str = "qcow2") -> tuple[int, int]:
    """Return steps and starts in the second sector of an image."""
    said = server.ssh("qemu-io", "-r", "-U", "-f", form, "-c", "'read -v 512 8'", path)
    line = next(line for line in said.splitlines() if line.startswith("00000200:"))
    return struct.unpack("<II", bytes.fromhex("".join(line.split()[1:9])))


def image(copy_id: str, target: str = "vda") -> str:
    """Return the image of a copy on the standby."""
    return f"{POOL}/standby/{CLUSTER}/{VM}-{copy_id}-{target}.qcow2"


def lab(*arguments: str) -> str:
    """Run a command of the lab."""
    return subprocess.run([str(ROOT / "lab" / "lab"), *arguments], check=True, capture_output=True, text=True).stdout


def sampled(server: Server) -> list[tuple[float, str]]:
    """Return the samples of a server."""
    lines = server.ssh("cat /root/samples 2>/dev/null", check=False).splitlines()
    return [(float(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines if " " in line]
