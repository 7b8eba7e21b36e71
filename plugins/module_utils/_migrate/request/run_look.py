# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use cases of the modules ``master_migrate_info`` and ``master_source_info``: state of migrations, facts of a source.

Does not use libvirt, which a source does not have.
"""

from __future__ import annotations

import platform
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_state, run_agent
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import parse_containers, parse_excludes
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_journal, io_units
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal, report
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

_POLL = 1.0


def described(journal: Journal) -> dict[str, t.Any]:
    """A migration as modules return it."""
    return {**report(journal), "host": journal.facts.get("vm", {}).get("host") or platform.node()}


def look(name: str | None, log_lines: int, wait_timeout: float = 0) -> list[dict[str, t.Any]]:
    """All migrations of this host, or one (``master_migrate_info``).

    :arg name: of the one migration to return.
    :arg log_lines: number of lines to return from the end of the log.
    :arg wait_timeout: wait for a change of that migration, for this number of seconds at most.
    """
    if name and wait_timeout:
        _await_change(parse_name(name, "name"), wait_timeout)
    found = []
    for each in [parse_name(name, "name")] if name else io_journal.names():
        store = JournalStore(each)
        # before the journal: a worker that ends in between has already written its final state
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
    return found


def _await_change(name: str, wait_timeout: float) -> None:
    store, unit = JournalStore(name), io_units.unit_name(name)
    until = time.monotonic() + wait_timeout
    before = _stage(store)
    while io_units.unit_active(unit) and _stage(store) == before and time.monotonic() < until:
        time.sleep(_POLL)


def _stage(store: JournalStore) -> tuple[t.Any, ...]:
    """The parts of a journal whose change ends the wait."""
    journal = store.read()
    if journal is None:
        return ()
    return (journal.state, journal.phase, journal.phases.get(journal.phase, {}).get("state"), len(journal.passes), "cutover_at" in journal.progress)


def look_at_source(
    services: t.Sequence[str], address: str | None, containers: t.Sequence[t.Any] = (), excludes: t.Sequence[t.Any] = ()
) -> dict[str, t.Any]:
    """This machine as the source of a migration (``master_source_info``); passwords are redacted."""
    facts = run_agent.gather_facts(services, address, parse_containers(containers), parse_excludes(excludes))
    return {"facts": facts, "reports": reports()}


def reports() -> list[dict[str, t.Any]]:
    """The last reports that this machine, as a source, received about its migrations."""
    kept = io_state.kept_reports()
    return [{**report(Journal(**each["journal"])), "host": each["host"], "reported_at": utc(each["reported_at"])} for each in kept]
