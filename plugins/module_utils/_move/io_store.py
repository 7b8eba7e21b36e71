# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a move keeps its files on the host the VM leaves, and how that host reaches the other."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MoveJournal, parse_journal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource

HOME = pathlib.Path("/var/lib/reduced.footprint/moves")


class MoveStore(JournalStore):
    """The folder of one VM's move; 0700, its files 0600."""

    what = "move of"
    hint = "Wait for it; the journal below /var/lib/reduced.footprint/moves tells how far it is."

    def __init__(self, name: str, home: pathlib.Path = HOME) -> None:
        super().__init__(name, home)

    @staticmethod
    def parse(text: str) -> MoveJournal:
        """A journal from its document."""
        return parse_journal(text)

    def journal(self) -> MoveJournal:
        """The journal, a new one when there is none."""
        found = self.read()
        return found if isinstance(found, MoveJournal) else MoveJournal(name=self.name)


class OtherHost(RemoteSource):
    """ssh to the host the VM goes to.

    :arg agent: the module that answers there.
    """

    who = "destination"

    def __init__(
        self, agent: str, name: str, directory: pathlib.Path, addresses: t.Sequence[str], port: int, host_keys: t.Sequence[str], library: pathlib.Path
    ) -> None:
        super().__init__(name, directory, addresses, port, host_keys, library)
        self.agent = agent


def key_name(name: str) -> str:
    """The name under which a move's one-time key goes."""
    return f"move-{name}"


def unit_name(name: str) -> str:
    """The unit that carries out a move."""
    return f"reduced-footprint-move-{name}.service"
