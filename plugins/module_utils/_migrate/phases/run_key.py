# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Withdrawal of a migration's one-time key: on the source after every run, and on this host even if the source does not answer."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._remote import run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import key_blob
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal


def withdraw(context: Context, *, power_off: bool = False, forget: bool = False) -> None:
    """Withdraw the one-time key, and power off the source on request.

    :arg forget: also remove the files that would shorten the next attempt.

    A source that cannot be reached is not an error: the private key is deleted here, so the remaining entry in
    authorized_keys is useless. It expires, and the next key of this name replaces it.
    """
    given = {"marker": context.key_marker, "power_off": power_off, "forget": forget}
    key = key_blob(context.store.directory)
    if key:
        given["key"] = key
    error = run_jobs.withdraw_key(context.source, context.store.directory, "leave", given)
    if error is not None:
        context.journal.warnings.append(
            f"The one-time key may still be in /root/.ssh/authorized_keys of the source, in the line that ends in {context.key_marker}; "
            f"its private key is deleted and the line expires: {error.message}"
        )


def needed(journal: Journal) -> bool:
    """Whether the next worker must finish work on the source, so that a failed worker keeps the key."""
    return journal.state == "failed" and "quiesce" in journal.phases


def at_end(context: Context) -> None:
    """Withdraw the key at the end of the worker, unless work on the source is unfinished."""
    if (context.store.directory / "id_ed25519").exists() and not needed(context.journal):
        withdraw(context)
        context.keep()
