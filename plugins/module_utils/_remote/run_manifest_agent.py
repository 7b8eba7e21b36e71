# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program on the source that sends its manifest (see ``_remote.io_manifest_wire``).

``python3 -m …manifest_agent NAME`` with a JSON mapping on standard input: excluded ``patterns`` and ``names``,
``mounts``, ``have``, ``settle``, ``nice``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest_wire
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import SOURCE_HOME
from ansible_collections.reduced.footprint.plugins.module_utils._remote.plan_manifest import excluded

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._remote.run_manifest_agent"


def main(argv: t.Sequence[str]) -> int:
    """Entry point; the exit code is 0 when the list is complete."""
    if len(argv) != 1 or not re.match(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", argv[0]):
        sys.stderr.write("usage: manifest_agent NAME\n")
        return 2
    given = json.loads(sys.stdin.read() or "{}")
    if given.get("nice"):
        # the source still serves
        os.nice(10)
    SOURCE_HOME.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        io_manifest_wire.send(
            sys.stdout.buffer,
            SOURCE_HOME / f"{argv[0]}.manifest",
            excluded(given["patterns"], given["names"]),
            have=given.get("have"),
            mounts={os.fsencode(each) for each in given["mounts"]},
            settle=bool(given.get("settle")),
        )
    except BrokenPipeError:
        # the receiver has closed the connection
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
