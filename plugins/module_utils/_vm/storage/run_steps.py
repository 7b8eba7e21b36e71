# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the storage of one VM needs in a call: its volumes, its seed, what goes. Made by :mod:`define_volumes` and :mod:`define_removal`."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore

# how a machine finds its seed, on a bus both machine types have
_SEED_DEVICE = {"type": "file", "format": "raw", "target": model_cloud_init.SEED_TARGET, "bus": "sata"}


@dataclasses.dataclass(frozen=True)
class SeedPlan:
    """What cloud-init is to find: an ISO in a pool, or files in a container's root (``tree``)."""

    name: str
    pool: model_storage.Pool
    path: str
    tree: bool
    content: model_cloud_init.CloudInit
    there: bool
    writes: bool

    @property
    def action(self) -> str:
        """The action as the result names it."""
        return f"write_seed {self.pool.name}/{self.name}"


@dataclasses.dataclass
class VolumeSteps:
    """What the storage of one VM needs; ``active`` is whether its domain runs while that is done.

    ``disks`` are those of the details with the targets they keep, ``sources`` are in their order.
    ``protected`` names the volumes (``pool/volume``) that are never to be deleted. ``told`` are sentences
    for warnings. ``host_key`` is the VM's public ssh host key where it is known.
    """

    store: VolumeStore
    uuid: str
    active: bool = False
    disks: tuple[model_parts.Disk, ...] = ()
    volumes: tuple[model_storage.VolumePlan, ...] = ()
    sources: tuple[model_storage.DiskSource, ...] = ()
    seed: SeedPlan | None = None
    seed_waits: bool = False
    removals: tuple[model_storage.Removal, ...] = ()
    protected: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    host_key: str | None = None
    made: list[model_storage.VolumePlan] = dataclasses.field(default_factory=list)

    @property
    def work(self) -> tuple[model_storage.VolumePlan, ...]:
        """The disks something is to be done for."""
        return tuple(plan for plan in self.volumes if plan.how != model_storage.KEEP)

    @property
    def actions(self) -> list[str]:
        """What is to be done, as the result names it."""
        writes = [self.seed.action] if self.seed and self.seed.writes else []
        volumes = [plan.action for plan in self.work]
        made = volumes + writes if self.seed and self.seed.tree else writes + volumes
        return made + [removal.action for removal in self.removals]

    @property
    def changes(self) -> list[dict[str, str | None]]:
        """What changes at a VM that is there, as the result shows it; a seed's content is not shown."""
        found = []
        for plan in self.work:
            if plan.how == model_storage.GROW and plan.found and plan.found.capacity:
                found.append(_change(f"disks[{plan.disk.target}].size", "live", model_size.size_text(plan.found.capacity), model_size.size_text(plan.size)))
        if self.seed and self.seed.writes:
            found.append(_change("seed", "next_boot" if self.active else "live", "there" if self.seed.there else None, "new content"))
        return found

    @property
    def restart_required(self) -> bool:
        """Whether the running guest has not seen its seed."""
        return self.active and self.seed is not None and (self.seed.writes or self.seed_waits)

    @property
    def before(self) -> list[str]:
        """Lines for the diff: what is there now of what changes."""
        lines = [f"volume: {plan.describe_found()}" for plan in self.work if plan.how == model_storage.GROW]
        if self.seed and self.seed.writes and self.seed.there:
            lines.append(f"seed: {self.seed.pool.name}/{self.seed.name}, old content")
        return lines + [f"volume: {removal.pool.name}/{removal.name}" for removal in self.removals]

    @property
    def after(self) -> list[str]:
        """Lines for the diff: what will be there."""
        lines = [f"volume: {plan.describe()}" for plan in self.work]
        if self.seed and self.seed.writes:
            lines.append(f"seed: {self.seed.pool.name}/{self.seed.name}, new content")
        return lines

    @property
    def pending(self) -> tuple[str, ...]:
        """Paths of the volumes that are yet to be created."""
        return tuple(self.store.place(plan.pool, plan.disk.name) for plan in self.work if plan.creates)

    @property
    def template_seed(self) -> dict[str, t.Any] | None:
        """What the template may attach."""
        if self.seed is None or self.seed.tree:
            return None
        return dict(_SEED_DEVICE, path=self.seed.path)

    def undo(self) -> None:
        """Remove again what this call made; what was there before is not touched."""
        while self.made:
            plan = self.made.pop()
            with contextlib.suppress(model_errors.FootprintError):
                self.store.remove(model_storage.Removal(plan.pool, plan.disk.name, self.store.place(plan.pool, plan.disk.name), False))


def _change(path: str, kind: str, before: str | None, after: str) -> dict[str, str | None]:
    return {"path": path, "class": kind, "before": before, "after": after, "applied": before}
