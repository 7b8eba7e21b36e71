# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A MariaDB server with Galera on this host: its client, its files, its systemd unit."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pwd
import re
import shutil
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

_SYSTEM_DATABASES = frozenset(("mysql", "performance_schema", "sys", "information_schema", "lost+found"))
_NO_UUID = "00000000-0000-0000-0000-000000000000"
_POSITION = re.compile(r"--wsrep[_-]start[_-]position=([0-9a-f-]{36}):(-?[0-9]+)")
_PROGRAMS = ("/usr/sbin/mariadbd", "/usr/libexec/mariadbd", "/usr/sbin/mysqld")
#: The guard's program and the file with the members, which the role galera installs.
_GUARD = ("/usr/local/lib/reduced.footprint/galera_guard.py", "/usr/local/lib/reduced.footprint/galera_members.json")
#: See ``galera_report.py`` of the role.
_INCOMPLETE = pathlib.Path("/var/lib/footprint-galera/incomplete")
_GUARD_RECORD = pathlib.Path("/var/lib/footprint-galera/kept.json")
_UPGRADERS = frozenset(("mysql_upgrade", "mariadb-upgrade", "debian-start"))
_JOURNAL_HINT = "Check `journalctl -u {unit}` on the host."


class MariaDb:
    """One server, accessed as root through its local socket, never over the network.

    :arg unit: systemd unit.
    :arg datadir: data directory.
    """

    def __init__(self, unit: str = "mariadb.service", datadir: str = "/var/lib/mysql") -> None:
        self.unit = unit
        self.datadir = pathlib.Path(datadir)

    def installed(self) -> bool:
        """Return whether the server is installed."""
        return any(os.path.exists(program) for program in _PROGRAMS)

    def query(self, sql: str, timeout: float = 30) -> list[list[str]]:
        """Execute a statement and return its rows; it is passed on standard input, so that secrets are not visible in the process list.

        :raises CommandError: the server does not answer or reports an error.
        """
        client = shutil.which("mariadb") or "mysql"
        done = run([client, "--batch", "--skip-column-names", "--connect-timeout=5", "mysql"], stdin=sql, timeout=timeout)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def status(self) -> dict[str, str] | None:
        """Return the ``wsrep_*`` status and the variable ``wsrep_on``; ``None`` if the server does not answer."""
        try:
            rows = self.query("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'; SHOW GLOBAL VARIABLES LIKE 'wsrep\\_on';", timeout=15)
        except CommandError:
            return None
        return {row[0]: row[1] for row in rows if len(row) > 1}

    def clients(self) -> int:
        """Return the number of clients connected over the network; 0 if unknown."""
        try:
            rows = self.query(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE host <> '' AND host NOT LIKE 'localhost%' AND user <> 'system user';", timeout=15
            )
        except CommandError:
            return 0
        return int(rows[0][0]) if rows and rows[0] and rows[0][0].isdigit() else 0

    def provider(self) -> tuple[str, str, str]:
        """Return version and options of the running Galera provider and its cluster name, empty if unknown."""
        try:
            rows = self.query(
                "SHOW GLOBAL STATUS LIKE 'wsrep\\_provider\\_version'; SHOW GLOBAL VARIABLES WHERE Variable_name IN"
                " ('wsrep_provider_options', 'wsrep_cluster_name');",
                timeout=15,
            )
        except CommandError:
            return "", "", ""
        found = {row[0]: row[1] for row in rows if len(row) > 1}
        return found.get("wsrep_provider_version", ""), found.get("wsrep_provider_options", ""), found.get("wsrep_cluster_name", "")

    def written_options(self) -> str:
        """Return ``wsrep_provider_options`` of the server's configuration files, empty if unset or unknown."""
        program = shutil.which("my_print_defaults")
        try:
            defaults = run([program, "mysqld"], timeout=30).stdout.splitlines() if program else []
        except CommandError:
            return ""
        found = [line.partition("=")[2] for line in defaults if line.replace("-", "_").startswith("__wsrep_provider_options=")]
        return found[-1] if found else ""

    def certificate_names(self) -> tuple[str, ...]:
        """Return the subject alternative names of the server's certificate for clients, empty without TLS."""
        try:
            rows = self.query("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('have_ssl', 'ssl_cert');", timeout=15)
            found = {row[0]: row[1] for row in rows if len(row) > 1}
            if found.get("have_ssl") != "YES" or not found.get("ssl_cert"):
                return ()
            output = run(["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", found["ssl_cert"]], timeout=30).stdout
        except CommandError:
            return ()
        return tuple(re.findall(r"(?:DNS|IP Address):([^,\s]+)", output))

    def view(self) -> tuple[str, ...]:
        """Return the ids of the members in this member's component; empty if unknown."""
        try:
            rows = self.query("SELECT node_uuid FROM mysql.wsrep_cluster_members;", timeout=15)
        except CommandError:
            return ()
        return tuple(sorted(row[0] for row in rows if row and row[0]))

    def unit_state(self) -> dict[str, str]:
        """Return the unit's ``ActiveState``, ``SubState``, ``MainPID`` and ``ExecMainStartTimestamp`` (``@seconds``)."""
        names = "ActiveState,SubState,MainPID,ExecMainStartTimestamp"
        try:
            done = run(["systemctl", "show", "--timestamp=unix", f"--property={names}", "--", self.unit], timeout=30)
        except CommandError:
            return {}
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def databases(self) -> tuple[str, ...]:
        """Return the databases in the data directory, without the server's system databases."""
        try:
            entries = sorted(self.datadir.iterdir())
        except FileNotFoundError:
            return ()
        return tuple(entry.name for entry in entries if entry.is_dir() and entry.name not in _SYSTEM_DATABASES and not entry.name.startswith((".", "#")))

    def receiving(self) -> bool:
        """Return whether the data of this server lack a part of what another member sends; their position, if any, is not that of the data.

        ``wsrep_sst_mariabackup`` empties the data directory after it has made the folder.
        """
        return (self.datadir / ".sst").is_dir() or _INCOMPLETE.exists()

    def aside(self) -> tuple[str, ...]:
        """Return the directories with the data of this server if it has none, because an interrupted run has set it aside; see ``run_data``."""
        data = pathlib.Path(os.path.realpath(self.datadir))
        if (data / "mysql").is_dir():
            return ()
        found = (path for path in data.parent.glob(f"{data.name}.before-*") if path.suffix != ".partial" and (path / "mysql").is_dir())
        return tuple(sorted(map(str, found)))

    def grastate(self) -> dict[str, str] | None:
        """Read ``grastate.dat``, Galera's saved cluster and position; ``None`` if this server was never a member."""
        text = read_text(self.datadir / "grastate.dat")
        if text is None:
            return None
        return {key.strip(): value.strip() for key, _colon, value in (line.partition(":") for line in text.splitlines()) if value}

    def saved_view(self) -> str:
        """Return the content of ``gvwstate.dat``, under its name or the one that it gets before the server is started; empty after an orderly stop."""
        text = read_text(self.datadir / "gvwstate.dat")
        if not text and (self.grastate() or {}).get("seqno") == "-1":
            text = read_text(self.datadir / "gvwstate.dat.last")
        return text or ""

    def guard_record(self) -> str:
        """Return the durable record of the guard, empty if there is none."""
        return read_text(_GUARD_RECORD) or ""

    def others(self) -> tuple[str, dict[str, t.Any]]:
        """Ask the guards of the other members; returns the name of this member and, by name, their reports, ``None`` for one that does not answer.

        :raises CommandError: this member has no guard.
        """
        found = json.loads(run(["/usr/bin/python3", *_GUARD, "others"], hint="Deploy the role galera on this member, which installs its guard.").stdout)
        return str(found["name"]), dict(found["others"])

    def allow_bootstrap(self, uuid: str | None = None) -> None:
        """Set ``safe_to_bootstrap`` for this member; the caller has decided that it is safe.

        :arg uuid: cluster of its data; the file has none if the server ended while it changed a table definition, and a new one would be made up.
        """
        path = self.datadir / "grastate.dat"
        text = read_text(path)
        if text is None:
            return
        # the owner of the directory, because a file of root could not be read by the server
        owner = self.datadir.stat()
        changed = re.sub(r"(?m)^safe_to_bootstrap:.*$", "safe_to_bootstrap: 1", text.replace(_NO_UUID, uuid or _NO_UUID))
        write_atomic(path, changed, stat.S_IMODE(path.stat().st_mode), (owner.st_uid, owner.st_gid))

    def started_at_position(self, pid: int) -> tuple[str, int] | None:
        """Return the start position on the command line of a starting server, if any."""
        try:
            command_line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").replace("\0", " ")
        except OSError:
            return None
        found = _POSITION.search(command_line)
        return (found.group(1), int(found.group(2))) if found else None

    def recover_position(self) -> tuple[str, int] | None:
        """Return the position stored in InnoDB; the server must be stopped. ``None`` if it cannot be read."""
        program = shutil.which("galera_recovery")
        if program is None:
            return None
        try:
            done = run([program], timeout=900)
        except CommandError:
            return None
        found = _POSITION.search(done.stdout)
        return (found.group(1), int(found.group(2))) if found else None

    def start(self) -> None:
        """Start the unit without waiting, because a state transfer may take hours."""
        self._make_datadir()
        self._systemctl("start", "--no-block")

    def _make_datadir(self) -> None:
        """Create the data directory if there is none: a run was killed after it had set the data aside. The server does not start without it."""
        if os.path.lexists(self.datadir):
            return
        entry = pwd.getpwnam("mysql")
        partial = self.datadir.with_name(f"{self.datadir.name}.partial")
        partial.mkdir(mode=0o755, exist_ok=True)
        os.chown(partial, entry.pw_uid, entry.pw_gid)
        rename(partial, self.datadir, new=True)
        if shutil.which("restorecon"):
            run(["restorecon", "--", str(self.datadir)], ok=(0, 1))

    def stop(self) -> None:
        """Stop the server gracefully; one that is still waiting for its peers serves no client and reacts to SIGKILL only."""
        if self.unit_state().get("ActiveState") == "activating":
            # queued first, otherwise systemd would start the killed server again
            self._systemctl("stop", "--no-block")
            run(["systemctl", "kill", "--signal=SIGKILL", "--", self.unit], timeout=30, ok=(0, 1))
        self._systemctl("stop")

    def restart(self) -> None:
        """Stop gracefully, then start without waiting."""
        self.stop()
        self.start()

    def bootstrap(self) -> None:
        """Start the server as the first member of its cluster with ``galera_new_cluster``."""
        run(["galera_new_cluster", self.unit], timeout=1800, hint=_JOURNAL_HINT.format(unit=self.unit))

    def reform(self) -> None:
        """Declare the component of this member Primary, then let others connect: its guard may have isolated it."""
        self.query("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'; SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0';")

    def newest(self, paths: t.Iterable[str]) -> float:
        """Return the latest modification time of the files in seconds since the epoch; 0 if none exists."""
        return max((os.stat(path).st_mtime for path in paths if os.path.exists(path)), default=0.0)

    def _systemctl(self, *arguments: str) -> None:
        run(["systemctl", *arguments, "--", self.unit], timeout=1800, hint=_JOURNAL_HINT.format(unit=self.unit))

    def upgrading(self, proc: pathlib.Path = pathlib.Path("/proc")) -> bool:
        """Return whether the distribution's upgrade check of the system tables is running, which is started after the server.

        It rebuilds the tables outside replication: an account created meanwhile can be lost on this member.
        """
        own_namespace = os.readlink(proc / "self" / "ns" / "pid")
        for process in proc.glob("[0-9]*"):
            with contextlib.suppress(OSError):  # the process has ended
                # /proc lists processes of containers too
                if (process / "comm").read_text(encoding="utf-8").strip() in _UPGRADERS and os.readlink(process / "ns" / "pid") == own_namespace:
                    return True
        return False

    def last_log_lines(self, lines: int = 5) -> str:
        """Return the last lines of the unit's journal, for an error message."""
        try:
            done = run(["journalctl", "--unit", self.unit, "--lines", str(lines), "--no-pager", "--output=cat"], timeout=30)
        except BackendError:
            return ""
        return " | ".join(done.stdout.strip().splitlines())
