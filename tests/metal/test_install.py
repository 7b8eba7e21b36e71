# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian is installed on bare servers over the network: with UEFI on LVM, with BIOS without; data is refused, and an interrupted run is completed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import typing as t

import netboot
import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install

NETWORK = f"198.19.{os.getpid() % 256}"
GIB = 1 << 30
#: Name → firmware, address, MAC, serial number of the disk, LVM.
MACHINES: dict[str, tuple[str, str, str, str, t.Any]] = {
    "plain": ("bios", f"{NETWORK}.21", "52:54:00:5e:10:01", "DISK-PLAIN", None),
    "volumes": ("uefi", f"{NETWORK}.22", "52:54:00:5e:10:02", "DISK-VOLUMES", {"group": "vms", "root": "5 GiB"}),
}
#: Another disk of the server "volumes".
OTHER = "DISK-OTHER"


class Site(t.NamedTuple):
    """The machines, an inventory of them, and the services that boot them."""

    folder: pathlib.Path
    inventory: pathlib.Path
    pool: pathlib.Path
    domains: dict[str, t.Any]
    secret: str
    boot: netboot.BootServer

    def run(self, *more: str, **values: t.Any) -> subprocess.CompletedProcess[str]:
        """Run install_server."""
        given = {f"install_server_{key}": value for key, value in {"timeout": 1800, **values}.items()}
        done = netboot.ansible(self.folder, self.inventory, *more, values=given, timeout=5400, playbook="install_server")
        assert self.secret not in done.stdout + done.stderr and "PRIVATE KEY" not in done.stdout + done.stderr
        (self.folder / "last.log").write_text(done.stdout + done.stderr + self.boot.log(), "utf-8")
        return done

    def kill_when(self, reached: t.Callable[[], bool], **values: t.Any) -> None:
        """Run install_server, and kill it with all its processes as soon as something is reached."""
        given = {f"install_server_{key}": value for key, value in {"timeout": 1800, **values}.items()}
        with netboot.started(self.folder, self.inventory, given, "install_server") as process:
            end = time.monotonic() + 2400
            while not reached():
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.5)
            os.killpg(process.pid, signal.SIGKILL)

    def id(self, name: str) -> int:
        """The number of the machine's current run; -1 if it is off."""
        return int(self.domains[name].connect().lookupByName(name).ID())

    def used(self, name: str) -> int:
        """Bytes that were written to the disk of a machine."""
        return (self.pool / f"{name}.qcow2").stat().st_blocks * 512

    def ssh(self, name: str, *command: str) -> str:
        """Run a command as root on an installed server, whose host key must be the recorded one; its output."""
        known = self.folder / ".secrets" / "metal" / "known_hosts.txt"
        options = {
            "HostKeyAlias": name, "UserKnownHostsFile": known, "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes", "BatchMode": "yes",
            "PasswordAuthentication": "no", "IdentitiesOnly": "yes", "ConnectTimeout": 60,
        }  # fmt: skip
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        argv = ["ssh", "-F", "/dev/null", *words, "-i", str(netboot.key()), f"root@{MACHINES[name][1]}", *command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
        assert not done.returncode, done.stderr
        return done.stdout


def server(name: str, bmc: dict[str, t.Any]) -> dict[str, t.Any]:
    """A server of the inventory."""
    firmware, address, mac, serial, lvm = MACHINES[name]
    network = {"prefix": 24, "gateway": f"{NETWORK}.1", "dns": [f"{NETWORK}.1"]}
    install = {"network": network, "hostname": f"{name}.example.com", "keys": [netboot.key().with_suffix(".pub").read_text("utf-8").strip()]}
    return {
        "ansible_host": address, "bmc": {**bmc, "boot_mac": mac}, "install": {**install, **({"lvm": lvm} if lvm else {})},
        "hardware": {"firmware": firmware, "disks": [{"serial": serial, "size": "10 GiB"}], "nics": [{"mac": mac}]},
    }  # fmt: skip


def fill(place: t.Any, disk: pathlib.Path) -> None:
    """Write a partition with a file system to a disk."""
    raw = place.pool / "fill.raw"
    with raw.open("wb") as stream:
        stream.truncate(10 * GIB)
    subprocess.run(["/sbin/sfdisk", "--quiet", str(raw)], input="label: dos\nstart=2048, size=40960, type=83\n", text=True, check=True)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", "-E", f"offset={2048 * 512}", str(raw), "20M"], check=True, capture_output=True)
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(disk)], check=True)
    raw.unlink()


def digest(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module", name="other")
def fixture_other(place: t.Any) -> pathlib.Path:
    """Another disk, with a volume group of its own in form of a file system's signature."""
    path: pathlib.Path = place.pool / "other.raw"
    with path.open("wb") as stream:
        stream.truncate(64 << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", str(path)], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module", name="site")
def fixture_site(place: t.Any, other: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "ansible.cfg").touch()
    subprocess.run(["ip", "address", "add", f"{NETWORK}.1/24", "dev", place.bridge], check=True)
    domains, servers = {}, {}
    fill(place, place.pool / "volumes.qcow2")
    for name, (firmware, _address, mac, serial, _lvm) in MACHINES.items():
        domains[name] = place.machine(name, uefi=firmware == "uefi", size="10G", memory=2048, serial=serial, mac=mac, secure=False)
        bmc = place.emulator.bmc(place.password, domains[name].UUIDString())
        servers[name] = server(name, {**{key: bmc[key] for key in ("address", "user", "verify_ca", "system")}, "secret": "bmc/all"})
    domains["volumes"].attachDeviceFlags(
        f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{other}'/><target dev='vdb' bus='virtio'/>"
        f"<serial>{OTHER}</serial></disk>", 2,
    )  # fmt: skip
    servers["boot"] = {"ansible_host": f"{NETWORK}.1", "ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = folder / "site.yml"
    inventory.write_text(json.dumps({"plugin": "reduced.footprint.nodes", "cluster": "metal", "servers": servers}), "utf-8")
    secret = folder / ".secrets" / "metal" / "bmc" / "all.txt"
    secret.parent.mkdir(parents=True, mode=0o700)
    secret.write_text(place.password, "utf-8")
    secret.chmod(0o600)
    with netboot.BootServer(place.folder / "netboot-install", place.bridge, f"{NETWORK}.1", inventory, root=True) as boot:
        yield Site(folder, inventory, place.pool, domains, place.password, boot)
    for domain in domains.values():
        with contextlib.suppress(Exception):
            domain.destroy()
    subprocess.run(["ip", "address", "del", f"{NETWORK}.1/24", "dev", place.bridge], check=False)


def test_check_mode_names_the_disk_and_the_partitions_without_a_boot(site: Site) -> None:
    done = site.run("--check")
    assert done.returncode == 0 and "boot: it is off" in done.stdout, done.stdout[-4000:] + done.stderr
    for words in ("install Debian on the disk DISK-PLAIN", "install Debian on the disk DISK-VOLUMES", "volume vms/root: 5 GiB, ext4 at /"):
        assert words in done.stdout, done.stdout[-4000:]
    assert site.id("plain") == site.id("volumes") == -1 and not list(site.folder.glob(".discovered/*"))


def test_invalid_requests_are_refused_before_a_boot(site: Site) -> None:
    done = site.run(erase="DISK-OTHER")
    assert done.returncode == 2 and "install_server_erase[0]: 'DISK-OTHER' is not the disk of a server that is installed" in done.stdout
    assert site.id("plain") == site.id("volumes") == -1


def installed(site: Site, name: str) -> None:
    """Check an installed server, and that a second run changes nothing."""
    firmware, address, mac, serial, lvm = MACHINES[name]
    assert site.ssh(name, "hostname", "--fqdn").strip() == f"{name}.example.com"
    assert "footprint" not in site.ssh(name, "cat", "/proc/cmdline")
    assert (site.ssh(name, "ls", "/sys/firmware").find("efi") >= 0) == (firmware == "uefi")
    links = json.loads(site.ssh(name, "ip", "-json", "address"))
    assert [(link["address"], one["local"], one["prefixlen"]) for link in links for one in link["addr_info"] if one["family"] == "inet"][1:] == [
        (mac, address, 24)
    ]
    assert f"default via {NETWORK}.1" in site.ssh(name, "ip", "route") and site.ssh(name, "cat", "/etc/resolv.conf") == f"nameserver {NETWORK}.1\n"
    assert site.ssh(name, "systemctl", "is-system-running", "--wait").strip() == "running"
    assert not [line for line in site.ssh(name, "cat", "/etc/shadow").splitlines() if re.match(r"[^:]*:[^!*:]", line)], "no password"
    tree = json.loads(site.ssh(name, "lsblk", "--json", "--bytes", "--output", "NAME,SERIAL,FSTYPE,MOUNTPOINT,PTTYPE"))["blockdevices"]
    disk = next(one for one in tree if one["serial"] == serial)
    parts = [(one["fstype"], one["mountpoint"]) for one in disk["children"]]
    boot = ("vfat", "/boot/efi") if firmware == "uefi" else (None, None)
    assert parts == [boot, ("LVM2_member", None) if lvm else ("ext4", "/")] and disk["pttype"] == "gpt"
    if lvm:
        groups = json.loads(site.ssh(name, "vgs", "--reportformat", "json", "--units", "b"))["report"][0]["vg"]
        assert [one["vg_name"] for one in groups] == ["vms"] and 4 * GIB < int(groups[0]["vg_free"].rstrip("B")) < 5 * GIB
        assert "/EFI/debian" in site.ssh(name, "find", "/boot/efi", "-type", "d") and "BOOTX64.EFI" in site.ssh(name, "ls", "/boot/efi/EFI/BOOT")
    running = site.id(name)
    again = site.run(names=name)
    assert again.returncode == 0 and "changed=0" in again.stdout and "installed: it is installed" in again.stdout, again.stdout[-4000:]
    assert not re.search(r"changed=[1-9]", again.stdout) and site.id(name) == running
    # naming it to be erased or restarted does not change that
    again = site.run(names=name, erase=serial, restart=name)
    assert again.returncode == 0 and not re.search(r"changed=[1-9]", again.stdout) and site.id(name) == running, again.stdout[-4000:]


def test_a_server_with_bios_is_installed(site: Site) -> None:
    done = site.run(names="plain")
    assert done.returncode == 0 and "install Debian on /dev/vda (DISK-PLAIN)" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:] + site.boot.log()
    installed(site, "plain")


def test_an_installation_that_was_never_confirmed_is_not_written_again_after_its_start(site: Site) -> None:
    """As if the run had been killed before the system answered, and someone had used it since."""
    name = "plain"
    serial = MACHINES[name][3]
    site.ssh(name, "sfdisk", "--disk-id", "/dev/vda", plan_install.label(name, serial, complete=False))
    site.ssh(name, "touch /srv/data && sync")
    site.domains[name].destroy()
    done = site.run(names=name)
    assert done.returncode == 2 and "was started since, but was never confirmed" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:] + site.boot.log()
    assert f"install_server_erase: [{serial}]" in done.stdout
    site.domains[name].destroy()
    site.domains[name].create()
    end = time.monotonic() + 900
    while True:
        with contextlib.suppress(AssertionError):
            assert site.ssh(name, "ls", "/srv").strip() == "data"
            break
        assert time.monotonic() < end, "the installed system does not answer"
        time.sleep(5)
    done = site.run(names=name)
    assert done.returncode == 0 and "installed: it is installed" in done.stdout and re.search(r"changed=[1-9]", done.stdout), done.stdout[-6000:]
    installed(site, name)


def test_data_is_refused_and_an_interrupted_installation_completed(site: Site, other: pathlib.Path) -> None:
    name = "volumes"
    before, disk = digest(other), site.pool / "volumes.qcow2"
    untouched = digest(disk)
    done = site.run(names=name)
    assert done.returncode == 2 and "contains data: dos on /dev/vda, ext4 on /dev/vda1" in done.stdout, done.stdout[-6000:] + done.stderr + site.boot.log()
    assert "install_server_erase: [DISK-VOLUMES]" in done.stdout and digest(disk) == untouched
    # it is left in the small system, where the plan is made with what is on the disk
    planned = site.run("--check", names=name, erase=["DISK-VOLUMES"])
    assert planned.returncode == 0 and "erase dos on /dev/vda, ext4 on /dev/vda1" in planned.stdout, planned.stdout[-4000:]
    assert digest(disk) == untouched
    # killed while the system is unpacked, and the server loses power
    site.kill_when(lambda: site.used(name) > 150 << 20, names=name, erase=["DISK-VOLUMES"])
    site.domains[name].destroy()
    site.domains[name].create()
    assert list(site.folder.glob(".discovered/volumes.installing"))
    done = site.run(names=name)
    assert done.returncode == 0 and "restart: its installation was interrupted" in done.stdout, done.stdout[-6000:] + done.stderr[-2000:]
    assert not list(site.folder.glob(".discovered/*.installing")) and digest(other) == before
    installed(site, name)
