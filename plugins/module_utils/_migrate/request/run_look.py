# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``master_migrate_info``: how a migration stands, what a source is like.

Needs no libvirt, for a source has none.
"""

from __future__ import annotations

import platform
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_journal_mirror, run_agent
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import parse_containers
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_journal, io_units
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal, report
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

_POLL = 1.0


def described(journal: Journal) -> dict[str, t.Any]:
    """A migration as modules report it."""
    return {**report(journal), "host": journal.facts.get("vm", {}).get("host") or platform.node(), "error": journal.reason}


def look(name: str | None, log_lines: int, wait: float = 0) -> dict[str, t.Any]:
    """All migrations of this host, or one (``master_migrate_info``).

    :arg wait: answer when there is something new of the one, or after so many seconds.
    """
    if name and wait:
        _await_news(parse_name(name, "name"), wait)
    found = []
    for each in [parse_name(name, "name")] if name else io_journal.names():
        store = JournalStore(each)
        # asked first: a worker that ends in between has written its last word already
        active = io_units.unit_active(io_units.unit_name(each))
        journal = store.read()
        if journal is None:
            continue
        entry = described(journal)
        entry["active"] = active
        if journal.state == "running" and not active:
            entry["state"] = "interrupted"
        entry["log"] = store.tail(log_lines) if log_lines else []
        found.append(entry)
    return {"changed": False, "migrations": found, "reported": reported(name)}


def reported(name: str | None = None) -> list[dict[str, t.Any]]:
    """What this machine, as a source, last heard of its migrations."""
    kept = {each: word for each, word in io_journal_mirror.all_kept().items() if name in (None, each)}
    return [{**report(Journal(**word["journal"])), "host": word["host"], "reported_at": utc(word["reported_at"])} for word in kept.values()]


def _await_news(name: str, wait: float) -> None:
    store, unit = JournalStore(name), io_units.unit_name(name)
    until = time.monotonic() + wait
    before = _news(store)
    while io_units.unit_active(unit) and _news(store) == before and time.monotonic() < until:
        time.sleep(_POLL)


def _news(store: JournalStore) -> tuple[t.Any, ...]:
    """What changes when somebody who watches wants to hear of it."""
    journal = store.read()
    return (journal.state, journal.phase, journal.phases.get(journal.phase, {}).get("state"), len(journal.passes)) if journal else ()


def look_at_source(services: t.Sequence[str], address: str | None, containers: t.Sequence[t.Any] = ()) -> dict[str, t.Any]:
    """This machine as the source of a migration (``master_migrate_info``); passwords are blotted out."""
    return {"changed": False, "source_facts": run_agent.gather_facts(services, address, parse_containers(containers)), "reported": reported()}
