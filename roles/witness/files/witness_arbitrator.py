# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the arbitrator, and end it when it has lost all members, so that systemd starts it again.

``witness_arbitrator.py GARBD ARGUMENT...``, in the unit of the arbitrator.

An arbitrator stays in the Primary Component alone when the last member leaves it in an orderly way, or cannot receive the data that it lacks. It has no data,
so members that connect to it end. If the members have formed a component meanwhile, Galera compares the numbers of both views when they meet, and ends the
component with the greater one (``pc.npvo``), which may be that of the members. One that was restarted belongs to no component, and joins whichever it finds.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time
import typing as t

PROC = pathlib.Path("/proc")
PAUSE = 1.0
#: Seconds without any connection, after there was one: less than after which a member starts again, or the members form a component (galera_guard.py).
ALONE = 3.0
_ESTABLISHED = "01"


def is_connected(pid: int) -> bool:
    """Return whether a process has a connection.

    :raises OSError: it is unknown, or the process has ended.
    """
    links = [os.readlink(entry.path) for entry in os.scandir(PROC / str(pid) / "fd")]
    sockets = {link[8:-1] for link in links if link.startswith("socket:[")}
    # the second file exists only with IPv6
    for table in sorted((PROC / str(pid) / "net").glob("tcp*")):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[3] == _ESTABLISHED and fields[9] in sockets:
                return True
    return False


def run(command: t.Sequence[str], alone: float = ALONE, pause: float = PAUSE) -> int:
    """Run a command until it ends, or has had no connection for some time after it had one; return the exit code, 0 after a stop."""
    stopped: list[bool] = []
    with subprocess.Popen(command) as process:

        def stop(*_unused: t.Any) -> None:
            stopped.append(True)
            process.terminate()

        signal.signal(signal.SIGTERM, stop)
        last: float | None = None
        while True:
            try:
                code = process.wait(timeout=pause)
                # a unit that was stopped must not count as failed
                return 0 if stopped else code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                pass
            try:
                if is_connected(process.pid):
                    last = time.monotonic()
            except OSError:
                continue
            if last is not None and time.monotonic() - last > alone:
                print(f"<4>no member has been connected for {alone:.0f} s: starting again without what was in memory", flush=True)
                process.kill()
                process.wait()
                return 1


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
