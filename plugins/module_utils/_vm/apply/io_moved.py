# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The notes of a host about VMs that were moved away; they are read before VMs are defined or started."""

from __future__ import annotations

import os
import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import CONFIRMED, Moved, parse_moved

HOME = pathlib.Path("/var/lib/reduced.footprint/moved")


def read_all(home: pathlib.Path = HOME) -> dict[str, Moved]:
    """UUID → note of every VM that must not run on this host.

    An unreadable note still counts: its file name is the UUID.

    :raises RefusedError: one is from a newer version of the collection.
    :raises BackendError: they cannot be read.
    """
    try:
        names = os.listdir(home)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BackendError(f"cannot read which VMs were moved away from this host: {error.strerror}.", str(home), "Run as root.") from error
    found = {}
    for name in names:
        uuid, ending = os.path.splitext(name)
        if ending == ".json" and not name.startswith("."):
            found[uuid] = parse_moved(read_text(home / name) or "", home / name) or Moved("", "", "", uuid, "another host", "", CONFIRMED)
    return found


def read(uuid: str, home: pathlib.Path = HOME) -> Moved | None:
    """The note about one VM, ``None`` when there is none."""
    return read_all(home).get(uuid)


def write(note: Moved, home: pathlib.Path = HOME) -> None:
    """Store a note durably (synced to disk)."""
    write_atomic(home / f"{note.uuid}.json", note.to_json())


def forget(uuid: str, home: pathlib.Path = HOME) -> bool:
    """Remove the note about a VM, which may run here again; true when there was one."""
    path = home / f"{uuid}.json"
    if not path.exists():
        return False
    path.unlink()
    sync_path(home)
    return True
