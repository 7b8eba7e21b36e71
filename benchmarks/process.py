# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the cost of a process, and describe the machine."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess
import time
import typing as t


class Failed(Exception):
    """A measured process failed; contains the end of its output."""


class Cost(t.NamedTuple):
    """Wall clock and CPU time in seconds (with all children), peak memory in bytes, and output."""

    seconds: float
    cpu: float
    rss: int
    output: str


def run(argv: t.Sequence[str], env: t.Mapping[str, str], folder: pathlib.Path) -> Cost:
    """Run a process.

    :raises Failed: its exit code is not 0.
    """
    with (folder / "output.txt").open("w+b") as output:
        start = time.perf_counter()
        with subprocess.Popen(list(argv), env={**os.environ, **env}, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT) as process:
            unused, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    if process.returncode:
        raise Failed(f"{' '.join(argv[:6])} failed with exit code {process.returncode}:\n{text[-3000:]}")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, text)


def machine(python: str, ansible: str) -> dict[str, str]:
    """Describe the machine of a measurement, without identifying it."""

    def first_line(*argv: str) -> str:
        try:
            return (subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines() or [""])[0].strip()
        except (OSError, subprocess.CalledProcessError):
            return "unknown"

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024**3
    libvirt = first_line(python, "-c", "import libvirt; n = libvirt.getVersion(); print(f'{n // 1000000}.{n // 1000 % 1000}.{n % 1000}')")
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory:.0f} GiB",
        "architecture": platform.machine(),
        "acceleration": "none (TCG)",
        "operating system": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "Python of the modules": first_line(python, "-c", "import platform; print(platform.python_version())"),
        "ansible-core": first_line(ansible, "--version").partition("core ")[2].rstrip("]"),
        "libvirt": libvirt,
        "QEMU": first_line("qemu-system-x86_64", "--version").partition("version ")[2].split(" ")[0],
        "load before the run": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }
