# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domain documents: from rendered text to the document for libvirt."""

from __future__ import annotations

import copy
import decimal
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm

try:
    from lxml import etree

    LXML_ERROR: ImportError | None = None
except ImportError as error:
    LXML_ERROR = error

# a template of one family cannot define a domain of the other
_MACHINES = ("kvm", "qemu")
_CONTAINERS = ("lxc",)
_FRACTION = re.compile(r"\A[0-9]*\.[0-9]+\Z")


class DocumentSyntaxError(Exception):
    """The text is not XML; ``line`` counts in the rendered text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def parse(text: str) -> t.Any:
    """Parse a document into an lxml element, without white space between elements; entities are never fetched."""
    if LXML_ERROR is not None:
        raise model_errors.missing_libraries(*model_errors.VM_LIBRARIES) from LXML_ERROR
    parser = etree.XMLParser(remove_blank_text=True, remove_comments=True, resolve_entities=False, no_network=True)
    try:
        document = etree.fromstring(text.strip().encode("utf-8"), parser)
        if document.getroottree().docinfo.doctype:
            raise DocumentSyntaxError("document types and entities are not allowed", 1)
        return document
    except etree.XMLSyntaxError as error:
        skipped = text[: len(text) - len(text.lstrip())].count("\n")
        raise DocumentSyntaxError(error.msg or str(error), (error.lineno or 1) + skipped) from error


def finish(document: t.Any, vm: model_vm.VmDetails, cluster: str, hypervisor: str, fixed_type: bool = False) -> tuple[str, ...]:
    """Complete a rendered document in place with required values that the template omits.

    Adds memory and CPUs (2 GiB, 2 vCPU), identity and the operating system type. Added
    values are reported, except the identity.

    :arg fixed_type: keep the domain's type (the user chose the connection).
    :returns: sentences about the added values.
    """
    # vm_info parses documents without completing any
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm

    if document.tag != "domain":
        raise model_errors.TemplateError(f"the outermost element is <{document.tag}>, not <domain>.", hint="Start the template with <domain>.")
    notices = []
    if not fixed_type:
        notices += _settle_type(document, hypervisor)
    _settle_identity(document, vm)
    notices += _settle_memory(document, model_vm.DEFAULT_MEMORY_MIB)
    vcpu = _ensure(document, "vcpu")
    if not (vcpu.text or "").strip():
        vcpu.text = str(model_vm.DEFAULT_CPU)
        notices.append(f"the number of CPUs was empty and is set to {model_vm.DEFAULT_CPU}")
    if document.find("os/type") is None and document.find("bootloader") is None:
        kind = "exe" if document.get("type") in _CONTAINERS else "hvm"
        _ensure(_ensure(document, "os"), "type").text = kind
        notices.append(f"the template has no operating system type; it is set to {kind}")
    if not fixed_type:
        _check_system(document)
    macs = vm.macs
    for index, interface in enumerate(document.findall("devices/interface")):
        mac = _ensure(interface, "mac")
        if not mac.get("address"):
            mac.set("address", macs[index] if index < len(macs) else nic_mac(cluster, vm.id, index))
    return tuple(notices)


def canonical(document: t.Any) -> str:
    """A document as canonical text: attributes sorted, white space normalized."""
    settled = copy.deepcopy(document)
    for element in settled.iter():
        if element.text is not None:
            element.text = element.text.strip() or None
        element.tail = None
        attributes = sorted(element.attrib.items())
        element.attrib.clear()
        element.attrib.update(attributes)
    etree.indent(settled)
    return etree.tostring(settled, encoding="unicode") + "\n"


def text_of(document: t.Any) -> str:
    """A document as text for libvirt."""
    return etree.tostring(document, encoding="unicode", pretty_print=True)


def disks_of(document: t.Any) -> list[str]:
    """The source paths of a domain's disks and file systems, in order."""
    paths = []
    for source in document.iterfind("devices/*/source"):
        if source.getparent().tag in ("disk", "filesystem"):
            path = source.get("file") or source.get("dev") or source.get("dir") or source.get("volume")
            if path:
                paths.append(path)
    return paths


def ports_of(document: t.Any) -> list[str]:
    """The host interfaces (tap devices) of the NICs of a running domain, in order; NICs without one are omitted."""
    return [str(each.get("dev")) for each in document.iterfind("devices/interface/target") if each.get("dev")]


def macs_of(document: t.Any) -> list[str]:
    """The MACs of a domain's NICs, in order."""
    return [mac.get("address", "").lower() for mac in document.iterfind("devices/interface/mac")]


def _ensure(parent: t.Any, tag: str) -> t.Any:
    found = parent.find(tag)
    if found is None:
        found = etree.SubElement(parent, tag)
    return found


def _settle_type(document: t.Any, hypervisor: str) -> list[str]:
    written = document.get("type")
    if written == hypervisor:
        return []
    if written in _MACHINES and hypervisor in _MACHINES:
        document.set("type", hypervisor)
        return [f"the template has type {written}; the VM runs as {hypervisor}, the result of its hypervisor setting on this host"]
    raise model_errors.TemplateError(
        f"the template defines a domain of type {written!r}, but the VM's hypervisor is {hypervisor!r}.",
        hint="Set the VM's hypervisor to the type of the template, or use another template.",
    )


def _check_system(document: t.Any) -> None:
    kind = (document.findtext("os/type") or "").strip()
    container = document.get("type") in _CONTAINERS
    if kind == "hvm" and container or kind == "exe" and not container:
        what, runs = ("a machine", "a container") if container else ("a container", "a machine")
        raise model_errors.TemplateError(f"the template defines {what}, but the VM is {runs}.", hint="Use another template, or change the VM's hypervisor.")


def _settle_identity(document: t.Any, vm: model_vm.VmDetails) -> None:
    name = _ensure(document, "name")
    if not (name.text or "").strip():
        name.text = vm.name
    uuid = document.find("uuid")
    if uuid is None:
        uuid = document.makeelement("uuid", {})
        document.insert(document.index(name) + 1, uuid)
    written = (uuid.text or "").strip().lower()
    if written and written != vm.uuid:
        raise model_errors.TemplateError(
            f"the template sets the UUID {written}, but the VM has the UUID {vm.uuid}.",
            hint="Use {uuid} there, or remove the element, or set that uuid in the VM details.",
        )
    uuid.text = vm.uuid


def _settle_memory(document: t.Any, default: int) -> list[str]:
    notices = []
    memory = _ensure(document, "memory")
    if not (memory.text or "").strip():
        memory.text, notices = str(default), [f"the memory was empty and is set to {default} MiB"]
        memory.set("unit", "MiB")
    current = document.find("currentMemory")
    if current is not None and not (current.text or "").strip():
        # libvirt uses the maximum where the current memory is not set
        document.remove(current)
        current = None
    for element in (memory, current):
        text = (element.text or "").strip() if element is not None else ""
        if _FRACTION.match(text):
            # libvirt accepts only integers; 1.5 GiB is valid in the details
            size = model_size.parse_size(decimal.Decimal(text).to_eng_string() + (element.get("unit") or "KiB"), "KiB", "memory")
            element.text, unused = str(-(-size // model_size.KIB)), element.set("unit", "KiB")
    return notices
