# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program at the destination that relays one connection of a live migration.

``python3 -m …move_channel WHICH NAME``; WHICH is libvirt, memory or disks.
"""

from __future__ import annotations

import re
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_channel

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._move.run_channel"


def main(argv: t.Sequence[str]) -> int:
    """Entry point; runs until the connection is closed."""
    if len(argv) != 2 or not re.match(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", argv[1]):
        sys.stderr.write("usage: move_channel WHICH NAME\n")
        return 2
    try:
        io_channel.relay(argv[1], argv[0])
    except FootprintError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
