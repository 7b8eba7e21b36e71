# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove a lab completely, running or broken."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import time
import typing as t

from . import cgroups, files, limits, loops, machines, network, procs, registry
from .say import LabError, run, say
from .settings import DEFAULT_NETWORK, LAB_DIR, MAX_SERVERS, REGISTRY, REPO, Lab

HELPERS = ("writer", "mirror")


def names(lab: Lab) -> list[str]:
    return ["laptop", "laptop2", *(f"metal{n}" for n in range(1, MAX_SERVERS + 1))]


def elsewhere(lab: Lab) -> str | None:
    """Return the state directory of a lab of this name that belongs to another checkout."""
    facts = registry.registered(lab)
    if not facts:
        return None
    other = registry.lab_of(lab.title, facts)
    return str(other.state) if other.state != lab.state and other.state.is_dir() and _command_of(other) else None


def _command_of(lab: Lab) -> bool:
    """Return whether the checkout of a lab still exists."""
    return (lab.state.parent / LAB_DIR.name / "lab").is_file()


def sweep(lab: Lab, force: bool = False) -> None:
    """Remove labs whose checkout no longer exists, with a message.

    A running one is left unchanged, unless it has the name of ``lab`` and ``force`` is given.

    :raises LabError: a lab of this name is still running.
    """
    for title, facts in registry.entries().items():
        lost = registry.lab_of(title, facts)
        same = title == lab.title
        # The labs of a checkout that was moved belong to it.
        if lost.state == lab.state or same and lab.state.exists():
            continue
        if _command_of(lost) and (not same or lost.state.is_dir()):
            continue
        pids = living(lost)
        if pids and same and not force:
            named = f"LAB_NAME={lost.name} " if lost.name else ""
            raise LabError(f"a lab named {title!r} is still running ({len(pids)} processes) from {lost.state}, whose checkout no longer exists",
                           f"remove it with {named}lab/lab down --force, or set LAB_NAME and LAB_NETWORK for another one")
        if not pids or same:
            say(f"the lab {title!r} of {lost.state}, whose checkout no longer exists, is {'still running' if pids else 'dead'}: removing its remains")
            clear(lost)


def here() -> list[Lab]:
    """Return all labs of this checkout, with a state directory or an entry."""
    found = {path.name.removeprefix(".lab").removeprefix("-"): "" for path in REPO.glob(".lab*") if path.name == ".lab" or path.name.startswith(".lab-")}
    for title, facts in registry.entries().items():
        lab = registry.lab_of(title, facts)
        if lab.state.parent == REPO:
            found[lab.name] = lab.net
    return [Lab(name, net or DEFAULT_NETWORK.rpartition(".")[0]) for name, net in sorted(found.items())]


def remains(lab: Lab) -> list[str]:
    """Return descriptions of what exists of this lab."""
    found = []
    if lab.state.exists():
        found.append(f"directory {lab.state}")
    if registry.registered(lab):
        found.append(f"entry in {REGISTRY}")
    mine = [n for n in network.interfaces() if n == lab.bridge or n.startswith(f"{lab.tag}-")]
    if mine and (registry.registered(lab) or lab.state.exists()):
        found.append(f"interfaces {', '.join(sorted(mine))}")
    points = mounts(lab)
    if points:
        found.append(f"{len(points)} mounts")
    return found


def mounts(lab: Lab) -> list[str]:
    """Return mount points below the lab's directory, innermost last."""
    prefix = f"{lab.state}/"
    with open("/proc/self/mounts", encoding="utf-8") as stream:
        points = [line.split()[1].replace("\\040", " ") for line in stream]
    return [point for point in points if point.startswith(prefix)]


def clear(lab: Lab) -> None:
    """Remove the lab. Its disks are removed as well, so machines are not shut down cleanly.

    :raises LabError: something could not be removed.
    """
    for helper in HELPERS:
        procs.stop(lab, helper, patience=5)
    _machines_off(lab)
    for name in names(lab):
        cgroups.kill(lab.unit(name))
        shutil.rmtree(f"/run/systemd/nspawn/propagate/{lab.unit(name)}", ignore_errors=True)
    if procs.systemd():
        for part in (*HELPERS, *names(lab)):
            run(["systemctl", "stop", f"{lab.unit(part)}.service"], check=False)
            run(["systemctl", "reset-failed", f"{lab.unit(part)}.service"], check=False)
    _strays(lab)
    roots = [lab.state / name / "root" for name in names(lab) if lab.machine(name).kind == "server"]
    loops.release(lab.state, [root for root in roots if os.path.ismount(root)])
    _unmount(lab)
    loops.release(lab.state)
    network.remove_all(lab)
    files.remove(lab.state)
    _unregister(lab)


def _machines_off(lab: Lab) -> None:
    def off(name: str) -> None:
        machine = lab.machine(name)
        if not machines.is_on(lab, machine):
            return
        begin = time.monotonic()
        try:
            machines.cut(lab, machine)
        except LabError as error:
            say(str(error))
            procs.stop(lab, name, patience=2)
        say(f"{name} is off ({time.monotonic() - begin:.1f} s)")

    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(off, names(lab)))


def living(lab: Lab) -> set[int]:
    """Return the processes of the lab, recorded or not."""
    found = set(_unrecorded(lab))
    for name in names(lab):
        found |= cgroups.processes(cgroups.find(lab.unit(name)))
    return found


def _unrecorded(lab: Lab) -> t.Iterator[int]:
    """Yield processes of the lab, identified by root, command line and environment."""
    prefix = f"{lab.state}/"
    mine = os.getpid()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == mine:
            continue
        try:
            root = os.readlink(entry / "root")
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            environment = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        ours = root.startswith(prefix) or (words[0].endswith("systemd-nspawn") and f"--directory={prefix}" in "\0".join(words))
        if words[1:2] == ["-m"] and words[2].startswith("rflab."):
            ours = f"LAB_NAME={lab.name}" in environment and f"PYTHONPATH={lab.state.parent / LAB_DIR.name}" in environment
        if ours:
            yield int(entry.name)


def _strays(lab: Lab) -> None:
    """Kill unrecorded processes of the lab."""
    for pid in _unrecorded(lab):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass


def _unmount(lab: Lab) -> None:
    deadline = time.monotonic() + 10
    while True:
        points = mounts(lab)
        if not points:
            return
        for point in reversed(points):
            late = time.monotonic() > deadline
            subprocess.run(["umount", *(["--lazy"] if late else []), point], check=False, capture_output=True)
        if mounts(lab):
            if time.monotonic() > deadline + 5:
                raise LabError(f"still mounted: {', '.join(mounts(lab))}", "find the processes that use it: fuser -vm " + mounts(lab)[-1])
            time.sleep(0.2)


def _unregister(lab: Lab) -> None:
    """Remove the lab's entry; with the last one on this machine, restore limits and loop devices."""
    with registry.locked():
        mine = registry.registered(lab)
        registry.forget(lab.title)
        for title, theirs in registry.entries().items():
            theirs["loops_made"] = sorted({*theirs.get("loops_made", []), *mine.get("loops_made", [])})
            theirs["limits_before"] = {**theirs.get("limits_before", {}), **mine.get("limits_before", {})}
            registry.write(title, theirs)
            return
        loops.withdraw(mine.get("loops_made", []))
        limits.restore(mine.get("limits_before", {}))
