# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cloud image as distributions build theirs: no key and no password in it, cloud-init, DHCP, a root that grows, GRUB for BIOS and UEFI.

The layout is that of Debian's own images: the root is partition 1 and the last on the disk, partition 14 is for GRUB under BIOS, partition
15 is the EFI system partition. Everything is written into plain files, so no loop device is needed.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import struct
import uuid

from . import files, images
from .say import run
from .settings import Lab

NAME = "debian-12-genericcloud-amd64.qcow2"
SUMS = "SHA512SUMS"
SECTOR = 512
MIB = 1024 * 1024
SIZE = 2048 * MIB
BIOS_START, EFI_START, EFI_SIZE, ROOT_START = 1 * MIB, 4 * MIB, 16 * MIB, 32 * MIB
MODULES = ("part_gpt", "ext2", "normal", "search", "search_fs_uuid", "linux", "configfile", "test", "echo", "serial", "terminal", "gzio",
           "minicmd", "reboot", "halt")
# In boot.img the 64-bit sector of the rest of GRUB; in the first sector of that the sector of what follows.
BOOT_POINTER, CORE_POINTER = 0x5C, 0x1F4

FSTAB = "UUID={root} / ext4 rw,discard,errors=remount-ro,x-systemd.growfs 0 1\nLABEL=EFI /boot/efi vfat umask=0077,nofail 0 1\n"
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
EARLY = "search.fs_uuid {root} root\nset prefix=($root)/boot/grub\n"
CLOUD = """\
# as in the images of the distribution
locale: C.UTF-8
apt_preserve_sources_list: true
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


def places(cache: images.Cache, lab: Lab) -> tuple[pathlib.Path, pathlib.Path]:
    """Return the paths of the image of this lab and of its root in the cache."""
    key = images.fingerprint(cache.base_key, "cloud-1", lab.mirror_url, pathlib.Path(__file__).read_text())
    return images.CACHE / f"cloud-{key}", images.CACHE / f"cloudroot-{images.fingerprint(cache.base_key, 'cloudroot-1', CLOUD)}"


def build(cache: images.Cache, lab: Lab) -> pathlib.Path:
    """Return the image of this lab from the cache; it is built if it is missing. Its packages come from the mirror of the lab."""
    target = places(cache, lab)[0]
    images._once("cloud", target, "building the cloud image", lambda: _image(cache, lab, target))
    return target / NAME


def place(lab: Lab, image: pathlib.Path) -> str:
    """Offer the image on the mirror of a running lab, with its checksums; return its URL."""
    folder = lab.state / "www/images"
    folder.mkdir(parents=True, exist_ok=True)
    for source in (image, image.with_name(SUMS)):
        target = folder / source.name
        files.remove(target)
        os.symlink(source, target)
    return f"{lab.mirror_url}/images/{NAME}"


def _root(cache: images.Cache, lab: Lab) -> pathlib.Path:
    target = places(cache, lab)[1]
    images._once("cloudroot", target, "installing the root of the cloud image", lambda: _install(cache, target))
    return target


def _install(cache: images.Cache, target: pathlib.Path) -> None:
    work = images.CACHE / "part-cloudroot"
    files.remove(work)
    argv = [*images.APART, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory",
            "--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\"",
            "--include=" + ",".join(cache.listed["cloud"])]
    argv += [f"--dpkgopt={option}" for option in images.DPKG_OPTIONS]
    argv += [cache.release, str(work), f"deb [trusted=yes] copy://{cache.pool} ./"]
    run(argv, env=dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive"))
    for path in (*work.glob("etc/ssh/ssh_host_*"), work / "etc/apt/sources.list", work / "etc/resolv.conf", work / "var/lib/dbus/machine-id"):
        files.remove(path)
    files.put(work, "etc/machine-id", "")
    files.put(work, "etc/hostname", "localhost\n")
    files.put(work, "etc/cloud/cloud.cfg.d/01_debian_cloud.cfg", CLOUD)
    (work / "boot/efi").mkdir(exist_ok=True)
    work.rename(target)


def _image(cache: images.Cache, lab: Lab, target: pathlib.Path) -> None:
    work = images.CACHE / "part-cloud"
    files.remove(work)
    work.mkdir()
    root, disk = work / "root", work / "disk.raw"
    run(["cp", "-al", str(_root(cache, lab)), str(root)])
    identity = uuid.uuid5(uuid.NAMESPACE_URL, str(target))
    words = {"root": str(identity)}
    words.update((name, _newest(root, file)) for name, file in (("kernel", "vmlinuz"), ("initrd", "initrd.img")))
    files.put(root, "etc/fstab", FSTAB.format(**words))
    files.put(root, "etc/apt/sources.list", f"deb [trusted=yes] {lab.mirror_url}/debs ./\n")
    files.put(root, "boot/grub/grub.cfg", GRUB.format(**words))
    _partition(disk)
    grub = {kind: _grub(root, work, kind, EARLY.format(**words)) for kind in ("i386-pc", "x86_64-efi")}
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum_seed", "-L", "root", "-U", str(identity), "-m", "1", "-d", str(root),
         "-E", f"offset={ROOT_START}", str(disk), f"{(SIZE - ROOT_START - MIB) // 1024}k"])
    _start_from_bios(disk, (root / "usr/lib/grub/i386-pc/boot.img").read_bytes(), grub["i386-pc"].read_bytes())
    _start_from_uefi(disk, work, grub["x86_64-efi"])
    files.remove(root)
    made = work / "made"
    made.mkdir()
    run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd", "-W", "-m", "2", str(disk), str(made / NAME)])
    digest = hashlib.sha512()
    with open(made / NAME, "rb") as stream:
        for block in iter(lambda: stream.read(MIB), b""):
            digest.update(block)
    files.put(made, SUMS, f"{digest.hexdigest()}  {NAME}\n")
    made.rename(target)
    files.remove(work)


def _newest(root: pathlib.Path, name: str) -> str:
    return sorted((root / "boot").glob(f"{name}-*"))[-1].name


def _partition(disk: pathlib.Path) -> None:
    with open(disk, "wb") as stream:
        stream.truncate(SIZE)
    parts = {
        "14": (BIOS_START, EFI_START - BIOS_START, "21686148-6449-6E6F-744E-656564454649"),
        "15": (EFI_START, EFI_SIZE, "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"),
        "1": (ROOT_START, SIZE - ROOT_START - MIB, "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"),
    }
    lines = [f"{disk}{number} : start={start // SECTOR}, size={size // SECTOR}, type={kind}" for number, (start, size, kind) in parts.items()]
    run(["sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", str(disk)], stdin=None, input="label: gpt\n" + "\n".join(lines) + "\n")


def _grub(root: pathlib.Path, work: pathlib.Path, kind: str, early: str) -> pathlib.Path:
    """Build GRUB for a platform with the tools of the root itself; ``early`` finds the root by its UUID."""
    own = work / kind
    own.mkdir()
    (own / "early.cfg").write_text(early)
    modules = [*MODULES, *(["biosdisk"] if kind == "i386-pc" else ["efi_gop", "all_video", "fat"])]
    run([*images.APART, "sh", "-c", 'mount --bind "$1" "$2/mnt" && shift && root=$1 && shift && exec chroot "$root" "$@"', "sh", str(own), str(root),
         "grub-mkimage", "-O", kind, "-o", "/mnt/core", "-p", "/boot/grub", "-c", "/mnt/early.cfg", *modules])
    return own / "core"


def _start_from_bios(disk: pathlib.Path, boot: bytes, core: bytes) -> None:
    """Write GRUB as grub-bios-setup does: its first sector before the partition table, the rest in the partition for it."""
    first = BIOS_START // SECTOR
    core = core[:CORE_POINTER] + struct.pack("<Q", first + 1) + core[CORE_POINTER + 8 :]
    boot = boot[:BOOT_POINTER] + struct.pack("<Q", first) + boot[BOOT_POINTER + 8 :]
    with open(disk, "r+b") as stream:
        # from byte 440 on the sector belongs to the partition table
        stream.write(boot[:440])
        stream.seek(BIOS_START)
        stream.write(core)


def _start_from_uefi(disk: pathlib.Path, work: pathlib.Path, core: pathlib.Path) -> None:
    system = work / "efi.img"
    with open(system, "wb") as stream:
        stream.truncate(EFI_SIZE)
    run(["mformat", "-i", str(system), "-v", "EFI", "::"])
    run(["mmd", "-i", str(system), "::/EFI", "::/EFI/BOOT"])
    run(["mcopy", "-i", str(system), str(core), "::/EFI/BOOT/BOOTX64.EFI"])
    with open(disk, "r+b") as stream:
        stream.seek(EFI_START)
        stream.write(system.read_bytes())
