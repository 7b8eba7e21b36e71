# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build a cloud image from Debian packages: cloud-init, DHCP, a root that grows, GRUB for BIOS and UEFI; no key and no password in it.

The layout is that of Debian's own images: the root is partition 1 and the last on the disk, partition 14 is for GRUB under BIOS, partition
15 is the EFI system partition. Everything is written into plain files, so no loop device is needed. The manifest is written last, so a build that was
interrupted is repeated.
"""

from __future__ import annotations

import argparse
import fcntl
import glob
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import typing as t
import uuid

PACKAGES = (
    "apt", "debian-archive-keyring", "systemd-sysv", "systemd-resolved", "systemd-timesyncd", "dbus", "udev", "openssh-server", "python3", "iproute2",
    "iputils-ping", "ca-certificates", "kmod", "procps", "less", "netbase", "tzdata", "libpam-systemd", "sudo", "linux-image-cloud-amd64",
    "initramfs-tools", "zstd", "cloud-init", "cloud-guest-utils", "netplan.io", "fdisk", "e2fsprogs", "dosfstools", "grub2-common", "grub-pc-bin",
    "grub-efi-amd64-bin", "qemu-guest-agent",
)  # fmt: skip
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
#: What is the same on all machines that boot the image, or belongs to the host that built it.
REMOVED = ("etc/resolv.conf", "var/lib/dbus/machine-id", *(f"etc/ssh/ssh_host_{kind}_key{end}" for kind in ("rsa", "ecdsa", "ed25519") for end in ("", ".pub")))
EMPTIED = ("etc/apt/sources.list.d", "var/cache/apt", "var/lib/apt/lists", "var/log")
SECTOR = 512
MIB = 1024 * 1024
BIOS_START, EFI_START, EFI_SIZE, ROOT_START = 1 * MIB, 4 * MIB, 16 * MIB, 32 * MIB
MODULES = ("part_gpt", "ext2", "normal", "search", "search_fs_uuid", "linux", "configfile", "test", "echo", "serial", "terminal", "gzio",
           "minicmd", "reboot", "halt")  # fmt: skip
#: In boot.img the 64-bit sector of the rest of GRUB; in the first sector of that the sector of what follows.
BOOT_POINTER, CORE_POINTER = 0x5C, 0x1F4
FSTAB = "UUID={root} / ext4 rw,discard,errors=remount-ro,x-systemd.growfs 0 1\nLABEL=EFI /boot/efi vfat umask=0077,nofail 0 1\n"
#: Until the first update of a kernel; update-grub then writes another one from ``DEFAULTS``.
GRUB = """\
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
set timeout=0
menuentry 'Debian GNU/Linux' {{
    linux /boot/{kernel} root=UUID={root} ro console=tty0 console=ttyS0,115200 consoleblank=0
    initrd /boot/{initrd}
}}
"""
DEFAULTS = """\
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_CMDLINE_LINUX="console=tty0 console=ttyS0,115200 consoleblank=0"
GRUB_TERMINAL="console serial"
GRUB_SERIAL_COMMAND="serial --speed=115200"
GRUB_DISABLE_OS_PROBER=true
"""
EARLY = "search.fs_uuid {root} root\nset prefix=($root)/boot/grub\n"
CLOUD = """\
# as in the images of the distribution
locale: C.UTF-8
manage_etc_hosts: true
system_info:
  default_user:
    name: debian
    sudo: ALL=(ALL) NOPASSWD:ALL
    shell: /bin/bash
    lock_passwd: true
    gecos: Debian
    groups: [adm, audio, cdrom, dialout, dip, floppy, netdev, plugdev, sudo, video]
"""
ARCHIVE = """\
deb http://deb.debian.org/debian {release} main
deb http://deb.debian.org/debian {release}-updates main
deb http://deb.debian.org/debian-security {release}-security main
"""
#: Mounts and processes end with the command, also if it is killed.
APART = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def run(*argv: str, text: str | None = None) -> None:
    """Run a command; what it prints goes to standard error."""
    subprocess.run(argv, check=True, input=text, stdin=subprocess.DEVNULL if text is None else None, stdout=sys.stderr, encoding="utf-8")


def put(root: pathlib.Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    # never write through a link of the packages to the host
    path.unlink(missing_ok=True)
    path.write_text(text, "utf-8")


def install(root: pathlib.Path, release: str, sources: t.Sequence[str], packages: t.Sequence[str]) -> None:
    """Install the system into ``root``, and remove what must differ between machines."""
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]
    argv += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Retries "3"']
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    argv += ["--dpkgopt=force-unsafe-io", f"--include={','.join([*PACKAGES, *packages])}", release, str(root), *sources]
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*APART, *argv], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)
    clean(root)


def clean(root: pathlib.Path) -> None:
    """Remove identities and caches, and write the configuration of cloud-init."""
    for name in REMOVED:
        (root / name).unlink(missing_ok=True)
    # programs expect the folders
    for path in [path for name in EMPTIED for path in (root / name).rglob("*")]:
        if path.is_symlink() or not path.is_dir():
            path.unlink()
    put(root, "etc/machine-id", "")
    put(root, "etc/hostname", "localhost\n")
    put(root, "etc/cloud/cloud.cfg.d/01_debian_cloud.cfg", CLOUD)
    put(root, "etc/default/grub", DEFAULTS)
    (root / "boot/efi").mkdir(exist_ok=True)
    (root / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")


def packages_of(root: pathlib.Path) -> list[str]:
    found = subprocess.run(
        ["dpkg-query", "--admindir", str(root / "var/lib/dpkg"), "--show", "--showformat", "${Package} ${Version}\n"],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    return found.stdout.splitlines()


def write_disk(root: pathlib.Path, work: pathlib.Path, disk: pathlib.Path, size: int, identity: uuid.UUID) -> None:
    """Write the system in ``root`` to a raw disk that boots with BIOS and UEFI.

    :arg work: an empty folder for what is needed meanwhile.
    :arg size: bytes.
    :arg identity: UUID of the root file system.
    """
    words = {"root": str(identity), "kernel": _newest(root, "vmlinuz"), "initrd": _newest(root, "initrd.img")}
    put(root, "etc/fstab", FSTAB.format(**words))
    put(root, "boot/grub/grub.cfg", GRUB.format(**words))
    for kind in ("i386-pc", "x86_64-efi"):
        # what update-grub writes loads more modules than those that GRUB needs to read it
        own = root / "boot/grub" / kind
        own.mkdir()
        for path in (root / "usr/lib/grub" / kind).iterdir():
            if path.suffix in (".mod", ".lst"):
                shutil.copy(path, own)
    _partition(disk, size)
    grub = {kind: _grub(root, work, kind, EARLY.format(**words)) for kind in ("i386-pc", "x86_64-efi")}
    run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum_seed", "-L", "root", "-U", str(identity), "-m", "1", "-d", str(root),
        "-E", f"offset={ROOT_START}", str(disk), f"{(size - ROOT_START - MIB) // 1024}k")  # fmt: skip
    _start_from_bios(disk, (root / "usr/lib/grub/i386-pc/boot.img").read_bytes(), grub["i386-pc"].read_bytes())
    _start_from_uefi(disk, work, grub["x86_64-efi"])


def compress(disk: pathlib.Path, image: pathlib.Path) -> None:
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd", "-W", "-m", "2", str(disk), str(image))


def digest(path: pathlib.Path) -> str:
    """Return the SHA-512 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha512").hexdigest()


def _newest(root: pathlib.Path, name: str) -> str:
    return sorted((root / "boot").glob(f"{name}-*"))[-1].name


def _partition(disk: pathlib.Path, size: int) -> None:
    with disk.open("wb") as stream:
        stream.truncate(size)
    parts = {
        "14": (BIOS_START, EFI_START - BIOS_START, "21686148-6449-6E6F-744E-656564454649"),
        "15": (EFI_START, EFI_SIZE, "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"),
        "1": (ROOT_START, size - ROOT_START - MIB, "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"),
    }
    lines = [f"{disk}{number} : start={start // SECTOR}, size={length // SECTOR}, type={kind}" for number, (start, length, kind) in parts.items()]
    run("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", str(disk), text="label: gpt\n" + "\n".join(lines) + "\n")


def _grub(root: pathlib.Path, work: pathlib.Path, kind: str, early: str) -> pathlib.Path:
    """Build GRUB for a platform with the tools of the root itself; ``early`` finds the root by its UUID."""
    own = work / kind
    own.mkdir()
    (own / "early.cfg").write_text(early)
    modules = [*MODULES, *(["biosdisk"] if kind == "i386-pc" else ["efi_gop", "all_video", "fat"])]
    run(*APART, "sh", "-c", 'mount --bind "$1" "$2/mnt" && shift && root=$1 && shift && exec chroot "$root" "$@"', "sh", str(own), str(root),
        "grub-mkimage", "-O", kind, "-o", "/mnt/core", "-p", "/boot/grub", "-c", "/mnt/early.cfg", *modules)  # fmt: skip
    return own / "core"


def _start_from_bios(disk: pathlib.Path, boot: bytes, core: bytes) -> None:
    """Write GRUB as grub-bios-setup does: its first sector before the partition table, the rest in the partition for it."""
    first = BIOS_START // SECTOR
    core = core[:CORE_POINTER] + struct.pack("<Q", first + 1) + core[CORE_POINTER + 8 :]
    boot = boot[:BOOT_POINTER] + struct.pack("<Q", first) + boot[BOOT_POINTER + 8 :]
    with disk.open("r+b") as stream:
        # from byte 440 on the sector belongs to the partition table
        stream.write(boot[:440])
        stream.seek(BIOS_START)
        stream.write(core)


def _start_from_uefi(disk: pathlib.Path, work: pathlib.Path, core: pathlib.Path) -> None:
    system = work / "efi.img"
    with system.open("wb") as stream:
        stream.truncate(EFI_SIZE)
    run("mformat", "-i", str(system), "-v", "EFI", "::")
    run("mmd", "-i", str(system), "::/EFI", "::/EFI/BOOT")
    run("mcopy", "-i", str(system), str(core), "::/EFI/BOOT/BOOTX64.EFI")
    with disk.open("r+b") as stream:
        stream.seek(EFI_START)
        stream.write(system.read_bytes())


def build(wanted: argparse.Namespace) -> None:
    """Build the image beside the files of the last one, and move it there."""
    for left in wanted.directory.glob(".build-*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=wanted.directory) as place:
        work = pathlib.Path(place)
        # users of apt read it
        work.chmod(0o755)
        root, disk, image = work / "root", work / "disk.raw", work / "image.qcow2"
        install(root, wanted.release, wanted.source, wanted.package)
        packages = packages_of(root)
        put(root, "etc/apt/sources.list", "".join(f"{line}\n" for line in wanted.source) or ARCHIVE.format(release=wanted.release))
        write_disk(root, work, disk, wanted.size * MIB, uuid.uuid4())
        compress(disk, image)
        manifest = {"release": wanted.release, "disk_mib": wanted.size, "sha512": digest(image), "packages": packages}
        (work / "json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
        # a power loss must not leave a manifest of an image that was not written
        os.sync()
        # from here on the old image is not valid any more
        for old in wanted.directory.glob(f"{glob.escape(wanted.name)}.*.json"):
            old.unlink()
        os.replace(image, wanted.directory / f"{wanted.name}.qcow2")
        os.replace(work / "json", wanted.directory / f"{wanted.name}.{wanted.inputs}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=pathlib.Path, help="directory for the files NAME.qcow2 and NAME.INPUTS.json")
    parser.add_argument("name", help="beginning of the names of the files")
    parser.add_argument("--release", required=True, help="release of Debian")
    parser.add_argument("--size", type=int, required=True, help="size of the disk in MiB")
    parser.add_argument("--source", action="append", default=[], help="line of sources.list; default is the archive of Debian")
    parser.add_argument("--package", action="append", default=[], help="additional package")
    parser.add_argument("--inputs", required=True, help="hash of what the image is built from")
    wanted = parser.parse_args()
    wanted.directory.mkdir(parents=True, exist_ok=True)
    # a build whose caller was killed may still be running
    with (wanted.directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (wanted.directory / f"{wanted.name}.{wanted.inputs}.json").exists():
            build(wanted)


if __name__ == "__main__":
    main()
