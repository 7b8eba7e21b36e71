# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the details of a VM to the document libvirt gets: hypervisor, disks, template. Reads only."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._backend.domains import DRIVER_URIS
from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._backend.volumes import VolumeStore
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import InputError, TemplateError
from ansible_collections.reduced.footprint.plugins.module_utils._model.storage import DiskSource, VolumePlan
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import VmDetails
from ansible_collections.reduced.footprint.plugins.module_utils._plan.volumes import plan_volume
from ansible_collections.reduced.footprint.plugins.module_utils._xml import domain as domain_xml
from ansible_collections.reduced.footprint.plugins.module_utils._xml.template import Rendered, Template
from ansible_collections.reduced.footprint.plugins.module_utils._xml.variables import disks_used, unused_attributes, variables_of

FACTS_PATH = "/etc/ansible/facts.d/reduced_footprint.fact"


@dataclasses.dataclass(frozen=True)
class Hypervisor:
    """The type a VM gets here and the address of its driver."""

    type: str
    uri: str


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A VM, rendered: ``document`` is the parsed domain, ``applied`` its canonical text."""

    vm: VmDetails
    name: str
    document: t.Any
    applied: str
    volumes: tuple[VolumePlan, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    told: tuple[str, ...]


class HypervisorChoice:
    """Decides each VM's hypervisor type from its details and what was proven on the host (T1).

    :arg uri: the user's own address, ``None`` for the drivers of this host.
    :arg facts_path: where ``virt_node`` recorded its proofs.
    """

    def __init__(self, uri: str | None, facts_path: str = FACTS_PATH) -> None:
        self._uri = uri
        self._scheme = urllib.parse.urlsplit(uri).scheme.split("+")[0] if uri else None
        self._proofs = _proofs(facts_path) if not uri or urllib.parse.urlsplit(uri).netloc == "" else {}
        self._emulated: list[str] = []

    @property
    def own_type(self) -> bool:
        """Whether the user's address belongs to a driver beyond kvm, qemu and lxc (libvirt's test driver)."""
        return self._scheme not in (None, "qemu", "lxc")

    def of(self, vm: VmDetails) -> Hypervisor:
        """The hypervisor of a VM.

        :raises InputError: the type is proven unusable here, or the address serves another one.
        """
        where = f"{vm.path}.hypervisor"
        if self.own_type:
            return Hypervisor(self._scheme or "", self._uri or "")
        kind = vm.hypervisor
        if kind == "auto":
            if self._scheme == "lxc":
                raise InputError("is auto, which never means a container.", where, "Write hypervisor: lxc.")
            kind = "kvm" if self._proofs.get("kvm", {}).get("usable") is True else "qemu"
            if kind == "qemu" and vm.name not in self._emulated:
                self._emulated.append(vm.name)
        elif self._proofs.get(kind, {}).get("usable") is False:
            reason = self._proofs[kind].get("reason") or "its proof failed"
            raise InputError(f"{kind} is not usable on this host: {reason}.", where, "Use another type or auto, or mend the host and run virt_node again.")
        if self._scheme and (self._scheme == "lxc") != (kind == "lxc"):
            raise InputError(f"is {kind}, which {self._uri} does not serve.", where, "Leave uri out, or change the type.")
        return Hypervisor(kind, self._uri or DRIVER_URIS[kind])

    def warnings(self) -> list[str]:
        """What auto came to, where that is slow."""
        if not self._emulated:
            return []
        kvm = self._proofs.get("kvm")
        reason = (kvm.get("reason") or "its proof failed") if kvm else "virt_node has not proven it"
        return [f"{', '.join(self._emulated)}: hypervisor auto came to qemu (emulation, slow), because kvm is not known to be usable here: {reason}"]


def prepare(vm: VmDetails, cluster: str, hypervisor: str, template: Template, store: VolumeStore, pool: str, fixed_type: bool) -> Prepared:
    """Look at the VM's storage and render its document; nothing is changed.

    Disks the template does not speak of are not looked for either: an unused value does no harm.

    :raises FootprintError: with the VM in the path; see :func:`render` and ``plan_volume``.
    """
    volumes: list[VolumePlan] = []
    sources: list[DiskSource] = []
    for index, disk in enumerate(vm.disks if disks_used(template) else ()):
        path = f"{vm.path}.disks[{index}]"
        place = store.pool(disk.pool or pool, f"{path}.pool" if disk.pool else "pool")
        exists = store.exists(place, disk)
        image = None if exists else store.image(place, disk, path)
        volumes.append(plan_volume(disk, place, exists, image, path))
        sources.append(store.source(place, disk))
    variables = variables_of(vm, cluster, hypervisor, sources)
    rendered, document = render(vm, template, variables)
    try:
        told = domain_xml.finish(document, vm, cluster, hypervisor, fixed_type)
    except TemplateError as error:
        raise _named(vm, error) from error
    return Prepared(
        vm=vm,
        name=document.findtext("name"),
        document=document,
        applied=domain_xml.canonical(document),
        volumes=tuple(volumes),
        unused=unused_attributes(vm, template, rendered),
        missing=rendered.missing,
        told=told,
    )


def render(vm: VmDetails, template: Template, variables: t.Mapping[str, t.Any]) -> tuple[Rendered, t.Any]:
    """Fill and parse the template for one VM.

    :raises TemplateError: with the VM and the template's line (F3).
    :raises InputError: a value XML cannot carry.
    """
    try:
        rendered = template.render(variables)
    except TemplateError as error:
        raise _named(vm, error) from error
    except InputError as error:
        raise InputError(error.message, f"{vm.path}.{error.path}", error.mend) from error
    try:
        return rendered, domain_xml.parse(rendered.text)
    except domain_xml.DocumentSyntaxError as error:
        line, message = _template_line(template, variables, error)
        raise TemplateError(
            f"the result is not well-formed XML: {message}.", f"VM {vm.id!r}, template line {line}", "Mend the template."
        ) from error


def _named(vm: VmDetails, error: TemplateError) -> TemplateError:
    where = f"VM {vm.id!r}" + (f", {error.path}" if error.path else "")
    return TemplateError(error.message, where, error.mend)


def _template_line(template: Template, variables: t.Mapping[str, t.Any], error: domain_xml.DocumentSyntaxError) -> tuple[int, str]:
    """The line of the template behind a line of the rendered text; the parser's own where it cannot be told."""
    lines = template.marked(variables)
    try:
        domain_xml.parse("\n".join(line for line, unused in lines))
    except domain_xml.DocumentSyntaxError as again:
        error = again

    def origin(line: int) -> int:
        return lines[line - 1][1] if 0 < line <= len(lines) else line

    # lxml counts lines in the rendered text: not what a user can look up
    message = str(error).split(", line ", maxsplit=1)[0]
    return origin(error.line), re.sub(r"\bline ([0-9]+)", lambda found: f"line {origin(int(found.group(1)))}", message)


def _proofs(facts_path: str) -> dict[str, dict[str, t.Any]]:
    try:
        facts = json.loads(read_text(facts_path) or "{}")
    except ValueError:
        # no proof is no proof, whatever spoiled the file
        return {}
    proofs = facts.get("hypervisors") if isinstance(facts, dict) else None
    return {kind: proof for kind, proof in proofs.items() if isinstance(proof, dict)} if isinstance(proofs, dict) else {}
