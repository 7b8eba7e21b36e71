# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A RabbitMQ node on this host: command line tools, files, systemd unit."""

from __future__ import annotations

import json
import os
import pathlib
import pwd
import re
import shutil
import socket
import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed, run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

_USER = "rabbitmq"
_TOOLS = "/usr/lib/rabbitmq/bin"
_NODE = re.compile(r"'?([A-Za-z0-9_-]+@[A-Za-z0-9_.:-]+)'?")
_ANSWER = 60
_LONG = 600


def rabbitmq_texts(directory: str = "/etc/rabbitmq") -> tuple[str, str]:
    """Return the contents of ``rabbitmq.conf`` and ``rabbitmq-env.conf``, empty if missing."""
    return read_text(f"{directory}/rabbitmq.conf") or "", read_text(f"{directory}/rabbitmq-env.conf") or ""


class RabbitMq:
    """One node, managed with its command line tools as the user it runs as.

    :arg node: Erlang node name, e.g. ``rabbit@metal1``.
    :arg unit: systemd unit.
    :arg home: directory of cookie and data.
    """

    def __init__(self, node: str, unit: str = "rabbitmq-server.service", home: str = "/var/lib/rabbitmq") -> None:
        self.node = node
        self.unit = unit
        self.home = pathlib.Path(home)

    def installed(self) -> bool:
        """Return whether the server is installed."""
        return os.path.exists(f"{_TOOLS}/rabbitmqctl")

    def _tool(self, name: str, *arguments: str, stdin: str | None = None, timeout: float = _ANSWER, ok: t.Container[int] = (0,)) -> Completed:
        """Run one of the tools directly; the distribution's wrapper would pass the arguments to a shell."""
        # the tools read the cookie from HOME
        argv = ["runuser", "-u", _USER, "--", "env", "-C", str(self.home), f"HOME={self.home}", f"{_TOOLS}/{name}", "-q", *arguments]
        return run(argv, stdin=stdin, timeout=timeout, ok=ok, hint=f"Check `journalctl -u {self.unit}` and /var/log/rabbitmq on the host.")

    def status(self, node: str | None = None) -> dict[str, t.Any] | None:
        """Return ``cluster_status`` of a node, ``None`` if it does not answer.

        :arg node: another node than that of this host.
        """
        try:
            done = self._tool("rabbitmq-diagnostics", *_at(node), "cluster_status", "--formatter", "json")
        except CommandError:
            return None
        return dict(_json(done.stdout))

    def definitions(self) -> dict[str, t.Any]:
        """Export the server's definitions; they contain password hashes."""
        return dict(_json(self._tool("rabbitmqctl", "export_definitions", "-", "--format", "json").stdout))

    def import_definitions(self, definitions: t.Mapping[str, t.Any]) -> None:
        """Import definitions from a file that only the broker's user can read; the tool of RabbitMQ 4.0 hangs when it reads standard input."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix=".definitions-", suffix=".json", dir=self.home) as file:
            json.dump(definitions, file)
            file.flush()
            if os.geteuid() == 0:
                shutil.chown(file.name, _USER)
            self._tool("rabbitmqctl", "import_definitions", "--format", "json", file.name, timeout=_LONG)

    def delete_user(self, name: str) -> None:
        """Delete a user and its permissions."""
        self._tool("rabbitmqctl", "delete_user", "--", name)

    def quorum_queues(self, vhosts: t.Iterable[str]) -> list[dict[str, t.Any]]:
        """Return the quorum queues of virtual hosts, each with ``vhost``, ``name``, ``type`` and ``members``."""
        found = []
        for vhost in vhosts:
            done = self._tool("rabbitmqctl", "list_queues", "-p", vhost, "name", "type", "members", "--formatter", "json")
            found += [{**queue, "vhost": vhost} for queue in _json(done.stdout) if queue.get("type") in ("quorum", "rabbit_quorum_queue")]
        return found

    def add_replica(self, vhost: str, queue: str, node: str) -> None:
        """Add a replica of a quorum queue on a node."""
        self._tool("rabbitmq-queues", "add_member", "--vhost", vhost, "--", queue, node, timeout=_LONG)

    def critical(self) -> str | None:
        """Return why the node must not stop now (queues that would lose their majority); ``None`` if it may."""
        # the tool exits with 69 (EX_UNAVAILABLE) if the check fails
        done = self._tool("rabbitmq-queues", "check_if_node_is_quorum_critical", ok=(0, 69))
        return " ".join((done.stdout + done.stderr).split()) if done.rc else None

    def stop_app(self) -> None:
        """Stop the broker, not its Erlang VM."""
        self._tool("rabbitmqctl", "stop_app", timeout=_LONG)

    def start_app(self) -> None:
        """Start the broker on its running Erlang VM."""
        self._tool("rabbitmqctl", "start_app", timeout=_LONG)

    def join(self, seed: str) -> None:
        """Join the cluster of a node; this wipes the contents of this node. The broker must be stopped."""
        self._tool("rabbitmqctl", "join_cluster", seed, timeout=_LONG)

    def forget(self, node: str, seed: str) -> None:
        """Remove a stopped node from the cluster of the running node ``seed``."""
        try:
            self._tool("rabbitmqctl", *_at(seed), "forget_cluster_node", node, timeout=_LONG)
        except CommandError:
            if node in (self.status(seed) or {}).get("disk_nodes", (node,)):
                raise
            # RabbitMQ 4.0 removes its replicas, too, and a queue that elects its leader did not answer in time
            self._tool("rabbitmq-queues", *_at(seed), "shrink", node, timeout=_LONG)

    def force_boot(self) -> None:
        """Let the stopped node start without waiting for the nodes that were running when it stopped."""
        self._tool("rabbitmqctl", "force_boot")

    def drain(self) -> None:
        """Put the node into maintenance mode: move clients and queue leaders to other members."""
        self._tool("rabbitmq-upgrade", "drain", timeout=_LONG)

    def revive(self) -> None:
        """Leave maintenance mode."""
        self._tool("rabbitmq-upgrade", "revive", timeout=_LONG)

    def noted(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Read from the node's files the nodes of its cluster, and those running when it stopped. Empty if it has no data."""
        served = self.served() if self.khepri() else ()
        if served:
            # the broker's files name this node only, or are missing
            return served[-1], ()
        data = self.home / "mnesia" / self.node
        return _nodes(read_text(data / "cluster_nodes.config")), _nodes(read_text(data / "nodes_running_at_shutdown"))

    def served(self) -> tuple[tuple[str, ...], ...]:
        """Read the groups of nodes with a majority that the node was in, which its guard keeps. Empty if unknown."""
        text = read_text(self.home / "mnesia" / f"{self.node}-served.json")
        try:
            return tuple(tuple(map(str, group)) for group in json.loads(text or "[]"))
        except (TypeError, ValueError):
            return ()

    def version(self) -> str:
        """Return the release of the installed tools; they need no running node."""
        return self._tool("rabbitmqctl", "version").stdout.strip()

    def enable_khepri(self) -> None:
        """Move the metadata into Khepri, which cannot be undone; nodes that join use it, too."""
        self._tool("rabbitmqctl", "enable_feature_flag", "--opt-in", "khepri_db", timeout=_LONG)

    def stand_alone(self) -> None:
        """Make this node, which has started or waits for a majority, the only member of its cluster with Khepri."""
        self._tool("rabbitmqctl", "force_standalone_khepri_boot")

    def set_aside(self) -> None:
        """Move the data of the stopped node into a folder beside it, so that it starts as a new one."""
        place = self.home / "mnesia"
        folder = place / f"{self.node}.before-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
        folder.mkdir(mode=0o750)
        shutil.chown(folder, _USER)
        for name in (f"{self.node}-feature_flags", f"{self.node}-served.json", self.node):
            if (place / name).exists():
                rename(place / name, folder / name, new=True, flush=False)

    def khepri(self) -> bool:
        """Return whether the node has its metadata in Khepri."""
        return "khepri_db" in (read_text(self.home / "mnesia" / f"{self.node}-feature_flags") or "")

    def note_members(self, members: t.Sequence[str]) -> None:
        """Save the nodes of the cluster of a node with Khepri, as its guard does later."""
        if self.khepri() and self.served()[-1:] != (tuple(sorted(members)),):
            write_atomic(self.home / "mnesia" / f"{self.node}-served.json", json.dumps([sorted(members)]), 0o644)

    def texts(self) -> tuple[str, str]:
        """Return the contents of ``rabbitmq.conf`` and ``rabbitmq-env.conf``, empty if missing."""
        return rabbitmq_texts()

    def cookie(self) -> str | None:
        """Read the Erlang cookie, ``None`` if there is none."""
        text = read_text(self.home / ".erlang.cookie")
        return text.strip() if text is not None else None

    def write_cookie(self, value: str) -> None:
        """Replace the Erlang cookie file atomically; only the node's user can read it at any time."""
        account = pwd.getpwnam(_USER)
        write_atomic(self.home / ".erlang.cookie", value, 0o400, (account.pw_uid, account.pw_gid))

    def resolve(self, name: str) -> str | None:
        """Resolve a name on this host to its first IPv4 address, ``None`` if it does not resolve."""
        try:
            found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return None
        return str(found[0][4][0]) if found else None

    def unit_state(self) -> dict[str, str]:
        """Return the unit's ``ActiveState``, ``SubState``, ``MainPID`` and ``ExecMainStartTimestamp`` (``@seconds``)."""
        names = "ActiveState,SubState,MainPID,ExecMainStartTimestamp"
        try:
            done = run(["systemctl", "show", "--timestamp=unix", f"--property={names}", "--", self.unit], timeout=30)
        except CommandError:
            return {}
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def start(self) -> None:
        """Start the unit without waiting, because members may wait for each other."""
        run(["systemctl", "start", "--no-block", "--", self.unit], timeout=30)

    def stop(self) -> None:
        """Stop the unit and wait."""
        run(["systemctl", "stop", "--", self.unit], timeout=_LONG)

    def newest(self, paths: t.Iterable[str]) -> float:
        """Return the latest modification time of the files in seconds since the epoch; 0 if none exists."""
        return max((os.stat(path).st_mtime for path in paths if os.path.exists(path)), default=0.0)

    def last_log_lines(self, lines: int = 5) -> str:
        """Return the last lines of the node's log, for an error message."""
        text = read_text(f"/var/log/rabbitmq/{self.node}.log")
        if text is None:
            try:
                text = run(["journalctl", "--unit", self.unit, "--lines", str(lines), "--no-pager", "--output=cat"], timeout=30).stdout
            except BackendError:
                return ""
        return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])


def _at(node: str | None) -> tuple[str, ...]:
    return ("-n", node) if node else ()


def _json(text: str) -> t.Any:
    """Parse the JSON output of a tool; text before it, such as warnings, is skipped."""
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    try:
        return json.loads(text[max(start, 0):])
    except ValueError as error:
        raise BackendError(f"the RabbitMQ tool returned invalid JSON: {text[:200]!r}") from error


def _nodes(text: str | None) -> tuple[str, ...]:
    """Return the node names in the text of a file, each once, in order."""
    return tuple(dict.fromkeys(_NODE.findall(text or "")))
