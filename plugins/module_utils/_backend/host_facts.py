# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the machine says about itself: memory, CPUs, kernel, QEMU; and the recorded local facts."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import run
from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._model.node import HostFacts

FACTS_FILE = "/etc/ansible/facts.d/reduced_footprint.fact"

# RHEL keeps its QEMU out of the search path
_QEMU = ("qemu-system-{arch}", "/usr/libexec/qemu-kvm")


def measure(root: str = "/") -> HostFacts:
    """The lasting facts of this machine.

    :arg root: where ``proc`` is found; tests give another one.
    :raises BackendError: the kernel does not say how much memory there is.
    """
    meminfo = read_text(os.path.join(root, "proc/meminfo")) or ""
    found = re.search(r"^MemTotal:\s+([0-9]+) kB", meminfo, re.MULTILINE)
    if not found:
        raise BackendError("/proc/meminfo does not tell the total memory.", mend="Run this on a Linux host with /proc mounted.")
    cpuinfo = read_text(os.path.join(root, "proc/cpuinfo")) or ""
    return HostFacts(
        memory_mib=int(found.group(1)) // 1024,
        cpus=len(os.sched_getaffinity(0)),
        arch=platform.machine(),
        kernel=platform.release(),
        cpu_model=_first(cpuinfo, "model name") or platform.machine(),
        microcode=_first(cpuinfo, "microcode"),
        qemu_version=qemu_version(),
    )


def qemu_binary() -> str | None:
    """The QEMU that guests of this machine run under, ``None`` when there is none."""
    for name in _QEMU:
        path = shutil.which(name.format(arch=platform.machine()))
        if path:
            return path
    return None


def qemu_version() -> str | None:
    """QEMU's version, e.g. ``7.2.9``; ``None`` without QEMU."""
    binary = qemu_binary()
    if binary is None:
        return None
    try:
        said = run([binary, "--version"], timeout=30).stdout
    except CommandError:
        return None
    found = re.search(r"version ([0-9][0-9.]*)[^\n]*", said)
    # the whole line, so that a distribution's own patch level counts as another QEMU
    return found.group(0)[len("version ") :].strip() if found else None


def read_recorded(path: str = FACTS_FILE) -> tuple[str, dict[str, t.Any]]:
    """The recorded facts as text and as a mapping; both empty when there are none or they are damaged."""
    text = read_text(path) or ""
    try:
        value = json.loads(text)
    except ValueError:
        value = {}
    return text, value if isinstance(value, dict) else {}


def free_bytes(path: str) -> tuple[int, int]:
    """Total and available bytes of the file system that holds ``path`` or will hold it."""
    place = pathlib.Path(path)
    while not place.exists():
        place = place.parent
    stat = os.statvfs(place)
    return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize


def _first(cpuinfo: str, key: str) -> str:
    found = re.search(rf"^{re.escape(key)}\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return found.group(1).strip() if found else ""
