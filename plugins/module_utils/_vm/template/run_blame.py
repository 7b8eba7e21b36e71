# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of templates and documents with the VM and the line of the template. Imported only after an error."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import SLIP, near_miss
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts, model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import xml_template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.io_schema import domain_schema
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_blame import find_element, invalid_parts

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_prepared

_HINT = "Correct the template."


class Origin:
    """A template rendered again for one VM, with the template line of every element."""

    def __init__(self, template: xml_template.Template, variables: t.Mapping[str, t.Any]) -> None:
        self._lines = template.marked(variables)
        self.text = "\n".join(line for line, unused in self._lines)

    def line(self, number: int) -> int:
        """Return the template line of a rendered line; the same number if it is unknown."""
        return self._lines[number - 1][1] if 0 < number <= len(self._lines) else number

    def of(self, element: t.Any) -> int:
        """Return the template line of an element of :meth:`document`."""
        skipped = len(self.text) - len(self.text.lstrip())
        return self.line(element.sourceline + self.text[:skipped].count("\n"))

    def document(self) -> t.Any:
        """Return the rendered document, with the line numbers of :attr:`text`."""
        return xml_domain.parse(self.text)

    def twin_of(self, element: t.Any) -> int | None:
        """Return the template line of an element of the final document, or of its closest parent that the template contains."""
        document = self.document()
        while element is not None:
            found = document.find(element.getroottree().getelementpath(element))
            if found is not None:
                return self.of(found)
            element = element.getparent()
        return None


def named(vm: model_vm.VmDetails, error: model_errors.TemplateError) -> model_errors.TemplateError:
    """Return the error with the VM in its path."""
    where = f"VM {vm.id!r}" + (f", {error.path}" if error.path else "")
    return model_errors.TemplateError(error.message, where, error.hint)


def value_error(vm: model_vm.VmDetails, variables: t.Mapping[str, t.Any], error: model_errors.InputError) -> model_errors.InputError:
    """Return the error of a value that XML does not allow, with its path in the details."""

    def place(value: t.Any, path: str) -> str | None:
        if isinstance(value, t.Mapping):
            return next(filter(None, (place(item, f"{path}.{key}") for key, item in value.items())), None)
        if isinstance(value, (list, tuple)):
            return next(filter(None, (place(item, f"{path}[{index}]") for index, item in enumerate(value))), None)
        return path if isinstance(value, str) and xml_template.NOT_XML.search(value) else None

    found = next(filter(None, (place(value, name) for name, value in variables.items())), error.path)
    return model_errors.InputError(error.message, f"{vm.path}.{found}", error.hint)


def syntax_error(
    vm: model_vm.VmDetails, template: xml_template.Template, variables: t.Mapping[str, t.Any], error: xml_domain.DocumentSyntaxError
) -> model_errors.TemplateError:
    """Return the error of malformed XML, with lines of the template."""
    origin = Origin(template, variables)
    try:
        origin.document()
    except xml_domain.DocumentSyntaxError as again:
        error = again
    # lxml reports lines of the rendered text, which the user does not have
    message = str(error).split(", line ", maxsplit=1)[0]
    message = re.sub(r"\bline ([0-9]+)", lambda found: f"line {origin.line(int(found.group(1)))}", message)
    return model_errors.TemplateError(f"the result is malformed XML: {message}.", f"VM {vm.id!r}, template line {origin.line(error.line)}", _HINT)


def refused(prepared: run_prepared.Prepared, error: model_errors.BackendError) -> model_errors.TemplateError:
    """Return an error of libvirt with the line it refers to, if known."""
    origin = Origin(prepared.template, prepared.variables)
    place = find_element(origin.document(), error.message)
    where = f"VM {prepared.vm.id!r}, template" + (f" line {origin.of(place)}" if place is not None else "")
    return model_errors.TemplateError(error.message, where, error.hint)


def line_of(prepared: run_prepared.Prepared, element: t.Any) -> str:
    """Return the VM and template line of an element of the final document, as a path for a message."""
    line = Origin(prepared.template, prepared.variables).twin_of(element)
    return f"VM {prepared.vm.id!r}, template" + (f" line {line}" if line else "")


_Valid = t.Callable[[t.Any], bool]


def check_schema(prepared: run_prepared.Prepared, known: dict[str, _Valid]) -> None:
    """Validate a document with libvirt's schema; libvirt itself silently drops unknown parts."""
    valid = known.get("domain") or known.setdefault("domain", domain_schema())
    if valid(prepared.document):
        return
    origin = Origin(prepared.template, prepared.variables)
    parts, lines = [], []
    for element, attribute in invalid_parts(prepared.document, valid):
        parent = element.getparent()
        part = f"the attribute {attribute} of <{element.tag}>" if attribute else f"<{element.tag}>"
        line = origin.twin_of(element)
        lines.append(line)
        parts.append((part if attribute or parent is None else f"{part} in <{parent.tag}>") + (f" (line {line})" if line else ""))
    where = f"VM {prepared.vm.id!r}, template" + (f" line {lines[0]}" if lines[0] else "")
    raise model_errors.TemplateError(f"strict: libvirt's schema does not allow {', '.join(dict.fromkeys(parts))}.", where, _HINT)


#: Words for known keys that are not similar to them.
_MEANT = {"memory": "ram", "memory_mib": "memory_mb", "cpus": "cpu", "cores": "cpu", "ip": "address", "interfaces": "nics", "networks": "nics"}


def unknown_details(vm: model_vm.VmDetails, unused: t.Sequence[str]) -> tuple[str, ...]:
    """Return a warning for each detail that neither the template nor this collection knows.

    :arg unused: details that neither uses, e.g. ``rack`` or ``disks[0].cache``.
    """
    found = []
    for detail in unused:
        key = detail.rpartition(".")[2]
        known = model_parts.NIC_KEYS if detail.startswith("nics[") else model_parts.DISK_KEYS if detail.startswith("disks[") else model_vm.KNOWN_KEYS
        if key in known:
            continue
        near = _MEANT.get(detail) or near_miss(key, known, SLIP)
        if near:
            raise model_errors.InputError("is neither a known key nor used by the template.", f"{vm.path}.{detail}", f"Did you mean {near}?")
        found.append(detail)
    return (f"{', '.join(found)}: not used by the template, and without any other meaning",) if found else ()


def refuse_loose_ends(vm: model_vm.VmDetails, prepared: run_prepared.Prepared) -> None:
    """Refuse unused details and missing variables, for ``strict``."""
    problems = []
    if prepared.unused:
        problems.append(f"the template does not use {', '.join(prepared.unused)}")
    if prepared.missing:
        problems.append(f"the template uses {', '.join(prepared.missing)}, not set in the VM details")
    if problems:
        raise model_errors.InputError(f"strict: {'; '.join(problems)}.", vm.path, "Correct the VM details or the template, or set strict to false.")
