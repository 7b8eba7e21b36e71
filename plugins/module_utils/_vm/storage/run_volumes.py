# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage of one VM in a call: what its disks need, doing it, and taking it back. Deciding reads only."""

from __future__ import annotations

import contextlib
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts, model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, model_storage, plan_disk_places, xml_devices
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore, grow_open, local
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import check_room, image_changed, plan_volume
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_steps import SeedPlan, VolumeSteps
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import xml_template, xml_variables

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_look

# kept in the live document alone, so that it ends with the run that has not seen the new seed
SEED_NAMESPACE = "https://reduced.footprint/xmlns/seed/1"
_SEED_PREFIX = "footprint-seed"


def plan(
    vm: model_vm.VmDetails,
    store: VolumeStore,
    template: xml_template.Template,
    *,
    pool: str,
    hypervisor: str,
    config: t.Any = None,
    live: t.Any = None,
    keep: t.Mapping[str, model_storage.DiskSource] | None = None,
    seen: run_look.Seen | None = None,
    recreate: t.Container[str] = (),
) -> VolumeSteps:
    """Look at the VM's storage and decide; nothing is changed.

    Disks the template does not speak of are not looked for either: an unused value does no harm.

    :arg pool: name of the pool for disks that name none.
    :arg config: the parsed definition of its domain, where there is one; ``live`` what runs.
    :arg keep: targets whose volumes stay as an adopted domain has them, wherever they stand.
    :arg seen: its domain as it was found; a volume that names is not created when it is missing.
    :arg recreate: the disks (by name, or ``pool/name``) for which it is all the same.
    :raises InputError: the details and the host do not go together.
    :raises RefusedError: a volume exists and cannot become what is wanted, or one is missing; other VMs can be done.
    """
    steps = VolumeSteps(store, vm.uuid, live is not None, disks=vm.disks)
    applied = seen.applied if seen is not None and keep is None and vm.disks and xml_variables.disks_used(template) else None
    if applied is not None and not _as_applied(vm, applied, store, pool):
        steps.disks = _keys().settle_disks(vm, applied, store, pool)
    volumes, sources, protected, told = [], [], [], []
    running = store.open_disks(live)
    known = dict(store.open_disks(config), **running)
    for index, disk in enumerate(steps.disks if xml_variables.disks_used(template) else ()):
        path = f"{vm.path}.disks[{index}]"
        kept = (keep or {}).get(disk.target)
        if kept is not None:
            sources.append(kept)
            if disk.protected and kept.pool:
                protected.append(f"{kept.pool}/{os.path.basename(kept.path)}")
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
            _missing().check(vm, disk, place, source, store, path, seen, recreate)
            image = store.image(place, disk, path, spare=_spare(store, pool) if disk.image is not None else None)
        one = plan_volume(disk, place, found, image, path, source.path in running)
        volumes.append(one)
        sources.append(source)
        told += one.told
        told += _look_behind(one, path, live is not None)
        if disk.protected:
            protected.append(f"{place.name}/{disk.name}")
    if applied is not None and len(vm.disks) > 1 and any(one.how == model_storage.GROW for one in volumes):
        _keys().settle_disks(vm, applied, store, pool, grows=True)
    _claim_room(store, volumes, vm.path)
    steps.volumes, steps.sources, steps.protected = tuple(volumes), tuple(sources), tuple(protected)
    if vm.cloud_init is not None and (hypervisor == "lxc" or xml_variables.seed_used(template)):
        steps.seed = _plan_seed(vm, vm.cloud_init, steps, pool, hypervisor)
        steps.seed_waits = live is not None and xml_devices.seed_waits(live, SEED_NAMESPACE)
    if vm.host_key is not None:
        # for those who ask for it only: each import costs every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_host_key

        run_host_key.plan(steps, vm.host_key)
    steps.told = tuple(told)
    return steps


def _claim_room(store: VolumeStore, volumes: t.Sequence[model_storage.VolumePlan], path: str) -> None:
    """See to it that pools that give all bytes at once have them for one VM's disks, beside those of the VMs before it."""
    asked: dict[str, tuple[model_storage.Pool, int]] = {}
    for one in volumes:
        if one.pool.whole and one.how != model_storage.KEEP:
            _pool, before = asked.get(one.pool.name, (one.pool, 0))
            asked[one.pool.name] = (one.pool, before + max(0, one.size - store.holds(one.pool, one.disk.name)))
    for pool, size in asked.values():
        check_room(pool, size, store.left(pool), path)
    for pool, size in asked.values():
        store.promise(pool, size)


def apply(steps: VolumeSteps, done: list[str]) -> None:
    """Make, grow, seed, remove; ``done`` gets each action once it is done.

    :raises BackendError: one of them failed; what was done before stays (see :meth:`VolumeSteps.undo`).
    """
    if steps.seed is not None and steps.seed.writes and not steps.seed.tree:
        # before the disks: a run that is killed in between must not leave a disk whose guest was never given its host key
        _write_seed(steps, steps.seed)
        done.append(steps.seed.action)
    for one in steps.work:
        if one.how == model_storage.GROW:
            steps.store.grow(one, lambda path, size: grow_open(steps.store.host, steps.uuid, path, size))
        elif steps.store.create(one):
            steps.made.append(one)
        else:
            continue
        done.append(one.action)
    if steps.seed is not None and steps.seed.writes and steps.seed.tree:
        _write_seed(steps, steps.seed)
        done.append(steps.seed.action)
    for removal in steps.removals:
        steps.store.remove(removal)
        done.append(removal.action)


def accounting(steps: VolumeSteps) -> list[dict[str, t.Any]]:
    """The VM's volumes with ``capacity`` and ``allocation`` in bytes, as they are; of one that is yet to be made only the capacity is known."""
    shown = []
    for one in steps.volumes:
        found = None
        with contextlib.suppress(model_errors.FootprintError):
            found = steps.store.find(one.pool, one.disk, "", one.disk.format == "raw")
        capacity = found.capacity if found else one.size or None
        allocation = found.allocation if found else None
        path = found.path if found else steps.store.place(one.pool, one.disk.name)
        shown.append({"name": one.disk.name, "pool": one.pool.name, "path": path, "capacity": capacity, "allocation": allocation})
    return shown


def _spare(store: VolumeStore, pool: str) -> model_storage.Pool | None:
    try:
        return store.pool(pool, "pool")
    except model_errors.InputError:
        return None


def _refuse_twin(store: VolumeStore, pool: model_storage.Pool, disk: model_vm.Disk, path: str) -> None:
    """A changed format changes the derived name too, and the VM would get an empty disk in place of its own."""
    if disk.twin is not None and store.has(pool, disk.twin):
        other = "qcow2" if disk.format == "raw" else "raw"
        raise model_errors.RefusedError(
            f"the volume {store.place(pool, disk.twin)} exists and is {other}, wanted is {disk.format}; the format of a volume cannot change.",
            f"{path}.format",
            f"Keep format: {other}, or give the disk a name to get a new volume.",
        )


def _look_behind(one: model_storage.VolumePlan, path: str, active: bool) -> list[str]:
    """Whether the image behind a layer is still there and the same."""
    found = one.found
    if found is None or found.backing is None:
        return []
    wrong = image_changed(found.origin, io_disk_header.image_state(found.backing))
    if wrong is None:
        return []
    text = f"the image {found.backing} behind the volume {found.path} {wrong}"
    if wrong == "is gone" and not active:
        raise model_errors.RefusedError(f"{text}; the VM cannot start.", f"{path}.image", "Put the very same image back there.")
    return [f"{text}; put the very same image back, or the content of the disk is lost"]


def _missing() -> t.Any:
    """What decides over volumes that are not there, loaded for these: each module costs every run."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_missing

    return run_missing


def _as_applied(vm: model_vm.VmDetails, applied: t.Any, store: VolumeStore, pool: str) -> bool:
    """Whether the disks are those of the last apply, in the same places, as far as its document says."""
    recorded = xml_devices.recorded_disks(applied)
    for index, disk in enumerate(vm.disks):
        place = store.pool(disk.pool or pool, f"{vm.path}.disks[{index}].pool" if disk.pool else "pool")
        found = recorded.pop(store.source(place, disk, f"{vm.path}.disks[{index}]").path, None)
        if found is None or found.mount != disk.mount or disk.mount is None and (found.target != disk.target or found.serial != disk.serial):
            return False
    return not any(model_parts.position_of(os.path.basename(path), vm.name) is not None for path in recorded)


def _keys() -> t.Any:
    """What tells edited lists of disks apart, loaded for these: each module costs every run."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_keys

    return run_keys


def _seeds() -> t.Any:
    """What reads and writes seeds, loaded for VMs that have one: each module costs every run."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed as seed

    return seed


def _plan_seed(vm: model_vm.VmDetails, content: model_cloud_init.CloudInit, steps: VolumeSteps, pool: str, hypervisor: str) -> SeedPlan:
    if hypervisor == "lxc":
        root = next((one for one in steps.volumes if one.disk.mount == "/"), None)
        if root is None or not local(root.pool):
            raise model_errors.InputError(
                "has no root to put the seed of cloud-init into.", f"{vm.path}.disks", "Give the container a first disk, in a pool of type dir."
            )
        path = steps.store.place(root.pool, root.disk.name)
        there = _seeds().read_tree(path)
        content = _with_host_key(content, there, vm, steps)
        name = f"{root.disk.name}/{'/'.join(model_cloud_init.SEED_FOLDER)}"
        return SeedPlan(name, root.pool, path, True, content, there is not None, there != content.files())
    places = [steps.store.pool(pool, "pool")] + [one.pool for one in steps.volumes]
    place = next((one for one in places if local(one)), None)
    if place is None:
        raise model_errors.InputError(
            f"the pool {pool} holds no files, and none of the disks stands in one that does.", "pool", "Name a pool of type dir for the seed."
        )
    name = seed_name(vm.name)
    if any(one.disk.name == name and one.pool == place for one in steps.volumes):
        raise model_errors.InputError(f"{name!r} is the name of the VM's seed.", f"{vm.path}.disks", "Give the disk another name.")
    path = steps.store.place(place, name)
    io_disk_header.refuse_link(path)
    there = _seeds().read_iso(path)
    content = _with_host_key(content, there, vm, steps)
    return SeedPlan(name, place, path, False, content, there is not None, there != content.files())


def _with_host_key(
    content: model_cloud_init.CloudInit, there: t.Mapping[str, bytes] | None, vm: model_vm.VmDetails, steps: VolumeSteps
) -> model_cloud_init.CloudInit:
    # for VMs with a seed only: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_host_key

    return run_host_key.with_host_key(content, there, vm.host_key, steps.volumes)


def seed_name(vm_name: str) -> str:
    """The name of a VM's seed in its pool."""
    return f"{vm_name}-seed.iso"


def _write_seed(steps: VolumeSteps, seed: SeedPlan) -> None:
    # for seeds that are written only, as in _seeds
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_room

    if steps.active:
        # first: a run that is killed in between must not forget that the guest has not seen it
        steps.store.host.set_metadata(steps.uuid, SEED_NAMESPACE, _SEED_PREFIX, "<changed/>", live=True)
    with steps.store.locked(seed.pool), io_room.explained(seed.pool, seed.path):
        if seed.tree:
            _seeds().write_tree(seed.path, seed.content)
        else:
            _seeds().write_iso(pathlib.Path(seed.path), seed.content)
