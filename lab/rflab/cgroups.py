# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One control group per machine, in every hierarchy of the host.

All groups that a machine's own libvirt creates are below it, so that a machine can be killed completely and leaves no empty
groups.
"""

from __future__ import annotations

import errno
import functools
import os
import pathlib
import signal
import time

ROOT = pathlib.Path("/sys/fs/cgroup")


def old_layout() -> bool:
    """Return whether controllers are mounted one by one (cgroup v1 or hybrid)."""
    return not (ROOT / "cgroup.controllers").exists()


@functools.lru_cache(maxsize=None)
def _hierarchies() -> tuple[pathlib.Path, ...]:
    """Return the group of this process in each mounted hierarchy, cached before the process moves."""
    if not old_layout():
        with open("/proc/self/cgroup", encoding="ascii") as stream:
            path = next((line.strip().split(":", 2)[2] for line in stream if line.startswith("0::")), "/")
        return (ROOT / path.lstrip("/"),)
    found = []
    mounted = {}
    with open("/proc/self/mounts", encoding="utf-8") as stream:
        for line in stream:
            point, kind, options = line.split()[1:4]
            if kind == "cgroup2":
                mounted[""] = point
            elif kind == "cgroup":
                for option in options.split(","):
                    mounted[option] = point
    with open("/proc/self/cgroup", encoding="ascii") as stream:
        for line in stream:
            names, path = line.strip().split(":", 2)[1:]
            point = mounted.get(names.split(",")[0])
            if point:
                found.append(pathlib.Path(point) / path.lstrip("/"))
    return tuple(found)


def make(name: str) -> list[pathlib.Path]:
    """Create the groups ``name`` below the group of this process; return their paths.

    A read-only hierarchy (this host may be a container) is left out.
    """
    groups = []
    for parent in _hierarchies():
        group = parent / name
        try:
            if not old_layout() and os.path.isdir("/run/systemd/system"):
                _hand_down(parent)
            group.mkdir(exist_ok=True)
            for knob in ("cpuset.cpus", "cpuset.mems"):
                # Empty in a new v1 group, which no process can enter then.
                if old_layout() and (group / knob).exists() and not (group / knob).read_text().strip():
                    (group / knob).write_text((parent / knob).read_text())
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
            continue
        groups.append(group)
    return groups


def _hand_down(parent: pathlib.Path) -> None:
    """Enable the controllers for groups below this unit's group (cgroup v2).

    This is not allowed for a group with processes, so they are moved to another group.
    """
    aside = parent / "lab"
    aside.mkdir(exist_ok=True)
    for pid in (parent / "cgroup.procs").read_text().split():
        (aside / "cgroup.procs").write_text(pid)
    for controller in (parent / "cgroup.controllers").read_text().split():
        try:
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            pass  # not every controller can be delegated


def enter(groups: list[pathlib.Path]) -> None:
    """Move the calling process to these groups (in a child, before exec)."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def find(name: str) -> list[pathlib.Path]:
    """Return every group of this name on the host."""
    found = []
    for top, directories, unused in os.walk(ROOT):
        if name in directories:
            found.append(pathlib.Path(top) / name)
            directories.remove(name)
        # The lab's groups are at the top or below a unit, never deeper.
        if len(pathlib.Path(top).relative_to(ROOT).parts) >= 4:
            directories.clear()
    return found


def processes(groups: list[pathlib.Path]) -> set[int]:
    pids = set()
    for group in groups:
        for top, unused, unused_too in os.walk(group):
            try:
                pids.update(int(pid) for pid in (pathlib.Path(top) / "cgroup.procs").read_text().split())
            except OSError:
                pass
    return pids - {os.getpid()}


def kill(name: str, patience: float = 10.0) -> None:
    """Kill all processes in the groups ``name`` and remove the groups."""
    groups = find(name)
    deadline = time.monotonic() + patience
    while True:
        pids = processes(groups)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not pids or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for group in groups:
        for top, unused, unused_too in os.walk(group, topdown=False):
            try:
                os.rmdir(top)
            except OSError:
                pass
