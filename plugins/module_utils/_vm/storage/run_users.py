# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuses disks that another domain of the host has, managed or not. Reads only."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_identity, plan_disk_users, xml_disk_uses

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_look
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volumes

_HINT = "Give each VM its own disk. Only a raw disk of machines can be shared: with shareable: true in the VM details and <shareable/> in both definitions."


class DiskUsers:
    """The disks of all domains of a host, and of the VMs of this call.

    :arg domains: URI of each driver → its domains.
    """

    def __init__(self, domains: t.Mapping[str, run_look.Domains], store: t.Callable[[str], io_volumes.VolumeStore], local: bool) -> None:
        self._store = store
        self._identities = io_disk_identity.Identities(local)
        self._users = plan_disk_users.Users()
        self._before: dict[str, list[plan_disk_users.Use]] = {}
        for uri, there in domains.items():
            for seen in there:
                uses: dict[plan_disk_users.Use, None] = {}
                for document in (seen.config, seen.live):
                    if document is not None:
                        uses.update(dict.fromkeys(self._uses(document, seen.record.uuid, seen.record.name, uri)))
                self._before[seen.record.uuid] = list(uses)
                for use in uses:
                    self._users.add(use)

    def check(self, work: run_work.Work) -> t.Iterator[str]:
        """Check the disks of a VM, and register them for it; yields warnings.

        A conflict that existed before is refused when the domain would be started, and a warning otherwise.
        """
        name = run_work.need(work.wanted).name
        uses = list(self._uses(work.document, work.uuid, name, work.host.uri, _agreed(work)))
        before = self._before.get(work.uuid, [])
        for use in uses:
            if not plan_disk_users.known(use, before):
                self._check_place(work, use)
        conflicts = plan_disk_users.clashes(uses)
        conflicts += [conflict for use in uses for conflict in self._users.conflicts(use) if conflict.other.uuid != work.uuid]
        for conflict in conflicts:
            new = not plan_disk_users.known(conflict.mine, before)
            if new or conflict.same and work.has(plan_domain.START, plan_domain.POWER_CYCLE):
                raise model_errors.RefusedError(conflict.sentence, _path(work, conflict.mine), _HINT)
            if conflict.same:
                yield conflict.sentence.rstrip(".")
        for use in uses:
            self._users.add(use)

    def _check_place(self, work: run_work.Work, use: plan_disk_users.Use) -> None:
        """Refuse paths that belong to a storage pool itself, and devices that the host uses, where a VM would write to them."""
        real = use.keys[0]
        if not use.writes or not real.startswith("/"):
            return
        # imported only for new disks
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import plan_disk_places

        reason = plan_disk_places.written_because(real, self._store(work.host.uri).folders, use.folder)
        if reason is not None:
            what = f"{use.path} ({use.device} of the VM {use.vm}) must not be written to by a VM: {reason}."
            raise model_errors.RefusedError(what, _path(work, use), "Give the VM its own volume, or attach it read-only.")
        for device in (key for key in use.keys if key.startswith("/sys/")):
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_host_devices

            reason = io_host_devices.used_because(device)
            if reason is not None:
                what = f"{use.path} ({use.device} of the VM {use.vm}) is used by this host: {reason}."
                raise model_errors.RefusedError(what, _path(work, use), "Give the disk another name or pool; the host and the VM would destroy its content.")

    def _uses(
        self, document: t.Any, uuid: str, name: str, uri: str, agreed: t.Container[str] | None = None
    ) -> t.Iterator[plan_disk_users.Use]:
        """The uses in a document.

        :arg agreed: paths that the VM details mark as shareable; ``None`` to use only the document.
        """
        for each in xml_disk_uses.disk_uses(document):
            path = each.path or self._path_of(each, uri)
            found = self._identities.of(path, each.form) if path.startswith("/") else io_disk_identity.Identity((path,))
            yield plan_disk_users.Use(
                uuid,
                name,
                each.device,
                path,
                found.keys,
                each.writes,
                each.shareable and (agreed is None or path in agreed),
                folder=each.folder,
                root=each.root,
                volume=each.folder and not each.root and os.path.dirname(found.keys[0]) in self._store(uri).folders,
            )
            layers = {key: None for layer in each.layers for key in self._identities.of(layer).keys[:1]}
            layers.update(dict.fromkeys(found.behind))
            for layer in layers:
                keys = self._identities.of(layer).keys if not layer.startswith("/sys/") else (layer,)
                yield plan_disk_users.Use(uuid, name, each.device, layer, keys, False, layer=True)

    def _path_of(self, use: xml_disk_uses.DiskUse, uri: str) -> str:
        """The path of a volume of a pool; without one, a name that is the same for all VMs."""
        if use.remote:
            return use.remote
        try:
            store = self._store(uri)
            pool = store.pool(use.pool or "", "pool")
        except model_errors.FootprintError:
            return f"{use.pool}/{use.volume}"
        return store.place(pool, use.volume or "") if pool.path else f"{use.pool}/{use.volume}"


def _agreed(work: run_work.Work) -> set[str] | None:
    """The paths of the disks that the details of a VM mark as shareable; ``None`` without details."""
    if work.prepared is None:
        return None
    sources = work.prepared.steps.sources if work.prepared.steps is not None else ()
    return {source.path for disk, source in zip(work.vm.disks, sources) if disk.shareable}


def _path(work: run_work.Work, use: plan_disk_users.Use) -> str | None:
    """The disk of the details that a use comes from, else the line of the template."""
    prepared = work.prepared
    if prepared is None:
        return None
    sources = prepared.steps.sources if prepared.steps is not None else ()
    for index, source in enumerate(sources):
        if source.path == use.path:
            return f"{work.vm.path}.disks[{index}]"
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

    for element in prepared.document.iterfind("devices/*/source"):
        if use.path in (element.get("file"), element.get("dev"), element.get("dir")) or element.get("volume"):
            return run_blame.line_of(prepared, element)
    return work.vm.path
