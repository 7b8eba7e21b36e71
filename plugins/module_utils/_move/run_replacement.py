# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: take the old VM of a host away, so that a new one with the same name replaces it here or on another server."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_records
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import parse_time
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look, io_replacement
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_replacement import (
    COMPLETED,
    RETIRED,
    RETIRING,
    SUFFIX,
    Replacement,
    parse_replacement,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DRIVER_URIS, DomainHost, DomainRecord
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volumes, run_removal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import Removal

_LOCK = 300.0


class ReplacementRequest(t.NamedTuple):
    """The replacement of a VM.

    :arg here: name of this server, ``source`` that of the old VM, ``to`` that of the new one.
    :arg details: the VM details; on the server of the new VM, volumes with the names of its disks are taken away as well.
    :arg shutdown_timeout: seconds that a running VM has to shut down before it is powered off.
    """

    id: str
    cluster: str
    state: str
    at: str
    here: str
    source: str
    to: str
    details: t.Mapping[str, t.Any] | None = None
    pool: str = "default"
    remove_disks: bool = False
    shutdown_timeout: float = 120
    uri: str | None = None


def apply(request: ReplacementRequest, *, check_mode: bool) -> dict[str, t.Any]:
    """Bring the replacement to a state on this host; returns keyword arguments for ``exit_json``."""
    parse_time(request.at, "at")
    uuid = vm_uuid(parse_name(request.cluster, "cluster"), parse_name(request.id, "id"))
    before = io_records.read(io_replacement.HOME, uuid, parse_replacement)
    same = before is not None and before.at == request.at
    if before is not None and same and before.state in (request.state, COMPLETED):
        return _result(before, before, [])
    record = Replacement(request.id, request.cluster, uuid, request.at, request.source, request.to, RETIRING)
    if request.state == COMPLETED:
        if before is None or not same or before.state != RETIRED:
            raise RefusedError("the old VM was not taken away on this server.", "state", "Use state: retired first.")
        done = before._replace(state=COMPLETED)
        if not check_mode:
            io_replacement.write(done)
        return _result(before, done, ["complete"])
    return _retire(request, record, before, check_mode)


def _retire(request: ReplacementRequest, record: Replacement, before: Replacement | None, check_mode: bool) -> dict[str, t.Any]:
    """Stop the old VM, set its disks aside, and undefine it; everything is checked before the first change."""
    found = io_look.find(request.cluster, request.id, record.uuid, request.uri)
    uuid = found[1].uuid if found else record.uuid
    name = found[1].name if found else str((request.details or {}).get("name") or request.id)
    leaves = request.to != request.here
    with contextlib.ExitStack() as stack:
        removals = _plan(request, uuid, found, stack)
    suffix = SUFFIX + request.at
    kept = () if request.remove_disks else tuple(removal.path + suffix for removal in removals)
    actions = ["power off"] if found and found[1].active else []
    actions += [f"{'remove' if request.remove_disks else 'keep'} {removal.path}{'' if request.remove_disks else suffix}" for removal in removals]
    actions += ["undefine"] if found else []
    actions += [f"record that it is on {request.to}"] if leaves else []
    # disks that an interrupted run has already renamed
    earlier = before.disks if before is not None and before.at == request.at else ()
    record = record._replace(disks=tuple(dict.fromkeys((*earlier, *kept))))
    done = record._replace(state=RETIRED)
    if not check_mode:
        io_replacement.write(record)
        if leaves:
            # before anything else, so that nothing starts the old VM again
            with host_lock("domains", _LOCK):
                run_owner.change(uuid, Event("replaced", to=request.to, of=Record(request.cluster, request.id, uuid, name)))
        _take_away(request, uuid, found[0] if found else _uri(request), removals, suffix)
        io_replacement.forget_refusal(name)
        if not leaves:
            io_owner.forget(uuid)
        io_replacement.write(done)
    return _result(before, done, actions)


def _uri(request: ReplacementRequest) -> str:
    given = (request.details or {}).get("hypervisor")
    return request.uri or DRIVER_URIS.get(str(given), "qemu:///system")


def _plan(request: ReplacementRequest, uuid: str, found: tuple[str, DomainRecord] | None, stack: contextlib.ExitStack) -> tuple[Removal, ...]:
    """Return the volumes of the old VM, and on the server of the new one those in the way of its disks."""
    first = found[0] if found else _uri(request)
    uris = {first, *DRIVER_URIS.values()}
    hosts = sorted(map(stack.enter_context, io_domain_lists.drivers(uris)), key=lambda host: host.uri != first)
    document = parse(found[1].config_xml) if found else None
    owned = xml_metadata.read(document) if found else None
    given: dict[str, t.Any] = dict(request.details or {}) if request.to == request.here else {}
    [vm] = parse_vms([{**given, "id": request.id}], cluster=request.cluster)
    guarded = vm.protected or any(disk.protected for disk in vm.disks) or bool(owned and (owned.protected or owned.protected_disks))
    if guarded and request.remove_disks:
        raise RefusedError("the VM or a disk of it is protected.", "remove_disks", "Keep the old disks, or remove protected from its VM details first.")
    # disks that are renamed are not lost
    vm = dataclasses.replace(vm, protected=False, disks=tuple(dataclasses.replace(disk, protected=False) for disk in vm.disks))
    owned = owned._replace(protected_disks=()) if owned else None
    store = io_volumes.VolumeStore(hosts[0])
    steps = run_removal.plan_removal(vm, store, hosts, uuid=uuid, pool=request.pool, wipe=False, owned=owned, config=document)
    if steps.notices:
        raise RefusedError(
            f"the new VM would start with a disk of the old one: {'; '.join(steps.notices)}.", "id", "Detach or rename this disk on the server, then run again."
        )
    blocks = [removal.path for removal in steps.removals if not io_volumes.local(removal.pool)]
    if blocks and not request.remove_disks:
        raise RefusedError(
            f"{', '.join(blocks)} cannot be kept under another name, because the pool does not contain files.",
            "remove_disks",
            "Copy what you need, then set remove_disks: true.",
        )
    return tuple(steps.removals)


def _take_away(request: ReplacementRequest, uuid: str, uri: str, removals: t.Sequence[Removal], suffix: str) -> None:
    with host_lock("domains", _LOCK), DomainHost(uri) as host:
        store = io_volumes.VolumeStore(host)
        now = host.domain(uuid)
        if now is not None and now.autostart:
            # it must not start if this is interrupted and the server restarts
            host.set_autostart(uuid, False)
        if now is not None and now.active:
            host.shutdown(uuid, request.shutdown_timeout, True)
        for removal in removals:
            pool = store.pool(removal.pool.name, "pool")
            if request.remove_disks:
                store.remove(removal)
            else:
                with store.locked(pool):
                    io_replacement.set_aside(pathlib.Path(removal.path), suffix)
        # last: it lists the disks
        host.undefine(uuid)
        store.refresh()


def _result(before: Replacement | None, after: Replacement, actions: t.Sequence[str]) -> dict[str, t.Any]:
    changed = before != after
    lines = "".join(f"{line}\n" for line in actions)
    return {"changed": changed, "actions": list(actions), "replacement": after.as_dict(), "diff": {"before": "", "after": lines if changed else ""}}


def replacements(cluster: str | None = None, vm_id: str | None = None) -> list[dict[str, t.Any]]:
    """Return the records of this host."""
    for name, path in ((cluster, "cluster"), (vm_id, "id")):
        if name is not None and not name:
            raise InputError("is empty.", path, "Write a name, or omit it.")
    return [
        record.as_dict()
        for record in io_records.read_all(io_replacement.HOME, parse_replacement)
        if cluster in (None, record.cluster) and vm_id in (None, record.id)
    ]
