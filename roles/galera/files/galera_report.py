# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server of this host and the reports of its guard: read, kept, exchanged with the other members."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import time
import typing as t

import pymysql

import galera_return

#: Seconds within which another member must answer, and after which its answer is too old.
PATIENCE, OLD = 1.0, 4.0
LARGEST = 65536
UNIT = "mariadb.service"
DATA = pathlib.Path("/var/lib/mysql")
#: Galera's saved view of the last Primary Component, and its name while a server starts: it would form that component again without regard to newer data.
VIEW, OLD_VIEW = "gvwstate.dat", "gvwstate.dat.last"
#: What must survive a power loss: names of the last component's members, and the view in which this member had applied all changes.
KEPT = pathlib.Path("/var/lib/footprint-galera/kept.json")
#: Id of the own node since its server was isolated; the server does not show this option.
ISOLATED = pathlib.Path("/run/footprint-galera/isolated.json")
#: Exists while the data of this host lack changes below their position: the server left the cluster before the transfer of the state was complete. The position
#: that it saves then is that of the cluster. Its unit sets them aside when it starts, and it receives a copy.
INCOMPLETE = pathlib.Path("/var/lib/footprint-galera/incomplete")
NO_UUID = "00000000-0000-0000-0000-000000000000"
UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
POSITION = re.compile(rf"--wsrep[_-]start[_-]position=({UUID}):(-?[0-9]+)")


def text_of(path: pathlib.Path) -> str:
    """Return the content of a file, empty if it is missing. Any other error means that nothing is known, and is raised."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def number(text: str | None) -> int | None:
    """Return a position, ``None`` if it is not known."""
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else None


def write(path: pathlib.Path, value: t.Any, mode: int = 0o644) -> None:
    """Write JSON; after a power loss there is either the old or the new content."""
    partial = path.with_name(f".{path.name}.partial")
    with open(partial, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), mode)
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    synchronise(path.parent)


def synchronise(path: pathlib.Path) -> None:
    """Write a file or folder to the disk, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def ask(own: str, address: str, port: int) -> bytes:
    """Return the response of another member's health check at ``/state``, empty without one; takes at most ``PATIENCE`` seconds."""
    until, found = time.monotonic() + PATIENCE, b""
    try:
        # from the own address, because the others answer only to those of members
        with socket.create_connection((address, port), PATIENCE, (own, 0)) as connection:
            connection.sendall(b"GET /state HTTP/1.0\r\n\r\n")
            while len(found) <= LARGEST:
                connection.settimeout(max(0.001, until - time.monotonic()))
                piece = connection.recv(LARGEST)
                if not piece:
                    return found
                found += piece
    except OSError:
        pass
    return b""


class Server:
    """The server of this host: what it reports, and what can be done with it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def execute(self, *statements: str) -> list[tuple[t.Any, ...]]:
        """Execute statements; returns the rows of all of them."""
        connection = pymysql.connect(unix_socket=self.path, user="root", connect_timeout=2, read_timeout=3, write_timeout=3)
        rows: list[tuple[t.Any, ...]] = []
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows += cursor.fetchall()
        return rows

    def status(self) -> dict[str, str]:
        """Return the ``wsrep_*`` status and some variables of a server that answers."""
        wanted = "'wsrep_on', 'wsrep_cluster_address'"
        return dict(self.execute("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'", f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({wanted})"))

    def isolate(self, node: str | None) -> None:
        """Connect the server to no other member any more.

        :arg node: its id, which the next server has not.
        """
        self.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")
        write(ISOLATED, node)

    def connect(self) -> None:
        """Let the server connect to other members again."""
        self.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")
        ISOLATED.unlink(missing_ok=True)

    def form(self) -> None:
        """Declare the component of the running server Primary."""
        self.execute("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")

    def unit(self) -> dict[str, str]:
        """Return ``ActiveState`` and ``MainPID`` of the unit."""
        done = subprocess.run(["systemctl", "show", "--property=ActiveState,MainPID", UNIT], stdout=subprocess.PIPE, text=True, check=False, timeout=10)
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def kill(self) -> None:
        """End the server, which systemd starts again. A graceful stop would remove the saved view, and a waiting server does not react to it."""
        subprocess.run(["systemctl", "kill", "--signal=SIGKILL", UNIT], check=False, timeout=30)

    def stop(self) -> None:
        """End the server, and do not start it again."""
        # queued first, otherwise systemd would start the killed server again
        subprocess.run(["systemctl", "stop", "--no-block", UNIT], check=False, timeout=30)
        self.kill()
        subprocess.run(["systemctl", "stop", UNIT], check=True, timeout=30)

    def start(self, arguments: str = "") -> None:
        """Start the unit without waiting.

        :arg arguments: of this start only; the unit itself removes them afterwards.
        """
        change = ["set-environment", f"_WSREP_NEW_CLUSTER={arguments}"] if arguments else ["unset-environment", "_WSREP_NEW_CLUSTER"]
        subprocess.run(["systemctl", *change], check=True, timeout=30)
        subprocess.run(["systemctl", "start", "--no-block", UNIT], check=True, timeout=30)

    def bootstrap(self, uuid: str) -> None:
        """Start the stopped server as the first one of its cluster, without waiting.

        Unlike galera_new_cluster, it connects to no other member: when it forms its component, Galera ends such connections, and another member whose TLS
        handshake ends like this never connects again.

        :arg uuid: cluster of its data; the file has none if the server ended while it changed a table definition, and a new one would be made up.
        """
        path = DATA / "grastate.dat"
        found, owner = text_of(path).replace(NO_UUID, uuid), path.stat()
        partial = path.with_name(".grastate.dat.partial")
        partial.write_text(re.sub(r"(?m)^safe_to_bootstrap:.*$", "safe_to_bootstrap: 1", found), encoding="utf-8")
        os.chown(partial, owner.st_uid, owner.st_gid)
        os.chmod(partial, owner.st_mode & 0o777)
        synchronise(partial)
        os.replace(partial, path)
        synchronise(DATA)
        self.start("--wsrep-new-cluster --wsrep-cluster-address=gcomm://")


class Observer:
    """Reads the state of the own server."""

    def __init__(self, name: str, server: Server) -> None:
        self.name, self.server = name, server
        #: Position of the last look at a server without a Primary Component whose received changes were applied.
        self.drained: int | None = None
        #: The server's status of the last look, empty if it did not answer.
        self.status: dict[str, str] = {}
        #: Whether the server is starting the cluster.
        self.bootstraps = False
        #: Whether the process of the server was ever ready; ``None`` for one that was started before this program.
        self.served: bool | None = None
        try:
            self.names, self.caught_up = galera_return.read_kept(text_of(KEPT))
        except OSError:
            # then all members are needed
            self.names, self.caught_up = {}, None
        #: What the record on the disk says, and what it shall say after a flush that is running.
        self.recorded: t.Any = (self.names, self.caught_up)
        self.flush: tuple[t.Any, subprocess.Popen[bytes]] | None = None

    def look(self) -> galera_return.Report | None:
        """Return the report, ``None`` for a server that hangs, refuses requests or runs without replication, or whose files cannot be read."""
        self.bootstraps = False
        try:
            return self._look()
        except (OSError, subprocess.SubprocessError):
            return None

    def _look(self) -> galera_return.Report | None:
        # before the status, so that the queue is not that of an earlier view
        view, own = galera_return.read_view(text_of(DATA / VIEW))
        try:
            self.status = self.server.status()
        except (pymysql.MySQLError, OSError):
            self.status, self.drained = {}, None
            return self._silent()
        status = self.status
        if status.get("wsrep_on") != "ON":
            return None
        # one that receives changes from another member (IST) answers already; its state is Joining then, and Initialized without a component
        connected = status.get("wsrep_connected") == "ON"
        primary = connected and (status.get("wsrep_cluster_status") == "Primary" or status.get("wsrep_local_state") in ("1", "2", "3", "4"))
        applied = status.get("wsrep_local_recv_queue") == "0"
        # a donor serves, too: otherwise its joiner would have no member to follow
        ready = primary and status.get("wsrep_ready") == "ON"
        position = number(status.get("wsrep_last_committed"))
        before, self.drained = self.drained, position if applied and not primary else None
        if ready:
            self.served = True
            INCOMPLETE.unlink(missing_ok=True)
            self._keep(view, applied and status.get("wsrep_local_state_comment") == "Synced")
        elif not connected and self.served is False and not INCOMPLETE.exists():
            write(INCOMPLETE, position)
        uuid = status.get("wsrep_local_state_uuid")
        return galera_return.Report(
            self.name,
            "running",
            primary=primary,
            ready=ready,
            uuid=None if uuid in ("", NO_UUID) or INCOMPLETE.exists() else uuid,
            position=position if primary or before == self.drained else None,
            joined=True,
            # a server that left the cluster is connected to no other, either
            isolated=not connected or text_of(ISOLATED) == json.dumps(status.get("wsrep_gcomm_uuid")),
            view=view,
            caught_up=self.caught_up,
            node=status.get("wsrep_gcomm_uuid") or own,
            names=self.names,
        )

    def _silent(self) -> galera_return.Report | None:
        """Report a server that does not answer: it is starting, or stopped, or it hangs."""
        unit = self.server.unit()
        state, pid = unit.get("ActiveState"), number(unit.get("MainPID")) or 0
        if state not in ("activating", "inactive", "failed"):
            return None
        self.served = False
        saved = dict(re.findall(r"(?m)^(uuid|seqno): *(\S+)", text_of(DATA / "grastate.dat")))
        line = text_of(pathlib.Path(f"/proc/{pid}/cmdline")).replace("\0", " ") if pid else ""
        found, self.bootstraps = POSITION.search(line), "--wsrep-new-cluster" in line
        uuid, position = found.groups() if found else (saved.get("uuid"), saved.get("seqno"))
        if (DATA / ".sst").is_dir() or INCOMPLETE.exists():
            # it is receiving the data of another member, after its own were removed, or did not receive all
            uuid = None
        elif not found and uuid in (None, NO_UUID):
            # its position is not recovered yet; it may be the newest
            return None
        text = text_of(DATA / VIEW)
        joined = bool(pid and text)
        view, own = galera_return.read_view(text or text_of(DATA / OLD_VIEW))
        return galera_return.Report(
            self.name,
            "starting" if state == "activating" else "stopped",
            # the others may connect as soon as it has formed the component
            primary=joined and self.bootstraps,
            ready=joined and self.bootstraps,
            uuid=None if uuid == NO_UUID else uuid,
            position=number(position) if uuid else None,
            joined=joined,
            view=view,
            caught_up=self.caught_up,
            node=own,
            names=self.names,
        )

    def _keep(self, view: galera_return.View | None, applied: bool) -> None:
        """Record what is asked for when the component is lost."""
        try:
            # a setting of all sessions could let it wait
            found = self.server.execute("SET SESSION wsrep_sync_wait = 0", "SELECT node_uuid, node_name FROM mysql.wsrep_cluster_members")
        except (pymysql.MySQLError, OSError):
            return
        rows = {str(node): str(name) for node, name in found}
        names = {**{node: name for node, name in self.names.items() if view and node in view.members}, **rows}
        caught_up = view.id if view and applied else self.caught_up
        self.names, self.caught_up = names, caught_up
        # the disk is full: the record of the last time is kept
        with contextlib.suppress(OSError):
            if (names, caught_up) != self.recorded and self._flushed((names, caught_up)):
                synchronise(DATA / VIEW)
                # after a graceful stop there is none
                (DATA / OLD_VIEW).unlink(missing_ok=True)
                write(KEPT, {"names": names, "caught_up": caught_up})
                self.recorded = (names, caught_up)

    def _flushed(self, wanted: t.Any) -> bool:
        """Whether what another member has sent is on the disk: a state transfer does not flush it. A long flush continues until a later look."""
        if self.flush is None or self.flush[0] != wanted:
            self.flush = (wanted, subprocess.Popen(["sync", "--file-system", "--", str(DATA)]))
        try:
            code = self.flush[1].wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        self.flush = None
        return code == 0


def report_of(name: str, answer: bytes, within: float = OLD) -> galera_return.Report | None:
    """Parse another member's answer; ``None`` if it is missing, older than ``within`` seconds, or invalid in any way."""
    head, _empty, body = answer.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1\.[01] 200 ", head) or len(answer) > LARGEST:
        return None
    try:
        value = json.loads(body)
        found = dict(value["report"])
        age = value["age"]
        view, names = found.get("view"), dict(found["names"])
        report = galera_return.Report(**{**found, "view": None if view is None else galera_return.View(view["id"], view["seq"], tuple(view["members"]))})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    texts = [report.uuid, report.node, *names, *(report.view.members if report.view else ())]
    free = [report.caught_up, report.failed, report.view.id if report.view else None, *names.values()]
    numbers = [report.position, report.view.seq if report.view else None]
    flags = [report.primary, report.ready, report.joined, report.isolated]
    sound = (
        report.name == name
        and report.state in ("running", "starting", "stopped")
        and all(isinstance(each, bool) for each in flags)
        and all(each is None or (isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 2**63) for each in numbers)
        and all(each is None or (isinstance(each, str) and re.fullmatch(UUID, each)) for each in texts)
        and all(each is None or (isinstance(each, str) and len(each) < 1000) for each in free)
        and isinstance(age, (int, float))
        and 0 <= age <= within
    )
    return report if sound else None
