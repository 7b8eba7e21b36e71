# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the domain of a VM to remove or roll back: from the existing domains, because the details may contain only its id."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_result, run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, run_look
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volumes


def look_up(
    work: run_work.Work,
    wanted: plan_domain.Wanted,
    uri: str,
    request: run_result.DefineRequest,
    hosts: t.Mapping[str, io_domains.DomainHost],
    seen: t.Mapping[str, run_look.Domains],
    store: t.Callable[[str], io_volumes.VolumeStore],
) -> None:
    """Find the domain in any driver, the definition to restore, and the disks to remove.

    :arg uri: the driver according to its details.
    :arg store: returns the storage of a connection.
    :raises RefusedError: the domain belongs to another owner, or the earlier definition had a password that is lost.
    """
    where = next((each for each in [uri, *hosts] if seen[each].candidate(wanted) is not None), uri)
    work.host = hosts[where]
    work.seen = seen[where].find(wanted)
    work.wanted = wanted
    if work.seen is not None:
        work.result.name, work.result.uuid = work.seen.record.name, work.uuid
        work.result.macs = xml_domain.macs_of(work.seen.config)
        work.result.hypervisor = work.seen.config.get("type")
        owned = work.seen.owned
        if request.state == "rolled_back" and owned is not None and owned.previous is not None:
            work.applied = owned.applied if owned.back else owned.previous
            work.document = xml_domain.parse(work.applied)
            _reveal(work)
    if request.remove_disks:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_removal import plan_removal

        work.steps = plan_removal(
            work.vm,
            store(work.host.uri),
            hosts.values(),
            uuid=work.uuid,
            pool=request.pool,
            wipe=request.wipe,
            owned=work.seen.owned if work.seen else None,
            config=work.seen.config if work.seen else None,
        )


def _reveal(work: run_work.Work) -> None:
    """Insert the current passwords into the earlier definition: old passwords are not stored.

    :raises RefusedError: it had a password where there is none now, and would be restored without protection.
    """
    if " passwd=" not in work.applied:
        return
    # imported only where there are passwords: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import reveal

    unknown = reveal(work.document, run_work.need(work.seen).config)
    if unknown:
        raise model_errors.RefusedError(
            f"the previous definition has a password for {', '.join(unknown)}, which is not stored.",
            hint="Run with state: present, the earlier template and the password.",
        )
