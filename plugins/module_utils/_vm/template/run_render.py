# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders the document of a VM from its details: hypervisor, disks, template. Read-only."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import xml_template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.io_bounds import bounded
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.run_prepared import Prepared
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_variables import unused_attributes, variables_of

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_look
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore

# together with the previously and newly applied documents it must fit into one libvirt message of at most 4 MiB
_MOST_TEXT = 1024 * 1024


class Hypervisor(t.NamedTuple):
    """The hypervisor type of a VM on this host, and the connection URI of its driver."""

    type: str
    uri: str


class HypervisorChoice:
    """Selects the hypervisor type of each VM from its details and the recorded proofs of the host.

    :arg uri: connection URI set by the user, ``None`` for the drivers of this host.
    :arg facts_path: file with the proofs that ``virt_node`` recorded.
    """

    def __init__(self, uri: str | None, facts_path: str) -> None:
        self._uri = uri
        self._scheme = urllib.parse.urlsplit(uri).scheme.split("+")[0] if uri else None
        self._proofs = _proofs(facts_path) if self.local else {}
        self._emulated: list[str] = []

    @property
    def own_type(self) -> bool:
        """Whether the URI belongs to a driver other than QEMU and LXC (libvirt's test driver)."""
        return self._scheme not in (None, "qemu", "lxc")

    @property
    def local(self) -> bool:
        """Whether the URI is on this host."""
        return not self._uri or urllib.parse.urlsplit(self._uri).netloc == ""

    def of(self, vm: model_vm.VmDetails) -> Hypervisor:
        """Return the hypervisor of a VM, whether or not it is usable here (see :meth:`check`).

        :raises InputError: the driver of the URI does not support the type.
        """
        where = f"{vm.path}.hypervisor"
        if self.own_type:
            return Hypervisor(self._scheme or "", self._uri or "")
        kind = vm.hypervisor
        if kind == "auto":
            if self._scheme == "lxc":
                raise model_errors.InputError("auto never selects lxc.", where, "Set hypervisor: lxc.")
            kind = "kvm" if self.proven("kvm") else "qemu"
            if kind == "qemu" and vm.name not in self._emulated:
                self._emulated.append(vm.name)
        if self._scheme and (self._scheme == "lxc") != (kind == "lxc"):
            raise model_errors.InputError(f"{kind} is not supported by {self._uri}.", where, "Remove uri, or change the type.")
        return Hypervisor(kind, self._uri or io_domains.DRIVER_URIS[kind])

    def check(self, vm: model_vm.VmDetails, kind: str, exists: bool = False, host: io_domains.DomainHost | None = None) -> None:
        """Check that an explicit type is usable; ``auto`` only selects usable types.

        :arg exists: whether the VM already exists with this type; it is then not refused because of a missing proof.
        :arg host: the connection, which is queried if it is remote.
        :raises InputError: the type is proven unusable here, or KVM is not proven usable.
        """
        if self.own_type or vm.hypervisor == "auto":
            return
        where, proof = f"{vm.path}.hypervisor", self._proofs.get(kind, {})
        if proof.get("usable") is False:
            reason = proof.get("reason") or "its proof failed"
            raise model_errors.InputError(
                f"{kind} is not usable on this host: {reason}.", where, "Use another type or auto, or fix the host and run virt_node again."
            )
        if kind != "kvm" or exists or self.proven(kind):
            return
        if self.local:
            raise model_errors.InputError(
                f"kvm is not proven usable on the host {os.uname().nodename}: virt_node has recorded no proof there.",
                where,
                "Run virt_node on the host, which proves it by running a guest, or set hypervisor to auto or qemu.",
            )
        if host is not None and not host.offers(kind):
            raise model_errors.InputError(f"libvirt at {self._uri} does not support kvm.", where, "Check /dev/kvm on that host, or set hypervisor to qemu.")

    def proven(self, kind: str) -> bool:
        """Whether virt_node has recorded that a type is usable."""
        return self._proofs.get(kind, {}).get("usable") is True

    def uris(self, vms: t.Iterable[model_vm.VmDetails]) -> set[str]:
        """Return the connection URIs of the VMs, except those with an unsupported type."""
        found = set()
        for vm in vms:
            with contextlib.suppress(model_errors.FootprintError):
                found.add(self.of(vm).uri)
        return found

    def warnings(self) -> list[str]:
        """Return warnings for VMs for which auto selected emulation."""
        if not self._emulated:
            return []
        kvm = self._proofs.get("kvm")
        reason = (kvm.get("reason") or "its proof failed") if kvm else "virt_node has not proven it"
        return [f"{', '.join(self._emulated)}: hypervisor auto selected qemu (slow emulation), because kvm is not proven usable here: {reason}"]


def prepare(
    vm: model_vm.VmDetails,
    cluster: str,
    hypervisor: str,
    template: xml_template.Template,
    store: t.Callable[[], VolumeStore],
    pool: str,
    fixed_type: bool,
    *,
    keep: t.Mapping[str, model_storage.DiskSource] | None = None,
    seen: run_look.Seen | None = None,
    recreate: t.Container[str] = (),
) -> Prepared:
    """Plan the VM's storage and render its document; nothing is changed.

    :arg store: returns the storage of the connection; called only for VMs with disks or a seed.
    :arg keep: targets whose volumes an adopted domain keeps.
    :arg seen: its domain as found, ``recreate`` the disks that may be created again.
    :raises FootprintError: with the VM in the path; see :func:`render` and ``run_volumes.plan``.
    """
    steps = None
    if vm.disks or vm.cloud_init is not None:
        # imported only if needed: each import slows down every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_volumes

        steps = run_volumes.plan(vm, store(), template, pool=pool, hypervisor=hypervisor, keep=keep, seen=seen, recreate=recreate)
        vm = vm if steps.disks is vm.disks else dataclasses.replace(vm, disks=steps.disks)
    variables = variables_of(vm, cluster, hypervisor, steps.sources if steps else (), steps.template_seed if steps else None)
    rendered, document = render(vm, template, variables)
    try:
        notices = xml_domain.finish(document, vm, cluster, hypervisor, fixed_type)
    except model_errors.TemplateError as error:
        # imported only after an error: each import slows down every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

        raise run_blame.named(vm, error) from error
    unused = unused_attributes(vm, template, rendered, document)
    if unused:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

        notices += run_blame.unknown_details(vm, unused)
    applied = xml_domain.canonical(document)
    if " passwd=" in applied:
        # imported only if needed: each import slows down every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import concealed

        applied = concealed(applied)
    return Prepared(
        vm=vm,
        name=document.findtext("name"),
        document=document,
        applied=applied,
        volumes=steps.volumes if steps else (),
        steps=steps,
        unused=unused,
        missing=rendered.missing,
        notices=notices + (steps.notices if steps else ()),
        template=template,
        variables=variables,
    )


def render(vm: model_vm.VmDetails, template: xml_template.Template, variables: t.Mapping[str, t.Any]) -> tuple[xml_template.Rendered, t.Any]:
    """Render the template for one VM and parse the document.

    :raises TemplateError: with the VM and the line of the template.
    :raises InputError: a value contains a character that XML does not allow.
    """
    try:
        with bounded():
            rendered = template.render(variables)
    except model_errors.TemplateError as error:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

        raise run_blame.named(vm, error) from error
    except model_errors.InputError as error:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

        raise run_blame.value_error(vm, variables, error) from error
    if len(rendered.text) > _MOST_TEXT:
        raise model_errors.TemplateError(
            f"the rendered document is {model_size.size_text(len(rendered.text))}, the limit is {model_size.size_text(_MOST_TEXT)}.",
            f"VM {vm.id!r}",
            "Remove long values from the template.",
        )
    try:
        return rendered, xml_domain.parse(rendered.text)
    except xml_domain.DocumentSyntaxError as error:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

        raise run_blame.syntax_error(vm, template, variables, error) from error


def _proofs(facts_path: str) -> dict[str, dict[str, t.Any]]:
    try:
        facts = json.loads(read_text(facts_path) or "{}")
    except ValueError:
        # a damaged file contains no proofs
        return {}
    proofs = facts.get("hypervisors") if isinstance(facts, dict) else None
    return {kind: proof for kind, proof in proofs.items() if isinstance(proof, dict)} if isinstance(proofs, dict) else {}
