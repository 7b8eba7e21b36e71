# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cloud image: built by the playbook on this machine, started by QEMU with BIOS and with UEFI, as clouds do it: with a key, on a larger disk."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "cloud-image"
GIB = 1024**3
FIRMWARE = ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd")
HOST = {"ansible_connection": "local", "ansible_python_interpreter": "/usr/bin/python3"}
INVENTORY = {"all": {"children": {"controller": {"hosts": {"builder": HOST, "other": HOST}}}}}


def build(*arguments: str, **variables: t.Any) -> subprocess.CompletedProcess[str]:
    """Run the playbook; what the host builds is kept for later runs of these tests."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "inventory.yml").write_text(json.dumps(INVENTORY), "utf-8")
    given = {"expert_mode": True, "cloud_image_directory": str(CACHE / "built"), "build_image_directory": str(CACHE / "images"), **variables}
    argv = [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), "reduced.footprint.build_image", "-i", str(CACHE / "inventory.yml")]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections")}
    return subprocess.run([*argv, "-e", json.dumps(given), *arguments], env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module", name="image")
def fixture_image() -> pathlib.Path:
    done = build()
    assert done.returncode == 0, done.stdout + done.stderr
    return CACHE / "images" / "debian-13.qcow2"


def test_second_run_changes_nothing(image: pathlib.Path) -> None:
    before = image.stat().st_mtime_ns
    done = build()
    assert done.returncode == 0 and "changed=0" in done.stdout, done.stdout
    assert image.stat().st_mtime_ns == before
    assert json.loads(image.with_suffix(".json").read_text("utf-8"))["release"] == "trixie"


@pytest.mark.parametrize(
    "variables, words",
    [
        ({"cloud_image_size": "2"}, "cloud_image_size: 2 is not a size. Write a whole number of MiB or GiB, such as 2 GiB."),
        ({"cloud_image_size": "1 GiB"}, "cloud_image_size: 1 GiB is too small for the system."),
        ({"cloud_image_name": "../debian"}, "cloud_image_name: ../debian is not a file name."),
        ({"cloud_image_packages": ["--x"]}, "cloud_image_packages[0]: --x is not the name of a package."),
        ({"cloud_image_sources": ["http://deb.debian.org"]}, "cloud_image_sources[0]: must be a line of sources.list that begins with deb."),
        ({"cloud_image_release": "sid"}, "value of cloud_image_release must be one of: bookworm, trixie, got: sid"),
        ({"build_image_kind": "debian"}, "value of build_image_kind must be one of: cloud, test, got: debian"),
        ({"build_image_host": "all"}, "build_image_host: all matches builder, other. Name one of them."),
        ({"build_image_host": "bilder"}, "build_image_host: no host or group of the inventory is named bilder. Did you mean builder?"),
    ],
)
def test_invalid_values_are_refused(variables: dict[str, t.Any], words: str) -> None:
    done = build(**variables)
    assert done.returncode != 0
    assert words in done.stdout + done.stderr


def test_check_mode_reports_a_new_image_and_builds_none() -> None:
    done = build("--check", cloud_image_name="other")
    assert done.returncode == 0 and "changed=1" in done.stdout, done.stdout
    assert not list((CACHE / "built").glob("other*"))


class Instance:
    """A machine of QEMU with its own disk on the image, and a seed with a key; a context manager."""

    def __init__(self, folder: pathlib.Path, image: pathlib.Path, uefi: bool) -> None:
        self.folder, self.image, self.uefi = folder, image, uefi
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def __enter__(self) -> Instance:
        key = self.folder / "key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        seed = self.folder / "seed.img"
        user = {"ssh_authorized_keys": [key.with_suffix(".pub").read_text("utf-8").strip()]}
        (self.folder / "user-data").write_text(f"#cloud-config\n{json.dumps(user)}\n", "utf-8")
        (self.folder / "meta-data").write_text(json.dumps({"instance-id": "i-1", "local-hostname": "tenant"}), "utf-8")
        seed.write_bytes(bytes(1 << 20))
        subprocess.run(["mformat", "-i", str(seed), "-v", "CIDATA", "::"], check=True)
        subprocess.run(["mcopy", "-i", str(seed), str(self.folder / "user-data"), str(self.folder / "meta-data"), "::"], check=True)
        disk = self.folder / "disk.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(self.image), str(disk), "5G"], check=True)
        argv = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-display", "none"]
        argv += ["-drive", f"file={disk},if=virtio,format=qcow2", "-drive", f"file={seed},if=virtio,format=raw,readonly=on"]
        argv += ["-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22", "-device", "virtio-net-pci,netdev=net"]
        argv += ["-serial", f"file:{self.folder / 'console'}"]
        if self.uefi:
            code, variables = FIRMWARE
            shutil.copy(variables, self.folder / "vars.fd")
            argv += ["-drive", f"if=pflash,format=raw,readonly=on,file={code}", "-drive", f"if=pflash,format=raw,file={self.folder / 'vars.fd'}"]
        (self.folder / "console").touch()
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *unused: object) -> None:
        self.process.kill()
        self.process.wait()

    def ssh(self, command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        options = ["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR", "-oConnectTimeout=20", "-oBatchMode=yes"]
        argv = ["ssh", "-F", "/dev/null", "-i", str(self.folder / "key"), "-p", str(self.port), *options, "debian@127.0.0.1", command]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=timeout, stdin=subprocess.DEVNULL)

    def says(self, command: str) -> str:
        done = self.ssh(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def boot(self, other_than: str = "", seconds: float = 1800) -> str:
        """Wait until it answers; return the identity of this boot."""
        end = time.monotonic() + seconds
        while True:
            found = self.ssh("cat /proc/sys/kernel/random/boot_id").stdout.strip()
            if found and found != other_than:
                return found
            console = (self.folder / "console").read_text("utf-8", "replace")
            assert self.process.poll() is None and time.monotonic() < end, console[-3000:]
            time.sleep(5)


@pytest.mark.parametrize("uefi", [False, True], ids=["bios", "uefi"])
def test_server_boots_with_its_key_and_grows(image: pathlib.Path, tmp_path: pathlib.Path, uefi: bool) -> None:
    with Instance(tmp_path, image, uefi) as server:
        first = server.boot()
        assert server.says("cloud-init status --wait").endswith("status: done")
        assert server.says("hostname") == "tenant"
        assert server.says("sudo -n id -u") == "0"
        assert int(server.says("df --output=size -B1 / | tail -1")) > 4 * GIB
        assert server.says("test -d /sys/firmware/efi && echo uefi || echo bios") == ("uefi" if uefi else "bios")
        # no account has a password
        assert {line.split(":")[1][:1] for line in server.says("sudo cat /etc/shadow").splitlines()} <= {"*", "!"}
        assert server.says("systemctl list-units --failed --no-legend --plain") == ""
        # after the update of a kernel
        server.says("sudo update-grub 2>&1")
        server.ssh("sudo systemctl reboot")
        server.boot(first)
        assert server.says("hostname") == "tenant"


def test_nothing_of_one_machine_is_in_the_image(image: pathlib.Path, tmp_path: pathlib.Path) -> None:
    raw = tmp_path / "disk.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", str(image), str(raw)], check=True)
    with raw.open("rb") as stream:
        stream.seek(32 * 1024**2)
        (tmp_path / "root").write_bytes(stream.read())

    def debugfs(request: str) -> str:
        return subprocess.run(["debugfs", "-R", request, str(tmp_path / "root")], capture_output=True, text=True, check=True).stdout

    assert "ssh_host" not in debugfs("ls -p /etc/ssh") and "sshd_config" in debugfs("ls -p /etc/ssh")
    assert debugfs("cat /etc/machine-id") == ""
    assert "authorized_keys" not in debugfs("ls -p /root/.ssh")
    assert "deb.debian.org" in debugfs("cat /etc/apt/sources.list")
