# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested host settings, the current state of the host, and the steps of a change."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, parse_size

GUESTS_FILE = "/etc/default/libvirt-guests"
_QEMU_KEY = re.compile(r"\A[a-z][a-z0-9_]*\Z")
_GUESTS_KEY = re.compile(r"\A[A-Z][A-Z0-9_]*\Z")
_LIMIT = re.compile(r"\A[a-z0-9_]+([./][A-Za-z0-9_:-]+)+\Z")
_USER = re.compile(r"\A[A-Za-z_][A-Za-z0-9_.@-]*\$?\Z")


class Pages(t.NamedTuple):
    """Huge pages of one size; ``path`` is the path in the input."""

    size_kib: int
    count: int
    path: str = ""


class HostSettings(t.NamedTuple):
    """The validated settings.

    ``nested`` is ``None`` if the setting of the host is not changed. ``hook`` has text and mode of the files with which libvirt asks who may run a VM.
    """

    qemu_conf: t.Mapping[str, t.Any] = {}
    guests_conf: t.Mapping[str, str] = {}
    guests_file: str = GUESTS_FILE
    sysctl: t.Mapping[str, int] = {}
    huge_pages: tuple[Pages, ...] = ()
    nested: bool | None = None
    mask_broken_kvm: bool = False
    users: tuple[str, ...] = ()
    pool_paths: tuple[str, ...] = ()
    hook: t.Mapping[str, tuple[str, int]] = {}


class FileFound(t.NamedTuple):
    """An existing file; ``written`` in Unix seconds."""

    text: str
    written: float


class Unit(t.NamedTuple):
    """A systemd unit; ``started`` in Unix seconds, by the current clock, ``None`` if it is not running."""

    name: str
    load: str = "not-found"
    active: str = "inactive"
    file_state: str = ""
    started: float | None = None
    needs_reload: bool = False
    pid: int = 0

    @property
    def installed(self) -> bool:
        """Whether its unit file exists."""
        return self.load not in ("not-found", "")

    @property
    def is_active(self) -> bool:
        """Whether it is running or starting."""
        return self.active in ("active", "activating", "reloading")

    @property
    def is_enabled(self) -> bool:
        """Whether it is enabled at boot."""
        return self.file_state in ("enabled", "static", "indirect", "alias", "generated", "linked-runtime", "enabled-runtime")


class PagesFound(t.NamedTuple):
    """Huge pages of one size as found; ``tried`` is a count that the kernel could not allocate since boot."""

    count: int
    free: int
    tried: int | None = None


class Kvm(t.NamedTuple):
    """The KVM device: ``usable`` is ``None`` without a proof; ``hidden`` from the running daemon."""

    device: bool = False
    usable: bool | None = None
    reason: str = ""
    hidden: bool = False


class Label(t.NamedTuple):
    """The SELinux type of a pool folder: that of the policy and the actual one, ``None`` if the folder does not exist."""

    path: str
    policy: str
    actual: str | None


class HostFound(t.NamedTuple):
    """The current state of the host.

    ``folders`` are the modification times of the drop-in folders; ``labels`` is
    ``None`` if SELinux is disabled, ``members`` if the group does not exist.
    """

    files: t.Mapping[str, FileFound]
    folders: t.Mapping[str, float]
    units: t.Mapping[str, Unit]
    limits: t.Mapping[str, int | None]
    memory_kib: int
    default_page_kib: int
    pages: t.Mapping[int, PagesFound]
    modules: t.Mapping[str, str]
    kvm: Kvm
    members: frozenset[str] | None = frozenset()
    users: frozenset[str] = frozenset()
    labels: tuple[Label, ...] | None = None


class WriteFile(t.NamedTuple):
    """Replace a whole file; ``text`` is ``None`` to remove it."""

    path: str
    before: str | None
    text: str | None
    mode: int = 0o644

    @property
    def action(self) -> str:
        """The description for the result."""
        return f"remove {self.path}" if self.text is None else f"write {self.path}"


class Command(t.NamedTuple):
    """Run a command; ``action`` describes it."""

    argv: tuple[str, ...]
    action: str


class SetNumber(t.NamedTuple):
    """Write a number to a file of the kernel; ``name`` for the result."""

    path: str
    name: str
    before: int
    value: int

    @property
    def action(self) -> str:
        """The description for the result."""
        return f"set {self.name} from {self.before} to {self.value}"


class GivePages(t.NamedTuple):
    """Request huge pages from the kernel, and record what it could not allocate."""

    size_kib: int
    name: str
    before: int
    count: int

    @property
    def action(self) -> str:
        """The description for the result."""
        return f"set huge pages of {self.name} from {self.before} to {self.count}"


Step = t.Union[WriteFile, Command, SetNumber, GivePages]


def parse_settings(raw: t.Mapping[str, t.Any]) -> HostSettings:
    """Parse and validate the settings."""
    guests_file = raw.get("guests_file") or GUESTS_FILE
    if not str(guests_file).startswith("/"):
        raise InputError(f"{shown(guests_file)} is not an absolute path.", "guests_file", "Use an absolute path.")
    qemu, guests, limits = (raw.get(name) or {} for name in ("qemu_conf", "guests_conf", "sysctl"))
    return HostSettings(
        qemu_conf={_key(key, _QEMU_KEY, "qemu_conf", "vnc_listen"): _qemu_value(value, f"qemu_conf.{key}") for key, value in qemu.items()},
        guests_conf={_key(key, _GUESTS_KEY, "guests_conf", "SHUTDOWN_TIMEOUT"): _line(value, f"guests_conf.{key}") for key, value in guests.items()},
        guests_file=str(guests_file),
        sysctl={_key(key, _LIMIT, "sysctl", "fs.inotify.max_user_instances"): _number(value, f"sysctl.{key}") for key, value in limits.items()},
        huge_pages=_pages(raw.get("huge_pages") or ()),
        nested=raw.get("nested"),
        mask_broken_kvm=bool(raw.get("mask_broken_kvm")),
        users=tuple(dict.fromkeys(_user(user, f"users[{index}]") for index, user in enumerate(raw.get("users") or ()))),
        pool_paths=tuple(dict.fromkeys(_folder(path, f"pool_paths[{index}]") for index, path in enumerate(raw.get("pool_paths") or ()))),
    )


def _key(key: t.Any, form: re.Pattern[str], path: str, like: str) -> str:
    if not isinstance(key, str) or not form.match(key):
        raise InputError(f"{shown(key)} is not a valid name of a setting.", path, f"Use a name such as {like}.")
    return key


def _line(value: t.Any, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or any(ord(letter) < 32 for letter in str(value)):
        raise InputError(f"{shown(value)} is not a single line of text.", path, "Use text or a number.")
    return str(value)


def _qemu_value(value: t.Any, path: str) -> t.Any:
    """Return a string, an integer (also for booleans, as in libvirt) or a list of strings."""
    if isinstance(value, (list, tuple)):
        return [_line(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if not isinstance(value, str) or '"' in value:
        # libvirt's configuration files do not support escaped quotes
        raise InputError(f"{shown(value)} is not supported in libvirt's configuration.", path, "Use text without double quotes, an integer or a list.")
    return _line(value, path)


def _number(value: t.Any, path: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if isinstance(value, (bool, float)) or number < 0:
        raise InputError(f"{shown(value)} is not an integer of at least 0.", path, "Use digits only, for example 1024.")
    return number


def _user(value: t.Any, path: str) -> str:
    if not isinstance(value, str) or not _USER.match(value):
        raise InputError(f"{shown(value)} is not a valid user name.", path, "Use the name of a user of the host.")
    return value


def _folder(value: t.Any, path: str) -> str:
    if not isinstance(value, str) or not re.match(r"\A/[^\x00-\x1f]*[^\x00-\x1f/]/*\Z", value):
        raise InputError(f"{shown(value)} is not an absolute path of a folder.", path, "Use the absolute path of the pool's folder.")
    return re.sub(r"/{2,}", "/", value).rstrip("/")


def _pages(entries: t.Sequence[t.Any]) -> tuple[Pages, ...]:
    found: list[Pages] = []
    for index, entry in enumerate(entries):
        path = f"huge_pages[{index}]"
        size = parse_size(entry.get("size"), "MiB", f"{path}.size")
        count = _number(entry.get("count"), f"{path}.count")
        if size % KIB:
            raise InputError(f"{shown(entry.get('size'))} is not a valid page size.", f"{path}.size", "Use for example 2 MiB or 1 GiB.")
        if any(pages.size_kib == size // KIB for pages in found):
            raise InputError(f"{shown(entry.get('size'))} is listed twice.", f"{path}.size", "List each size once.")
        found.append(Pages(size // KIB, count, path))
    return tuple(found)
