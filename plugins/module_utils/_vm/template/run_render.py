# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Renders the document of a VM from its details: hypervisor, disks, template. Read-only."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
import urllib.parse
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_schema, model_size
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
    """Selects the hypervisor type of each VM from its details and the proofs of the host.

    The proofs are those that ``virt_node`` recorded; without a record of KVM see :meth:`use_probe`.

    :arg uri: connection URI set by the user, ``None`` for the drivers of this host.
    """

    def __init__(self, uri: str | None, facts_path: str, allow_emulation: bool = False) -> None:
        self._uri = uri
        self._scheme = urllib.parse.urlsplit(uri).scheme.split("+")[0] if uri else None
        self._proofs = _proofs(facts_path) if self.local else {}
        self._allow_emulation = allow_emulation
        self._probe: t.Callable[[], dict[str, t.Any]] | None = None

    @property
    def own_type(self) -> bool:
        """Whether the URI belongs to a driver other than QEMU and LXC (libvirt's test driver)."""
        return self._scheme not in (None, "qemu", "lxc")

    @property
    def local(self) -> bool:
        """Whether the URI is on this host."""
        return not self._uri or urllib.parse.urlsplit(self._uri).netloc == ""

    @property
    def lock(self) -> str:
        """Name of the lock for the domains of the host; another host has another one."""
        return "domains" if self.local else f"domains-{uuid.uuid5(uuid.NAMESPACE_URL, self._uri or '').hex}"

    def use_probe(self, host: io_domains.DomainHost | None, wanted: bool, remember: bool) -> None:
        """Determine whether KVM is usable where it is not recorded: with a test guest, over a remote connection from libvirt's capabilities.

        :arg wanted: whether VMs are created or changed in this call.
        :arg remember: whether the result of the test guest is recorded until the next boot.
        """
        if not wanted or self.own_type or "kvm" in self._proofs:
            return
        if self.local:
            self._probe = lambda: _probed(remember)
        elif host is not None:
            where = host
            self._probe = lambda: {"usable": where.offers("kvm"), "reason": f"libvirt at {self._uri} does not offer it"}

    def uri_of(self, vm: model_vm.VmDetails) -> str:
        """Return the connection URI of a VM, which needs no proof."""
        kind, where = vm.hypervisor, f"{vm.path}.hypervisor"
        if self.own_type:
            return self._uri or ""
        if not self.local and "lxc" in (self._scheme, kind):
            hint = "Run the module on the host of the containers, without uri."
            raise model_errors.InputError("containers are not supported over a remote connection.", where if kind == "lxc" else "uri", hint)
        if kind == "auto" and self._scheme == "lxc":
            raise model_errors.InputError("auto never selects lxc.", where, "Set hypervisor: lxc.")
        if self._scheme and (self._scheme == "lxc") != (kind == "lxc"):
            raise model_errors.InputError(f"{kind} is not supported by {self._uri}.", where, "Remove uri, or change the type.")
        return self._uri or io_domains.DRIVER_URIS["qemu" if kind == "auto" else kind]

    def of(self, vm: model_vm.VmDetails) -> Hypervisor:
        """Return the hypervisor of a VM, whether or not it is usable here (see :meth:`check`).

        Without a proof ``auto`` is ``kvm``, unless emulation is allowed.
        """
        uri, kind = self.uri_of(vm), vm.hypervisor
        if self.own_type:
            kind = self._scheme or ""
        elif kind == "auto":
            usable = self._proof("kvm").get("usable")
            kind = "kvm" if usable is True or usable is None and not self._allow_emulation else "qemu"
        return Hypervisor(kind, uri)

    def check(self, vm: model_vm.VmDetails, kind: str, exists: bool = False) -> None:
        """Check that a type is usable, and that emulation is only used if it is allowed.

        :arg exists: whether the VM already exists with this type; it is then not refused because of a missing proof.
        """
        if self.own_type or exists and vm.hypervisor == "auto":
            return
        where = f"{vm.path}.hypervisor"
        if vm.hypervisor == "auto" and kind == "qemu":
            if not self._allow_emulation:
                reason = self._proof("kvm").get("reason") or "it has not been proven"
                raise model_errors.InputError(
                    f"auto requires kvm, which is not usable {self._where}: {reason}.",
                    where,
                    f"{self._fix} To emulate the machine, which is many times slower, set hypervisor: qemu for it, or allow_emulation: true for all.",
                )
            return
        recorded = self._proofs.get(kind, {})
        if recorded.get("usable") is not False and (kind != "kvm" or exists or self.proven(kind)):
            return
        reason = self._proof(kind).get("reason") or "it has not been proven"
        raise model_errors.InputError(f"{kind} is not usable {self._where}: {reason}.", where, f"{self._fix} Otherwise use another type or auto.")

    @property
    def _where(self) -> str:
        return "on this host" if self.local else f"at {self._uri}"

    @property
    def _fix(self) -> str:
        if not self.local:
            return "Check /dev/kvm on that host."
        again = "run virt_node again" if self._probe is None else f"remove {_record_path()} or boot the host"
        return f"Enable virtualisation in the firmware of the host and load its kernel module, then {again}."

    def _proof(self, kind: str) -> dict[str, t.Any]:
        """The proof of a type; that of KVM is made where it is not recorded."""
        if kind not in self._proofs and kind == "kvm" and self._probe is not None:
            self._proofs["kvm"] = self._probe()
        return self._proofs.get(kind, {})

    def proven(self, kind: str) -> bool:
        """Whether a type is proven usable."""
        return self._proof(kind).get("usable") is True

    def uris(self, vms: t.Iterable[model_vm.VmDetails]) -> set[str]:
        """Return the connection URIs of the VMs, except those with an unsupported type."""
        found = set()
        for vm in vms:
            with contextlib.suppress(model_errors.FootprintError):
                found.add(self.uri_of(vm))
        return found


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
    adopt: t.Container[str] = (),
    settle: t.Callable[[t.Any], None] | None = None,
) -> Prepared:
    """Plan the VM's storage and render its document; nothing is changed.

    :arg store: returns the storage of the connection; called only for VMs with disks or a seed.
    :arg keep: targets whose volumes an adopted domain keeps.
    :arg seen: its domain as found, ``recreate`` the disks that may be created again, ``adopt`` those whose existing volumes may be used.
    :raises FootprintError: with the VM in the path; see :func:`render` and ``run_volumes.plan``.
    """
    steps = None
    if vm.disks or vm.cloud_init is not None:
        # imported only if needed: each import slows down every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_volumes

        steps = run_volumes.plan(vm, store(), template, pool=pool, hypervisor=hypervisor, keep=keep, seen=seen, recreate=recreate, adopt=adopt)
        vm = vm if steps.disks is vm.disks else dataclasses.replace(vm, disks=steps.disks)
    variables = variables_of(vm, cluster, hypervisor, steps.sources if steps else (), steps.template_seed if steps else None)
    rendered, document = render(vm, template, variables)
    if settle is not None:
        settle(document)
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
    """Render the template for one VM and parse the document."""
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
        facts = model_schema.HOST_FACTS.load(read_text(facts_path) or "{}", facts_path)
    except ValueError:
        # a damaged file contains no proofs
        return {}
    proofs = facts.get("hypervisors")
    if not isinstance(proofs, dict):
        return {}
    return {kind: proof for kind, proof in proofs.items() if isinstance(proof, dict) and isinstance(proof.get("usable"), bool)}


def _probed(remember: bool) -> dict[str, t.Any]:
    # imported only where virt_node has recorded nothing: each import slows down every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm_record

    return io_kvm_record.proof(remember)


def _record_path() -> str:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm_record

    return str(io_kvm_record.record_path())
