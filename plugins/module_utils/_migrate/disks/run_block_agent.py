# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program on the source that sends a block device (see ``_migrate.disks.io_blocks``).

``python3 -m …block_agent NAME`` with a JSON line on standard input: ``device``, ``size``, ``counter``, ``boot_id``, ``nice``;
then the hashes of the blocks that the destination has.
"""

from __future__ import annotations

import os
import re
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_facts import read_text

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.run_block_agent"


def main(argv: t.Sequence[str]) -> int:
    """Entry point; exit code 0 if the device was sent completely."""
    if len(argv) != 1 or not re.match(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", argv[0]):
        sys.stderr.write("usage: block_agent NAME\n")
        return 2
    try:
        io_blocks.send(sys.stdout.buffer, sys.stdin.buffer, (read_text("/proc/sys/kernel/random/boot_id") or "").strip())
        sys.stdout.flush()
    except BrokenPipeError:
        # the destination has closed the connection
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
