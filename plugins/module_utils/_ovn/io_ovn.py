# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A database of OVN on this host: its file, its server, and the tools of Open vSwitch."""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError

_SHORT: t.Mapping[str, str] = {"OVN_Northbound": "nb", "OVN_Southbound": "sb"}
_ANSWER = 15


def newest(paths: t.Iterable[str]) -> int:
    """Return the latest modification time of the files in seconds since the epoch; 0 if none exists."""
    return int(max((os.stat(path).st_mtime for path in paths if os.path.exists(path)), default=0))


class OvnDatabase:
    """One database, with the files, sockets and the unit of the distribution.

    :arg name: ``OVN_Northbound`` or ``OVN_Southbound``.
    """

    def __init__(self, name: str, directory: str = "/var/lib/ovn", sockets: str = "/run/ovn", schemas: str = "/usr/share/ovn") -> None:
        self.name = name
        short = _SHORT[name]
        self.file = pathlib.Path(directory) / f"ovn{short}_db.db"
        self.socket = f"{sockets}/ovn{short}_db.sock"
        self.control = f"{sockets}/ovn{short}_db.ctl"
        self.schema = f"{schemas}/ovn-{short}.ovsschema"
        self.unit = f"ovn-ovsdb-server-{short}.service"

    def installed(self) -> bool:
        """Return whether its schema, and so its package, is installed."""
        return os.path.exists(self.schema)

    def kind(self) -> str:
        """Return the kind of its file: ``none``, ``standalone`` or ``clustered``."""
        if not self.file.exists():
            return "none"
        return "clustered" if self._tool("db-is-clustered", ok=(0, 2)).rc == 0 else "standalone"

    def cluster(self) -> str:
        """Return the ID of the cluster in its file; empty before it has joined."""
        try:
            return self._tool("db-cid").stdout.strip()
        except CommandError:
            return ""

    def status(self) -> str:
        """Return the output of ``cluster/status``; empty if its server does not answer."""
        try:
            return self._ask("cluster/status", self.name).stdout
        except CommandError:
            return ""

    def create(self, local: str, stamp: str, source: pathlib.Path | None = None) -> None:
        """Create the cluster with this server as its first member; an existing file is kept under another name until then and after.

        :arg source: a standalone database with the contents; default the existing file, else the empty schema.
        """
        part = self._part()
        kept = self.file.with_name(f"{self.file.name}.{stamp}")
        if self.file.exists():
            kept.unlink(missing_ok=True)
            os.link(self.file, kept)
            source = source or kept
        run(["ovsdb-tool", "create-cluster", str(part), str(source or self.schema), local], timeout=120)
        self._finish(part)

    def join(self, local: str, seeds: t.Sequence[str]) -> None:
        """Create a file with which the server joins a cluster when it starts."""
        part = self._part()
        run(["ovsdb-tool", "join-cluster", str(part), self.name, local, *seeds], timeout=120)
        self._finish(part)

    def to_standalone(self) -> pathlib.Path:
        """Write the contents of the file of a stopped server to a standalone database, and return its path."""
        path = self.file.with_suffix(".standalone")
        path.unlink(missing_ok=True)
        run(["ovsdb-tool", "cluster-to-standalone", str(path), str(self.file)], timeout=120)
        return path

    def put_away(self, stamp: str) -> pathlib.Path:
        """Rename the file of a stopped server, and return its new path."""
        path = self.file.with_name(f"{self.file.name}.{stamp}")
        rename(self.file, path, new=False)
        return path

    def _part(self) -> pathlib.Path:
        self.file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        for path in (part, part.with_name(f".{part.name}.~lock~")):
            path.unlink(missing_ok=True)
        return part

    def _finish(self, part: pathlib.Path) -> None:
        part.chmod(0o640)
        rename(part, self.file, new=False)

    def kick(self, address: str) -> None:
        """Let the cluster remove the server with an address."""
        self._ask("cluster/kick", self.name, address)

    def initialize(self) -> None:
        """Create the global row that clients expect. Needs the leader."""
        run([f"ovn-{_SHORT[self.name]}ctl", "--timeout=30", f"--db=unix:{self.socket}", "init"], timeout=60)

    def outdated(self) -> bool:
        """Return whether the schema of the running database is older than the installed one."""
        return run(["ovsdb-client", "--timeout=15", "needs-conversion", f"unix:{self.socket}", self.schema], timeout=60).stdout.strip() == "yes"

    def convert(self) -> None:
        """Convert the running database to the installed schema."""
        run(["ovsdb-client", "--timeout=60", "convert", f"unix:{self.socket}", self.schema], timeout=120)

    def running(self) -> bool:
        """Return whether its unit is active."""
        return run(["systemctl", "is-active", "--quiet", "--", self.unit], timeout=30, ok=range(256)).rc == 0

    def started(self) -> int:
        """Return when its process was started, in seconds since the epoch; 0 if it is not running."""
        done = run(["systemctl", "show", "--timestamp=unix", "--property=ExecMainStartTimestamp", "--value", "--", self.unit], timeout=30)
        text = done.stdout.strip().lstrip("@")
        return int(text) if text.isdecimal() else 0

    def start(self) -> None:
        """Start the unit and wait for its process."""
        run(["systemctl", "start", "--", self.unit], timeout=60, hint=f"Check `journalctl -u {self.unit}` and /var/log/ovn on the host.")

    def restart(self) -> None:
        """Restart the unit; a leader hands over its role while it stops."""
        run(["systemctl", "restart", "--", self.unit], timeout=60, hint=f"Check `journalctl -u {self.unit}` and /var/log/ovn on the host.")

    def stop(self) -> None:
        """Stop the unit."""
        run(["systemctl", "stop", "--", self.unit], timeout=60)

    def _tool(self, command: str, ok: t.Container[int] = (0,)) -> t.Any:
        return run(["ovsdb-tool", command, str(self.file)], timeout=60, ok=ok)

    def _ask(self, *words: str) -> t.Any:
        return run(["ovn-appctl", f"--timeout={_ANSWER}", "-t", self.control, *words], timeout=_ANSWER + 15)
