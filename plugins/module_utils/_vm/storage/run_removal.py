# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which volumes go with a VM that goes: its own, whole, and needed by nobody else. Reads only."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, io_volumes, model_storage, run_steps, run_volumes
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import xml_devices
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import kept_because


def plan_removal(
    vm: model_vm.VmDetails,
    store: io_volumes.VolumeStore,
    hosts: t.Iterable[io_domains.DomainHost],
    *,
    uuid: str,
    pool: str,
    wipe: bool,
    owned: xml_metadata.Ownership | None = None,
    config: t.Any = None,
) -> run_steps.VolumeSteps:
    """Decide which volumes of a VM to delete.

    They are the ones its domain has and the template put there, and the ones the details name: a
    run that was killed after the domain was gone can so be finished. What an outsider attached
    stays, and so does what is protected, a base image, or needed by another domain or volume.

    :arg hosts: every connection to this host; their domains are asked what they need.
    :arg uuid: of its domain, also where the details come to another one.
    :arg owned: what the domain's metadata say, ``config`` its parsed definition, where it is there.
    :raises InputError: a pool the details name is not there.
    """
    steps = run_steps.VolumeSteps(store, uuid)
    if vm.protected:
        # of a domain that is there the plan says so; the disks of one that is gone are protected all the same
        return steps
    candidates: dict[str, tuple[model_storage.Pool, str]] = {}
    told = []
    if owned is not None and config is not None and owned.applied:
        there = set(_own_disks(config, store))
        given = _own_disks(xml_domain.parse(owned.applied), store)
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
        candidates.setdefault(store.place(place, run_volumes.seed_name(vm.name)), (place, run_volumes.seed_name(vm.name)))
    candidates = {path: found for path, found in candidates.items() if store.has(*found)}
    if candidates:
        needs = _needs_of_others(hosts, store, uuid)
        reasons = _reasons(store, candidates, protected, needs)
        told += [f"the volume {path} stays: {reason}" for path, reason in reasons.items()]
        steps.removals = tuple(model_storage.Removal(place, name, path, wipe) for path, (place, name) in candidates.items() if path not in reasons)
    steps.told = tuple(told)
    return steps


def _own_disks(document: t.Any, store: io_volumes.VolumeStore) -> list[str]:
    """Paths of the disks of a domain; one given by pool and volume counts with its path."""
    found = xml_devices.own_disks(document)
    for pool, volume in xml_devices.pool_disks(document):
        try:
            found.append(store.place(store.pool(pool, "pool"), volume))
        except model_errors.FootprintError:
            continue
    return found


def _seed_pools(store: io_volumes.VolumeStore, pool: str, candidates: t.Mapping[str, tuple[model_storage.Pool, str]]) -> list[model_storage.Pool]:
    places = [place for place, unused in candidates.values()]
    try:
        places.append(store.pool(pool, "pool"))
    except model_errors.InputError:
        # a VM without disks has no use for the call's pool
        pass
    return [place for place in dict.fromkeys(places) if io_volumes.local(place)]


def _needs_of_others(hosts: t.Iterable[io_domains.DomainHost], store: io_volumes.VolumeStore, uuid: str) -> dict[str, str]:
    """Real path → name of a domain, other than this VM's, that needs it; images behind its disks included."""
    needs: dict[str, str] = {}
    for host in hosts:
        for record in host.domains():
            if record.uuid == uuid:
                continue
            for text in (record.config_xml, record.live_xml):
                if text is None:
                    continue
                document = xml_domain.parse(text)
                paths = xml_devices.needed_files(document)
                for name, volume in xml_devices.pool_disks(document):
                    try:
                        paths.add(store.place(store.pool(name, "pool"), volume))
                    except model_errors.InputError:
                        continue
                for path in paths:
                    for real in [os.path.realpath(path), *io_disk_header.chain(path)]:
                        needs.setdefault(real, f"the domain {record.name}")
    return needs


def _reasons(
    store: io_volumes.VolumeStore, candidates: t.Mapping[str, tuple[model_storage.Pool, str]], protected: t.Container[str], needs: t.Mapping[str, str]
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
            users = list(dict.fromkeys(user for needed, user in needs.items() if model_storage.overlap(needed, real)))
            if io_volumes.local(place):
                users += [f"the volume {layer}" for layer in store.layers_over(path, place.path) if layer not in going]
            reason = kept_because(path, place.path, f"{place.name}/{name}" in protected, users, store.folders if io_volumes.local(place) else None)
            if reason is None and io_volumes.local(place) and os.path.islink(path):
                reason = f"it is a symbolic link to {os.readlink(path)}"
            if reason is not None:
                more[path] = reason
        if not more:
            return reasons
        reasons.update(more)
