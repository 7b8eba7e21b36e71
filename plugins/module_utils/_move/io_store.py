# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a move on the source, and their names."""

from __future__ import annotations

import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore

HOME = pathlib.Path("/var/lib/reduced.footprint/moves")


class MoveStore(JournalStore):
    """The folder of the move of one VM; mode 0700, its files 0600."""

    kind = MoveJournal
    hint = "Wait for it to end; the journal in /var/lib/reduced.footprint/moves shows its progress."

    def __init__(self, name: str, home: pathlib.Path = HOME) -> None:
        super().__init__(name, home)


def key_name(name: str) -> str:
    """The name of the one-time key of a move."""
    return f"move-{name}"


def unit_name(name: str) -> str:
    """The systemd unit of a move."""
    return f"reduced-footprint-move-{name}.service"
