# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The old master: a machine under QEMU with its own kernel, started by UEFI firmware, on the admin network of the lab."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import time
import urllib.request

from rflab.settings import Lab

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "output" / "migrate"
MAC = "52:54:00:33:00:05"
FIRMWARE = pathlib.Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), pathlib.Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
# an emulated machine starts in a minute where it is alone, and it is not always alone
BOOT = 420.0


def command(*arguments: str) -> None:
    """Run a command of ``lab/lab``."""
    subprocess.run([str(ROOT / "lab" / "lab"), *arguments], check=True)


class Source:
    """A machine with a separate disk backed by the image; ``address`` is the admin address, ``parked`` the temporary one."""

    def __init__(self, folder: pathlib.Path, disk: pathlib.Path, lab: Lab) -> None:
        self.folder, self.lab = folder, lab
        self.address, self.parked = f"{lab.net}.5", f"{lab.net}.6"
        self.tap = f"{lab.tag}-old"
        self.console = folder / "console.log"
        self.disk = folder / "disk.qcow2"
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(disk), str(self.disk)], check=True)
        self.variables = folder / "variables.fd"
        shutil.copy(FIRMWARE[1], self.variables)

    def on(self) -> None:
        """Power on."""
        subprocess.run(["ip", "tuntap", "add", "dev", self.tap, "mode", "tap"], check=True)
        subprocess.run(["ip", "link", "set", self.tap, "master", self.lab.bridge, "up"], check=True)
        argv = [
            "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max", "-m", "768", "-nodefaults", "-no-user-config",
            "-display", "none", "-smbios", f"type=1,serial={self.lab.net}", "-serial", f"file:{self.console}",
            "-drive", f"if=pflash,format=raw,readonly=on,file={FIRMWARE[0]}", "-drive", f"if=pflash,format=raw,file={self.variables}",
            "-drive", f"file={self.disk},if=none,id=disk,cache=writeback", "-device", "nvme,serial=proof,drive=disk,bootindex=1",
            "-netdev", f"tap,id=nic,ifname={self.tap},script=no,downscript=no", "-device", f"virtio-net-pci,netdev=nic,mac={MAC},addr=0x9,romfile=",
            "-device", "virtio-rng-pci", "-chardev", f"socket,id=agent,path={self.folder / 'agent.sock'},server=on,wait=off",
            "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
        ]  # fmt: skip
        with open(self.folder / "qemu.log", "ab") as log:
            self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def settle(self) -> None:
        """Wait until the machine answers and serves."""
        self.wait()
        assert self.ssh("systemctl", "is-system-running", "--wait", check=False) is not None, self.ssh("systemctl", "--failed")
        assert self.numbers()
        self.ssh("sh", "/srv/proof/container")
        assert self.counted() is not None

    def numbers(self) -> list[int]:
        """Return the numbers that the master has written, as its clients read them."""
        with urllib.request.urlopen(f"http://{self.address}:8080/", timeout=10) as answer:
            return [int(each) for each in answer.read().split()]

    def raw(self, address: str | None = None) -> list[int]:
        """Return the number in each block of the raw volume, read past the page cache; a block with another content is -1."""
        argv = [*self._login(address), "dd if=/dev/vg0/raw bs=1M iflag=direct status=none"]
        content = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, check=True).stdout
        blocks = [content[start : start + 4096] for start in range(0, len(content), 4096)]
        return [int.from_bytes(each[:8], "big") if each == each[:8] * 512 else -1 for each in blocks]

    def counted(self, address: str | None = None) -> list[int]:
        """Return the numbers in the volume of the container."""
        text = self.ssh("cat /var/lib/containers/storage/volumes/counter/_data/numbers", address=address)
        return [int(each) for each in (text or "").split()]

    def off(self) -> None:
        """Cut the power."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None
        subprocess.run(["ip", "link", "delete", self.tap], check=False)

    def wait(self, address: str | None = None) -> None:
        """Wait until the machine answers."""
        until = time.monotonic() + BOOT
        while self.ssh("true", address=address, check=False) is None:
            assert self._process is not None and self._process.poll() is None, (self.folder / "qemu.log").read_text()[-2000:]
            assert time.monotonic() < until, f"no answer from {address or self.address}\n{self.console.read_text(errors='replace')[-3000:]}"
            time.sleep(1)

    def ssh(self, *command: str, address: str | None = None, check: bool = True) -> str | None:
        """Run a command on the machine; ``None`` if it failed and ``check`` is false."""
        done = subprocess.run([*self._login(address), *command], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, check=False)
        assert not check or done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
        return done.stdout if done.returncode == 0 else None

    def _login(self, address: str | None) -> list[str]:
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=5", "LogLevel=ERROR"]
        return ["ssh", "-i", str(self.lab.key), *(word for each in options for word in ("-o", each)), f"root@{address or self.address}"]
