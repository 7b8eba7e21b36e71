# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage of one VM in a call: planning (reads only) and applying the steps for its disks and seed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts, model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, model_storage, plan_disk_places, xml_devices
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore, grow_open, local
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import check_room, image_changed, plan_volume, refuse_remote
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_steps import SeedPlan, VolumeSteps
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import xml_template, xml_variables

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_look

_SEED_PREFIX = "footprint-seed"


def plan(
    vm: model_vm.VmDetails,
    store: VolumeStore,
    template: xml_template.Template,
    *,
    pool: str,
    hypervisor: str,
    keep: t.Mapping[str, model_storage.DiskSource] | None = None,
    seen: run_look.Seen | None = None,
    recreate: t.Container[str] = (),
    adopt: t.Container[str] = (),
) -> VolumeSteps:
    """Plan the storage of a VM; nothing is changed.

    Disks that the template does not use are ignored.

    :arg keep: target → source of the volumes that an adopted domain keeps.
    :arg seen: its existing domain; a missing volume that it names is not created.
    :arg recreate: the disks (by name, or ``pool/name``) whose missing volumes are created nevertheless.
    :arg adopt: the disks (by name, or ``pool/name``) that keep the content of a volume that the VM did not have.
    :raises RefusedError: an existing volume cannot be changed as wanted, or one is missing; other VMs can be processed.
    """
    config, live = (seen.config, seen.live if seen.record.active else None) if seen is not None else (None, None)
    steps = VolumeSteps(store, vm.uuid, live is not None, disks=vm.disks)
    applied = seen.applied if seen is not None and keep is None and vm.disks and xml_variables.disks_used(template) else None
    if applied is not None and not _as_applied(vm, applied, store, pool):
        steps.disks = _keys().settle_disks(vm, applied, store, pool)
    volumes, sources, protected, notices = [], [], [], []
    running = store.open_disks(live)
    known = dict(store.open_disks(config), **running)
    for index, disk in enumerate(steps.disks if xml_variables.disks_used(template) else ()):
        path = f"{vm.path}.disks[{index}]"
        kept = (keep or {}).get(disk.target)
        if kept is not None:
            sources.append(kept)
            # in the pool where it is, which the details of an adopted VM need not name
            there = store.pool_of(kept.path) if disk.protected else None
            if there is not None:
                protected.append(f"{there[0].name}/{there[1]}")
            continue
        place = store.pool(disk.pool or pool, f"{path}.pool" if disk.pool else "pool")
        plan_disk_places.check_name(place, disk.name, path)
        source = store.source(place, disk, path)
        if source.type == "dir":
            plan_disk_places.check_folder(os.path.realpath(source.path), store.folders, path)
        found = store.find(place, disk, path, known.get(source.path) == "raw")
        image = None
        if found is None:
            _refuse_twin(store, place, disk, path)
            _missing().check(vm, disk, place, source, store, path, seen, recreate, adopt)
            image = store.image(place, disk, path, spare=_spare(store, pool) if disk.image is not None else None)
        elif disk.image is not None and source.path not in known and not disk.shareable:
            _missing().check_found(disk, place, source, store, path, seen, adopt)
        one = plan_volume(disk, place, found, image, path, source.path in running)
        refuse_remote(one, path)
        volumes.append(one)
        sources.append(source)
        notices += one.notices
        notices += _check_backing(one, path, live is not None)
        if disk.protected:
            protected.append(f"{place.name}/{disk.name}")
    if applied is not None and len(vm.disks) > 1 and any(one.how == model_storage.GROW for one in volumes):
        _keys().settle_disks(vm, applied, store, pool, grows=True)
    _claim_room(store, volumes, vm.path)
    steps.volumes, steps.sources, steps.protected = tuple(volumes), tuple(sources), tuple(protected)
    pending = seen.owned.pending_disks if seen is not None and seen.owned is not None else ()
    steps.unfinished = bool(pending and volumes) and store.place(volumes[0].pool, volumes[0].disk.name) in pending
    if hypervisor == "lxc" or xml_variables.seed_used(template):
        steps.seed = _plan_seed(vm, steps, pool, hypervisor, config)
        if steps.seed is not None and steps.seed.writes and vm.cloud_init is not None:
            # imported for new content only: each import costs every run
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed_check

            io_seed_check.check(vm.cloud_init, vm.path)
        steps.seed_waits = steps.seed is not None and live is not None and xml_devices.seed_waits(live, xml_metadata.SEED_NAMESPACE)
    if vm.host_key is not None or vm.authorized_keys:
        # imported on demand: each import costs every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_host_key

        run_host_key.plan(steps, vm)
    steps.notices = tuple(notices)
    return steps


def _claim_room(store: VolumeStore, volumes: t.Sequence[model_storage.VolumePlan], path: str) -> None:
    """Reserve the space of one VM's disks in pools that allocate all bytes at creation, in addition to the VMs before it."""
    requested: dict[str, tuple[model_storage.Pool, int]] = {}
    for one in volumes:
        if one.pool.whole and one.how != model_storage.KEEP:
            _pool, before = requested.get(one.pool.name, (one.pool, 0))
            requested[one.pool.name] = (one.pool, before + max(0, one.size - store.holds(one.pool, one.disk.name)))
    for pool, size in requested.values():
        check_room(pool, size, store.left(pool), path)
    for pool, size in requested.values():
        store.promise(pool, size)


def apply(steps: VolumeSteps, done: list[str]) -> None:
    """Create and grow volumes, write the seed, remove volumes; completed actions are added to ``done``.

    :raises BackendError: one of them failed; completed ones remain (see :meth:`VolumeSteps.undo`).
    """
    if steps.seed is not None and steps.seed.writes and not steps.seed.tree:
        # before the disks: a run that is killed in between must not leave a disk whose guest has no host key
        _write_seed(steps, steps.seed)
        done.append(steps.seed.action)
    for one in steps.work:
        if one.how == model_storage.GROW:
            steps.store.grow(one, lambda path, size: grow_open(steps.store.host, steps.uuid, path, size))
        elif steps.store.create(one):
            steps.made.append(one)
        else:
            continue
        done += one.actions
    if steps.seed is not None and steps.seed.writes and steps.seed.tree:
        _write_seed(steps, steps.seed)
        done.append(steps.seed.action)
    for removal in steps.removals:
        steps.store.remove(removal)
        done.append(removal.action)


def accounting(steps: VolumeSteps) -> list[dict[str, t.Any]]:
    """The VM's volumes with their current capacity and allocation; for future volumes only the capacity is known."""
    shown = []
    for one in steps.volumes:
        found = None
        with contextlib.suppress(model_errors.FootprintError):
            found = steps.store.find(one.pool, one.disk, "", one.disk.format == "raw")
        capacity = found.capacity if found else one.size or None
        allocation = found.allocation if found else None
        path = found.path if found else steps.store.place(one.pool, one.disk.name)
        shown.append({"name": one.disk.name, "pool": one.pool.name, "path": path, "capacity_bytes": capacity, "allocation_bytes": allocation})
    return shown


def _spare(store: VolumeStore, pool: str) -> model_storage.Pool | None:
    try:
        return store.pool(pool, "pool")
    except model_errors.InputError:
        return None


def _refuse_twin(store: VolumeStore, pool: model_storage.Pool, disk: model_vm.Disk, path: str) -> None:
    """Refuse a changed format that would change the derived name, and replace the VM's disk by an empty one."""
    if disk.twin is not None and store.has(pool, disk.twin):
        other = "qcow2" if disk.format == "raw" else "raw"
        raise model_errors.RefusedError(
            f"the volume {store.place(pool, disk.twin)} exists and is {other}, wanted is {disk.format}; the format of a volume cannot change.",
            f"{path}.format",
            f"Keep format: {other}, or give the disk a name to get a new volume.",
        )


def _check_backing(one: model_storage.VolumePlan, path: str, active: bool) -> list[str]:
    """Check that the backing file of a layer exists and has not changed."""
    found = one.found
    if found is None or found.backing is None or one.pool.remote:
        return []
    problem = image_changed(found.origin, io_disk_header.image_state(found.backing))
    if problem is None:
        return []
    text = f"the backing file {found.backing} of the volume {found.path} {problem}"
    if problem == "is missing" and not active:
        raise model_errors.RefusedError(f"{text}; the VM cannot start.", f"{path}.image", "Restore the original image to that path.")
    return [f"{text}; restore the original image, otherwise the content of the disk is lost"]


def _missing() -> t.Any:
    """The module for volumes that are unexpectedly missing or there, imported on demand: each import costs every run."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_missing

    return run_missing


def _as_applied(vm: model_vm.VmDetails, applied: t.Any, store: VolumeStore, pool: str) -> bool:
    """Whether the disks are those of the document applied last, with the same paths and targets."""
    recorded = xml_devices.recorded_disks(applied)
    for index, disk in enumerate(vm.disks):
        place = store.pool(disk.pool or pool, f"{vm.path}.disks[{index}].pool" if disk.pool else "pool")
        found = recorded.pop(store.source(place, disk, f"{vm.path}.disks[{index}]").path, None)
        if found is None or found.mount != disk.mount or disk.mount is None and (found.target != disk.target or found.serial != disk.serial):
            return False
    return not any(model_parts.position_of(os.path.basename(path), vm.name) is not None for path in recorded)


def _keys() -> t.Any:
    """The module for edited lists of disks, imported on demand: each import costs every run."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_keys

    return run_keys


def _seeds() -> t.Any:
    """The module that reads and writes seeds, imported on demand: each import costs every run."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed as seed

    return seed


def _plan_seed(vm: model_vm.VmDetails, steps: VolumeSteps, pool: str, hypervisor: str, config: t.Any) -> SeedPlan | None:
    content = vm.cloud_init
    if hypervisor == "lxc":
        if content is None:
            return None
        root = next((one for one in steps.volumes if one.disk.mount == "/"), None)
        if root is None or not local(root.pool):
            raise model_errors.InputError(
                "has no root file system for the cloud-init seed.", f"{vm.path}.disks", "Give the container a first disk in a pool of type dir."
            )
        path = steps.store.place(root.pool, root.disk.name)
        there = _seeds().read_tree(path)
        content = _with_keys(content, there, vm, steps)
        name = f"{root.disk.name}/{'/'.join(model_cloud_init.SEED_FOLDER)}"
        return SeedPlan(name, root.pool, path, True, content, there is not None, there != content.files())
    name = seed_name(vm.name)
    places = [one.pool for one in steps.volumes]
    try:
        places.insert(0, steps.store.pool(pool, "pool"))
    except model_errors.FootprintError:
        # a machine without a seed does not need the call's pool
        if content is not None or config is not None and any(str(source.get("file")).endswith(f"/{name}") for source in config.iter("source")):
            raise
    place = next((one for one in places if local(one) or one.remote and one.files), None)
    if content is None and not _may_have_seed(vm, steps, place):
        return None
    if place is None:
        raise model_errors.InputError(
            f"the pool {pool} does not contain files, and no disk is in a pool that does.", "pool", "Use a pool of type dir for the seed."
        )
    if any(one.disk.name == name and one.pool == place for one in steps.volumes):
        raise model_errors.InputError(f"{name!r} is reserved for the seed of the VM.", f"{vm.path}.disks", "Give the disk another name.")
    path = steps.store.place(place, name)
    if place.remote:
        there = steps.store.through(place).read_seed(name)
    else:
        io_disk_header.refuse_link(path)
        there = _seeds().read_iso(path)
    if content is None:
        content = _default_seed(vm, there, steps)
        if content is None:
            return None
    attached = config is not None and path in xml_devices.open_disks(config)
    if there is None and not attached and not place.remote and os.path.exists(path) and os.path.getsize(path):
        raise model_errors.RefusedError(
            f"{path} exists and is not a cloud-init seed; it is not replaced.",
            vm.path,
            "Give the VM another name, or move that file away if no other VM uses it.",
        )
    content = _with_keys(content, there, vm, steps)
    return SeedPlan(name, place, path, False, content, there is not None, there != content.files())


def _may_have_seed(vm: model_vm.VmDetails, steps: VolumeSteps, place: model_storage.Pool | None) -> bool:
    """Whether a machine without cloud-init data in its details may have a seed, which is then read."""
    if "seed" in vm.free or not steps.volumes:
        return False
    if place is None:
        return bool(vm.authorized_keys) and steps.volumes[0].creates and steps.volumes[0].image is not None
    name = seed_name(vm.name)
    exists = steps.store.through(place).read_seed(name) is not None if place.remote else os.path.lexists(steps.store.place(place, name))
    return bool(vm.authorized_keys) or exists


def _default_seed(vm: model_vm.VmDetails, there: t.Mapping[str, bytes] | None, steps: VolumeSteps) -> model_cloud_init.CloudInit | None:
    """The seed of a machine whose details have no cloud-init data, ``None`` if it has none: it contains the keys only."""
    # imported for machines with such a seed only: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_host_key

    return model_cloud_init.default(vm.uuid, vm.name) if run_host_key.default_seed(vm, there, steps.volumes) else None


def _with_keys(
    content: model_cloud_init.CloudInit, there: t.Mapping[str, bytes] | None, vm: model_vm.VmDetails, steps: VolumeSteps
) -> model_cloud_init.CloudInit:
    if vm.host_key is None and not vm.authorized_keys and model_cloud_init.VENDOR_DATA not in (there or {}):
        return content
    # imported for VMs with keys only: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_host_key

    return run_host_key.with_keys(content, there, vm, steps.volumes, steps.unfinished)


def seed_name(vm_name: str) -> str:
    """The name of a VM's seed in its pool."""
    return f"{vm_name}-seed.iso"


def _write_seed(steps: VolumeSteps, seed: SeedPlan) -> None:
    # imported for written seeds only, as in _seeds
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_room

    if steps.active:
        # first, so that it is recorded even if the run is killed before the seed is written
        steps.store.host.set_metadata(steps.uuid, xml_metadata.SEED_NAMESPACE, _SEED_PREFIX, "<changed/>", live=True)
    with steps.store.locked(seed.pool), io_room.explained(seed.pool, seed.path):
        if seed.tree:
            _seeds().write_tree(seed.path, seed.content)
        elif seed.pool.remote:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_remote_volumes

            io_remote_volumes.write_seed(steps.store.through(seed.pool), seed.name, seed.content)
        else:
            _seeds().write_iso(pathlib.Path(seed.path), seed.content)
