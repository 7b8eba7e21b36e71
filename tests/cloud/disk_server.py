# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server in the network of a lab with its own kernel, because that of the test machine may lack the device mapper and iSCSI.

The kernel is User Mode Linux, a process of this machine, which runs programs without emulation.
"""

from __future__ import annotations

import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import time

from rflab import files, images, network
from rflab.say import run
from rflab.settings import Lab

RELEASE = "trixie"
CACHE = images.CACHE.parent / "disk-server"
#: The libraries of cinder-volume are there before; the services are not.
PACKAGES = (
    "systemd-sysv", "dbus", "udev", "kmod", "procps", "libpam-systemd", "openssh-server", "python3", "python3-apt", "iproute2", "netbase",
    "ca-certificates", "sudo", "e2fsprogs", "lvm2", "qemu-utils", "cinder-common", "python3-pymysql",
)  # fmt: skip
#: Units without use here.
MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer")
#: Package of Debian with the kernel, and its modules in it.
KERNEL = "user-mode-linux"
#: LVM does not know the disks of this kernel.
LVM = 'devices {\n    types = ["ubd", 16]\n}\n'
GIB = 1 << 30
#: Limit of a boot in seconds.
BOOT = 300.0


def image() -> pathlib.Path:
    """Return the directory with ``root.img`` and ``usr/bin/linux.uml`` from the cache; they are built if they are missing."""
    cache = images.Cache(RELEASE)
    images.build_pool(cache)
    target = CACHE / images.fingerprint(cache.base_key, "disk-server-2", repr((PACKAGES, MASKED, LVM)), images.public_key())
    CACHE.mkdir(parents=True, exist_ok=True)
    with images._alone("disk-server"):
        if not target.exists():
            for old in CACHE.iterdir():
                files.remove(old)
            _build(cache, target)
    return target


def _build(cache: images.Cache, target: pathlib.Path) -> None:
    work = CACHE / "part"
    root = work / "root"
    work.mkdir()
    # a program of this machine, so from its release
    apt = images._apt_environment(work / "apt", platform.freedesktop_os_release()["VERSION_CODENAME"])
    run(["apt-get", "-q", "update"], env=apt)
    run(["apt-get", "-q", "download", KERNEL], cwd=work, env=apt)
    (package,) = work.glob("*.deb")
    run(["dpkg-deb", "-x", str(package), str(work)])
    argv = [*images.APART, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", '--aptopt=APT::Install-Recommends "false"',
            "--include=" + ",".join(PACKAGES)]  # fmt: skip
    argv += [f"--dpkgopt={option}" for option in images.DPKG_OPTIONS]
    run([*argv, cache.release, str(root), f"deb [trusted=yes] copy://{cache.pool} ./"], env=dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive"))
    for path in (root / "etc/machine-id", root / "var/lib/dbus/machine-id", root / "etc/resolv.conf"):
        files.remove(path)
    for unit in MASKED:
        files.mask(root, unit)
    files.enable(root, "systemd-networkd.service")
    files.enable(root, "systemd-networkd-wait-online.service", target="network-online.target")
    files.enable(root, "systemd-network-generator.service", target="sysinit.target")
    files.put(root, "etc/fstab", "/dev/ubda / ext4 errors=remount-ro 0 1\n")
    files.put(root, "etc/resolv.conf", "")
    files.put(root, "root/.ssh/authorized_keys", images.public_key(), 0o600)
    files.put(root, "etc/ssh/sshd_config.d/proof.conf", "UseDNS no\nUsePAM no\n")
    shutil.copytree(work / "usr/lib/uml/modules", root / "usr/lib/modules", dirs_exist_ok=True)
    with open(root / "etc/lvm/lvm.conf", "a", encoding="utf-8") as stream:
        stream.write(LVM)
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-m", "1", "-d", str(root), str(work / "root.img"), "4G"])
    for path in (root, work / "apt"):
        files.remove(path)
    work.rename(target)


class DiskServer:
    """A machine with a second, empty disk, ``/dev/ubdb``; a context manager."""

    name = "disk1"

    def __init__(self, lab: Lab, folder: pathlib.Path) -> None:
        self.lab, self.folder = lab, folder
        self.address = f"{lab.net}.40"
        self.nic = f"{lab.tag}-{self.name}"
        self._process: subprocess.Popen[bytes] | None = None
        self.image = image()
        with open(folder / "disk.img", "wb") as stream:
            stream.truncate(6 * GIB)

    def __enter__(self) -> DiskServer:
        run(["ip", "tuntap", "add", "dev", self.nic, "mode", "tap"])
        network.attach(self.lab, self.nic)
        self.on()
        self.ssh(f"echo 'deb [trusted=yes] {self.lab.mirror_url}/debs ./' > /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*; apt-get -q update")
        return self

    def __exit__(self, *unused: object) -> None:
        self.off()
        run(["ip", "link", "del", self.nic])

    def on(self) -> None:
        """Switch on and wait until it answers."""
        argv = ["setpriv", "--pdeathsig", "KILL", str(self.image / "usr/bin/linux.uml"), f"umid={self.name}", f"uml_dir={self.folder}", "mem=2048M",
                f"ubd0={self.folder / 'system.cow'},{self.image / 'root.img'}", f"ubd1={self.folder / 'disk.img'}", "root=/dev/ubda", "rw",
                f"eth0=tuntap,{self.nic},02:52:46:00:00:40", "con=null", "con0=null,fd:1", "ssl=null", "net.ifnames=0", f"systemd.hostname={self.name}",
                f"ip={self.address}::{self.lab.host_address}:255.255.255.0:{self.name}:eth0:off"]  # fmt: skip
        with open(self.folder / "console", "ab") as console:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True)
        end = time.monotonic() + BOOT
        while self.ssh("true", check=False).returncode:
            assert self._process.poll() is None and time.monotonic() < end, (self.folder / "console").read_text("utf-8", "replace")[-3000:]
            time.sleep(1)

    def off(self) -> None:
        """Cut the power."""
        if self._process:
            # each program of the machine is a process here
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def ssh(self, command: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a shell command."""
        options = ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR", "-oConnectTimeout=20", "-oBatchMode=yes"]
        argv = ["ssh", "-F", "/dev/null", "-i", str(self.lab.key), *options, f"root@{self.address}", command]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=900, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL
        )
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def says(self, command: str) -> str:
        """Return what a command prints."""
        return self.ssh(command).stdout.strip()

    def volumes(self) -> list[str]:
        """Return the logical volumes with a volume of the cloud."""
        return re.findall(r"volume-\S+", self.says("lvs --noheadings --options lv_name"))
