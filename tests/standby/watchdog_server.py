# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server under QEMU with its own kernel and an emulated hardware watchdog, the i6300esb, in the network of the lab.

The server of a machine that its standby starts by itself; the standby and the witness are servers of the lab.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import threading
import time
import typing as t

HERE = pathlib.Path(__file__).resolve().parent
# behind our own: it has a conftest too
sys.path.append(str(HERE.parent / "network"))

import server as network_server  # noqa: E402
import yaml  # noqa: E402
from rflab.settings import current  # noqa: E402
from server_image import PACKAGES, Image, build  # noqa: E402
from standby_pair import POOL, ROOT, Server, Trio  # noqa: E402

# writes a line about twice a second: whether a guest runs; the host notes when it came, because a server that is reset loses what it has written
SAMPLING = """
import glob, time
out = open("/dev/virtio-ports/samples", "w", buffering=1)
while True:
    found = "gone"
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = open(path, "rb").read().split(b"\\0")
        except OSError:
            continue
        if b"qemu" in words[0] and b"-uuid" in words:
            found = "running"
    out.write(found + "\\n")
    time.sleep(0.4)
"""
SAMPLING_UNIT = (
    "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/usr/bin/python3 /usr/local/lib/sampling.py\nRestart=always\nRestartSec=1\nNice=-10\n"
    "[Install]\nWantedBy=multi-user.target\n"
)
UNITS = "etc/systemd/system"
NETWORK = "etc/systemd/network"


def image() -> Image:
    """Return the image: a server after the role ``virt_host``, because it has no mirror; Debian's kernel for real machines, which has the drivers."""
    wanted = yaml.safe_load((ROOT / "roles" / "virt_host" / "vars" / "Debian.yml").read_text(encoding="utf-8"))
    kernel = {"linux-image-cloud-amd64": "linux-image-amd64"}
    return build("watchdog", [*(kernel.get(each, each) for each in PACKAGES), "apparmor", *wanted["__virt_host_packages"]])


class Link:
    """The port of the server at the bridge of the lab; in the namespace of the lab, so that links are cut in the same way as those of its servers."""

    def __init__(self, name: str) -> None:
        self.port = current().host_nic(name)

    def inside(self, *argv: str) -> list[str]:
        """Return the command line for the namespace of the operator."""
        return list(argv)

    def start(self) -> None:
        """Create the port."""
        self.stop()
        for words in (["tuntap", "add", "dev", self.port, "mode", "tap"], ["link", "set", self.port, "master", current().bridge, "up"]):
            subprocess.run(["ip", *words], check=True)

    def stop(self) -> None:
        """Remove the port."""
        subprocess.run(["ip", "link", "delete", self.port], check=False, capture_output=True)


class Files:
    """What the first boot of the server extracts to its root."""

    addressing = "static"

    def __init__(self, address: str) -> None:
        self.address = address

    def write(self, path: pathlib.Path) -> None:
        """Write the archive."""
        texts = {
            f"{NETWORK}/10-br-admin.netdev": "[NetDev]\nName=br-admin\nKind=bridge\n\n[Bridge]\nSTP=no\nForwardDelaySec=0\n",
            f"{NETWORK}/20-eth0.network": "[Match]\nName=eth0\n\n[Network]\nBridge=br-admin\n",
            f"{NETWORK}/20-br-admin.network": f"[Match]\nName=br-admin\n\n[Network]\nAddress={self.address}/24\n",
            "root/.ssh/authorized_keys": current().key.with_suffix(".pub").read_text(encoding="ascii"),
            "usr/local/lib/sampling.py": SAMPLING,
            f"{UNITS}/sampling.service": SAMPLING_UNIT,
        }
        wanted = f"{UNITS}/multi-user.target.wants"
        links = {f"{wanted}/sampling.service": f"/{UNITS}/sampling.service"}
        links[f"{wanted}/systemd-networkd.service"] = "/lib/systemd/system/systemd-networkd.service"
        links.update({f"{UNITS}/{unit}": "/dev/null" for unit in ("NetworkManager.service", "NetworkManager-wait-online.service", "networking.service")})
        with tarfile.open(path, "w") as tar:
            for name, text in texts.items():
                entry = tarfile.TarInfo(name)
                entry.mode, entry.size = 0o600 if name.endswith("authorized_keys") else 0o644, len(text)
                tar.addfile(entry, io.BytesIO(text.encode()))
            for name, target in links.items():
                entry = tarfile.TarInfo(name)
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                tar.addfile(entry)


class Machine(network_server.Server):
    """The emulated server; ``events`` and ``samples`` are times of the host (Unix seconds) and what happened then."""

    memory = 1536
    # two emulated processors stood still, waiting for each other, on a machine with much other work
    cpus = 1
    kernel = "tsc=reliable"
    wire: t.Any

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        mine = current().machine(name)
        self._address, self._mac = mine.address, mine.mac
        self.samples: list[tuple[float, str]] = []
        self.events: list[tuple[float, str]] = []
        super().__init__(folder, image(), t.cast("t.Any", Link(name)), t.cast("t.Any", Files(mine.address)), current().key)

    @property
    def address(self) -> str:
        return self._address

    def ports(self) -> t.Sequence[tuple[str, str]]:
        return [(self.wire.port, self._mac)]

    def more_options(self) -> t.Sequence[str]:
        port = f"socket,id=samples,path={self.folder / 'samples.sock'},server=on,wait=off"
        return ["-device", "i6300esb", "-action", "watchdog=reset", "-qmp", f"unix:{self.folder / 'qmp.sock'},server=on,wait=off",
                "-chardev", port, "-device", "virtserialport,chardev=samples,name=samples"]  # fmt: skip

    def ssh_options(self) -> list[str]:
        # the first value of an option counts: slow on a machine with other work, and one that hangs does not answer any more
        return ["-o", "ConnectTimeout=30", "-o", "ServerAliveCountMax=6", *super().ssh_options()]

    def power_on(self) -> None:
        super().power_on()
        assert self._process is not None
        # the time limits of its services are those of real servers; its threads inherit this
        os.setpriority(os.PRIO_PROCESS, self._process.pid, -10)
        for name, read in (("samples", self._sample), ("qmp", self._event)):
            connection = self._connect(self.folder / f"{name}.sock")
            if name == "qmp":
                self._qmp = connection
                self.order("qmp_capabilities")
            threading.Thread(target=_lines, args=(connection, read), daemon=True).start()

    def _connect(self, path: pathlib.Path) -> socket.socket:
        until = time.monotonic() + 30
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(path))
                return connection
            except OSError:
                connection.close()
                assert time.monotonic() < until and self._process is not None and self._process.poll() is None, (self.folder / "qemu.log").read_text()
            time.sleep(0.1)

    def order(self, command: str) -> None:
        """Send a command to QEMU."""
        self._qmp.sendall(json.dumps({"execute": command}).encode() + b"\n")

    def _sample(self, line: str) -> None:
        self.samples.append((time.time(), line))

    def _event(self, line: str) -> None:
        found = json.loads(line)
        if "event" in found:
            self.events.append((found["timestamp"]["seconds"] + found["timestamp"]["microseconds"] / 1e6, found["event"]))

    def fired(self, since: float) -> list[float]:
        """Return when the hardware watchdog has reset the server."""
        return [at for at, event in self.events if event == "WATCHDOG" and at > since]

    def resets(self, since: float) -> list[float]:
        """Return when the server was reset, by whatever; QEMU reports one reset twice."""
        return [at for at, event in self.events if event == "RESET" and at > since]


def _lines(connection: socket.socket, read: t.Callable[[str], None]) -> None:
    for line in connection.makefile("r", encoding="utf-8", errors="replace"):
        if line.strip():
            read(line.strip())


class Watched(Server):
    """The same as a server of the move tests, which run the code of modules on it."""

    def __init__(self, name: str, machine: Machine) -> None:
        super().__init__(name, machine.address)
        self.machine = machine

    def ssh(self, *command: str, given: bytes | None = None, check: bool = True) -> str:
        # the code of a module keeps its only processor busy; one that hangs is noticed by other means
        patient = ["-o", "ServerAliveCountMax=50"]
        argv = ["ssh", "-i", str(self.machine.key), *patient, *self.machine.ssh_options(), f"root@{self.address}", *command]
        done = subprocess.run(argv, input=given, stdin=None if given is not None else subprocess.DEVNULL, capture_output=True, check=False, timeout=300)
        assert not check or done.returncode == 0, f"{self.name}: {command}: {done.stdout.decode()} {done.stderr.decode()}"
        return done.stdout.decode(errors="replace")

    def read(self, name: str) -> str:
        """Return an attribute of the watchdog, as the kernel shows it."""
        return self.ssh(f"cat /sys/class/watchdog/watchdog0/{name}", check=False).strip()

    def systemd(self, name: str) -> str:
        """Return a property of systemd."""
        return self.ssh(f"systemctl show --value -p {name}").strip()

    def send(self, command: str) -> float:
        """Send a command without waiting for its end, which may never come; returns the time of the host just before."""
        at = time.time()
        argv = ["ssh", "-f", "-n", "-i", str(self.machine.key), *self.machine.ssh_options(), f"root@{self.address}", command]
        subprocess.run(argv, check=False, timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return at


class Guarded(Trio):
    """The trio whose first server is the emulated one."""

    here: Watched

    def __init__(self, here: Watched) -> None:
        super().__init__()
        self.here = here
        self.watchdog = "required"

    def automatic(self, **options: t.Any) -> dict[str, t.Any]:
        return super().automatic(**{"watchdog": self.watchdog, **options})

    def prepare(self, counter: pathlib.Path) -> None:
        """Define the pool of the first server, with the image of the machine."""
        images = f"{POOL}/images"
        self.here.ssh(f"mkdir -p {images} && cat > {images}/counter.raw && truncate -s 8M {images}/counter.raw", given=counter.read_bytes())
        self.here.ssh(f"virsh -q pool-info default >/dev/null 2>&1 || virsh -q pool-define-as default dir --target {POOL}")
        self.here.ssh("virsh -q pool-autostart default; virsh -q pool-start default", check=False)
