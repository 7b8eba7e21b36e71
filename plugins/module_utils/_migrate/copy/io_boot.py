# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the copy bootable as a VM: write the fix-ups, rebuild the initramfs, install GRUB."""

from __future__ import annotations

import glob
import os
import pathlib
import platform
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.io_chroot import Chroot
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import EFI

_EFI_TARGETS = {"x86_64": "x86_64-efi", "aarch64": "arm64-efi"}
_EFI_NAMES = {"x86_64": "BOOTX64.EFI", "aarch64": "BOOTAA64.EFI"}
_EFI_MODULES = ("part_gpt", "fat", "ext2", "xfs", "btrfs", "search", "search_fs_uuid", "normal", "configfile", "linux", "echo", "test", "ls")
# Created here and not copied; excluded from the last rsync.
MADE_HERE = (
    "/boot/initrd.img-*",
    "/boot/initramfs-*",
    "/boot/grub/grub.cfg",
    "/boot/grub/grubenv",
    "/boot/grub/i386-pc",
    "/boot/grub/x86_64-efi",
    "/boot/grub/arm64-efi",
    "/boot/grub/fonts",
    "/boot/grub/locale",
    "/boot/grub2/grub.cfg",
    "/boot/grub2/i386-pc",
    "/boot/grub2/grubenv",
    "/boot/efi/EFI",
    "/efi/EFI",
    "/var/lib/initramfs-tools",
)


def write_changes(root: pathlib.Path, changes: t.Mapping[str, str | None]) -> None:
    """Write files of the copy: path → new text, ``None`` removes the file. Owner and mode are kept."""
    for path, text in changes.items():
        target = inside(root, path)
        if text is None:
            target.unlink(missing_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        before = os.stat(target) if target.exists() else None
        write_atomic(target, text, mode=before.st_mode & 0o7777 if before else 0o644)
        if before:
            os.chown(target, before.st_uid, before.st_gid)


def fill_holes(root: pathlib.Path, swap_files: t.Sequence[str]) -> None:
    """Allocate all blocks of swap files: the copy leaves out zeros, and the kernel rejects a swap file with holes."""
    for path in swap_files:
        target = inside(root, path)
        if target.is_file() and not target.is_symlink():
            with open(target, "rb+") as stream:
                os.posix_fallocate(stream.fileno(), 0, os.fstat(stream.fileno()).st_size)


def inside(root: pathlib.Path, path: str) -> pathlib.Path:
    """Return a path inside the copy.

    :raises BackendError: a symbolic link in the path leads out of the copy.
    """
    target = root / path.lstrip("/")
    if not str(pathlib.Path(os.path.realpath(target.parent)) / target.name).startswith(f"{os.path.realpath(root)}/"):
        raise BackendError(
            f"{path} leads out of the copy through a symbolic link.", hint="Replace absolute symbolic links in that path on the source by relative ones."
        )
    return target


def kernels(root: pathlib.Path) -> list[str]:
    """The versions of the kernels in the copy."""
    return sorted(os.path.basename(each)[len("vmlinuz-") :] for each in glob.glob(str(root / "boot" / "vmlinuz-*")))


def make_bootable(image: DiskImage, root: pathlib.Path) -> None:
    """Rebuild initramfs and boot loader with the programs of the copy.

    :raises BackendError: the result would not boot.
    """
    with Chroot(root, image.devices) as system:
        _initramfs(system, kernels(root))
        _grub(system, image)
    check_bootable(image, root)
    image.pack()


def _initramfs(system: Chroot, versions: t.Sequence[str]) -> None:
    if system.has("update-initramfs"):
        for version in versions:
            exists = (system.root / "boot" / f"initrd.img-{version}").exists()
            system.run(["update-initramfs", "-u" if exists else "-c", "-k", version])
    elif system.has("dracut"):
        for version in versions:
            system.run(["dracut", "--force", "--no-hostonly", f"/boot/initramfs-{version}.img", version])
    else:
        raise BackendError("The copy has neither update-initramfs nor dracut.", hint="Install initramfs-tools or dracut on the source.")


def _grub(system: Chroot, image: DiskImage) -> None:
    two = system.has("grub2-install") is not None
    install, mkconfig = ("grub2-install", "grub2-mkconfig") if two else ("grub-install", "grub-mkconfig")
    folder = "grub2" if two else "grub"
    if system.has(install) is None:
        raise BackendError("The copy has no grub-install.", hint="Install grub2-common and grub-pc-bin on the source.")
    if image.layout.firmware == EFI:
        _grub_efi(system, image, two)
    else:
        system.run([install, "--target=i386-pc", "--recheck", f"/dev/{os.path.basename(image.loop)}"])
        if (system.root / "var/lib/dpkg/info/grub-pc.list").exists():
            # upgrades of GRUB read the install device from debconf, which still has the old disk
            _set_debconf(system, "grub-pc grub-pc/install_devices multiselect /dev/vda")
    system.run([mkconfig, "-o", f"/boot/{folder}/grub.cfg"])


def _grub_efi(system: Chroot, image: DiskImage, two: bool) -> None:
    """Install GRUB at the fallback path, which firmware without boot entries uses.

    Uses grub-mkimage: grub-install requires the EFI partition to be mounted.
    """
    folder = _efi_folder(image, system.root)
    fallback = folder / "BOOT"
    signed = [each for each in sorted(folder.glob("*/shim*.efi")) if (each.parent / "grub.cfg").exists()]
    if signed:
        # the signed boot loader is part of the copy; only its configuration changes, by the fix-ups
        if not list(fallback.glob("[Bb][Oo][Oo][Tt]*.[Ee][Ff][Ii]")):
            fallback.mkdir(exist_ok=True)
            for each in signed[0].parent.glob("*.efi"):
                shutil.copy(each, fallback / (_EFI_NAMES[platform.machine()] if each == signed[0] else each.name))
        return
    target = _EFI_TARGETS[platform.machine()]
    grub = "grub2" if two else "grub"
    modules = system.root / "boot" / grub / target
    shutil.copytree(system.root / "usr/lib/grub" / target, modules, dirs_exist_ok=True)
    inner = system.run([f"{grub}-mkrelpath", f"/boot/{grub}"]).stdout.strip()
    homes = {each.mount: each.partition for each in image.layout.mounts}
    early = f"search.fs_uuid {homes.get('/boot', homes['/']).uuid} root\nset prefix=($root){inner}\n"
    (modules / "early.cfg").write_text(early, encoding="ascii")
    fallback.mkdir(parents=True, exist_ok=True)
    # prefix and early configuration are built into the image
    options = ["-O", target, "-p", inner, "-c", f"/boot/{grub}/{target}/early.cfg", "-o", f"{_esp_mount(image)}/EFI/BOOT/{_EFI_NAMES[platform.machine()]}"]
    system.run([f"{grub}-mkimage", *options, *_EFI_MODULES])
    if (system.root / "etc/debian_version").exists():
        # makes upgrades of GRUB update the fallback path
        _set_debconf(system, "grub-efi-amd64 grub2/force_efi_extra_removable boolean true")


def _esp_mount(image: DiskImage) -> str:
    esp = image.layout.esp
    return (esp.mount if esp else None) or "/boot/efi"


def _efi_folder(image: DiskImage, root: pathlib.Path) -> pathlib.Path:
    return root / _esp_mount(image).lstrip("/") / "EFI"


def _set_debconf(system: Chroot, line: str) -> None:
    if system.has("debconf-set-selections"):
        system.run(["debconf-set-selections"], stdin=f"{line}\n", ok=range(256))


def check_bootable(image: DiskImage, root: pathlib.Path) -> None:
    """Check boot loader configuration, EFI boot loader and initramfs.

    :raises BackendError: one of them is missing, or the configuration names an old disk.
    """
    found = [each for each in (root / "boot/grub/grub.cfg", root / "boot/grub2/grub.cfg") if each.exists()]
    text = found[0].read_text(encoding="utf-8", errors="replace") if found else ""
    uuid = next(each.uuid for each in image.layout.partitions if each.mount == "/")
    entries = root / "boot/loader/entries"
    if entries.is_dir():
        text += "".join(each.read_text(encoding="utf-8", errors="replace") for each in entries.glob("*.conf"))
    if f"root=UUID={uuid}" not in text or "/dev/loop" in text:
        raise BackendError("The boot loader configuration does not name the new root by its UUID.", hint="Check boot/grub/grub.cfg of the copy.")
    if image.layout.firmware == EFI and not list(_efi_folder(image, root).glob("[Bb][Oo][Oo][Tt]/[Bb][Oo][Oo][Tt]*.[Ee][Ff][Ii]")):
        raise BackendError("The UEFI fallback path has no boot loader.", hint=f"Check {_esp_mount(image)}/EFI/BOOT of the copy.")
    if not any((root / "boot").glob("init*")):
        raise BackendError("The copy has no initramfs.", hint="Check the log of the migration.")
