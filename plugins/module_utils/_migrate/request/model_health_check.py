# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A question put to the new master: in the rehearsal, and through the admin address before the VM is taken for good."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import choice, number
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import parse_unit

CHECK_TYPES = ("tcp", "http", "ssh", "command", "unit")
# asked inside the machine, over ssh with the migration's own key
INSIDE = frozenset(("command", "unit"))

_URL = re.compile(r"\Ahttps?://[^\s/]+\S*\Z")


@dataclasses.dataclass(frozen=True)
class HealthCheck:
    """One question; all must be answered.

    :arg status: the one that ``http`` must answer with.
    :arg command: program and arguments for ``command``; exit code 0 is health.
    :arg unit: for ``unit``; must be active.
    :arg rehearse: ask it in the rehearsal too, where nothing but the machine itself can be reached.
    """

    type: str
    port: int = 22
    url: str | None = None
    status: int = 200
    command: tuple[str, ...] = ()
    unit: str | None = None
    rehearse: bool = True

    @property
    def title(self) -> str:
        """The question as a person names it."""
        what = {"http": self.url, "command": " ".join(self.command), "unit": self.unit}.get(self.type)
        return f"{self.type} {self.port if what is None else what}"


def parse_checks(value: t.Sequence[t.Any]) -> tuple[HealthCheck, ...]:
    """The questions of a request.

    :raises InputError: with the path of the bad value.
    """
    return tuple(_parse_check(entry, f"health_checks[{index}]") for index, entry in enumerate(value))


def _parse_check(entry: t.Any, path: str) -> HealthCheck:
    if not isinstance(entry, t.Mapping):
        raise InputError("is not a mapping.", path, "Write e.g. {type: tcp, port: 3306}.")
    kind = choice(entry.get("type") or "tcp", CHECK_TYPES, f"{path}.type")
    url, port, unit = entry.get("url"), entry.get("port"), entry.get("unit")
    if kind == "tcp" and not port:
        raise InputError("is missing.", f"{path}.port", "Name the port that must answer.")
    if kind == "http" and not _URL.match(str(url or "")):
        raise InputError(f"{shown(url)} is not a http(s) address.", f"{path}.url", "Write e.g. http://192.0.2.10:8080/health.")
    if kind == "unit" and not unit:
        raise InputError("is missing.", f"{path}.unit", "Name the systemd unit that must be active.")
    rehearse = entry.get("rehearse")
    if rehearse not in (None, True, False):
        raise InputError(f"{shown(rehearse)} is neither true nor false.", f"{path}.rehearse", "Use false for what needs the world outside of the VM.")
    return HealthCheck(
        type=kind,
        port=number(port, 22, 1, 65535, f"{path}.port"),
        url=str(url) if kind == "http" else None,
        status=number(entry.get("status"), 200, 100, 599, f"{path}.status"),
        command=_parse_command(entry.get("command"), f"{path}.command") if kind == "command" else (),
        unit=parse_unit(unit, f"{path}.unit") if kind == "unit" else None,
        rehearse=rehearse is None or bool(rehearse),
    )


def _parse_command(value: t.Any, path: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, t.Sequence) or not value:
        raise InputError("is not a list of words.", path, "Write program and arguments, e.g. [mariadb, -e, SELECT 1]; no shell reads them.")
    for index, word in enumerate(value):
        if not isinstance(word, (str, int, float)) or isinstance(word, bool) or "\0" in str(word):
            raise InputError(f"{shown(word)} is no word of a command.", f"{path}[{index}]", "Put it in quotes.")
    if not str(value[0]):
        raise InputError("is empty.", f"{path}[0]", "Name the program.")
    return tuple(str(word) for word in value)
