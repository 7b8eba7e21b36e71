# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Configuration files of services, and the systemd units that read them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known

_UNIT = re.compile(r"\A[A-Za-z0-9:_.@\\-]+\.(service|socket|timer|path|target)\Z")
_ACCOUNT = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]*\$?\Z")
_FILE_KEYS = frozenset({"path", "content", "owner", "group", "mode", "folder_group", "folder_mode", "validate", "secret"})
_UNIT_KEYS = frozenset({"name", "enabled", "started", "restart_after", "reload_after", "act"})


@dataclasses.dataclass(frozen=True)
class ConfigFile:
    """The wanted state of a file.

    :arg content: its complete text.
    :arg mode: permission bits.
    :arg folder_group, folder_mode: group and mode of its directory; with both ``None`` an existing directory is not changed.
    :arg validate: command that must accept the content before it is written; ``%s`` stands for a temporary file with that content.
    :arg secret: do not show its content in differences.
    """

    path: str
    content: str
    owner: str = "root"
    group: str = "root"
    mode: int = 0o644
    folder_group: str | None = None
    folder_mode: int | None = None
    validate: tuple[str, ...] = ()
    secret: bool = False

    @property
    def folder(self) -> str:
        """Return its directory."""
        return self.path.rpartition("/")[0] or "/"


@dataclasses.dataclass(frozen=True)
class ServiceUnit:
    """The wanted state of a unit.

    :arg enabled, started: not changed if ``None``.
    :arg restart_after: files; a restart is due if one is newer than the start of the service.
    :arg reload_after: files; a reload is due if one is newer than its last start or reload.
    :arg act: restart or reload the unit when due; otherwise only report it.
    """

    name: str
    enabled: bool | None = True
    started: bool | None = True
    restart_after: tuple[str, ...] = ()
    reload_after: tuple[str, ...] = ()
    act: bool = True


@dataclasses.dataclass(frozen=True)
class ServiceConfig:
    """The wanted files and units of one call."""

    files: tuple[ConfigFile, ...]
    units: tuple[ServiceUnit, ...]


@dataclasses.dataclass(frozen=True)
class PathFound:
    """An existing file or directory; ``written`` in seconds since the epoch, ``text`` of files only."""

    owner: str
    group: str
    mode: int
    written: float = 0.0
    text: str | None = None


@dataclasses.dataclass(frozen=True)
class UnitFound:
    """The state of a unit in systemd.

    :arg known: whether the unit exists.
    :arg started, settled: when its process was started, and when its state last changed, e.g. by a reload; seconds since the epoch.
    :arg unread: whether its unit files changed since systemd loaded them.
    :arg masked: whether it is masked.
    """

    known: bool = False
    active: bool = False
    enabled: bool = False
    started: float = 0.0
    settled: float = 0.0
    unread: bool = False
    masked: bool = False


@dataclasses.dataclass(frozen=True)
class Folder:
    """The wanted state of a directory."""

    path: str
    group: str
    mode: int


def parse_service_files(files: t.Any, units: t.Any) -> ServiceConfig:
    """Parse the module parameters ``files`` and ``units``, lists of mappings.

    :raises InputError: with the path of the invalid value.
    """
    found = ServiceConfig(
        tuple(_file(entry, f"files[{index}]") for index, entry in enumerate(files or ())),
        tuple(_unit(entry, f"units[{index}]") for index, entry in enumerate(units or ())),
    )
    for what, names in (("files", [one.path for one in found.files]), ("units", [one.name for one in found.units])):
        for index, name in enumerate(names):
            if name in names[:index]:
                raise InputError(f"{name} is listed twice.", f"{what}[{index}]", "List each one once.")
    return found


def _file(entry: t.Any, path: str) -> ConfigFile:
    _keys(entry, _FILE_KEYS, path)
    if not isinstance(entry.get("content"), str):
        raise InputError("the content of the file is missing.", f"{path}.content", "Set the complete text; it may be empty.")
    validate = tuple(str(word) for word in entry.get("validate") or ())
    if validate and "%s" not in validate:
        raise InputError(f"{shown(list(validate))} does not contain %s.", f"{path}.validate", "List the program and its arguments, with %s for the file.")
    return ConfigFile(
        path=_path(entry.get("path"), f"{path}.path"),
        content=entry["content"],
        owner=_account(entry.get("owner"), f"{path}.owner"),
        group=_account(entry.get("group"), f"{path}.group"),
        mode=_mode(entry.get("mode") or "0644", f"{path}.mode"),
        folder_group=_account(entry["folder_group"], f"{path}.folder_group") if entry.get("folder_group") else None,
        folder_mode=_mode(entry["folder_mode"], f"{path}.folder_mode") if entry.get("folder_mode") else None,
        validate=validate,
        secret=bool(entry.get("secret")),
    )


def _unit(entry: t.Any, path: str) -> ServiceUnit:
    _keys(entry, _UNIT_KEYS, path)
    name = str(entry.get("name") or "")
    if not _UNIT.match(name):
        raise InputError(f"{shown(name)} is not a valid unit name.", f"{path}.name", "Include the type of the unit, for example haproxy.service.")
    return ServiceUnit(
        name=name,
        enabled=_switch(entry.get("enabled")),
        started=_switch(entry.get("started")),
        restart_after=tuple(_path(one, f"{path}.restart_after[{index}]") for index, one in enumerate(entry.get("restart_after") or ())),
        reload_after=tuple(_path(one, f"{path}.reload_after[{index}]") for index, one in enumerate(entry.get("reload_after") or ())),
        act=entry.get("act") is not False,
    )


def _keys(entry: t.Any, known: frozenset[str], path: str) -> None:
    if not isinstance(entry, t.Mapping):
        raise InputError(f"expected a mapping, got {shown(entry)}.", path, f"Use a mapping with {', '.join(sorted(known))}.")
    check_known(entry, sorted(known), path, "")


def _switch(value: t.Any) -> bool | None:
    return None if value is None else bool(value)


def _path(value: t.Any, path: str) -> str:
    text = str(value or "")
    if not text.startswith("/") or "\0" in text or "/../" in f"{text}/" or text.endswith("/"):
        raise InputError(f"{shown(text)} is not an absolute path.", path, "Use an absolute path without '..', for example /etc/haproxy/haproxy.cfg.")
    return text


def _account(value: t.Any, path: str) -> str:
    text = "root" if value is None else str(value)
    if not _ACCOUNT.match(text):
        raise InputError(f"{shown(text)} is not a valid account name.", path, "Use the name of a user or group.")
    return text


def _mode(value: t.Any, path: str) -> int:
    if not isinstance(value, str) or not re.fullmatch(r"0?[0-7]{3}", value):
        raise InputError(f"{shown(value)} is not a valid mode.", path, 'Use octal digits as a string, for example "0644".')
    return int(value, 8)
