# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the steps of a call hand on: the request, what the host has, and each VM: wanted, actual, planned, done."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains, run_result
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_apply_class, plan_domain, run_look
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import model_owner
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volumes, run_steps
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_prepared, run_render, xml_template


@dataclasses.dataclass
class Gathered:
    """What a call starts from: the checked request and what the host has.

    ``vms`` are those of the call, ``listed`` all VMs of the host. ``hosts`` (connections) and ``domains`` are by URI, ``away`` are the
    records of VMs that other hosts have, by UUID. The storage of a connection is read on first use.
    """

    request: run_result.DefineRequest
    check_mode: bool
    vms: t.Sequence[model_vm.VmDetails]
    listed: t.Sequence[model_vm.VmDetails]
    choice: run_render.HypervisorChoice
    template: xml_template.Template
    away: t.Mapping[str, model_owner.Record]
    hosts: dict[str, io_domains.DomainHost]
    domains: dict[str, run_look.Domains]
    stores: dict[str, io_volumes.VolumeStore] = dataclasses.field(default_factory=dict)

    @property
    def renders(self) -> bool:
        """Whether documents are rendered; absent and rolled_back use the existing domain: no template, no disks of the details."""
        return self.request.state not in ("absent", "rolled_back")

    def store(self, uri: str) -> io_volumes.VolumeStore:
        """The storage of a connection."""
        if uri not in self.stores:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volumes

            pending = self.request.pending_images if self.check_mode else ()
            options: dict[str, t.Any] = {"images": self.request.images_path, "lock_timeout": self.request.lock_timeout, "remember": not self.check_mode}
            self.stores[uri] = io_volumes.VolumeStore(self.hosts[uri], pending=pending, **options)
        return self.stores[uri]


@dataclasses.dataclass
class Work:
    """One VM during a call: wanted, actual, planned.

    ``wanted`` are the wanted properties without the document, ``document`` is the parsed document and ``applied`` its
    canonical text without passwords. ``steps`` are the storage steps, ``other_changes`` their changes.
    ``seen`` is the existing domain, ``config`` its definition after this call, ``waits``
    whether the running guest differs from it until a restart. ``failure`` is why no plan could
    be made; such a VM has no ``plan``, and without a known hypervisor no ``host``.
    """

    vm: model_vm.VmDetails
    result: run_result.VmResult
    host: io_domains.DomainHost
    prepared: run_prepared.Prepared | None = None
    steps: run_steps.VolumeSteps | None = None
    wanted: plan_domain.Wanted | None = None
    document: t.Any = None
    applied: str = ""
    seen: run_look.Seen | None = None
    changes: tuple[plan_apply_class.Change, ...] = ()
    plan: plan_domain.DomainPlan | None = None
    config: t.Any = None
    waits: bool = False
    other_changes: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    failure: model_errors.FootprintError | None = None

    @property
    def actual(self) -> plan_domain.Actual | None:
        """The existing domain."""
        return self.seen.actual if self.seen is not None else None

    @property
    def uuid(self) -> str:
        """The UUID of the domain, which can differ from the one derived from the details."""
        return self.seen.record.uuid if self.seen is not None else self.vm.uuid

    def has(self, *actions: str) -> bool:
        """Whether the plan has any of these actions."""
        return self.plan is not None and any(action in self.plan.actions for action in actions)


def failure_of(error: Exception) -> model_errors.FootprintError:
    """Return an error of one VM, also of the operating system (a full disk, a read-only file system), which must not end the call for the others."""
    if isinstance(error, model_errors.FootprintError):
        return error
    path = getattr(error, "filename", None)
    hint = "Check the space, the permissions and the log of the host, then run again; the next run completes the rest."
    return model_errors.BackendError(f"{getattr(error, 'strerror', None) or error}.", str(path) if path else None, hint)


def need(value: t.Any) -> t.Any:
    """Return a value that must not be ``None`` here.

    :raises BackendError: it is ``None``.
    """
    if value is None:
        raise model_errors.BackendError("internal error: a step has no input.", hint="Report this with the play.")
    return value
