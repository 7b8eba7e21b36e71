# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of a control plane on this host, as systemd, their configuration and their own tools know them."""

from __future__ import annotations

import json
import pathlib
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError

_DPKG = pathlib.Path("/var/lib/dpkg/info")
KEEPALIVED = pathlib.Path("/etc/keepalived/keepalived.conf")
_FIELDS = "Id,LoadState,ActiveState,SubState,MainPID,ActiveEnterTimestamp,InvocationID,FragmentPath,SourcePath"
_BLOCK = re.compile(r"virtual_ipaddress(?:_excluded)?\s*\{([^}]*)\}")
_COMMENT = re.compile(r"[#!].*$", re.MULTILINE)
_ENTERED = re.compile(r"\((?P<instance>[^()]+)\):? Entering (?P<state>[A-Z]+) STATE")


def units(names: t.Sequence[str], timeout: float = 20) -> dict[str, dict[str, t.Any]]:
    """Unit → ``state``, ``sub``, ``pid``, ``since`` (seconds since the epoch) and ``invocation``; units nobody knows are left out.

    An invocation is a number each start gets anew, so that it tells whether a unit was restarted, whatever the clocks say.
    """
    if not names:
        return {}
    done = run(["systemctl", "show", "--timestamp=unix", f"--property={_FIELDS}", "--", *names], timeout=timeout)
    found = {}
    for name, block in zip(names, done.stdout.split("\n\n")):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("LoadState") in (None, "not-found"):
            continue
        found[name] = {
            "state": fields.get("ActiveState", "unknown"),
            "sub": fields.get("SubState", "unknown"),
            "pid": _number(fields.get("MainPID")),
            "since": _number((fields.get("ActiveEnterTimestamp") or "").lstrip("@")),
            "invocation": fields.get("InvocationID") or "",
            # one that systemd made out of an old script has that as its source
            "path": fields.get("SourcePath") or fields.get("FragmentPath") or "",
        }
    return found


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def package_of(path: str) -> dict[str, t.Any] | None:
    """The package a file came with: ``name``, ``version``, and since when it is ``installed`` (seconds since the epoch)."""
    if not path:
        return None
    # the distribution may have moved the file from where the package says it is
    for place in dict.fromkeys((path, f"/usr{path}", path[4:] if path.startswith("/usr/lib/") else path)):
        found = _debian(place) or _red_hat(place)
        if found:
            return found
    return None


def _debian(path: str) -> dict[str, t.Any] | None:
    try:
        name = run(["dpkg-query", "--search", path], timeout=30).stdout.split(":", 1)[0].split(",")[0].strip()
        told = run(["dpkg-query", "--show", "--showformat=${Version}\t${Architecture}", name], timeout=30).stdout.split("\t")
    except CommandError:
        return None
    times = [note.stat().st_mtime for note in (_DPKG / f"{name}.list", _DPKG / f"{name}:{told[1]}.list") if note.exists()]
    return {"name": name, "version": told[0], "installed": int(max(times, default=0))}


def _red_hat(path: str) -> dict[str, t.Any] | None:
    try:
        name, version, installed = run(["rpm", "--query", "--file", "--queryformat", "%{NAME}\t%{EVR}\t%{INSTALLTIME}", path], timeout=30).stdout.split("\t")
    except (CommandError, ValueError):
        return None
    return {"name": name, "version": version, "installed": _number(installed)}


def virtual_addresses(path: pathlib.Path = KEEPALIVED) -> list[str]:
    """The virtual addresses this host may come to hold, from keepalived's configuration; none without it."""
    text = _COMMENT.sub("", read_text(path) or "")
    return [line.split()[0].partition("/")[0] for block in _BLOCK.findall(text) for line in block.splitlines() if line.strip()]


def vrrp_states(timeout: float = 20) -> dict[str, str]:
    """VRRP instance → ``MASTER``, ``BACKUP`` or ``FAULT``, as keepalived last said in the journal since it started.

    Asked by a signal it would write them into a file below ``/tmp``, and a look changes nothing. Instances of which the
    journal knows nothing (any more) are left out.
    """
    started = units(["keepalived.service"], timeout).get("keepalived.service", {})
    if started.get("state") != "active" or not started["invocation"]:
        return {}
    match = [f"_SYSTEMD_INVOCATION_ID={started['invocation']}"]
    try:
        told = run(["journalctl", "--quiet", "--no-pager", "--output=cat", "--grep=Entering [A-Z]+ STATE", *match], timeout=timeout, ok=(0, 1)).stdout
    except CommandError:
        return {}
    return {found["instance"]: found["state"] for found in _ENTERED.finditer(told)}


def rabbitmq(timeout: float = 20) -> dict[str, t.Any] | None:
    """The cluster as this member sees it; ``None`` when it does not answer.

    :returns: ``members`` (names of all), ``running``, ``partitions`` (member → those it cannot see), ``alarms``, ``version``.
    """
    try:
        seconds = str(max(1, int(timeout) - 2))
        done = run(["rabbitmqctl", "--quiet", "--timeout", seconds, "--formatter", "json", "cluster_status"], timeout=timeout)
        return read_cluster(json.loads(done.stdout))
    except (CommandError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_cluster(told: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """What ``rabbitmqctl cluster_status`` tells, less what nobody asks for."""
    running = sorted(str(name) for name in told["running_nodes"])
    versions = sorted({str(entry.get("rabbitmq_version")) for entry in (told.get("versions") or {}).values()})
    return {
        "members": sorted({*(told.get("disk_nodes") or ()), *(told.get("ram_nodes") or ()), *running}),
        "running": running,
        "partitions": {str(name): sorted(map(str, others)) for name, others in dict(told.get("partitions") or {}).items()},
        "alarms": [str(alarm) for alarm in told.get("alarms") or ()],
        "version": ", ".join(versions),
    }
