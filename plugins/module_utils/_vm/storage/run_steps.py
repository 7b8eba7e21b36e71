# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The storage steps of one VM in a call: volumes, seed, removals. Created by :mod:`run_volumes` and :mod:`run_removal`."""

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

# the drive of the seed, on a bus that both machine types support
_SEED_DEVICE = {"type": "file", "format": "raw", "target": model_cloud_init.SEED_TARGET, "bus": model_cloud_init.SEED_BUS}


@dataclasses.dataclass(frozen=True)
class SeedPlan:
    """The seed for cloud-init: an ISO in a pool, or files in a container's root (``tree``)."""

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
    """The storage steps of one VM; ``active`` is whether its domain runs meanwhile.

    ``disks`` are those of the details with their recorded targets, ``sources`` are in the same order.
    ``protected`` are the volumes (``pool/volume``) that must never be deleted. ``notices`` are sentences
    for warnings. ``host_key`` is the VM's public SSH host key if known. ``unfinished``: a killed run
    created the first disk, and the VM was never started.
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
    notices: tuple[str, ...] = ()
    host_key: str | None = None
    unfinished: bool = False
    made: list[model_storage.VolumePlan] = dataclasses.field(default_factory=list)

    @property
    def work(self) -> tuple[model_storage.VolumePlan, ...]:
        """The plans that change something."""
        return tuple(plan for plan in self.volumes if plan.how != model_storage.KEEP)

    @property
    def actions(self) -> list[str]:
        """The actions as the result names them."""
        writes = [self.seed.action] if self.seed and self.seed.writes else []
        volumes = [action for plan in self.work for action in plan.actions]
        made = volumes + writes if self.seed and self.seed.tree else writes + volumes
        return made + [removal.action for removal in self.removals]

    @property
    def changes(self) -> list[dict[str, str | None]]:
        """The changes of an existing VM, as the result shows them; a seed's content is not shown."""
        found = []
        for plan in self.work:
            if plan.how == model_storage.GROW and plan.found and plan.found.capacity:
                found.append(_change(f"disks[{plan.disk.target}].size", "live", model_size.size_text(plan.found.capacity), model_size.size_text(plan.size)))
        if self.seed and self.seed.writes:
            found.append(_change("seed", "next_boot" if self.active else "live", "there" if self.seed.there else None, "new content"))
        return found

    @property
    def restart_required(self) -> bool:
        """Whether the running guest has not read its current seed."""
        return self.active and self.seed is not None and (self.seed.writes or self.seed_waits)

    @property
    def before(self) -> list[str]:
        """Lines for the diff: the current state of what changes."""
        lines = [f"volume: {plan.describe_found()}" for plan in self.work if plan.how == model_storage.GROW]
        if self.seed and self.seed.writes and self.seed.there:
            lines.append(f"seed: {self.seed.pool.name}/{self.seed.name}, old content")
        return lines + [f"volume: {removal.pool.name}/{removal.name}" for removal in self.removals]

    @property
    def after(self) -> list[str]:
        """Lines for the diff: the state after the changes."""
        lines = [f"volume: {plan.describe()}" for plan in self.work]
        if self.seed and self.seed.writes:
            lines.append(f"seed: {self.seed.pool.name}/{self.seed.name}, new content")
        return lines

    @property
    def pending(self) -> tuple[str, ...]:
        """Paths of the volumes that do not exist yet."""
        return tuple(self.store.place(plan.pool, plan.disk.name) for plan in self.work if plan.creates)

    @property
    def template_seed(self) -> dict[str, t.Any] | None:
        """The variable ``seed`` of the template."""
        if self.seed is None or self.seed.tree:
            return None
        return dict(_SEED_DEVICE, path=self.seed.path)

    def undo(self) -> None:
        """Remove the volumes that this call created."""
        while self.made:
            plan = self.made.pop()
            with contextlib.suppress(model_errors.FootprintError):
                self.store.remove(model_storage.Removal(plan.pool, plan.disk.name, self.store.place(plan.pool, plan.disk.name), False))


def _change(path: str, kind: str, before: str | None, after: str) -> dict[str, str | None]:
    return {"path": path, "class": kind, "before": before, "after": after, "applied": before}
