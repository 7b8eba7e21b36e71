# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``master_migrate_info``: how a migration stands, what a source is like.

Needs no libvirt, for a source has none.
"""

from __future__ import annotations

import platform
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import journal as journal_files
from ansible_collections.reduced.footprint.plugins.module_utils._backend import units
from ansible_collections.reduced.footprint.plugins.module_utils._backend.journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration_journal import Journal, report
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._run import source_agent


def described(journal: Journal) -> dict[str, t.Any]:
    """A migration as modules report it."""
    return {**report(journal), "host": journal.facts.get("vm", {}).get("host") or platform.node(), "error": journal.reason}


def look(name: str | None, log_lines: int) -> dict[str, t.Any]:
    """All migrations of this host, or one (``master_migrate_info``)."""
    found = []
    for each in [parse_name(name, "name")] if name else journal_files.names():
        store = JournalStore(each)
        journal = store.read()
        if journal is None:
            continue
        entry = described(journal)
        entry["active"] = units.unit_active(units.unit_name(each))
        if journal.state == "running" and not entry["active"]:
            entry["state"] = "interrupted"
        entry["log"] = store.tail(log_lines) if log_lines else []
        found.append(entry)
    return {"changed": False, "migrations": found}


def look_at_source(services: t.Sequence[str], address: str | None) -> dict[str, t.Any]:
    """This machine as the source of a migration (``master_migrate_info``); passwords are blotted out."""
    return {"changed": False, "source_facts": source_agent.gather_facts(services, address)}
