# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity of this machine, and the records of a host about servers."""

from __future__ import annotations

import os
import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.model_identity import Identity, Machine, parse_identity

HOME = pathlib.Path("/var/lib/reduced.footprint/servers")


def here(root: str = "/") -> Machine:
    """Return the identity of this machine; values that it does not have are empty."""
    found = []
    for path in ("etc/machine-id", "sys/class/dmi/id/product_uuid"):
        try:
            found.append((read_text(os.path.join(root, path)) or "").strip().lower())
        except OSError:
            # not every firmware has one, and not every user may read it
            found.append("")
    return Machine(*found)


def read(name: str, home: pathlib.Path | None = None) -> Identity | None:
    """Return the record about a server, ``None`` if there is none.

    :raises FootprintError: it is damaged, or from a newer version of the collection.
    """
    path = (home or HOME) / f"{name}.json"
    text = read_text(path)
    return parse_identity(text, path) if text else None


def read_all(home: pathlib.Path | None = None) -> list[Identity]:
    """Return all records of this host.

    :raises FootprintError: one is damaged, or from a newer version of the collection.
    """
    home = home or HOME
    try:
        names = sorted(os.listdir(home))
    except FileNotFoundError:
        return []
    records = [read(name.removesuffix(".json"), home) for name in names if name.endswith(".json") and not name.startswith(".")]
    return [record for record in records if record is not None]


def write(record: Identity, home: pathlib.Path | None = None) -> None:
    """Store a record durably."""
    write_atomic((home or HOME) / f"{record.name}.json", record.to_json())
