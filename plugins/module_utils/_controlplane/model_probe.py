# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services that the operator declares for the status, and how each is probed."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean

PORT, URL, UNIT = "port", "url", "unit"
_UNIT = re.compile(r"[\w@.:\\-]+[.](?:service|socket|timer|mount|target|path)\Z")
_URL = re.compile(r"https?://[^\s/]+\S*\Z")


class Probe(t.NamedTuple):
    """One probe of a service on a host: its kind, and the port, URL or unit."""

    kind: str
    target: str


def parse_probe(value: t.Any, path: str) -> Probe:
    """Return a probe."""
    text = str(value)
    if text.isdecimal() and 0 < int(text) < 65536:
        return Probe(PORT, text)
    for kind, pattern in ((URL, _URL), (UNIT, _UNIT)):
        if pattern.match(text):
            return Probe(kind, text)
    raise InputError(f"{shown(value)} is not a probe.", path, "Write a TCP port (8080), a URL (http://localhost/health) or a unit of systemd (web.service).")


def probes_by_host(declared: t.Sequence[t.Mapping[str, t.Any]], groups: t.Mapping[str, t.Sequence[str]]) -> dict[str, dict[str, str]]:
    """Return host → name of a service → its probe.

    :arg declared: entries with ``name``, ``hosts`` or ``group``, and ``probe``.
    """
    found: dict[str, dict[str, str]] = {}
    for index, entry in enumerate(declared):
        path = f"status_services[{index}]"
        parse_probe(entry.get("probe"), f"{path}.probe")
        for host in _hosts(entry, groups, path):
            if str(entry["name"]) in found.setdefault(host, {}):
                raise InputError(f"{entry['name']} is declared twice for {host}.", f"{path}.name", "Use each name once.")
            found[host][str(entry["name"])] = str(entry["probe"])
    return found


def _hosts(entry: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], path: str) -> list[str]:
    hosts, group = [str(host) for host in entry.get("hosts") or ()], entry.get("group")
    if bool(hosts) == bool(group):
        raise InputError("expected either hosts or a group.", path, "Set hosts: [NAME, ...], or group: NAME.")
    if group and not groups.get(str(group)):
        raise InputError(f"the group {group!r} has no hosts.", f"{path}.group", did_you_mean(group, groups, "Use a group of the inventory."))
    for host in hosts:
        if host not in groups.get("all", ()):
            raise InputError(f"unknown host {host!r}.", f"{path}.hosts", did_you_mean(host, groups.get("all", ()), "Use a host of the inventory."))
    return hosts or list(groups[str(group)])
