# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes into ``define_vms`` and what comes out."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata

_LONGEST = 4096

# as _vm.apply.io_moved has it, which few runs need
MOVED_PATH = "/var/lib/reduced.footprint/moved"


@dataclasses.dataclass(frozen=True)
class DefineRequest:
    """What is asked of a host; see ``vm_define`` for each value.

    ``origin`` says who keeps the VMs: the list of the host, or something else (a migration), whose
    VMs a list never misses. Timeouts are in seconds. ``pending_images`` are file names of base images
    that are on their way; in check mode they count as there. ``host_keys``: VM id → private ssh host key. ``moved_path``:
    where the notes about VMs that were moved stand.
    """

    cluster: str
    vms: t.Any
    only: t.Sequence[str] = ()
    state: str = "running"
    template: str = "default"
    uri: str | None = None
    pool: str = "default"
    autostart: bool = True
    strict: bool = False
    allow_power_cycling: bool = False
    adopt: bool = False
    remove_disks: bool = False
    wipe: bool = False
    recreate_disks: t.Sequence[str] = ()
    force: bool = False
    shutdown_timeout: float = 120
    live_timeout: float = 10
    lock_timeout: float = 300
    parallel: int = 4
    node_roles: t.Sequence[str] | None = None
    origin: str = xml_metadata.ORIGIN_LIST
    pending_images: t.Sequence[str] = ()
    host_keys: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict, repr=False)
    facts_path: str = "/etc/ansible/facts.d/reduced_footprint.fact"
    moved_path: str = MOVED_PATH

    def __post_init__(self) -> None:
        """:raises InputError: a name that libvirt cannot even be asked for, or a number that means nothing."""
        for key in ("pool", "uri"):
            value = getattr(self, key) or ""
            if not value.isprintable() or len(value) > _LONGEST:
                raise model_errors.InputError(
                    f"{model_errors.shown(value)} cannot be one: it is too long or holds a character that has no place in it.", key, "Correct it."
                )
        for key in ("shutdown_timeout", "live_timeout", "lock_timeout"):
            value = getattr(self, key)
            if not 0 <= value < math.inf:
                raise model_errors.InputError(f"{model_errors.shown(value)} is no time to wait.", key, "Give seconds, 0 or more.")
        if self.parallel < 1:
            raise model_errors.InputError(f"{model_errors.shown(self.parallel)} at once never come to an end.", "parallel", "Use 1 or more.")


@dataclasses.dataclass
class VmResult:
    """What came of one VM; ``state`` is the one it has (in check mode: would have)."""

    id: str
    name: str
    uuid: str
    macs: list[str]
    hypervisor: str | None = None
    state: str | None = None
    changed: bool = False
    actions: list[str] = dataclasses.field(default_factory=list)
    unused_attributes: list[str] = dataclasses.field(default_factory=list)
    missing_variables: list[str] = dataclasses.field(default_factory=list)
    restart_required: bool = False
    changes: list[dict[str, str | None]] = dataclasses.field(default_factory=list)
    drift: list[dict[str, str | None]] = dataclasses.field(default_factory=list)
    disks: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    error: str | None = None
    moved_to: str | None = None
    host_key: str | None = None


@dataclasses.dataclass
class DefineResult:
    """What came of a call: one result per VM, in the order of the details."""

    vms: list[VmResult]
    warnings: list[str]
    diff: list[dict[str, str]]
    unlisted: list[str]

    @property
    def failed(self) -> bool:
        """Whether any VM has an error."""
        return any(vm.error for vm in self.vms)

    def as_result(self, *, diff: bool = True) -> dict[str, t.Any]:
        """The result as keyword arguments for ``exit_json`` or, when :attr:`failed`, ``fail_json``; warnings go their own way."""
        result: dict[str, t.Any] = {
            "changed": any(vm.changed for vm in self.vms),
            "vms": [dict(vars(vm)) for vm in self.vms],
            "unlisted": self.unlisted,
        }
        if diff:
            result["diff"] = self.diff
        bad = [vm for vm in self.vms if vm.error]
        if bad:
            said = "; ".join(f"{vm.name}: {vm.error}" for vm in bad)
            others = ", the others are done" if len(bad) < len(self.vms) else ""
            result["msg"] = f"{len(bad)} of {len(self.vms)} VMs failed{others}. {said}"
        return result
