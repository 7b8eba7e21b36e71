# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records that a host keeps between runs: one JSON file for each key in a folder."""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic

Record = t.TypeVar("Record")
#: Text and path of a file to its record.
Parse = t.Callable[[str, pathlib.Path], Record]


def read(folder: pathlib.Path, key: str, parse: Parse[Record]) -> Record | None:
    """Return the record of a key, ``None`` if there is none."""
    path = folder / f"{key}.json"
    text = read_text(path)
    return parse(text, path) if text else None


def read_all(folder: pathlib.Path, parse: Parse[Record]) -> list[Record]:
    """Return all records, in the order of their keys."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    records = [read(folder, name.removesuffix(".json"), parse) for name in names if name.endswith(".json") and not name.startswith(".")]
    return [record for record in records if record is not None]


def write(folder: pathlib.Path, key: str, text: str) -> None:
    """Store a record durably."""
    write_atomic(folder / f"{key}.json", text)
