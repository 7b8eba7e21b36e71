# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A RabbitMQ node on this host: its command line tools, its files, its systemd unit."""

from __future__ import annotations

import json
import os
import pathlib
import pwd
import re
import socket
import tempfile
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed, run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

_USER = "rabbitmq"
_TOOLS = "/usr/lib/rabbitmq/bin"
_NODE = re.compile(r"'?([A-Za-z0-9_-]+@[A-Za-z0-9_.:-]+)'?")
_ANSWER = 60
_LONG = 600


def rabbitmq_texts(directory: str = "/etc/rabbitmq") -> tuple[str, str]:
    """The texts of ``rabbitmq.conf`` and ``rabbitmq-env.conf``, empty where there is none."""
    return read_text(f"{directory}/rabbitmq.conf") or "", read_text(f"{directory}/rabbitmq-env.conf") or ""


class RabbitMq:
    """One node, spoken to with its own tools as the user it runs as.

    :arg node: its Erlang name, e.g. ``rabbit@metal1``.
    :arg unit: its systemd unit.
    :arg home: the directory of its cookie and its data.
    """

    def __init__(self, node: str, unit: str = "rabbitmq-server.service", home: str = "/var/lib/rabbitmq") -> None:
        self.node = node
        self.unit = unit
        self.home = pathlib.Path(home)

    def installed(self) -> bool:
        """Whether the server's programs are here."""
        return os.path.exists(f"{_TOOLS}/rabbitmqctl")

    def _tool(self, name: str, *words: str, stdin: str | None = None, timeout: float = _ANSWER, ok: t.Container[int] = (0,)) -> Completed:
        """Run one of the tools; not by way of the distribution's wrapper, which hands its words to a shell."""
        # what the tools keep beside themselves stands in the home directory, also where this process has another one
        argv = ["runuser", "-u", _USER, "--", "env", "-C", str(self.home), f"HOME={self.home}", f"{_TOOLS}/{name}", "-q", *words]
        return run(argv, stdin=stdin, timeout=timeout, ok=ok, hint=f"Look at `journalctl -u {self.unit}` and /var/log/rabbitmq on the host.")

    def status(self, node: str | None = None) -> dict[str, t.Any] | None:
        """``cluster_status`` as a node sees it, ``None`` when it does not answer.

        :arg node: another one than that of this host.
        """
        try:
            done = self._tool("rabbitmq-diagnostics", *_at(node), "cluster_status", "--formatter", "json")
        except CommandError:
            return None
        return dict(_json(done.stdout))

    def definitions(self) -> dict[str, t.Any]:
        """All the server's definitions; passwords are hashes in them."""
        return dict(_json(self._tool("rabbitmqctl", "export_definitions", "-", "--format", "json").stdout))

    def import_definitions(self, definitions: t.Mapping[str, t.Any]) -> None:
        """Add or change what is named; it travels on standard input, where nobody sees secrets in it."""
        self._tool("rabbitmqctl", "import_definitions", "--format", "json", stdin=json.dumps(definitions), timeout=_LONG)

    def delete_user(self, name: str) -> None:
        """Delete a user and its permissions."""
        self._tool("rabbitmqctl", "delete_user", "--", name)

    def quorum_queues(self, vhosts: t.Iterable[str]) -> list[dict[str, t.Any]]:
        """The quorum queues of virtual hosts, each with ``vhost``, ``name``, ``type`` and ``members``."""
        found = []
        for vhost in vhosts:
            done = self._tool("rabbitmqctl", "list_queues", "-p", vhost, "name", "type", "members", "--formatter", "json")
            found += [{**queue, "vhost": vhost} for queue in _json(done.stdout) if queue.get("type") in ("quorum", "rabbit_quorum_queue")]
        return found

    def add_replica(self, vhost: str, queue: str, node: str) -> None:
        """Give a quorum queue a replica on one more node."""
        self._tool("rabbitmq-queues", "add_member", "--vhost", vhost, "--", queue, node, timeout=_LONG)

    def critical(self) -> str | None:
        """Why the node must not stop now: queues that would lose their majority; ``None`` when it may."""
        # 69: "unavailable" is what the tool says of a check that fails
        done = self._tool("rabbitmq-queues", "check_if_node_is_quorum_critical", ok=(0, 69))
        return " ".join((done.stdout + done.stderr).split()) if done.rc else None

    def stop_app(self) -> None:
        """Stop the broker, not the Erlang machine it runs on."""
        self._tool("rabbitmqctl", "stop_app", timeout=_LONG)

    def start_app(self) -> None:
        """Start the broker on its Erlang machine."""
        self._tool("rabbitmqctl", "start_app", timeout=_LONG)

    def join(self, seed: str) -> None:
        """Become a member of the cluster a node is in; what this one has is wiped. The broker must be stopped."""
        self._tool("rabbitmqctl", "join_cluster", seed, timeout=_LONG)

    def forget(self, node: str, seed: str) -> None:
        """Let the cluster of a running node forget another one that does not run."""
        self._tool("rabbitmqctl", *_at(seed), "forget_cluster_node", node, timeout=_LONG)

    def force_boot(self) -> None:
        """Let the node, which must be stopped, start without waiting for those that ran when it stopped."""
        self._tool("rabbitmqctl", "force_boot")

    def drain(self) -> None:
        """Send clients and the leaders of queues to the other members."""
        self._tool("rabbitmq-upgrade", "drain", timeout=_LONG)

    def revive(self) -> None:
        """Let clients in again."""
        self._tool("rabbitmq-upgrade", "revive", timeout=_LONG)

    def noted(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """By the node's own notes: who is in its cluster, and who ran when it stopped. Empty when it has no data."""
        data = self.home / "mnesia" / self.node
        members, running = read_text(data / "cluster_nodes.config"), read_text(data / "nodes_running_at_shutdown")
        return _nodes(members), _nodes(running)

    def texts(self) -> tuple[str, str]:
        """The texts of ``rabbitmq.conf`` and ``rabbitmq-env.conf``, empty where there is none."""
        return rabbitmq_texts()

    def cookie(self) -> str | None:
        """The Erlang cookie in its file."""
        text = read_text(self.home / ".erlang.cookie")
        return text.strip() if text is not None else None

    def write_cookie(self, value: str) -> None:
        """Replace the Erlang cookie's file; only the node's own user can read it, at any moment."""
        account = pwd.getpwnam(_USER)
        handle, temporary = tempfile.mkstemp(dir=str(self.home), prefix=".cookie.")
        try:
            with os.fdopen(handle, "w", encoding="ascii") as stream:
                stream.write(value)
                os.fchown(stream.fileno(), account.pw_uid, account.pw_gid)
                os.fchmod(stream.fileno(), 0o400)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, self.home / ".erlang.cookie")
        except BaseException:
            os.unlink(temporary)
            raise

    def resolve(self, name: str) -> str | None:
        """The first IPv4 address of a name on this host."""
        try:
            found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return None
        return str(found[0][4][0]) if found else None

    def unit_state(self) -> dict[str, str]:
        """The unit's ``ActiveState``, ``SubState`` and ``ExecMainStartTimestamp`` (``@seconds``)."""
        names = "ActiveState,SubState,MainPID,ExecMainStartTimestamp"
        try:
            done = run(["systemctl", "show", "--timestamp=unix", f"--property={names}", "--", self.unit], timeout=30)
        except CommandError:
            return {}
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def start(self) -> None:
        """Ask systemd for a start; does not wait, because members may wait for each other."""
        run(["systemctl", "start", "--no-block", "--", self.unit], timeout=30)

    def stop(self) -> None:
        """Stop in an orderly way."""
        run(["systemctl", "stop", "--", self.unit], timeout=_LONG)

    def newest(self, paths: t.Iterable[str]) -> float:
        """When the youngest of the files was written, seconds since the epoch; 0 when there is none."""
        return max((os.stat(path).st_mtime for path in paths if os.path.exists(path)), default=0.0)

    def last_words(self, lines: int = 5) -> str:
        """The end of the node's log, for an error message."""
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
    """What a tool says, although it may say something before."""
    start = min((place for place in (text.find("{"), text.find("[")) if place >= 0), default=-1)
    try:
        return json.loads(text[max(start, 0):])
    except ValueError as error:
        raise BackendError(f"RabbitMQ's tool did not answer in JSON: {text[:200]!r}") from error


def _nodes(text: str | None) -> tuple[str, ...]:
    """The nodes of a note, each once, in order."""
    return tuple(dict.fromkeys(_NODE.findall(text or "")))
