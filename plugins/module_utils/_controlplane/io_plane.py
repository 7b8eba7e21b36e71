# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the services of a control plane on this host from systemd, their configuration and their own tools."""

from __future__ import annotations

import json
import pathlib
import re
import ssl
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc

_DPKG = pathlib.Path("/var/lib/dpkg/info")
WITNESSES = pathlib.Path("/etc/reduced.footprint/witness")
KEEPALIVED = pathlib.Path("/etc/keepalived/keepalived.conf")
GUARD = pathlib.Path("/etc/systemd/system/footprint-galera-guard.service")
GUARD_STATE = pathlib.Path("/run/footprint-galera/state.json")
#: What a server logs when others continue without the newer changes that it has.
REVERSING = "Reversing history"
UNKNOWN = "unknown"
_FIELDS = "Id,LoadState,ActiveState,SubState,MainPID,ActiveEnterTimestamp,InvocationID,FragmentPath,SourcePath"
_BLOCK = re.compile(r"virtual_ipaddress(?:_excluded)?\s*\{([^}]*)\}")
_COMMENT = re.compile(r"[#!].*$", re.MULTILINE)
_INSTANCE = re.compile(r"^\s*vrrp_instance\s+([^\s{]+)", re.MULTILINE)
_ENTERED = re.compile(r"\((?P<instance>[^()]+)\):? Entering (?P<state>[A-Z]+) STATE")
_BEGUN = "Starting VRRP child"
_ERROR = 3


def units(names: t.Sequence[str], timeout: float = 20) -> dict[str, dict[str, t.Any]]:
    """Return unit → ``state``, ``sub``, ``pid``, ``since`` (UTC), ``invocation`` and ``path``, without unknown units.

    systemd assigns a new invocation ID at each start, so a restart is detected independently of clocks.
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
            "since": _time(_number((fields.get("ActiveEnterTimestamp") or "").lstrip("@"))),
            "invocation": fields.get("InvocationID") or "",
            # a unit generated from an init script has that script as its source
            "path": fields.get("SourcePath") or fields.get("FragmentPath") or "",
        }
    return found


def expiry(path: str, timeout: float = 20) -> float | None:
    """Return when a certificate or its authority expires, in seconds since the epoch; ``None`` without a certificate, or if it cannot be read.

    Its authority is ``ca.pem`` beside ``certificate.pem``, unless it contains several, of which one may be an expired one.
    """
    if not path or not pathlib.Path(path).is_file():
        return None
    paths = [path]
    authority = pathlib.Path(path).with_name("ca.pem")
    if pathlib.Path(path).name == "certificate.pem" and (read_text(authority) or "").count("-----BEGIN CERTIFICATE-----") == 1:
        paths.append(str(authority))
    try:
        ends = [run(["openssl", "x509", "-noout", "-enddate", "-in", one], timeout=timeout).stdout for one in paths]
        return min(float(ssl.cert_time_to_seconds(end.strip().partition("=")[2])) for end in ends)
    except (CommandError, ValueError):
        return None


def enabled_state(name: str, timeout: float = 20) -> str:
    """Return the state of a unit, ``masked`` for one that must not run here."""
    done = run(["systemctl", "show", "--property=LoadState,ActiveState", "--", name], timeout=timeout)
    fields = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return "masked" if fields.get("LoadState") == "masked" else fields.get("ActiveState", "unknown")


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0


def _time(seconds: int) -> str | None:
    return utc(seconds) if seconds else None


def package_of(path: str) -> dict[str, t.Any] | None:
    """Return the package of a file: ``name``, ``version``, and when it was ``installed`` (UTC)."""
    if not path:
        return None
    # with a merged /usr the path may differ from the one recorded in the package
    for place in dict.fromkeys((path, f"/usr{path}", path[4:] if path.startswith("/usr/lib/") else path)):
        found = _debian(place) or _red_hat(place)
        if found:
            return found
    return None


def _debian(path: str) -> dict[str, t.Any] | None:
    try:
        name = run(["dpkg-query", "--search", path], timeout=30).stdout.split(":", 1)[0].split(",")[0].strip()
        fields = run(["dpkg-query", "--show", "--showformat=${Version}\t${Architecture}", name], timeout=30).stdout.split("\t")
    except CommandError:
        return None
    times = [file.stat().st_mtime for file in (_DPKG / f"{name}.list", _DPKG / f"{name}:{fields[1]}.list") if file.exists()]
    return {"name": name, "version": fields[0], "installed": _time(int(max(times, default=0)))}


def _red_hat(path: str) -> dict[str, t.Any] | None:
    try:
        name, version, installed = run(["rpm", "--query", "--file", "--queryformat", "%{NAME}\t%{EVR}\t%{INSTALLTIME}", path], timeout=30).stdout.split("\t")
    except (CommandError, ValueError):
        return None
    return {"name": name, "version": version, "installed": _time(_number(installed))}


def witness_members(cluster: str, folder: pathlib.Path = WITNESSES) -> list[str] | None:
    """Return the addresses of the database members, as ``ADDRESS:PORT``, to which the witness of a cluster on this host connects.

    :returns: ``None`` if this host is not a witness of the cluster.
    """
    text = read_text(folder / cluster / "garbd.cfg") if cluster else None
    if text is None:
        return None
    address = next((line.partition("=")[2] for line in text.splitlines() if line.partition("=")[0].strip() == "address"), "")
    return [one.strip() for one in address.partition("://")[2].split(",") if one.strip()]


def virtual_addresses(path: pathlib.Path = KEEPALIVED) -> list[str]:
    """Return the virtual addresses in keepalived's configuration; empty without it."""
    text = _COMMENT.sub("", read_text(path) or "")
    return [line.split()[0].partition("/")[0] for block in _BLOCK.findall(text) for line in block.splitlines() if line.strip()]


def vrrp_states(timeout: float = 20, path: pathlib.Path = KEEPALIVED) -> dict[str, str]:
    """Return VRRP instance → ``MASTER``, ``BACKUP`` or ``FAULT``, as last logged by keepalived in the journal since its start.

    ``INIT`` is the state of an instance of the configuration that has entered none of them. The alternative, a signal, makes keepalived
    write a file below ``/tmp``, but this function must not change anything. Without an entry about its start, the journal does not go back
    that far, and instances without an entry are omitted.
    """
    started = units(["keepalived.service"], timeout).get("keepalived.service", {})
    if started.get("state") != "active" or not started["invocation"]:
        return {}
    match = [f"_SYSTEMD_INVOCATION_ID={started['invocation']}"]
    try:
        log = run(["journalctl", "--quiet", "--no-pager", "--output=cat", f"--grep=Entering [A-Z]+ STATE|{_BEGUN}", *match], timeout=timeout, ok=(0, 1)).stdout
    except CommandError:
        return {}
    configured = _INSTANCE.findall(_COMMENT.sub("", read_text(path) or "")) if _BEGUN in log else []
    return {**dict.fromkeys(configured, "INIT"), **{found["instance"]: found["state"] for found in _ENTERED.finditer(log)}}


def galera_guard(unit: pathlib.Path = GUARD, state: pathlib.Path = GUARD_STATE) -> dict[str, t.Any] | None:
    """Return what the guard of the database member has found out; ``None`` without a guard.

    :returns: ``age_seconds``, ``None`` if it does not run; ``action``, ``reason``, ``waits_for``, ``isolated``, ``failed``.
    """
    if not unit.exists():
        return None
    try:
        found = json.loads(read_text(state) or "")
        report = found["report"] or {}
        seen = {name: found["step"][name] for name in ("action", "reason", "waits_for")}
        return {"age_seconds": round(time.monotonic() - found["at"], 1), **seen, "isolated": bool(report.get("isolated")), "failed": report.get("failed")}
    except (ValueError, TypeError, KeyError):
        return {"age_seconds": None}


def galera_reversed(timeout: float = 20) -> str | None:
    """Return when (UTC) a member was last asked to replace newer data by older, within a day; ``None`` if it was not, ``unknown`` without its journal."""
    argv = ["journalctl", "--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE", "--unit=mariadb.service", "--since=-1d", "--lines=1"]
    try:
        output = run([*argv, f"--grep={REVERSING}"], timeout=timeout, ok=(0, 1)).stdout
        return _time(int(json.loads(output)["__REALTIME_TIMESTAMP"]) // 1000000) if output else None
    except (CommandError, ValueError, TypeError, KeyError):
        return UNKNOWN


def waits(unit: t.Mapping[str, t.Any], timeout: float = 20) -> dict[str, t.Any] | None:
    """Return what the program before the start of a unit logged last; ``None`` if it does not wait, or that is unknown.

    :arg unit: as returned by :func:`units`.
    :returns: ``reason``, and ``person``, whether only a person ends it: it is an error then.
    """
    if unit.get("sub") != "start-pre" or not unit["invocation"]:
        return None
    argv = ["journalctl", "--quiet", "--no-pager", "--output=json", "--output-fields=MESSAGE,PRIORITY", "--lines=1"]
    try:
        found = json.loads(run([*argv, f"_SYSTEMD_INVOCATION_ID={unit['invocation']}"], timeout=timeout).stdout)
        return {"reason": str(found["MESSAGE"]), "person": int(found["PRIORITY"]) <= _ERROR}
    except (CommandError, ValueError, TypeError, KeyError):
        return None


def rabbitmq(timeout: float = 20) -> dict[str, t.Any] | None:
    """Return the cluster as seen by this member; ``None`` if it does not answer.

    :returns: ``members`` (names of all), ``running``, ``partitions`` (member → those it cannot reach), ``alarms``, ``maintenance`` (member →
        its state, empty in old versions), ``version``.
    """
    try:
        seconds = str(max(1, int(timeout) - 2))
        done = run(["rabbitmqctl", "--quiet", "--timeout", seconds, "--formatter", "json", "cluster_status"], timeout=timeout)
        return read_cluster(json.loads(done.stdout))
    except (CommandError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_cluster(status: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the used parts of the output of ``rabbitmqctl cluster_status``."""
    running = sorted(str(name) for name in status["running_nodes"])
    versions = sorted({str(entry.get("rabbitmq_version")) for entry in (status.get("versions") or {}).values()})
    return {
        "members": sorted({*(status.get("disk_nodes") or ()), *(status.get("ram_nodes") or ()), *running}),
        "running": running,
        "partitions": {str(name): sorted(map(str, others)) for name, others in dict(status.get("partitions") or {}).items()},
        "alarms": [str(alarm) for alarm in status.get("alarms") or ()],
        "maintenance": {str(name): str(state) for name, state in dict(status.get("maintenance_status") or {}).items()},
        "version": ", ".join(versions),
    }
