# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the steps from the current to the requested host settings. No I/O."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CapacityError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import (
    Command,
    GivePages,
    HostFound,
    HostSettings,
    SetNumber,
    Step,
    Unit,
    WriteFile,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, KIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.plan_files import (
    MODULAR,
    MONOLITHIC,
    daemon_paths,
    drop_in,
    file_steps,
    pages_before,
)

GROUP = "libvirt"
POOL_TYPE = "virt_image_t"
_GUESTS = "libvirt-guests.service"
#: Units and whether they are started; all are enabled. Sockets start their daemon on demand.
_UNITS = {
    MONOLITHIC: (("virtlogd.socket", True), ("libvirtd.socket", True), ("libvirtd.service", False)),
    MODULAR: (("virtlogd.socket", True), ("virtqemud.socket", True), ("virtqemud.service", False)),
}
#: The other modular daemons in addition to virtqemud, each if it is installed.
_DRIVERS = (
    ("virtlxcd.socket", True), ("virtlxcd.service", False), ("virtstoraged.socket", True), ("virtstoraged.service", False),
    ("virtnetworkd.socket", True), ("virtnetworkd.service", False), ("virtnodedevd.socket", True), ("virtnwfilterd.socket", True),
    ("virtsecretd.socket", True), ("virtinterfaced.socket", True),
)  # fmt: skip
#: SELinux types of folders with disks of guests.
_POOL_TYPES = frozenset({POOL_TYPE, "svirt_image_t", "virt_content_t", "svirt_home_t"})
_NETWORK_TYPES = {"nfs_t": "virt_use_nfs", "cifs_t": "virt_use_samba", "fusefs_t": "virt_use_fusefs"}


class HostPlan(t.NamedTuple):
    """The steps in order, the restart of the daemon, and what requires a reboot.

    ``daemon_files`` are the steps with files that the daemon reads, so that it must be tested with them.
    """

    daemon: str | None
    steps: tuple[Step, ...] = ()
    daemon_files: tuple[WriteFile, ...] = ()
    restart: bool = False
    hide_kvm: bool = False
    restart_required: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def unit_names() -> tuple[str, ...]:
    """Return all units that are used here."""
    listed = [name for units in (*_UNITS.values(), _DRIVERS) for name, unused in units]
    return tuple(dict.fromkeys((*listed, "virtqemud.service", _GUESTS)))


def daemon_of(units: t.Mapping[str, Unit]) -> str | None:
    """Return libvirt's QEMU daemon of this host: the running one, else the enabled one, else the installed one."""
    choices = {MONOLITHIC: ("libvirtd.socket", MONOLITHIC), MODULAR: ("virtqemud.socket", MODULAR)}
    for able in (lambda unit: unit.is_active, lambda unit: unit.is_enabled, lambda unit: unit.installed):
        for daemon, names in choices.items():
            if units[daemon].installed and any(able(units[name]) for name in names):
                return daemon
    return None


def plan_host(settings: HostSettings, found: HostFound) -> HostPlan:
    """Plan the changes from the current to the requested settings."""
    daemon = daemon_of(found.units)
    warnings: list[str] = []
    reasons: list[str] = []
    hide_kvm = settings.mask_broken_kvm and found.kvm.device and found.kvm.usable is False
    if settings.mask_broken_kvm and found.kvm.device and found.kvm.usable is None:
        warnings.append(f"/dev/kvm is not hidden: {found.kvm.reason or 'no proof exists'}.")
    files = file_steps(settings, found, daemon or MONOLITHIC, hide_kvm)
    # pages before their file, because only that file shows which earlier sizes must be released
    steps: list[Step] = [*_page_steps(settings, found, reasons), *files, *_limit_steps(settings, found)]
    steps += [*_user_steps(settings, found), *_label_steps(settings, found, warnings)]
    units = [found.units[name] for name, unused in _wanted_units(daemon, found)]
    if any("/systemd/system/" in step.path for step in files) or any(unit.needs_reload for unit in units):
        steps.append(Command(("systemctl", "daemon-reload"), "reload systemd units"))
    steps += [*_unit_steps(daemon, found), *_container_steps(settings, found, files)]
    _nested_reasons(settings, found, reasons)
    if daemon is None:
        return HostPlan(None, tuple(steps), restart_required=tuple(reasons), warnings=tuple(warnings))
    plan = _restart(settings, daemon, found, files, hide_kvm)
    return plan._replace(steps=tuple(steps), restart_required=tuple(reasons), warnings=tuple(warnings))


def _restart(settings: HostSettings, daemon: str, found: HostFound, files: t.Sequence[WriteFile], hide_kvm: bool) -> HostPlan:
    """Plan the restart by comparing times, so that a run that was killed between writing and restarting is completed."""
    unit = found.units[daemon]
    read = daemon_paths(daemon, found.pages)
    changed = tuple(step for step in files if step.path in read)
    # an inactive daemon reads its settings at its next start
    if not unit.is_active:
        return HostPlan(daemon, hide_kvm=hide_kvm, daemon_files=changed)
    times = [found.files[path].written for path in (*read, *settings.hook) if path in found.files]
    times += [found.folders[folder] for folder in (os.path.dirname(drop_in(daemon)),) if folder in found.folders]
    younger = unit.started is not None and any(time > unit.started for time in times)
    looks = any(step.path in settings.hook for step in files)
    return HostPlan(daemon, hide_kvm=hide_kvm, daemon_files=changed, restart=bool(changed) or looks or younger)


def _container_steps(settings: HostSettings, found: HostFound, files: t.Sequence[WriteFile]) -> list[Step]:
    """Return the restart of the separate daemon of containers, if it runs and has not looked for the hook yet."""
    unit = found.units["virtlxcd.service"]
    written = [found.files[path].written for path in settings.hook if path in found.files]
    late = any(step.path in settings.hook for step in files) or any(time > (unit.started or 0) for time in written)
    return [Command(("systemctl", "restart", unit.name), f"restart {unit.name}")] if unit.is_active and late else []


def _wanted_units(daemon: str | None, found: HostFound) -> list[tuple[str, bool]]:
    if daemon is None:
        return []
    wanted = [*_UNITS[daemon], *((name, started) for name, started in (_DRIVERS if daemon == MODULAR else ()) if found.units[name].load == "loaded")]
    return [*wanted, (_GUESTS, True)]


def _unit_steps(daemon: str | None, found: HostFound) -> list[Step]:
    enable: list[str] = []
    start: list[str] = []
    for name, started in _wanted_units(daemon, found):
        unit = found.units[name]
        if not unit.installed:
            raise BackendError(f"{name} is not installed, but {daemon} is.", hint="Install all packages of libvirt.")
        if unit.load == "masked":
            raise RefusedError(f"{name} is masked on this host.", None, f"Run systemctl unmask {name} if it may be used.")
        if not unit.is_enabled:
            enable.append(name)
        if started and not unit.is_active:
            start.append(name)
    steps: list[Step] = []
    if enable:
        steps.append(Command(("systemctl", "enable", *enable), f"enable {', '.join(enable)}"))
    # systemd does not start the socket of a running service
    alone = [name.replace(".socket", ".service") for name in start if name.endswith(".socket") and _runs(found, name.replace(".socket", ".service"))]
    if alone:
        steps.append(Command(("systemctl", "stop", *alone), f"stop {', '.join(alone)}"))
    if start:
        steps.append(Command(("systemctl", "start", *start), f"start {', '.join(start)}"))
    if alone:
        steps.append(Command(("systemctl", "start", *alone), f"start {', '.join(alone)}"))
    return steps


def _runs(found: HostFound, name: str) -> bool:
    return name in found.units and found.units[name].is_active


def _limit_steps(settings: HostSettings, found: HostFound) -> list[Step]:
    """Return steps for the limits that are too low; others are not written, because a host in a container must not write them."""
    steps: list[Step] = []
    for name, value in sorted(settings.sysctl.items()):
        now = found.limits.get(name)
        if now is None:
            raise InputError(f"{name} is not a numeric setting of the kernel.", f"sysctl.{name}", "Use a setting that sysctl shows as a single number.")
        if now < value:
            steps.append(SetNumber(limit_path(name), name, now, value))
    return steps


def limit_path(name: str) -> str:
    """Return the file of a kernel limit; the first separator in its name, dot or slash, is the separator, as in sysctl."""
    by_slash = "/" in name.partition(".")[0]
    return "/proc/sys/" + (name if by_slash else name.translate({ord("."): "/", ord("/"): "."}))


def _user_steps(settings: HostSettings, found: HostFound) -> list[Step]:
    for index, user in enumerate(settings.users):
        if user not in found.users:
            raise InputError(f"the user {user} does not exist on this host.", f"users[{index}]", "Create the user first, or remove it from the list.")
    missing = [user for user in settings.users if found.members is None or user not in found.members]
    return [Command(("usermod", "--append", "--groups", GROUP, user), f"add {user} to the group {GROUP}") for user in missing]


def _label_steps(settings: HostSettings, found: HostFound, warnings: list[str]) -> list[Step]:
    """Return steps that add the folders to the policy, create them, and label their content."""
    steps: list[Step] = []
    for label in found.labels or ():
        if label.actual in _NETWORK_TYPES:
            warnings.append(f"{label.path} has the fixed SELinux type {label.actual}: guests need setsebool -P {_NETWORK_TYPES[label.actual]} on.")
            continue
        if label.policy not in _POOL_TYPES:
            pattern = re.sub(r"([^\w/])", r"\\\1", label.path) + "(/.*)?"
            steps.append(Command(("semanage", "fcontext", "--add", "--type", POOL_TYPE, pattern), f"add {label.path} to the SELinux policy"))
        if label.actual is None:
            # as libvirt does
            steps.append(Command(("install", "--directory", "--mode=0711", label.path), f"create {label.path}"))
        if label.actual not in _POOL_TYPES or label.policy not in _POOL_TYPES:
            # without -F: disks of running guests keep the label that their guest can access
            steps.append(Command(("restorecon", "-R", label.path), f"restore the SELinux labels of {label.path}"))
    return steps


def _page_steps(settings: HostSettings, found: HostFound, reasons: list[str]) -> list[Step]:
    steps: list[Step] = []
    for size in pages_before(found):
        if size in found.pages and found.pages[size].count and size not in [pages.size_kib for pages in settings.huge_pages]:
            steps.append(GivePages(size, size_text(size * KIB), found.pages[size].count, 0))
    asked = sum(pages.size_kib * pages.count for pages in settings.huge_pages)
    if asked and asked * KIB > found.memory_kib * KIB - GIB:
        have = size_text(found.memory_kib * KIB)
        raise CapacityError(
            f"{size_text(asked * KIB)} of huge pages would leave less than 1 GiB of {have} for the host.", "huge_pages", "Reduce the number of pages."
        )
    for pages in settings.huge_pages:
        name = size_text(pages.size_kib * KIB)
        if pages.size_kib not in found.pages:
            have = ", ".join(size_text(size * KIB) for size in sorted(found.pages)) or "none"
            raise InputError(f"the kernel does not support huge pages of {name} (supported: {have}).", f"{pages.path}.size", "Use a supported size.")
        now = found.pages[pages.size_kib]
        if now.tried == pages.count and now.count < pages.count:
            reasons.append(pages_missing(name, now.count, pages.count))
        elif now.count != pages.count:
            steps.append(GivePages(pages.size_kib, name, now.count, pages.count))
    return steps


def pages_missing(name: str, given: int, asked: int) -> str:
    """Return the message about pages that the kernel could not allocate."""
    return f"the kernel allocated {given} of {asked} huge pages of {name} because its memory is fragmented; reboot the host to allocate all"


def _nested_reasons(settings: HostSettings, found: HostFound, reasons: list[str]) -> None:
    if settings.nested is None:
        return
    for module, value in sorted(found.modules.items()):
        if (value.strip() in ("Y", "1")) != settings.nested:
            want = f"nested={int(settings.nested)}"
            reasons.append(f"the module {module} is loaded with nested={value.strip()}; {want} takes effect after a reload of the module or a reboot")
