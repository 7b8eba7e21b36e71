# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Request and result of ``define_vms``."""

from __future__ import annotations

import dataclasses
import math
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata

_LONGEST = 4096

# the same path as in _vm.owner.io_owner, which few runs import
RECORDS_PATH = "/etc/reduced.footprint/vms"


@dataclasses.dataclass(frozen=True)
class DefineRequest:
    """The request for a host; see ``vm_define`` for each value.

    ``origin`` is the source of the VMs: the list of the host, or something else (a migration), whose
    VMs are never reported as unlisted. Timeouts are in seconds. ``pending_images`` are file names of base images
    that will be fetched; in check mode they count as present. ``images_path`` is the folder of this host with images for another host.
    ``host_keys``: VM id → private SSH host key. ``authorized_keys``: the operator's public
    keys. ``records_path``: folder of the records of VMs that other hosts have or had.
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
    allow_emulation: bool = False
    remove_disks: bool = False
    wipe: bool = False
    recreate_disks: t.Sequence[str] = ()
    adopt_disks: t.Sequence[str] = ()
    force: bool = False
    wait: str | None = None
    wait_timeout: float = 300
    shutdown_timeout: float = 120
    live_timeout: float = 10
    lock_timeout: float = 300
    parallel: int = 4
    node_roles: t.Sequence[str] | None = None
    origin: str = xml_metadata.ORIGIN_LIST
    pending_images: t.Sequence[str] = ()
    host_keys: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict, repr=False)
    images_path: str | None = None
    authorized_keys: t.Sequence[t.Any] = ()
    facts_path: str = "/etc/ansible/facts.d/reduced_footprint.fact"
    records_path: str = RECORDS_PATH

    def __post_init__(self) -> None:
        """:raises InputError: an invalid pool name or URI, or a number out of range."""
        for key in ("pool", "uri"):
            value = getattr(self, key) or ""
            if not value.isprintable() or len(value) > _LONGEST:
                raise model_errors.InputError(
                    f"{model_errors.shown(value)} is not a valid {key}: it is too long or contains a character that is not printable.", key, "Correct it."
                )
        for key in ("wait_timeout", "shutdown_timeout", "live_timeout", "lock_timeout"):
            value = getattr(self, key)
            if not 0 <= value < math.inf:
                raise model_errors.InputError(f"{model_errors.shown(value)} is not a valid timeout.", key, "Set a number of seconds, 0 or more.")
        try:
            remote = bool(urllib.parse.urlsplit(self.uri or "").netloc)
        except ValueError as error:
            raise model_errors.InputError(
                f"{model_errors.shown(self.uri)} is not a valid uri: {error}.", "uri", "Correct it, e.g. qemu+ssh://root@server1/system."
            ) from error
        if self.images_path is not None and not remote:
            hint = "Remove it: the base images are in the folder images of the pool."
            raise model_errors.InputError("is supported only with the uri of another host.", "images_path", hint)
        if self.parallel < 1:
            raise model_errors.InputError(f"{model_errors.shown(self.parallel)} is not a valid number of VMs.", "parallel", "Set 1 or more.")


@dataclasses.dataclass
class VmResult:
    """The result of one VM; ``state`` is its state after the call (in check mode: predicted)."""

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
    addresses: list[dict[str, str]] | None = None


@dataclasses.dataclass
class DefineResult:
    """The result of a call: one result per VM, in the order of the details."""

    vms: list[VmResult]
    warnings: list[str]
    diff: list[dict[str, str]]
    unlisted: list[str]

    @property
    def failed(self) -> bool:
        """Whether any VM has an error."""
        return any(vm.error for vm in self.vms)

    def as_result(self, *, diff: bool = True) -> dict[str, t.Any]:
        """The result as keyword arguments for ``exit_json`` or, when :attr:`failed`, ``fail_json``; warnings are not included."""
        result: dict[str, t.Any] = {
            "changed": any(vm.changed for vm in self.vms),
            "vms": [dict(vars(vm)) for vm in self.vms],
            "unlisted": self.unlisted,
        }
        if diff:
            result["diff"] = self.diff
        failed = [vm for vm in self.vms if vm.error]
        if failed:
            errors = "; ".join(f"{vm.name}: {vm.error}" for vm in failed)
            others = ", the others are done" if len(failed) < len(self.vms) else ""
            result.update(model_errors.FootprintError(f"{len(failed)} of {len(self.vms)} VMs failed{others}. {errors}").as_result())
        return result
