# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print the memory of each unit of a server as JSON: name of the unit → proportional set size of all its processes in KiB; needs Python only."""

from __future__ import annotations

import collections
import contextlib
import json
import pathlib
import re
import sys


def unit(groups: str) -> str:
    """Return the unit of a process without its suffix, empty for none.

    :arg groups: its ``/proc/PID/cgroup``, of either version of control groups.
    """
    for hierarchy in ("name=systemd", ""):
        for line in groups.splitlines():
            unused, name, path = line.split(":", 2)
            found = re.findall(r"([^/]+)\.(?:service|scope)(?=/|$)", path)
            if name == hierarchy and found:
                return str(found[-1])
    return ""


def main(folder: str = "/proc") -> None:
    """Read the processes and print."""
    memory: collections.Counter[str] = collections.Counter()
    for process in pathlib.Path(folder).glob("[0-9]*"):
        # a process may have ended; those of the kernel have no memory
        with contextlib.suppress(OSError):
            found = re.search(r"^Pss: +(\d+) kB", (process / "smaps_rollup").read_text("ascii"), re.MULTILINE)
            if found:
                memory[unit((process / "cgroup").read_text("utf-8"))] += int(found[1])
    json.dump(memory, sys.stdout)


if __name__ == "__main__":
    main()
