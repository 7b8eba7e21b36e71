# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the copy bootable as a VM: write the fix-ups, rebuild the initramfs, install GRUB."""

from __future__ import annotations

import os
import platform
import re
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.io_sandbox import Sandbox
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


def read_files(tree: Tree, patterns: t.Iterable[str]) -> dict[str, str]:
    """Return the texts of the regular files that match globs; links are left out, as on the source."""
    found = {path: tree.read_text(path, follow=False) for pattern in patterns for path in tree.glob(pattern)}
    return {path: text for path, text in found.items() if text is not None}


def write_changes(tree: Tree, changes: t.Mapping[str, str | None]) -> None:
    """Write files of the copy: path → new text, ``None`` removes the file. Owner and mode are kept."""
    for path, text in changes.items():
        if text is None:
            tree.unlink(path)
        else:
            tree.write(path, text)


def fill_holes(tree: Tree, swap_files: t.Sequence[str]) -> None:
    """Allocate all blocks of swap files: the copy leaves out zeros, and the kernel rejects a swap file with holes."""
    for path in swap_files:
        status = tree.status(path, follow=False)
        if status is not None and stat.S_ISREG(status.st_mode):
            with open(tree.open(path, os.O_RDWR | os.O_NOFOLLOW), "rb+") as stream:
                os.posix_fallocate(stream.fileno(), 0, status.st_size)


def kernels(tree: Tree) -> list[str]:
    """The versions of the kernels in the copy."""
    return [each[len("vmlinuz-") :] for each in tree.names("/boot") if each.startswith("vmlinuz-")]


def make_bootable(image: DiskImage) -> None:
    """Rebuild initramfs and boot loader with the programs of the copy."""
    with Sandbox(image) as system:
        _initramfs(system, kernels(image.tree))
        _grub(system, image)
    check_bootable(image)
    image.pack()


def _initramfs(system: Sandbox, versions: t.Sequence[str]) -> None:
    if system.has("update-initramfs"):
        for version in versions:
            exists = system.tree.status(f"/boot/initrd.img-{version}")
            system.run(["update-initramfs", "-u" if exists else "-c", "-k", version])
    elif system.has("dracut"):
        for version in versions:
            system.run(["dracut", "--force", "--no-hostonly", f"/boot/initramfs-{version}.img", version])
    else:
        raise BackendError("The copy has neither update-initramfs nor dracut.", hint="Install initramfs-tools or dracut on the source.")


def _grub(system: Sandbox, image: DiskImage) -> None:
    two = system.has("grub2-install")
    install, mkconfig = ("grub2-install", "grub2-mkconfig") if two else ("grub-install", "grub-mkconfig")
    folder = "grub2" if two else "grub"
    if not system.has(install):
        raise BackendError("The copy has no grub-install.", hint="Install grub2-common and grub-pc-bin on the source.")
    if image.layout.firmware == EFI:
        _grub_efi(system, image, two)
    else:
        system.install_boot_code(install)
        if system.tree.status("/var/lib/dpkg/info/grub-pc.list"):
            # upgrades of GRUB read the install device from debconf, which still has the old disk
            _set_debconf(system, "grub-pc grub-pc/install_devices multiselect /dev/vda")
    system.run([mkconfig, "-o", f"/boot/{folder}/grub.cfg"])


def _grub_efi(system: Sandbox, image: DiskImage, two: bool) -> None:
    """Install GRUB at the fallback path, which firmware without boot entries uses.

    Uses grub-mkimage: grub-install requires the EFI partition to be mounted.
    """
    folder, tree = f"{_esp_mount(image)}/EFI", system.tree
    fallback = f"{folder}/BOOT"
    signed = [each for each in tree.glob(f"{folder}/*/shim*.efi") if tree.status(f"{os.path.dirname(each)}/grub.cfg")]
    if signed:
        # the signed boot loader is part of the copy; only its configuration changes, by the fix-ups
        if not _fallback_loaders(image):
            for each in tree.glob(f"{os.path.dirname(signed[0])}/*.efi"):
                name = _EFI_NAMES[platform.machine()] if each == signed[0] else os.path.basename(each)
                tree.write(f"{fallback}/{name}", tree.read(each) or b"")
        return
    target = _EFI_TARGETS[platform.machine()]
    grub = "grub2" if two else "grub"
    modules = f"/boot/{grub}/{target}"
    for each in tree.glob(f"/usr/lib/grub/{target}/*"):
        content = tree.read(each)
        if content is not None:
            tree.write(f"{modules}/{os.path.basename(each)}", content)
    inner = system.run([f"{grub}-mkrelpath", f"/boot/{grub}"]).stdout.strip()
    homes = {each.mount: each.partition for each in image.layout.mounts}
    early = f"search.fs_uuid {homes.get('/boot', homes['/']).uuid} root\nset prefix=($root){inner}\n"
    tree.write(f"{modules}/early.cfg", early)
    tree.make_folder(fallback)
    # prefix and early configuration are built into the image
    options = ["-O", target, "-p", inner, "-c", f"{modules}/early.cfg", "-o", f"{fallback}/{_EFI_NAMES[platform.machine()]}"]
    system.run([f"{grub}-mkimage", *options, *_EFI_MODULES])
    if tree.status("/etc/debian_version"):
        # makes upgrades of GRUB update the fallback path
        _set_debconf(system, "grub-efi-amd64 grub2/force_efi_extra_removable boolean true")


def _esp_mount(image: DiskImage) -> str:
    esp = image.layout.esp
    return (esp.mount if esp else None) or "/boot/efi"


def _fallback_loaders(image: DiskImage) -> list[str]:
    return [each for each in image.tree.glob(f"{_esp_mount(image)}/EFI/*/*") if re.search(r"/boot/boot[^/]*\.efi\Z", each, re.IGNORECASE)]


def _set_debconf(system: Sandbox, line: str) -> None:
    if system.has("debconf-set-selections"):
        system.run(["debconf-set-selections"], stdin=f"{line}\n", ok=range(256))


def check_bootable(image: DiskImage) -> None:
    """Check boot loader configuration, EFI boot loader and initramfs."""
    tree = image.tree
    text = tree.read_text("/boot/grub/grub.cfg") or tree.read_text("/boot/grub2/grub.cfg") or ""
    text += "".join(tree.read_text(each) or "" for each in tree.glob("/boot/loader/entries/*.conf"))
    uuid = next(each.uuid for each in image.layout.partitions if each.mount == "/")
    if f"root=UUID={uuid}" not in text or "/dev/loop" in text:
        raise BackendError("The boot loader configuration does not name the new root by its UUID.", hint="Check boot/grub/grub.cfg of the copy.")
    if image.layout.firmware == EFI and not _fallback_loaders(image):
        raise BackendError("The UEFI fallback path has no boot loader.", hint=f"Check {_esp_mount(image)}/EFI/BOOT of the copy.")
    if not tree.glob("/boot/init*"):
        raise BackendError("The copy has no initramfs.", hint="Check the log of the migration.")
