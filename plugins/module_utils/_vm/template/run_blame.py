# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A broken template or a refused document, told with the VM and the line of the template. Loaded only then."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import xml_template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.io_schema import domain_schema
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_blame import spoken_of, strangers

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_prepared

_HINT = "Correct the template."


class Origin:
    """A template filled once more for one VM, so that every element knows its line in the template.

    :arg variables: of the VM, as they were when the template was filled for real.
    """

    def __init__(self, template: xml_template.Template, variables: t.Mapping[str, t.Any]) -> None:
        self._lines = template.marked(variables)
        self.text = "\n".join(line for line, unused in self._lines)

    def line(self, number: int) -> int:
        """The line of the template behind a line of the filled one; the same where it cannot be told."""
        return self._lines[number - 1][1] if 0 < number <= len(self._lines) else number

    def of(self, element: t.Any) -> int:
        """The line of the template behind an element of :meth:`document`."""
        skipped = len(self.text) - len(self.text.lstrip())
        return self.line(element.sourceline + self.text[:skipped].count("\n"))

    def document(self) -> t.Any:
        """What it comes to, with the lines of :attr:`text`."""
        return xml_domain.parse(self.text)

    def twin_of(self, element: t.Any) -> int | None:
        """The line of the template behind an element of the finished document; of what it stands in where it was filled in."""
        document = self.document()
        while element is not None:
            found = document.find(element.getroottree().getelementpath(element))
            if found is not None:
                return self.of(found)
            element = element.getparent()
        return None


def named(vm: model_vm.VmDetails, error: model_errors.TemplateError) -> model_errors.TemplateError:
    """The same error with its VM."""
    where = f"VM {vm.id!r}" + (f", {error.path}" if error.path else "")
    return model_errors.TemplateError(error.message, where, error.hint)


def value_error(vm: model_vm.VmDetails, variables: t.Mapping[str, t.Any], error: model_errors.InputError) -> model_errors.InputError:
    """A value XML cannot carry, with its place in the details."""

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
    """What is not well-formed, in lines of the template."""
    origin = Origin(template, variables)
    try:
        origin.document()
    except xml_domain.DocumentSyntaxError as again:
        error = again
    # lxml counts lines in the rendered text: not what a user can look up
    message = str(error).split(", line ", maxsplit=1)[0]
    message = re.sub(r"\bline ([0-9]+)", lambda found: f"line {origin.line(int(found.group(1)))}", message)
    return model_errors.TemplateError(f"the result is not well-formed XML: {message}.", f"VM {vm.id!r}, template line {origin.line(error.line)}", _HINT)


def refused(prepared: run_prepared.Prepared, error: model_errors.BackendError) -> model_errors.TemplateError:
    """libvirt's own words with the line they are about, where that can be told."""
    origin = Origin(prepared.template, prepared.variables)
    place = spoken_of(origin.document(), error.message)
    where = f"VM {prepared.vm.id!r}, template" + (f" line {origin.of(place)}" if place is not None else "")
    return model_errors.TemplateError(error.message, where, error.hint)


def line_of(prepared: run_prepared.Prepared, element: t.Any) -> str:
    """Where an element of the finished document comes from, as a path for a message."""
    line = Origin(prepared.template, prepared.variables).twin_of(element)
    return f"VM {prepared.vm.id!r}, template" + (f" line {line}" if line else "")


_Valid = t.Callable[[t.Any], bool]


def check_schema(prepared: run_prepared.Prepared, known: dict[str, _Valid]) -> None:
    """See to it that libvirt's schema knows every part of a document; libvirt drops the others without a word.

    :arg known: keeps the schema from one VM to the next.
    :raises TemplateError: naming each part and its line of the template.
    """
    valid = known.get("domain") or known.setdefault("domain", domain_schema())
    if valid(prepared.document):
        return
    origin = Origin(prepared.template, prepared.variables)
    parts, lines = [], []
    for element, attribute in strangers(prepared.document, valid):
        parent = element.getparent()
        part = f"the attribute {attribute} of <{element.tag}>" if attribute else f"<{element.tag}>"
        line = origin.twin_of(element)
        lines.append(line)
        parts.append((part if attribute or parent is None else f"{part} in <{parent.tag}>") + (f" (line {line})" if line else ""))
    where = f"VM {prepared.vm.id!r}, template" + (f" line {lines[0]}" if lines[0] else "")
    raise model_errors.TemplateError(f"strict: libvirt's schema does not know {', '.join(dict.fromkeys(parts))} as it is written there.", where, _HINT)


def refuse_loose_ends(vm: model_vm.VmDetails, prepared: run_prepared.Prepared) -> None:
    """With ``strict``: what the template does not use, and what it wants and does not get.

    :raises InputError: there is such a thing.
    """
    ends = []
    if prepared.unused:
        ends.append(f"the template does not use {', '.join(prepared.unused)}")
    if prepared.missing:
        ends.append(f"the template wants {', '.join(prepared.missing)}, which the details do not name")
    if ends:
        raise model_errors.InputError(f"strict: {'; '.join(ends)}.", vm.path, "Correct the details or the template, or do not ask for strict.")
