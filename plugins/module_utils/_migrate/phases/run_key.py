# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a migration's one-time key: withdrawn on the source at every ending, and gone here whatever the source says."""

from __future__ import annotations

import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import drop_key_files, key_blob
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

_ATTEMPTS = 3
_PAUSE = 3.0


def withdraw(context: Context, *, power_off: bool = False, forget: bool = False) -> None:
    """Withdraw the one-time key, and switch the source off where that is wanted.

    :arg forget: what would make a next attempt shorter is taken away too.

    A source that cannot be reached keeps nothing from being done: the private half is gone then, so the line that is
    left there is of no use to anybody, it ends at its expiry, and the next key of this name takes its place.
    """
    given = {"marker": context.key_marker, "power_off": power_off, "forget": forget}
    key = key_blob(context.store.directory)
    if key:
        given["key"] = key
    for attempt in range(_ATTEMPTS):
        try:
            context.source.ask("leave", given)
            break
        except FootprintError as error:
            if attempt + 1 == _ATTEMPTS:
                context.journal.warnings.append(
                    f"The one-time key's line may still be in /root/.ssh/authorized_keys of the source, as the one that ends in {context.key_marker}; "
                    f"its private half is deleted and the line expires: {error.message}"
                )
            else:
                time.sleep(_PAUSE)
    drop_key_files(context.store.directory)


def needed(journal: Journal) -> bool:
    """Whether the next worker has to finish something on the source, so that a failed one leaves it the key."""
    return journal.state == "failed" and "quiesce" in journal.phases


def at_end(context: Context) -> None:
    """The worker ends: no key outlives it but for what is under way on the source."""
    if (context.store.directory / "id_ed25519").exists() and not needed(context.journal):
        withdraw(context)
        context.keep()
