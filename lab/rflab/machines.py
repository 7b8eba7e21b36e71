# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated machines: file systems and power control."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import signal
import socket
import stat
import sys
import time

from . import cgroups, files, images, loops, procs
from .awkward import plant
from .say import LabError, run
from .settings import LOOPS, MIRROR_PORT, Lab, Machine


# Device nodes for virtualization: node, path in the machine, numbers. There is no /dev/kvm.
DEVICES = [("tun", "net/tun", stat.S_IFCHR, 10, 200), ("fuse", "fuse", stat.S_IFCHR, 10, 229),
           ("loop-control", "loop-control", stat.S_IFCHR, 10, 237),
           *((f"loop{n}", f"loop{n}", stat.S_IFBLK, 7, n) for n in range(LOOPS))]


def home(lab: Lab, machine: Machine) -> pathlib.Path:
    return lab.state / machine.name


def root(lab: Lab, machine: Machine) -> pathlib.Path:
    return home(lab, machine) / "root"


def create(lab: Lab, machine: Machine, cache: images.Cache) -> None:
    """Create and mount the file systems of a machine."""
    base = home(lab, machine)
    base.mkdir()
    if machine.kind == "server":
        _create_server(lab, machine, cache, base)
    else:
        _create_laptop(lab, machine, cache, base)
    _host_keys(lab, machine)


def _create_server(lab: Lab, machine: Machine, cache: images.Cache, base: pathlib.Path) -> None:
    for name in ("upper", "work", "root", "libvirt", "dev"):
        (base / name).mkdir()
    # Separate nodes: its init sets their modes, which must not change those of the host.
    run(["mount", "-t", "tmpfs", "-o", "mode=755", f"rflab-{machine.name}", str(base / "dev")])
    for name, unused, kind, major, minor in DEVICES:
        os.mknod(base / "dev" / name, kind | 0o600, os.makedev(major, minor))
    run(["mount", "-t", "overlay", f"rflab-{machine.name}", "-o",
         f"lowerdir={cache.base},upperdir={base}/upper,workdir={base}/work", str(base / "root")])
    top = base / "root"
    # Guests' disks are on a plain file system: sparse, and without copy-up.
    (top / "var/lib/libvirt").mkdir()
    run(["mount", "--bind", str(base / "libvirt"), str(top / "var/lib/libvirt")])
    words = lab.words(machine)
    files.lay("debian", top, words)
    files.lay("server", top, words)
    if cgroups.old_layout():
        files.lay("server-cgroup-v1", top, words)
    _admit(top)


def _create_laptop(lab: Lab, machine: Machine, cache: images.Cache, base: pathlib.Path) -> None:
    for name in ("root.img", "srv.img"):
        run(["cp", "--sparse=always", "--reflink=auto", str(cache.laptop / name), str(base / name)])
    top = base / "root"
    top.mkdir()
    for image, point in (("root.img", top), ("srv.img", top / "srv")):
        # keep the defaults: options like barrier=0 would hide the effects of a power cut
        run(["mount", "-t", "ext4", loops.attach(base / image), str(point)])
    words = lab.words(machine)
    files.lay("debian", top, words)
    files.lay("laptop", top, words)
    _admit(top)
    plant(top)


def _admit(top: pathlib.Path) -> None:
    (top / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    files.put(top, "root/.ssh/authorized_keys", images.public_key(), 0o600)
    files.put(top, "etc/machine-id", os.urandom(16).hex() + "\n", 0o444)


def _host_keys(lab: Lab, machine: Machine) -> None:
    """Create the machine's ssh host key, and add it to the lab's known_hosts."""
    key = root(lab, machine) / "etc/ssh/ssh_host_ed25519_key"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", machine.name, "-f", str(key)])
    public = " ".join(key.with_suffix(".pub").read_text().split()[:2])
    with open(lab.state / "known_hosts", "a", encoding="ascii") as stream:
        # that of an old machine after its own address has moved
        addresses = [machine.address] if machine.kind == "server" else [machine.address, str(ipaddress.IPv4Address(machine.address) + 1)]
        stream.write(f"{','.join([machine.name, *addresses])} {public}\n")


def nspawn(lab: Lab, machine: Machine) -> list[str]:
    """Return the command that boots a machine."""
    argv = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", f"--directory={root(lab, machine)}",
            f"--machine={lab.unit(machine.name)}", f"--hostname={machine.name}", "--console=pipe",
            f"--network-veth-extra={lab.host_nic(machine.name)}:{machine.nic}", "--capability=all",
            "--resolv-conf=off", "--timezone=off", "--link-journal=no"]
    if machine.kind == "server":
        argv += [f"--bind={home(lab, machine)}/dev/{name}:/dev/{path}" for name, path, *unused in DEVICES]
    return argv


def is_on(lab: Lab, machine: Machine) -> bool:
    return procs.alive(lab, machine.name) is not None


def start(lab: Lab, machine: Machine) -> None:
    if is_on(lab, machine):
        raise LabError(f"{machine.name} is already on")
    if not os.path.ismount(root(lab, machine)):
        raise LabError(f"{machine.name} has no mounted root", "run: lab/lab up")
    procs.forget(lab, machine.name)
    procs.launch(lab, machine.name, ["rflab.supervise", machine.name], delegate=True)
    procs.wait_alive(lab, machine.name)


def stop(lab: Lab, machine: Machine) -> None:
    """Shut down a machine cleanly, and wait."""
    if not procs.stop(lab, machine.name, signal.SIGTERM, patience=120):
        raise LabError(f"{machine.name} is already off")


def cut(lab: Lab, machine: Machine) -> None:
    """Cut the power: all processes of the machine are killed at once."""
    if not is_on(lab, machine):
        raise LabError(f"{machine.name} is already off")
    os.kill(procs.known(lab, machine.name)["pid"], signal.SIGUSR1)
    _wait_off(lab, machine)


def reboot(lab: Lab, machine: Machine) -> None:
    """Ask the machine's init to restart it; returns when the machine is shutting down."""
    leader = procs.known(lab, f"{machine.name}-init").get("pid")
    if not is_on(lab, machine) or not leader:
        raise LabError(f"{machine.name} is off", f"run: lab/lab start {machine.name}")
    os.kill(leader, signal.SIGINT)
    deadline = time.monotonic() + 120
    while procs.known(lab, f"{machine.name}-init").get("pid") == leader:
        if time.monotonic() > deadline:
            raise LabError(f"{machine.name} does not shut down; see {lab.state}/log/{machine.name}-console.log")
        time.sleep(0.1)


def _wait_off(lab: Lab, machine: Machine, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while is_on(lab, machine):
        if time.monotonic() > deadline:
            raise LabError(f"{machine.name} does not power off")
        time.sleep(0.05)


def answers(machine: Machine, port: int = 22) -> bool:
    """Return whether a service on the machine's address accepts connections; ssh must send its banner."""
    try:
        with socket.create_connection((machine.address, port), timeout=1) as connection:
            connection.settimeout(2)
            return connection.recv(4).startswith(b"SSH") if port == 22 else True
    except OSError:
        return False


def wait_ready(lab: Lab, machine: Machine, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    ports = (22,) if machine.kind == "server" else (22, 3306, 8080)
    for port in ports:
        while not answers(machine, port):
            if not is_on(lab, machine):
                raise LabError(f"{machine.name} powered off while booting; see {lab.state}/log/{machine.name}-console.log")
            if time.monotonic() > deadline:
                raise LabError(f"{machine.name} does not answer on {machine.address}:{port} after {seconds:.0f} s; "
                               f"see {lab.state}/log/{machine.name}-console.log")
            time.sleep(0.1)


def check_reach(lab: Lab, machine: Machine, master: bool) -> None:
    """Check that a machine reaches the mirror, and the master if there is one.

    :raises LabError: this host's firewall blocks the connection.
    """
    leader = procs.known(lab, f"{machine.name}-init").get("pid")
    inside = ["nsenter", f"--net=/proc/{leader}/ns/net", sys.executable, "-c",
              "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)"]
    places = [("the lab's mirror", lab.host_address, MIRROR_PORT, "INPUT", f"-i {lab.bridge}")]
    if master:
        places.append(("the master", f"{lab.net}.2", 8080, "FORWARD", f"-i {lab.bridge} -o {lab.bridge}"))
    for what, address, port, chain, match in places:
        if run([*inside, address, str(port)], check=False).returncode != 0:
            raise LabError(f"{machine.name} cannot reach {what} at {address}:{port}; this host's firewall may block {lab.bridge}",
                           f"allow it, for example: iptables -I {chain} {match} -j ACCEPT")
