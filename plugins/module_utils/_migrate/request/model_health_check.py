# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health checks of the new master: run in the rehearsal, and through the admin address before the source hands over."""

from __future__ import annotations

import re
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import choice, number
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import parse_unit

CHECK_TYPES = ("tcp", "http", "ssh", "command", "unit")
# run inside the VM, over ssh with the one-time key
INSIDE = frozenset(("command", "unit"))

_URL = re.compile(r"\Ahttps?://[^\s/]+\S*\Z")


class HealthCheck(t.NamedTuple):
    """One health check; all must pass.

    :arg status: HTTP status that ``http`` expects.
    :arg command: program and arguments for ``command``; exit code 0 is healthy.
    :arg unit: systemd unit that must be active for ``unit``.
    :arg rehearse: run it in the rehearsal too, where only the VM itself can be reached.
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
        """The check in short form, e.g. ``tcp 3306``."""
        what = {"http": self.url, "command": " ".join(self.command), "unit": self.unit}.get(self.type)
        return f"{self.type} {self.port if what is None else what}"


def parse_checks(value: t.Sequence[t.Any]) -> tuple[HealthCheck, ...]:
    """Parse the health checks of a request."""
    return tuple(_parse_check(entry, f"health_checks[{index}]") for index, entry in enumerate(value))


def _parse_check(entry: t.Any, path: str) -> HealthCheck:
    if not isinstance(entry, t.Mapping):
        raise InputError("is not a mapping.", path, "Write e.g. {type: tcp, port: 3306}.")
    kind = choice(entry.get("type") or "tcp", CHECK_TYPES, f"{path}.type")
    url, port, unit = entry.get("url"), entry.get("port"), entry.get("unit")
    if kind == "tcp" and not port:
        raise InputError("is required.", f"{path}.port", "Set the TCP port to check.")
    if kind == "http" and not _is_url(str(url or "")):
        raise InputError(f"{shown(url)} is not a valid HTTP or HTTPS URL.", f"{path}.url", "Write e.g. http://192.0.2.10:8080/health.")
    if kind == "unit" and not unit:
        raise InputError("is required.", f"{path}.unit", "Name the systemd unit that must be active.")
    rehearse = entry.get("rehearse")
    if rehearse not in (None, True, False):
        raise InputError(f"{shown(rehearse)} is neither true nor false.", f"{path}.rehearse", "Use false for a check that needs other machines than the VM.")
    return HealthCheck(
        type=kind,
        port=number(port, 22, 1, 65535, f"{path}.port"),
        url=str(url) if kind == "http" else None,
        status=number(entry.get("status"), 200, 100, 599, f"{path}.status"),
        command=_parse_command(entry.get("command"), f"{path}.command") if kind == "command" else (),
        unit=parse_unit(unit, f"{path}.unit") if kind == "unit" else None,
        rehearse=rehearse is None or bool(rehearse),
    )


def _is_url(text: str) -> bool:
    """Whether a check can request this URL: with a host and, if at all, a valid port; without a user name, which would be logged."""
    try:
        parts = urllib.parse.urlsplit(text)
        return bool(_URL.match(text) and parts.hostname and parts.port != 0 and parts.username is None and text.isprintable())
    except ValueError:
        return False


def _parse_command(value: t.Any, path: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, t.Sequence) or not value:
        raise InputError("must be a list.", path, "Write program and arguments, e.g. [mariadb, -e, SELECT 1]; they are run without a shell.")
    for index, argument in enumerate(value):
        if not isinstance(argument, (str, int, float)) or isinstance(argument, bool) or "\0" in str(argument):
            raise InputError(f"{shown(argument)} is not a valid argument.", f"{path}[{index}]", "Write a string in quotes.")
    if not str(value[0]):
        raise InputError("is empty.", f"{path}[0]", "Name the program.")
    return tuple(str(argument) for argument in value)
