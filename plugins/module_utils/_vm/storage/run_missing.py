# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks volumes that are missing although the VM had them, or exist although it did not; the caller may accept each by name. Reads only."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_look, xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volumes, model_storage, plan_volumes_missing, xml_devices


def check(
    vm: model_vm.VmDetails,
    disk: model_vm.Disk,
    place: model_storage.Pool,
    source: model_storage.DiskSource,
    store: io_volumes.VolumeStore,
    path: str,
    seen: run_look.Seen | None,
    recreate: t.Container[str],
    adopt: t.Container[str],
) -> None:
    """Check a disk whose volume is missing.

    :arg recreate: the disks that may be created again.
    :arg adopt: the disks whose existing volumes are wanted.
    :raises RefusedError: the VM had that volume, and a new one would be empty; or its content is wanted.
    """
    if _named(disk, place, adopt):
        hint = "Restore it, or remove it from adopt_disks to get a new volume."
        raise model_errors.RefusedError(f"adopt_disks names it, but the volume {source.path} does not exist.", path, hint)
    if seen is None:
        return
    plan_volumes_missing.refuse_missing(
        vm.name,
        disk,
        place,
        source,
        _history(seen, store),
        path=path,
        recreate=_named(disk, place, recreate),
        protected=disk.protected or vm.protected,
        twin=store.place(place, disk.twin) if disk.twin is not None else None,
    )


def check_found(
    disk: model_vm.Disk,
    place: model_storage.Pool,
    source: model_storage.DiskSource,
    store: io_volumes.VolumeStore,
    path: str,
    seen: run_look.Seen | None,
    adopt: t.Container[str],
) -> None:
    """Check a disk with an image whose volume exists, as in :func:`check`: it must be the VM's own, or named by the caller."""
    # those of a killed run are in its metadata only
    had = [] if seen is None else [*_history(seen, store).places.values(), *(seen.owned.pending_disks if seen.owned else ())]
    if source.path not in had and not _named(disk, place, adopt):
        raise model_errors.RefusedError(
            f"a new disk from the image {disk.image} is wanted, but the volume {source.path} exists, which may be that of a removed VM.",
            f"{path}.image",
            f"To use it with its content: adopt_disks: [{disk.name}]. Otherwise remove the volume, or give the disk another name.",
        )


def _named(disk: model_vm.Disk, place: model_storage.Pool, names: t.Container[str]) -> bool:
    return disk.name in names or f"{place.name}/{disk.name}" in names


def _history(seen: run_look.Seen, store: io_volumes.VolumeStore) -> plan_volumes_missing.History:
    """The volumes in the definition of a domain, in the document applied last and in its running guest.

    A domain can be defined before its volumes exist: its metadata lists those as pending.
    """
    running = _paths(seen.live, store) if seen.record.active and seen.live is not None else {}
    had = {**_paths(seen.config, store), **(_paths(seen.applied, store) if seen.applied is not None else {})}
    owned = seen.owned
    if owned is not None and owned.back and owned.previous:
        # it was rolled back to an earlier definition; the later one named volumes, too
        had = {**_paths(xml_domain.parse(owned.previous), store), **had}
    pending = set(owned.pending_disks) if owned is not None else set()
    return plan_volumes_missing.History(frozenset(running.values()), frozenset(had.values()) - pending, had)


def _paths(document: t.Any, store: io_volumes.VolumeStore) -> dict[str, str]:
    """Target (or mount point) of every disk and file system → its path; also for disks given by pool and volume."""
    found = {}
    for target, (path, pool, volume) in xml_devices.placed_disks(document).items():
        if path is None and pool and volume:
            try:
                path = store.place(store.pool(pool, "pool"), volume)
            except model_errors.FootprintError:
                continue
        if path is not None:
            found[target] = path
    return found


def check_names(option: str, names: t.Sequence[str], works: t.Iterable[run_work.Work], default_pool: str) -> None:
    """Check that each entry of an option is the name of one disk of the VMs of this call.

    A disk keeps the name it was created with, so a VM's plan can have other names than those derived from its details. For
    a VM without a plan they are unknown, and nothing is created for it.
    """
    works = list(works)
    every = [disk for work in works for disk in (work.vm.disks if work.steps is None else work.steps.disks)]
    disks = [(disk.name, f"{disk.pool or default_pool}/{disk.name}") for disk in every]
    for index, name in enumerate(names):
        matches = sorted({whole for short, whole in disks if name in (short, whole)})
        if not matches and all(work.steps is not None for work in works):
            raise plan_volumes_missing.unknown_disk(name, f"{option}[{index}]", (short for short, unused in disks))
        if len(matches) > 1:
            message = f"{model_errors.shown(name)} is the name of several disks: {', '.join(matches)}."
            raise model_errors.InputError(message, f"{option}[{index}]", "Use POOL/NAME.")
