# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which volumes go with a VM that goes: its own, whole, and needed by nobody else. Reads only."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import disk_header
from ansible_collections.reduced.footprint.plugins.module_utils._backend import domains
from ansible_collections.reduced.footprint.plugins.module_utils._backend import volumes
from ansible_collections.reduced.footprint.plugins.module_utils._model import errors
from ansible_collections.reduced.footprint.plugins.module_utils._model import storage
from ansible_collections.reduced.footprint.plugins.module_utils._model import vm as vm_model
from ansible_collections.reduced.footprint.plugins.module_utils._plan.volumes import kept_because
from ansible_collections.reduced.footprint.plugins.module_utils._run import define_steps
from ansible_collections.reduced.footprint.plugins.module_utils._run import define_volumes
from ansible_collections.reduced.footprint.plugins.module_utils._xml import devices
from ansible_collections.reduced.footprint.plugins.module_utils._xml import domain as domain_xml
from ansible_collections.reduced.footprint.plugins.module_utils._xml import metadata


def plan_removal(
    vm: vm_model.VmDetails,
    store: volumes.VolumeStore,
    hosts: t.Iterable[domains.DomainHost],
    *,
    uuid: str,
    pool: str,
    wipe: bool,
    owned: metadata.Ownership | None = None,
    config: t.Any = None,
) -> define_steps.VolumeSteps:
    """Decide which volumes of a VM to delete.

    They are the ones its domain has and the template put there, and the ones the details name: a
    run that was killed after the domain was gone can so be finished. What an outsider attached
    stays, and so does what is protected, a base image, or needed by another domain or volume.

    :arg hosts: every connection to this host; their domains are asked what they need.
    :arg uuid: of its domain, also where the details come to another one.
    :arg owned: what the domain's metadata say, ``config`` its parsed definition, where it is there.
    :raises InputError: a pool the details name is not there.
    """
    steps = define_steps.VolumeSteps(store, uuid)
    if vm.protected:
        # of a domain that is there the plan says so; the disks of one that is gone are protected all the same
        return steps
    candidates: dict[str, tuple[storage.Pool, str]] = {}
    told = []
    if owned is not None and config is not None and owned.applied:
        there = set(_own_disks(config, store))
        given = _own_disks(domain_xml.parse(owned.applied), store)
        told += [f"the disk {path} stays: its template did not give it to the VM" for path in sorted(there.difference(given))]
        for path in given:
            found = store.pool_of(path) if path in there else None
            if found is not None:
                candidates[path] = found
            elif path in there:
                told.append(f"the disk {path} stays: it stands in no active pool")
    protected = set(owned.protected_disks if owned else ())
    for index, disk in enumerate(vm.disks):
        place = store.pool(disk.pool or pool, f"{vm.path}.disks[{index}].pool" if disk.pool else "pool")
        candidates.setdefault(store.place(place, disk.name), (place, disk.name))
        if disk.protected:
            protected.add(f"{place.name}/{disk.name}")
    for place in _seed_pools(store, pool, candidates):
        candidates.setdefault(store.place(place, define_volumes.seed_name(vm.name)), (place, define_volumes.seed_name(vm.name)))
    candidates = {path: found for path, found in candidates.items() if store.has(*found)}
    if candidates:
        needs = _needs_of_others(hosts, store, uuid)
        reasons = _reasons(store, candidates, protected, needs)
        told += [f"the volume {path} stays: {reason}" for path, reason in reasons.items()]
        steps.removals = tuple(storage.Removal(place, name, path, wipe) for path, (place, name) in candidates.items() if path not in reasons)
    steps.told = tuple(told)
    return steps


def _own_disks(document: t.Any, store: volumes.VolumeStore) -> list[str]:
    """Paths of the disks of a domain; one given by pool and volume counts with its path."""
    found = devices.own_disks(document)
    for pool, volume in devices.pool_disks(document):
        try:
            found.append(store.place(store.pool(pool, "pool"), volume))
        except errors.FootprintError:
            continue
    return found


def _seed_pools(store: volumes.VolumeStore, pool: str, candidates: t.Mapping[str, tuple[storage.Pool, str]]) -> list[storage.Pool]:
    places = [place for place, unused in candidates.values()]
    try:
        places.append(store.pool(pool, "pool"))
    except errors.InputError:
        # a VM without disks has no use for the call's pool
        pass
    return [place for place in dict.fromkeys(places) if volumes.local(place)]


def _needs_of_others(hosts: t.Iterable[domains.DomainHost], store: volumes.VolumeStore, uuid: str) -> dict[str, str]:
    """Real path → name of a domain, other than this VM's, that needs it; images behind its disks included."""
    needs: dict[str, str] = {}
    for host in hosts:
        for record in host.domains():
            if record.uuid == uuid:
                continue
            for text in (record.config_xml, record.live_xml):
                if text is None:
                    continue
                document = domain_xml.parse(text)
                paths = devices.needed_files(document)
                for name, volume in devices.pool_disks(document):
                    try:
                        paths.add(store.place(store.pool(name, "pool"), volume))
                    except errors.InputError:
                        continue
                for path in paths:
                    for real in [os.path.realpath(path), *disk_header.chain(path)]:
                        needs.setdefault(real, f"the domain {record.name}")
    return needs


def _reasons(
    store: volumes.VolumeStore, candidates: t.Mapping[str, tuple[storage.Pool, str]], protected: t.Container[str], needs: t.Mapping[str, str]
) -> dict[str, str]:
    """Path → why it stays.

    What contains something others need, or is in it, is needed too. A layer that stays keeps what is
    behind it, so this is asked until nothing more stays.
    """
    reasons: dict[str, str] = {}
    while True:
        going = {name for path, (unused, name) in candidates.items() if path not in reasons}
        more = {}
        for path, (place, name) in candidates.items():
            if path in reasons:
                continue
            real = os.path.realpath(path)
            users = list(dict.fromkeys(user for needed, user in needs.items() if storage.overlap(needed, real)))
            if volumes.local(place):
                users += [f"the volume {layer}" for layer in store.layers_over(path, place.path) if layer not in going]
            reason = kept_because(path, place.path, f"{place.name}/{name}" in protected, users, store.folders if volumes.local(place) else None)
            if reason is None and volumes.local(place) and os.path.islink(path):
                reason = f"it is a symbolic link to {os.readlink(path)}"
            if reason is not None:
                more[path] = reason
        if not more:
            return reasons
        reasons.update(more)
