# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bare servers boot over the network with BIOS and UEFI, and their hardware is compared with what is declared."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import typing as t

import netboot
import pytest

NETWORK = f"198.18.{os.getpid() % 256}"
GIB = 1 << 30
#: Name → firmware, address, MAC and serial number of the disk.
MACHINES = {"legacy": ("bios", f"{NETWORK}.11", "52:54:00:5e:00:01", "DISK-LEGACY"), "modern": ("uefi", f"{NETWORK}.12", "52:54:00:5e:00:02", "DISK-MODERN")}
#: An LLDP frame: the addresses, then chassis, port, lifetime, the name of the system, end.
LLDP = (
    bytes.fromhex("0180c200000e 020000000001 88cc") + bytes.fromhex("0207 04 020000000001") + b"\x04\x0c\x05Ethernet1/3" + bytes.fromhex("0602 0078")
    + b"\x0a\x07switch1" + bytes(2)
)  # fmt: skip


class Site(t.NamedTuple):
    """The machines, an inventory of them, and the services that boot them."""

    folder: pathlib.Path
    inventory: pathlib.Path
    domains: dict[str, t.Any]
    password: str
    boot: netboot.BootServer

    def run(self, *more: str, **values: t.Any) -> subprocess.CompletedProcess[str]:
        """Run discover_servers."""
        done = netboot.ansible(self.folder, self.inventory, *more, values={f"discover_servers_{key}": value for key, value in values.items()})
        assert self.password not in done.stdout + done.stderr
        (self.folder / "last.log").write_text(done.stdout + done.stderr + self.boot.log(), "utf-8")
        return done

    def kill_when(self, reached: t.Callable[[], bool], **values: t.Any) -> None:
        """Run discover_servers, and kill it as soon as something is reached."""
        with netboot.started(self.folder, self.inventory, {f"discover_servers_{key}": value for key, value in values.items()}) as process:
            end = time.monotonic() + 600
            while not reached():
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.5)
            os.killpg(process.pid, signal.SIGKILL)

    def declare(self, name: str, **hardware: t.Any) -> None:
        """Change ``hardware`` of a server in the inventory."""
        inventory = json.loads(self.inventory.read_text("utf-8"))
        inventory["servers"][name]["hardware"] = hardware
        self.inventory.write_text(json.dumps(inventory), "utf-8")

    def ids(self) -> dict[str, int]:
        """The number of each machine's current run; -1 if it is off."""
        return {name: domain.connect().lookupByName(name).ID() for name, domain in self.domains.items()}


def declared(name: str) -> dict[str, t.Any]:
    firmware, _address, mac, serial = MACHINES[name]
    return {
        "memory": "2 GiB", "cpus": 2, "firmware": firmware, "virtualization": True,
        "disks": [{"serial": serial, "size": "8 GiB"}], "nics": [{"mac": mac, "link": True}],
    }  # fmt: skip


@pytest.fixture(scope="module", name="site")
def fixture_site(place: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "ansible.cfg").touch()
    subprocess.run(["ip", "address", "add", f"{NETWORK}.1/24", "dev", place.bridge], check=True)
    domains, servers = {}, {}
    for name, (firmware, address, mac, serial) in MACHINES.items():
        domains[name] = place.machine(name, uefi=firmware == "uefi", memory=2048, serial=serial, mac=mac, secure=False)
        bmc = place.emulator.bmc(place.password, domains[name].UUIDString())
        entry = {"address": bmc["address"], "user": bmc["user"], "secret": "bmc/all", "verify_ca": bmc["verify_ca"], "system": bmc["system"], "boot_mac": mac}
        servers[name] = {"ansible_host": address, "bmc": entry, "hardware": declared(name)}
    servers["boot"] = {"ansible_host": f"{NETWORK}.1", "ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = folder / "site.yml"
    inventory.write_text(json.dumps({"plugin": "reduced.footprint.nodes", "cluster": "metal", "servers": servers}), "utf-8")
    secret = folder / ".secrets" / "metal" / "bmc" / "all.txt"
    secret.parent.mkdir(parents=True, mode=0o700)
    secret.write_text(place.password, "utf-8")
    secret.chmod(0o600)
    with netboot.BootServer(place.folder / "netboot", place.bridge, f"{NETWORK}.1", inventory) as boot:
        yield Site(folder, inventory, domains, place.password, boot)
    for domain in domains.values():
        if domain.isActive():
            domain.destroy()


@pytest.fixture(name="neighbor")
def fixture_neighbor(place: t.Any) -> t.Iterator[t.Callable[[str], None]]:
    """A function that makes this host the switch that a machine is connected to: it sends LLDP to the machine's interface."""
    ended = threading.Event()
    threads = []

    def start(name: str) -> None:
        def send() -> None:
            while not ended.wait(3):
                text = place.connection.lookupByName(name).XMLDesc(0)
                tap = re.search(r"<target dev='([^']+)'/>\s*<model type='virtio'", text)
                if tap:
                    with contextlib.suppress(OSError), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
                        wire.bind((tap[1], 0))
                        wire.send(LLDP)

        threads.append(threading.Thread(target=send, daemon=True))
        threads[-1].start()

    yield start
    ended.set()
    for thread in threads:
        thread.join(30)


def test_a_server_that_is_on_is_left_alone(site: Site) -> None:
    """It runs something, and the others are not affected by its failure."""
    site.domains["legacy"].create()
    before = site.ids()
    for more in ([], ["--check"]):
        done = site.run(*more, names=["legacy"])
        assert done.returncode == 2 and "legacy is on and runs something else" in done.stdout, done.stdout[-3000:] + done.stderr
        assert "discover_servers_restart: [legacy]" in done.stdout and re.search(r"legacy +- .* failed", done.stdout)
    planned = site.run("--check", names=["legacy"], restart="legacy")
    assert planned.returncode == 0 and "restart: discover_servers_restart names it" in planned.stdout, planned.stdout[-3000:]
    assert site.ids() == before
    site.domains["legacy"].destroy()


def test_a_server_that_does_not_come_up_fails_alone_and_is_off_again(site: Site, place: t.Any) -> None:
    place.machine("lost", memory=512, mac="52:54:00:5e:00:09")
    site.domains["lost"] = place.connection.lookupByName("lost")
    # it is on, and may be restarted
    site.domains["lost"].create()
    inventory = json.loads(site.inventory.read_text("utf-8"))
    # a card that is not in the server: the boot server does not answer the one that is
    bmc = {**inventory["servers"]["legacy"]["bmc"], "system": site.domains["lost"].UUIDString(), "boot_mac": "52:54:00:5e:00:08"}
    inventory["servers"]["lost"] = {"ansible_host": f"{NETWORK}.19", "bmc": bmc}
    other = site.folder / "lost.yml"
    other.write_text(json.dumps(inventory), "utf-8")
    done = netboot.ansible(
        site.folder, other,
        values={"discover_servers_names": ["lost"], "discover_servers_timeout": 20, "discover_servers_shutdown_timeout": 4, "discover_servers_restart": "lost"},
    )  # fmt: skip
    assert "restart: discover_servers_restart names it" in done.stdout, done.stdout[-4000:]
    assert done.returncode == 2 and "lost did not boot the system for the discovery" in done.stdout, done.stdout[-4000:] + done.stderr
    assert "bmc.boot_mac is the card in the network" in done.stdout and not (site.folder / ".discovered" / "lost.json").exists()
    assert site.ids().pop("lost") == -1 and not list((site.folder / ".discovered").glob("*.begun"))
    assert "<boot dev='network'/>" not in site.domains["lost"].XMLDesc(0)
    site.domains.pop("lost")


@pytest.mark.parametrize("name", MACHINES)
def test_a_bare_server_is_discovered(site: Site, neighbor: t.Callable[[str], None], name: str) -> None:
    firmware, _address, mac, serial = MACHINES[name]
    planned = site.run("--check", names=name)
    assert planned.returncode == 0 and "boot: it is off" in planned.stdout, planned.stdout[-3000:] + planned.stderr
    kept = site.folder / ".discovered" / f"{name}.json"
    assert site.ids()[name] == -1 and not kept.exists()
    neighbor(name)
    if name == "modern":
        site.kill_when(lambda: site.ids()[name] != -1, names=name)
    running = site.ids()[name]
    done = site.run(names=name, timeout=1800, keep_running=name == "modern")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:] + site.boot.log()
    assert name != "modern" or "wait: an interrupted run booted it" in done.stdout or "read: it already runs" in done.stdout, (running, done.stdout[-6000:])
    found = json.loads(kept.read_text("utf-8"))["hardware"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert found["system"]["uuid"] == site.domains[name].UUIDString() and found["firmware"] == firmware
    assert found["memory_installed_bytes"] == 2 * GIB and 1.7 * GIB < found["memory_bytes"] < 2 * GIB and found["cpus"] == 2
    assert [(disk["serial"], disk["size_bytes"], disk["content"]) for disk in found["disks"]] == [(serial, 8 * GIB, [])]
    assert [(nic["mac"], nic["link"], nic["neighbor"], nic["port"]) for nic in found["nics"]] == [(mac, True, "switch1", "Ethernet1/3")]
    if name == "modern":
        # it is still the system that was booted, so it is read without another boot
        assert site.ids()[name] == running != -1
        done = site.run(names=name, again=True)
        assert done.returncode == 0 and "read: it already runs the system for the discovery" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
        assert json.loads(kept.read_text("utf-8"))["hardware"] == found
    # it is off, and boots from its disk again
    assert site.ids()[name] == -1 and not list(kept.parent.glob("*.begun"))
    assert not _network_first(site.domains[name])
    again = site.run(names=name)
    assert again.returncode == 0 and "changed=0" in again.stdout and "known: its hardware was read" in again.stdout, again.stdout[-3000:]
    assert site.ids()[name] == -1


def _network_first(domain: t.Any) -> bool:
    text = domain.XMLDesc(0)
    return re.findall(r"<boot dev='(\w+)'/>", text)[:1] == ["network"] or bool(re.search(r"<interface(?:(?!</interface>).)*<boot order='1'/>", text, re.DOTALL))


def test_differences_from_the_inventory_are_refused_without_a_boot(site: Site) -> None:
    name = next(name for name in MACHINES if (site.folder / ".discovered" / f"{name}.json").exists())
    wrong = {**declared(name), "memory": "4 GiB", "disks": [{"serial": "OTHER"}], "nics": [{"mac": "52:54:00:5e:00:77"}]}
    site.declare(name, **wrong)
    try:
        done = site.run(names=name)
        for words in (
            "memory: 4 GiB are declared, 2 GiB are installed",
            "disks[0].serial: the server has no disk OTHER; not declared are vda (DISK-",
            "nics[0].mac: the server has no network card 52:54:00:5e:00:77",
        ):
            assert f"servers.{name}.hardware.{words}" in done.stdout, done.stdout[-4000:]
        assert done.returncode == 2 and site.ids()[name] == -1
    finally:
        site.declare(name, **declared(name))
