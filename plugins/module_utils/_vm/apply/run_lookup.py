# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finding the domain of a VM that is to go, or to go back: by what is there, not by its details, which may name no more than its id."""

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
    """Find the domain under any driver, the definition it is to go back to, and the disks that are to go with it.

    :arg uri: the driver its details come to.
    :arg store: gives the storage of a connection.
    :raises RefusedError: what is found is somebody else's, or the earlier definition had a password that is lost.
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
    """The earlier definition with the passwords of the present one: nobody keeps old ones.

    :raises RefusedError: it had one where there is none now, and would come back open to everybody.
    """
    if " passwd=" not in work.applied:
        return
    # only for those that have any: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import reveal

    unknown = reveal(work.document, run_work.need(work.seen).config)
    if unknown:
        raise model_errors.RefusedError(
            f"the previous definition has a password for {', '.join(unknown)}, which is kept nowhere.",
            hint="Ask for state: present with the earlier template and the password.",
        )
