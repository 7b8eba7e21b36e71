# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans which volumes are removed with a VM: its own volumes that no other domain or volume needs. Reads only."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, io_disk_identity, io_volumes, model_storage
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_steps, run_volumes, xml_devices
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
    """Plan which volumes of a VM to delete.

    These are the volumes of its domain that come from the template, and those in the details, so that a
    run killed after the domain was undefined can be completed. Disks attached outside the collection
    are kept, and so are protected disks, base images, disks that the VM could only read (except for its seed), and
    volumes that another domain or volume needs.

    :arg hosts: all connections to this host, to check the needs of their domains.
    :arg uuid: UUID of its domain, which can differ from the one derived from the details.
    :arg owned: the metadata of the domain, ``config`` its parsed definition, if it exists.
    """
    steps = run_steps.VolumeSteps(store, uuid)
    if vm.protected:
        # for an existing domain the plan reports it; without a domain its disks are protected as well
        return steps
    protected = set(owned.protected_disks if owned else ())
    named: dict[str, tuple[model_storage.Pool, str]] = {}
    for index, disk in enumerate(vm.disks):
        place = store.pool(disk.pool or pool, f"{vm.path}.disks[{index}].pool" if disk.pool else "pool")
        named.setdefault(store.place(place, disk.name), (place, disk.name))
        if disk.protected:
            protected.add(f"{place.name}/{disk.name}")
    candidates: dict[str, tuple[model_storage.Pool, str]] = {}
    notices = []
    if owned is not None and config is not None and owned.applied:
        attached, applied = set(_own_disks(config, store)), xml_domain.parse(owned.applied)
        given, writable = _own_disks(applied, store), set(_own_disks(applied, store, True))
        for path in _protected_paths(vm, applied) if owned.adopted else ():
            found = store.pool_of(path)
            if found is not None:
                protected.add(f"{found[0].name}/{found[1]}")
        seeds = [run_volumes.seed_name(name) for name in (vm.name, applied.findtext("name"))]
        notices += [f"the disk {path} is kept: it does not come from the template" for path in sorted(attached.difference(given))]
        for path in given:
            found = store.pool_of(path) if path in attached else None
            if path in attached and path not in writable and path not in named and os.path.basename(path) not in seeds:
                notices.append(f"the disk {path} is kept: the VM could only read it")
            elif found is not None:
                candidates[path] = found
            elif path in attached:
                notices.append(f"the disk {path} is kept: it is not in an active pool")
    candidates = {**candidates, **{path: found for path, found in named.items() if path not in candidates}}
    for place in _seed_pools(store, pool, candidates):
        path = store.place(place, run_volumes.seed_name(vm.name))
        other = not place.remote and os.path.isfile(path) and not os.path.islink(path) and io_seed.read_iso(path) is None
        if other and path not in candidates:
            notices.append(f"the file {path} is kept: it is not a cloud-init seed")
        else:
            candidates.setdefault(path, (place, run_volumes.seed_name(vm.name)))
    candidates = {path: found for path, found in candidates.items() if store.has(*found)}
    if candidates:
        needs, raw = _needs_of_others(hosts, store, uuid)
        reasons = _reasons(store, candidates, protected, needs, raw)
        notices += [f"the volume {path} is kept: {reason}" for path, reason in reasons.items()]
        steps.removals = tuple(model_storage.Removal(place, name, path, wipe) for path, (place, name) in candidates.items() if path not in reasons)
    steps.notices = tuple(notices)
    return steps


def _protected_paths(vm: model_vm.VmDetails, applied: t.Any) -> list[str]:
    """Paths of the disks of an adopted VM that its details protect: they do not have the names that the details yield."""
    if not any(disk.protected for disk in vm.disks):
        return []
    # imported for adopted VMs only
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_adopt, xml_device_forms

    identity = xml_device_forms.identity_of(applied)
    vm = run_adopt.with_identity(vm, identity)
    kept = run_adopt.kept_disks(vm, identity)
    return [kept[disk.target].path for disk in vm.disks if disk.protected and disk.target in kept]


def _own_disks(document: t.Any, store: io_volumes.VolumeStore, writable: bool = False) -> list[str]:
    """Paths of the disks of a domain, also of those given by pool and volume."""
    found = xml_devices.own_disks(document, writable)
    for pool, volume in xml_devices.own_volumes(document, writable):
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
        # a VM without disks does not need the call's pool
        pass
    return [place for place in dict.fromkeys(places) if io_volumes.local(place) or place.remote and place.files]


def _needs_of_others(hosts: t.Iterable[io_domains.DomainHost], store: io_volumes.VolumeStore, uuid: str) -> tuple[dict[str, str], set[str]]:
    """Real path (or inode, or device) → name of another domain that needs it, with what is behind its disks; and the real paths of raw disks."""
    needs: dict[str, str] = {}
    raw: set[str] = set()
    identities = io_disk_identity.Identities()
    for host in hosts:
        for record in host.domains():
            if record.uuid == uuid:
                continue
            for text in (record.config_xml, record.live_xml):
                if text is None:
                    continue
                document = xml_domain.parse(text)
                paths = xml_devices.needed_files(document)
                for (name, volume), form in xml_devices.pool_disks(document).items():
                    try:
                        paths[store.place(store.pool(name, "pool"), volume)] = form
                    except model_errors.InputError:
                        continue
                for path, form in paths.items():
                    if form == "raw":
                        raw.add(os.path.realpath(path))
                    found = identities.of(path, form) if host.local else io_disk_identity.Identity((os.path.normpath(path),))
                    layers = io_disk_header.chain(path, form) if host.local else []
                    for key in (*found.keys, *found.behind, *layers):
                        needs.setdefault(key, f"the domain {record.name}")
    return needs, raw


def _reasons(
    store: io_volumes.VolumeStore,
    candidates: t.Mapping[str, tuple[model_storage.Pool, str]],
    protected: t.Container[str],
    needs: t.Mapping[str, str],
    raw: t.Container[str] = (),
) -> dict[str, str]:
    """Path → why it is kept.

    A file can have several names (hard links), and wiping one changes all of them. Paths that contain a needed one,
    or are below it, are needed too. A kept layer needs its backing file, so this is repeated until nothing more is kept.
    """
    reasons: dict[str, str] = {}
    identities = {path: io_disk_identity.Identities(not place.remote).of(path).keys for path, (place, unused) in candidates.items()}
    while True:
        going = {name for path, (unused, name) in candidates.items() if path not in reasons}
        more = {}
        for path, (place, name) in candidates.items():
            if path in reasons:
                continue
            mine = identities[path]
            users = list(dict.fromkeys(user for needed, user in needs.items() if any(model_storage.overlap(needed, key) for key in mine)))
            if io_volumes.local(place) or place.remote and place.files:
                layers = store.through(place).layers_over(path) if place.remote else store.layers_over(path, place.path, raw)
                users += [f"the volume {layer}" for layer in layers if layer not in going]
            reason = kept_because(path, place.path, f"{place.name}/{name}" in protected, users, store.folders if io_volumes.local(place) else None)
            if reason is None and io_volumes.local(place) and os.path.islink(path):
                reason = f"it is a symbolic link to {os.readlink(path)}"
            if reason is None and not place.remote and not place.files:
                reason = _of_the_host(path)
            if reason is not None:
                more[path] = reason
        if not more:
            return reasons
        reasons.update(more)


def _of_the_host(path: str) -> str | None:
    """Why a device is not a disk of the VM: the details may name one that the host uses, which would be wiped while it is mounted."""
    # imported for devices only
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_host_devices

    found = (io_host_devices.used_because(key) for key in io_disk_identity.Identities().of(path).keys if key.startswith("/sys/"))
    used = next(filter(None, found), None)
    return f"this host uses it: {used}" if used else None
