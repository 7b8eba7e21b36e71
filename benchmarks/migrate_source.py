# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of benchmarks/migrate.py on the source: files to copy, and a service that writes continuously. Standard library only.

``fill FOLDER MIB``, ``many FOLDER NUMBER``, ``write FOLDER KIB_PER_SECOND``.
"""

from __future__ import annotations

import os
import random
import sys
import time

KIB = 1024
MIB = 1024 * KIB
# share of all bytes, smallest and largest file
SIZES = ((0.10, 4 * KIB, 64 * KIB), (0.60, 64 * KIB, MIB), (0.30, MIB, 16 * MIB))


def fill(folder: str, size: int) -> None:
    """Create files of all sizes, ``size`` MiB in total, including existing ones."""
    for share, least, most in SIZES:
        # separate generators, so that a larger size contains the files of a smaller one
        draw = random.Random(least)
        left, number = int(size * MIB * share), 0
        while left > 0:
            each = min(left, draw.randint(least, most))
            path = os.path.join(folder, f"{least}", f"{number // 200:04}", f"{number:06}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not os.path.exists(path):
                with open(path, "wb") as stream:
                    stream.write(os.urandom(each))
            left, number = left - each, number + 1


def many(folder: str, number: int) -> None:
    """Create a large number of small files, a thousand in each folder."""
    for at in range(number):
        if at % 1000 == 0:
            inner = os.path.join(folder, f"{at // 1000:05}")
            os.makedirs(inner, exist_ok=True)
        os.close(os.open(os.path.join(inner, f"file-{at:07}"), os.O_WRONLY | os.O_CREAT, 0o644))


def write(folder: str, rate: int) -> None:
    """Write like a database and its log: half in pages in the middle of a file, half to the end of another, and some small files."""
    os.makedirs(folder, exist_ok=True)
    draw, page = random.Random(), os.urandom(16 * KIB)
    table = os.open(os.path.join(folder, "table"), os.O_RDWR | os.O_CREAT)
    os.ftruncate(table, 64 * MIB)
    log = os.open(os.path.join(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    began, written = time.monotonic(), 0
    while True:
        os.pwrite(table, page, draw.randrange(64 * MIB // len(page)) * len(page))
        os.write(log, page)
        written += 2 * len(page)
        if draw.random() < 0.02:
            name = os.path.join(folder, f"small-{draw.randrange(100)}")
            with open(name, "wb") as stream:
                stream.write(page[: draw.randrange(len(page))])
        time.sleep(max(0.0, written / (rate * KIB) - (time.monotonic() - began)))


if __name__ == "__main__":
    {"fill": fill, "many": many, "write": write}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
