# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration files of a virt host and their content."""

from __future__ import annotations

import re
import shlex
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import HostFound, HostSettings, WriteFile

MONOLITHIC, MODULAR = "libvirtd.service", "virtqemud.service"
QEMU_CONF = "/etc/libvirt/qemu.conf"
SYSCTL = "/etc/sysctl.d/60-reduced-footprint.conf"
# sorts after Debian's qemu-system-x86.conf, which also sets nested: the last setting is effective
MODPROBE = "/etc/modprobe.d/zz-reduced-footprint-kvm.conf"
HUGE_PAGES = "/etc/tmpfiles.d/reduced-footprint-huge-pages.conf"
HIDE_KVM = "/etc/systemd/system/reduced-footprint-hide-kvm.service"
GUESTS_DROP_IN = "/etc/systemd/system/libvirt-guests.service.d/footprint.conf"
PAGES_FOLDER = "/sys/kernel/mm/hugepages"
_DROP_IN = "/etc/systemd/system/{unit}.d/reduced-footprint.conf"
_MARK = "reduced.footprint.virt_host"
_HEAD = f"# Made by {_MARK}\n"

_STAND_IN = "/run/reduced.footprint/no-kvm"
# Without the device there must be no file to mount over it: systemd would create an empty /dev/kvm that is visible to all processes.
HIDE_KVM_TEXT = f"""{_HEAD}[Unit]
Description=Placeholder for an unusable KVM device, for libvirt

[Service]
Type=oneshot
ExecStart=/usr/bin/rm -f {_STAND_IN}
ExecStart=-/usr/bin/find /dev/kvm -maxdepth 0 -type c -exec /usr/bin/install -D --mode=0600 /dev/null {_STAND_IN} \\;
"""

GUESTS_TEXT = """# reduced.footprint.virt_host
[Unit]
After=libvirtd.service virtqemud.service virtlxcd.service
"""


def drop_in(daemon: str) -> str:
    """Return the path of the drop-in of the daemon's unit."""
    return _DROP_IN.format(unit=daemon)


def mount_point(size_kib: int) -> str:
    """Return the mount point of pages with another size than the kernel's default, e.g. ``/dev/hugepages1G``."""
    return "/dev/hugepages" + size_text(size_kib * KIB).replace(" ", "").replace("iB", "")


def mount_unit(size_kib: int) -> str:
    """Return the path of the unit of that mount."""
    return f"/etc/systemd/system/{mount_point(size_kib)[1:].replace('/', '-')}.mount"


def paths(settings: HostSettings, page_sizes: t.Iterable[int]) -> tuple[str, ...]:
    """Return all files that may need changes."""
    fixed = (QEMU_CONF, settings.guests_file, SYSCTL, MODPROBE, HUGE_PAGES, GUESTS_DROP_IN, HIDE_KVM, drop_in(MONOLITHIC), drop_in(MODULAR))
    return (*fixed, *settings.hook, *(mount_unit(size) for size in sorted(page_sizes)))


def daemon_paths(daemon: str, page_sizes: t.Iterable[int]) -> tuple[str, ...]:
    """Return the files that the daemon reads at its start."""
    return (QEMU_CONF, HIDE_KVM, drop_in(daemon), *(mount_unit(size) for size in page_sizes))


def drop_in_folders() -> tuple[str, ...]:
    """Return the folders of the drop-ins, whose modification time shows the removal of a file."""
    return tuple(drop_in(daemon).rpartition("/")[0] for daemon in (MONOLITHIC, MODULAR))


def wanted_texts(settings: HostSettings, found: HostFound, daemon: str, hide_kvm: bool) -> dict[str, tuple[str | None, int]]:
    """Return text and mode of each file; the text is ``None`` for a file that must not exist."""
    old = {path: found.files[path].text if path in found.files else None for path in paths(settings, found.pages)}
    mounted = sorted(pages.size_kib for pages in settings.huge_pages if pages.count and pages.size_kib != found.default_page_kib)
    qemu = [f"{key} = {_libvirt_value(value)}" for key, value in sorted(settings.qemu_conf.items())]
    guests = [f"{key}={shlex.quote(value)}" for key, value in sorted(settings.guests_conf.items())]
    limits = [f"{key} = {value}" for key, value in sorted(settings.sysctl.items())]
    nested = [f"options {module} nested={int(bool(settings.nested))}" for module in ("kvm_amd", "kvm_intel")]
    pages = [f"w {PAGES_FOLDER}/hugepages-{one.size_kib}kB/nr_hugepages - - - - {one.count}" for one in settings.huge_pages]
    wanted: dict[str, tuple[str | None, int]] = {
        # of two settings with the same name libvirt uses the first, the script of libvirt-guests the last
        QEMU_CONF: (with_block(old[QEMU_CONF], qemu, at_top=True), 0o600),
        settings.guests_file: (with_block(old[settings.guests_file], guests, at_top=False), 0o644),
        SYSCTL: (_whole_file(limits), 0o644),
        MODPROBE: (None if settings.nested is None else _whole_file(nested), 0o644),
        HUGE_PAGES: (_whole_file(pages), 0o644),
        # otherwise both stop together, libvirt-guests cannot reach the daemon, and the guests are killed
        GUESTS_DROP_IN: (GUESTS_TEXT, 0o644),
        HIDE_KVM: (HIDE_KVM_TEXT if hide_kvm else None, 0o644),
        **settings.hook,
    }
    for unit in (MONOLITHIC, MODULAR):
        wanted[drop_in(unit)] = (_daemon_text(mounted, hide_kvm) if unit == daemon else None, 0o644)
    for size in found.pages:
        wanted[mount_unit(size)] = (_mount_text(size) if size in mounted else None, 0o644)
    return wanted


def pages_before(found: HostFound) -> list[int]:
    """Return the page sizes in KiB that an earlier run configured."""
    text = found.files[HUGE_PAGES].text if HUGE_PAGES in found.files else ""
    return [int(size) for size in re.findall(r"/hugepages-([0-9]+)kB/", text)]


def file_steps(settings: HostSettings, found: HostFound, daemon: str, hide_kvm: bool) -> list[WriteFile]:
    """Return steps for the files that differ."""
    steps = []
    for path, (text, mode) in wanted_texts(settings, found, daemon, hide_kvm).items():
        before = found.files[path].text if path in found.files else None
        if text != before:
            steps.append(WriteFile(path, before, text, mode))
    return steps


def with_block(text: str | None, lines: t.Sequence[str], *, at_top: bool) -> str | None:
    """Replace the block between the markers, everything else is kept; without lines the markers are removed, too."""
    begin, end = f"# BEGIN {_MARK}", f"# END {_MARK}"
    rest = (text or "").splitlines(keepends=True)
    marks = [index for index, line in enumerate(rest) if line.strip() in (begin, end)]
    if len(marks) >= 2:
        place = marks[0]
        del rest[marks[0] : marks[1] + 1]
    else:
        place = 0 if at_top else len(rest)
    if not lines:
        return None if text is None else "".join(rest)
    if place and not rest[place - 1].endswith("\n"):
        rest[place - 1] += "\n"
    return "".join([*rest[:place], *(f"{line}\n" for line in (begin, *lines, end)), *rest[place:]])


def _whole_file(lines: t.Sequence[str]) -> str | None:
    return _HEAD + "".join(f"{line}\n" for line in lines) if lines else None


def _libvirt_value(value: t.Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_libvirt_value(item) for item in value)}]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def _daemon_text(mounted: t.Sequence[int], hide_kvm: bool) -> str | None:
    needed = [mount_unit(size) for size in mounted] + ([HIDE_KVM] if hide_kvm else [])
    if not needed:
        return None
    units = " ".join(path.rpartition("/")[2] for path in needed)
    # libvirt detects the mounts of huge pages at its start
    text = f"{_HEAD}[Unit]\nWants={units}\nAfter={units}\n"
    if hide_kvm:
        text += "[Service]\n# The device exists but is unusable; if libvirt sees it, it probes QEMU again at every define.\n"
        text += f"BindPaths=-{_STAND_IN}:/dev/kvm\n"
    return text


def _mount_text(size_kib: int) -> str:
    return (
        f"{_HEAD}[Unit]\nDescription=Huge pages of {size_text(size_kib * KIB)}\nDefaultDependencies=no\nBefore=sysinit.target\n\n"
        f"[Mount]\nWhat=hugetlbfs\nWhere={mount_point(size_kib)}\nType=hugetlbfs\nOptions=pagesize={size_kib}K,mode=0755\n"
    )
