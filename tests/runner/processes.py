# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a command: how to end them, and whether they still do something."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import threading
import time

#: Seconds for a command to end after SIGTERM; removing a lab takes a while.
GRACE = 60
#: Seconds after which a command hangs: it printed nothing, and its processes used less than ``IDLE`` seconds of processor time. A limit of
#: its duration would fail on a slow or busy machine, where the same command only takes longer.
SILENCE = 1200.0
IDLE = 5.0


def end(process: subprocess.Popen[str]) -> None:
    """End a command and all processes it started; return when none of them is running."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + patience
        while time.monotonic() < until:
            process.poll()
            if not _runs(process.pid):
                return
            time.sleep(0.05)


def _runs(group: int) -> bool:
    """Return whether a process of a process group is running; zombies are not."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, its_group = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state not in "ZX":
            return True
    return False


class Watch(threading.Thread):
    """Ends a command that hangs."""

    def __init__(self, process: subprocess.Popen[str], silence: float) -> None:
        super().__init__(daemon=True)
        self.late = False
        self._process, self._silence = process, silence
        self._over = threading.Event()
        self._active, self._used = time.monotonic(), 0.0

    def heard(self) -> None:
        """The command has printed a line."""
        self._active = time.monotonic()

    def stop(self) -> None:
        """The command has ended."""
        self._over.set()

    def run(self) -> None:
        while not self._over.wait(min(5.0, self._silence / 4)):
            used = _processor_time(self._process.pid)
            # less, if processes have ended
            if not self._used <= used < self._used + IDLE:
                self._active, self._used = time.monotonic(), used
            if time.monotonic() - self._active > self._silence:
                self.late = True
                end(self._process)
                return


def _processor_time(pid: int) -> float:
    """Return the seconds of processor time of a process and all its descendants, with those that have ended."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        number = int(stat.parts[2])
        children.setdefault(int(words[1]), []).append(number)
        used[number] = sum(map(int, words[11:15]))
    found, total = [pid], 0
    while found:
        number = found.pop()
        total += used.get(number, 0)
        found += children.get(number, ())
    return total / os.sysconf("SC_CLK_TCK")
