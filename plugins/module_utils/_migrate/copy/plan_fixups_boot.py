# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fix-ups of boot loader and initramfs: new root, new drivers, serial console. Text only."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout

PATTERNS = (
    "/etc/default/grub",
    "/etc/default/grub.d/*.cfg",
    "/etc/initramfs-tools/initramfs.conf",
    "/etc/initramfs-tools/conf.d/*",
    "/etc/dracut.conf",
    "/etc/dracut.conf.d/*.conf",
    "/etc/kernel/cmdline",
    "/boot/loader/entries/*.conf",
    "/boot/grub/device.map",
    "/boot/grub2/device.map",
    "/boot/grub2/grubenv",
    "/boot/efi/EFI/*/grub.cfg",
    "/efi/EFI/*/grub.cfg",
)

MARK = "# reduced.footprint:"
CONSOLE = "console=tty0 console=ttyS0,115200"
# kernel arguments that may name disks of the old machine
_OLD = r"resume|resume_offset|root|rootflags|rootfstype|cryptdevice|rd\.luks(?:\.\w+)?|rd\.lvm(?:\.\w+)?|rd\.md(?:\.\w+)?|rd\.dm(?:\.\w+)?|rd\.multipath"
_OLD_DISK_ARGUMENT = re.compile(rf"(?<![\w.=-])(?:{_OLD})=[^\s\"']*\s?")
_SEARCH = re.compile(r"(?m)^(\s*search(?:\.fs_uuid)?\s[^\n]*?)\b([0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|[0-9A-F]{4}-[0-9A-F]{4})\b")
# fixed size of GRUB's environment block
_GRUBENV = 1024
_DRIVERS = "virtio_blk virtio_scsi virtio_net virtio_pci"


def fix_boot(tree: t.Mapping[str, str], layout: DiskLayout) -> dict[str, str | None]:
    """Return the changed files that configure root and drivers for boot loader and initramfs."""
    changes: dict[str, str | None] = {path: None for path in ("/boot/grub/device.map", "/boot/grub2/device.map") if path in tree}
    for path, text in tree.items():
        if path == "/etc/default/grub" or path.startswith("/etc/default/grub.d/"):
            changes[path] = clean_command_line(text)
        elif path.startswith("/boot/loader/entries/"):
            changes[path] = fix_entry(text, layout)
        elif path == "/etc/kernel/cmdline":
            changes[path] = fix_arguments(text, layout) + "\n"
        elif path == "/boot/grub2/grubenv":
            changes[path] = fix_environment(text, layout)
        elif path.startswith(("/boot/efi/EFI/", "/efi/EFI/")):
            changes[path] = fix_stub(text, layout)
        elif path.startswith("/etc/dracut.conf"):
            changes[path] = _clean_lines(text, r"\s*kernel_cmdline\+?=")
        elif path.startswith("/etc/initramfs-tools/conf.d/"):
            changes[path] = _comment_roots(text)
    changes.update(_debian(tree) if "/etc/debian_version" in tree else _red_hat(tree))
    return changes


def _debian(tree: t.Mapping[str, str]) -> dict[str, str | None]:
    return {
        "/etc/default/grub.d/zz-reduced-footprint.cfg": (
            f"{MARK} serial console and unattended boot of the VM\n"
            f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {CONSOLE}"\n'
            'GRUB_TERMINAL="console serial"\n'
            'GRUB_SERIAL_COMMAND="serial --unit=0 --speed=115200"\n'
            "GRUB_TIMEOUT=1\nGRUB_RECORDFAIL_TIMEOUT=1\n"
            "GRUB_DISABLE_OS_PROBER=true\n"
        ),
        "/etc/initramfs-tools/conf.d/resume": "RESUME=none\n",
        "/etc/initramfs-tools/conf.d/zz-reduced-footprint": f"{MARK} drivers for the VM, not only for the old machine\nMODULES=most\n",
    }


def _red_hat(tree: t.Mapping[str, str]) -> dict[str, str | None]:
    grub = tree.get("/etc/default/grub")
    if grub is None:
        return {}
    return {
        "/etc/default/grub": _append_argument(clean_command_line(grub), CONSOLE),
        "/etc/dracut.conf.d/90-reduced-footprint.conf": (
            f'{MARK} drivers for the VM, not only for the old machine\nhostonly="no"\nadd_drivers+=" {_DRIVERS} "\n'
        ),
    }


def clean_command_line(text: str) -> str:
    """Return /etc/default/grub without kernel arguments that name disks of the old machine."""
    return _clean_lines(text, r"\s*GRUB_CMDLINE_LINUX\w*=")


def _clean_lines(text: str, begin: str) -> str:
    return "".join(_OLD_DISK_ARGUMENT.sub("", line) if re.match(begin, line) else line for line in text.splitlines(keepends=True))


def _comment_roots(text: str) -> str:
    """Comment out the old root and its keys that an installer configured for the initramfs."""
    wanted = re.compile(r"\s*(ROOT|CRYPTROOT|target)=")
    return "".join(f"{MARK} the old disk stayed behind: {line}" if wanted.match(line) else line for line in text.splitlines(keepends=True))


def fix_arguments(text: str, layout: DiskLayout) -> str:
    """Return a complete kernel command line for the new root."""
    root = next(each for each in layout.mounts if each.mount == "/")
    flags = f" rootflags=subvol={root.subvolume}" if root.subvolume else ""
    left = _OLD_DISK_ARGUMENT.sub("", text).strip()
    arguments = f"root=UUID={root.partition.uuid}{flags} {left}".strip()
    return arguments if CONSOLE in arguments else f"{arguments} {CONSOLE}"


def fix_entry(text: str, layout: DiskLayout) -> str:
    """Return a boot loader specification entry for the new root; options that are only a variable are kept."""
    lines = []
    for line in text.splitlines(keepends=True):
        found = re.match(r"(options\s+)(.*?)(\s*)\Z", line, re.DOTALL)
        if found and "=" in found.group(2):
            line = f"{found.group(1)}{fix_arguments(found.group(2), layout)}{found.group(3)}"
        lines.append(line)
    return "".join(lines)


def fix_environment(text: str, layout: DiskLayout) -> str:
    """Return GRUB's environment block with kernel options for the new root, in its fixed size."""
    head = text.rstrip("#")
    changed = re.sub(r"(?m)^(kernelopts=)(.*)$", lambda found: f"{found.group(1)}{fix_arguments(found.group(2), layout)} ", head)
    # one-time boot selections of the old machine
    changed = re.sub(r"(?m)^(boot_once|next_entry|prev_saved_entry)=.*\n", "", changed)
    if changed == head:
        return text
    return changed + "#" * max(0, _GRUBENV - len(changed.encode("utf-8", errors="surrogateescape")))


def fix_stub(text: str, layout: DiskLayout) -> str:
    """Return the grub.cfg of the EFI system partition, which loads the main configuration, with the new UUID."""
    homes = {each.mount: each.partition for each in layout.mounts}
    uuid = homes.get("/boot", homes["/"]).uuid
    return _SEARCH.sub(rf"\g<1>{uuid}", text)


def _append_argument(text: str, argument: str) -> str:
    if argument in text:
        return text
    changed, count = re.subn(r'(?m)^(GRUB_CMDLINE_LINUX=")([^"]*)"', rf'\1\2 {argument}"', text, count=1)
    return changed if count else f'{text.rstrip()}\nGRUB_CMDLINE_LINUX="{argument}"\n'
