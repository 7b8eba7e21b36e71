# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of a host about replaced VMs, and the files of an old VM that are set aside."""

from __future__ import annotations

import os
import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_records
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_replacement import Replacement

HOME = pathlib.Path("/var/lib/reduced.footprint/replaced")
#: Marks of the role address_guard, whose hook refuses the start of these VMs.
REFUSED = pathlib.Path("/var/lib/reduced.footprint/address-guard")


def write(record: Replacement, home: pathlib.Path | None = None) -> None:
    """Store a record durably."""
    io_records.write(home or HOME, record.uuid, record.to_json())


def forget_refusal(name: str) -> None:
    """Remove the mark of an old VM that the hook of the role address_guard has refused; a later one may start here."""
    (REFUSED / name).unlink(missing_ok=True)


def set_aside(path: pathlib.Path, suffix: str) -> None:
    """Rename a disk of the old VM; does nothing if an interrupted run has done it."""
    if os.path.lexists(path):
        rename(path, path.with_name(path.name + suffix), new=True)
