# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the details of a VM to the document libvirt gets: hypervisor, disks, template. Reads only."""

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

# with what was applied before and now it has to fit into one message of libvirt's, which takes 4 MiB
_MOST_TEXT = 1024 * 1024


class Hypervisor(t.NamedTuple):
    """The type a VM gets here and the address of its driver."""

    type: str
    uri: str


class HypervisorChoice:
    """Decides each VM's hypervisor type from its details and what was proven on the host.

    :arg uri: the user's own address, ``None`` for the drivers of this host.
    :arg facts_path: where ``virt_node`` recorded its proofs.
    """

    def __init__(self, uri: str | None, facts_path: str) -> None:
        self._uri = uri
        self._scheme = urllib.parse.urlsplit(uri).scheme.split("+")[0] if uri else None
        self._proofs = _proofs(facts_path) if self.local else {}
        self._emulated: list[str] = []

    @property
    def own_type(self) -> bool:
        """Whether the user's address belongs to a driver beyond kvm, qemu and lxc (libvirt's test driver)."""
        return self._scheme not in (None, "qemu", "lxc")

    @property
    def local(self) -> bool:
        """Whether libvirt's host is this one."""
        return not self._uri or urllib.parse.urlsplit(self._uri).netloc == ""

    def of(self, vm: model_vm.VmDetails) -> Hypervisor:
        """The hypervisor of a VM, whether or not it is usable here (:meth:`check`).

        :raises InputError: the address serves another one.
        """
        where = f"{vm.path}.hypervisor"
        if self.own_type:
            return Hypervisor(self._scheme or "", self._uri or "")
        kind = vm.hypervisor
        if kind == "auto":
            if self._scheme == "lxc":
                raise model_errors.InputError("is auto, which never means a container.", where, "Write hypervisor: lxc.")
            kind = "kvm" if self.proven("kvm") else "qemu"
            if kind == "qemu" and vm.name not in self._emulated:
                self._emulated.append(vm.name)
        if self._scheme and (self._scheme == "lxc") != (kind == "lxc"):
            raise model_errors.InputError(f"is {kind}, which {self._uri} does not serve.", where, "Leave uri out, or change the type.")
        return Hypervisor(kind, self._uri or io_domains.DRIVER_URIS[kind])

    def check(self, vm: model_vm.VmDetails, kind: str, exists: bool = False, host: io_domains.DomainHost | None = None) -> None:
        """Check that a type the details name is usable; ``auto`` only comes to what is.

        :arg exists: whether the VM is there with this type already; it is not refused for a proof that is missing.
        :arg host: the connection, which is asked where its host is not this one.
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
                "Run virt_node on the host, which proves it by running a guest, or use hypervisor: auto or qemu.",
            )
        if host is not None and not host.offers(kind):
            raise model_errors.InputError(f"the libvirt at {self._uri} does not offer kvm.", where, "Look for /dev/kvm on that host, or use hypervisor: qemu.")

    def proven(self, kind: str) -> bool:
        """Whether virt_node has recorded that a type is usable."""
        return self._proofs.get(kind, {}).get("usable") is True

    def uris(self, vms: t.Iterable[model_vm.VmDetails]) -> set[str]:
        """The addresses of the drivers the VMs need; one whose type is not usable needs none."""
        found = set()
        for vm in vms:
            with contextlib.suppress(model_errors.FootprintError):
                found.add(self.of(vm).uri)
        return found

    def warnings(self) -> list[str]:
        """What auto came to, where that is slow."""
        if not self._emulated:
            return []
        kvm = self._proofs.get("kvm")
        reason = (kvm.get("reason") or "its proof failed") if kvm else "virt_node has not proven it"
        return [f"{', '.join(self._emulated)}: hypervisor auto came to qemu (emulation, slow), because kvm is not known to be usable here: {reason}"]


def prepare(
    vm: model_vm.VmDetails,
    cluster: str,
    hypervisor: str,
    template: xml_template.Template,
    store: t.Callable[[], VolumeStore],
    pool: str,
    fixed_type: bool,
    *,
    config: t.Any = None,
    live: t.Any = None,
    keep: t.Mapping[str, model_storage.DiskSource] | None = None,
    seen: run_look.Seen | None = None,
    recreate: t.Container[str] = (),
) -> Prepared:
    """Look at the VM's storage and render its document; nothing is changed.

    :arg store: gives the storage of the connection to those who have any.
    :arg config: the parsed definition of its domain, where there is one; ``live`` what runs.
    :arg keep: targets whose volumes stay as an adopted domain has them.
    :arg seen: its domain as it was found, ``recreate`` the disks that may be created again.
    :raises FootprintError: with the VM in the path; see :func:`render` and ``define_volumes.plan``.
    """
    steps = None
    if vm.disks or vm.cloud_init is not None:
        # only for those that have any: each import costs every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_volumes

        steps = run_volumes.plan(
            vm, store(), template, pool=pool, hypervisor=hypervisor, config=config, live=live, keep=keep, seen=seen, recreate=recreate
        )
        vm = vm if steps.disks is vm.disks else dataclasses.replace(vm, disks=steps.disks)
    variables = variables_of(vm, cluster, hypervisor, steps.sources if steps else (), steps.template_seed if steps else None)
    rendered, document = render(vm, template, variables)
    try:
        told = xml_domain.finish(document, vm, cluster, hypervisor, fixed_type)
    except model_errors.TemplateError as error:
        # only when something is wrong: each import costs every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

        raise run_blame.named(vm, error) from error
    applied = xml_domain.canonical(document)
    if " passwd=" in applied:
        # only for those that have any: each import costs every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import concealed

        applied = concealed(applied)
    return Prepared(
        vm=vm,
        name=document.findtext("name"),
        document=document,
        applied=applied,
        volumes=steps.volumes if steps else (),
        steps=steps,
        unused=unused_attributes(vm, template, rendered, document),
        missing=rendered.missing,
        told=told + (steps.told if steps else ()),
        template=template,
        variables=variables,
    )


def render(vm: model_vm.VmDetails, template: xml_template.Template, variables: t.Mapping[str, t.Any]) -> tuple[xml_template.Rendered, t.Any]:
    """Fill and parse the template for one VM.

    :raises TemplateError: with the VM and the template's line.
    :raises InputError: a value XML cannot carry.
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
            f"the document comes to {model_size.size_text(len(rendered.text))}.", f"VM {vm.id!r}", "Take long values out of the template."
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
        # no proof is no proof, whatever spoiled the file
        return {}
    proofs = facts.get("hypervisors") if isinstance(facts, dict) else None
    return {kind: proof for kind, proof in proofs.items() if isinstance(proof, dict)} if isinstance(proofs, dict) else {}
