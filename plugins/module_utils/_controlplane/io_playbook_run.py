# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run of a playbook as a process of the control node: how it is known on hosts, and whether it has ended."""

from __future__ import annotations

import getpass
import multiprocessing
import os
import pathlib
import platform
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files

_PROCESS = re.compile("[1-9][0-9]{0,8}")
#: What identifies a run; the process ID alone is used again, and containers have their own ones.
KEYS = ("node", "machine", "boot", "namespace", "process", "start")


def this_run() -> dict[str, str]:
    """Return the values of this run with the keys ``KEYS``, and its ``user``; equal for all tasks of one ``ansible-playbook``.

    Values that the operating system does not have are empty.
    """
    # a task runs in a child; unlike os.getppid(), this is still the parent after it was killed
    parent = multiprocessing.parent_process()
    process = (parent.pid if parent else None) or os.getpid()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container with a user without a name
        user = str(os.getuid())
    return {**_node(), "process": str(process), "start": _start(process), "user": user}


def run_ended(run: t.Mapping[str, t.Any]) -> bool:
    """Whether another run is known to have ended; ``False`` if it cannot be known, because it was started elsewhere.

    :arg run: as :func:`this_run` returned it.
    """
    here = _node()
    if not here["boot"] or any(run.get(key) != here[key] for key in ("node", "machine")):
        return False
    if run.get("boot") != here["boot"]:
        # containers without this file may have the name of each other
        return bool(here["machine"])
    if run.get("namespace") != here["namespace"]:
        return False
    if not _PROCESS.fullmatch(str(run.get("process"))):
        return False
    process = int(run["process"])
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # of another user; its start may be hidden
    return _start(process) not in ("", run.get("start"))


def _node() -> dict[str, str]:
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return {"node": platform.node(), "machine": _line("/etc/machine-id"), "boot": _line("/proc/sys/kernel/random/boot_id"), "namespace": namespace}


def _line(path: str) -> str:
    try:
        return (io_files.read_text(path) or "").strip()
    except OSError:
        return ""


def _start(process: int) -> str:
    """Return when a process was started, in ticks since boot; empty if it is hidden, ``-`` if it has ended and was not waited for."""
    try:
        # the name of the program may contain spaces and parentheses
        fields = pathlib.Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "-" if fields[0] in ("Z", "X") else fields[19]
