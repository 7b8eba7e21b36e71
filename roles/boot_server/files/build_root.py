# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the Debian that is unpacked onto the disks of servers: one archive for BIOS and UEFI, with a kernel and the programs of both boot loaders.

It is installed from distribution packages and contains no password, no key and no machine id; the files of each server are written when it is installed.
The manifest is written last, so a build that was interrupted is repeated.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PACKAGES = (
    "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "iputils-ping", "procps", "netbase", "openssh-server", "python3", "python3-apt",
    "sudo", "ca-certificates", "initramfs-tools", "zstd", "fdisk", "lvm2", "e2fsprogs", "dosfstools", "efibootmgr", "grub2-common", "grub-pc-bin",
    "grub-efi-amd64-bin", "libpam-systemd", "pciutils", "less", "nano",
)  # fmt: skip
ARCHIVE, DESCRIPTION = "root.tar.zst", "root.json"


def put(root: pathlib.Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, "utf-8")


def install(root: pathlib.Path, wanted: argparse.Namespace) -> None:
    """Install the packages into ``root``."""
    argv = ["mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", f"--components={wanted.components}"]
    argv += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Retries "3"']
    argv += ["--dpkgopt=force-unsafe-io", f"--include={','.join([*PACKAGES, wanted.kernel, *wanted.package])}", wanted.release, str(root), *wanted.source]
    # its mounts and processes end with it, also if it is killed
    apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apart, *argv], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)


def configure(root: pathlib.Path) -> None:
    """Enable the services, and remove everything that must not be the same on all servers."""
    for name in ("etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/fstab"):
        put(root, name, "")
    # also the settings of apt and dpkg for this build
    unwanted = ("etc/ssh/ssh_host_*", "var/lib/dbus/machine-id", "var/lib/apt/lists/*_*", "var/cache/apt/*.bin", "etc/*/*.d/99mmdebstrap")
    for path in [each for pattern in unwanted for each in root.glob(pattern)]:
        path.unlink()
    subprocess.run(["systemctl", "--root", str(root), "enable", "systemd-networkd.service", "ssh.service"],
                   check=True, stdin=subprocess.DEVNULL, capture_output=True)  # fmt: skip


def pack(root: pathlib.Path, target: pathlib.Path) -> None:
    """Write the tree as an archive, with owners by number and file capabilities."""
    argv = ["tar", "--create", "--sort=name", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--directory", str(root), "--file", "-", "."]
    with target.open("wb") as out, subprocess.Popen(argv, stdout=subprocess.PIPE) as packed:
        subprocess.run(["zstd", "--quiet", "-9", "--threads=0", "--stdout"], stdin=packed.stdout, stdout=out, check=True)
    if packed.returncode:
        raise SystemExit(f"tar ended with exit code {packed.returncode}")


def digest(path: pathlib.Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def build(wanted: argparse.Namespace) -> None:
    """Build the system beside the directory, which is served, and move its files there."""
    for left in wanted.directory.parent.glob(".root-*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=".root-", dir=wanted.directory.parent) as place:
        work = pathlib.Path(place)
        work.chmod(0o755)
        root = work / "root"
        install(root, wanted)
        configure(root)
        unpacked = sum(path.lstat().st_blocks * 512 for path in root.rglob("*"))
        pack(root, work / ARCHIVE)
        values = {"sha256": digest(work / ARCHIVE), "size": (work / ARCHIVE).stat().st_size, "unpacked": unpacked, "release": wanted.release}
        (work / DESCRIPTION).write_text(json.dumps({**values, "kernel": wanted.kernel, "inputs": wanted.inputs}, indent=2) + "\n", "utf-8")
        # a power loss must not leave the mark of an archive that was not written
        os.sync()
        (wanted.directory / DESCRIPTION).unlink(missing_ok=True)
        for old in wanted.directory.glob("root-*.json"):
            old.unlink()
        for name in (ARCHIVE, DESCRIPTION):
            (work / name).chmod(0o644)
            os.replace(work / name, wanted.directory / name)
        (wanted.directory / f"root-{wanted.inputs}.json").touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=pathlib.Path, help=f"directory for the files {ARCHIVE} and {DESCRIPTION}")
    parser.add_argument("--release", required=True, help="release of Debian")
    parser.add_argument("--kernel", default="linux-image-amd64", help="package of the kernel")
    parser.add_argument("--components", default="main", help="components of the archive, separated by commas")
    parser.add_argument("--source", action="append", default=[], help="line of sources.list; default is the archive of Debian")
    parser.add_argument("--package", action="append", default=[], help="additional package")
    parser.add_argument("--inputs", required=True, help="hash of what the system is built from")
    wanted = parser.parse_args()
    wanted.directory.mkdir(parents=True, exist_ok=True)
    # a build whose caller was killed may still be running
    with (wanted.directory.parent / ".root.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (wanted.directory / f"root-{wanted.inputs}.json").exists():
            build(wanted)


if __name__ == "__main__":
    main()
