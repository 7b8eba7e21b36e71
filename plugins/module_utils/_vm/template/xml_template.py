# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rendering of a libvirt XML template with the variables of a VM.

There are two formats, detected by their content: the single-brace format of the specification (``{id}``),
and sandboxed Jinja2 for a text with ``{{``, ``{%`` or ``{#``. In both, values are
escaped for XML, unused values are ignored, and variables without a value are
rendered empty; both are recorded.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_escape import escape

try:
    import jinja2
    import jinja2.meta
    import jinja2.nodes
    import jinja2.sandbox

    JINJA2_ERROR: ImportError | None = None
except ImportError as error:
    JINJA2_ERROR = error

_BRACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_JINJA2 = re.compile(r"\{\{|\{%|\{#")
# characters that XML 1.0 does not allow, not even escaped
# (listed explicitly: the complement of the allowed characters takes ten times as long to compile)
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_FILE = "<template>"
_MOST_BITS = 4096
# Jinja2 statements with an end tag
_BLOCKS = ("for", "if", "block", "macro", "call", "filter", "with", "autoescape")
# Unicode private use area: does not occur in domains
_MARK = re.compile("\ue000([0-9]+)\ue001")


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A rendered template.

    ``missing`` are the variables that were rendered empty, ``touched`` the keys of NICs and disks
    (by path, e.g. ``disks[0].cache``) that were read.
    """

    text: str
    missing: tuple[str, ...]
    touched: frozenset[str]


class Tracked(t.Dict[str, t.Any]):
    """A NIC or disk in a template; records which of its keys are read."""

    def __init__(self, values: t.Mapping[str, t.Any], path: str, touched: set[str]) -> None:
        super().__init__(values)
        self._path = path
        self._touched = touched

    def __getitem__(self, key: str) -> t.Any:
        self._touched.add(f"{self._path}.{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: t.Any = None) -> t.Any:
        """See :meth:`dict.get`; records the key as read."""
        self._touched.add(f"{self._path}.{key}")
        return super().get(key, default)


def is_jinja2(source: str) -> bool:
    """Whether a template is Jinja2 and not the single-brace format of the specification."""
    return bool(_JINJA2.search(source))


def as_text(value: t.Any, name: str) -> str:
    """Return a value as text, not escaped: booleans as ``true`` and ``false``, structures as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    else:
        text = str(value)
    found = NOT_XML.search(text)
    if found:
        raise model_errors.InputError(f"contains the character U+{ord(found.group()):04X}, which XML does not allow.", name, "Remove it from the value.")
    return text


class Template:
    """A template that is compiled once and rendered for any number of VMs.

    :raises TemplateError: it is not valid Jinja2; with the line.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.jinja2 = is_jinja2(source)
        if self.jinja2:
            if JINJA2_ERROR is not None:
                raise model_errors.missing_libraries(*model_errors.VM_LIBRARIES) from JINJA2_ERROR
            self._missing: list[str] = []
            self._environment = _environment(self._missing)
            self._compiled, parsed = self._compile(source)
            names: dict[str, set[str]] = {"load": set(), "store": set(), "param": set()}
            for name in parsed.find_all(jinja2.nodes.Name):
                names[name.ctx].add(name.name)
            own = names["store"] | names["param"] | {macro.name for macro in parsed.find_all(jinja2.nodes.Macro)}
            self.variables = frozenset(names["load"] - own - set(self._environment.globals))
            # names that the template assigns, and that may also be variables outside of their scope
            self._unclear = frozenset(names["load"] & own)
        else:
            self.variables = frozenset(_BRACE.findall(source))

    def uses(self, *names: str) -> bool:
        """Whether the template uses any of these variables."""
        if any(name in self.variables for name in names) or not self.jinja2:
            return any(name in self.variables for name in names)
        # the exact answer takes as long as compiling
        return any(name in self._unclear and name in self._undeclared for name in names)

    @functools.cached_property
    def _undeclared(self) -> set[str]:
        return jinja2.meta.find_undeclared_variables(self._environment.parse(self.source))

    def render(self, variables: t.Mapping[str, t.Any]) -> Rendered:
        """Render the template.

        :raises TemplateError: Jinja2 failed; with the line.
        """
        if not self.jinja2:
            return self._render_braces(variables)
        touched: set[str] = set()
        text = self._run(self._compiled, _tracked(variables, touched))
        return Rendered(text, tuple(dict.fromkeys(self._missing)), frozenset(touched))

    def marked(self, variables: t.Mapping[str, t.Any]) -> list[tuple[str, int]]:
        """Return every rendered line with the number of the template line that ends it.

        For messages only: Jinja2's loops and blocks shift lines, so the text is rendered again
        with a mark for the template line in each line (white space may differ from :meth:`render`).
        """
        if not self.jinja2:
            lines = self._render_braces(variables).text.split("\n")
            return [(line, self._brace_line(variables, number)) for number, line in enumerate(lines, 1)]
        parts = []
        for line, kind, text in self._environment.lex(self.source):
            if kind == "data":
                pieces = text.split("\n")
                text = "".join(f"{piece}\ue000{line + offset}\ue001\n" for offset, piece in enumerate(pieces[:-1])) + pieces[-1]
            parts.append(text)
        text = self._run(self._compile("".join(parts))[0], _tracked(variables, set()))
        lines, last = [], 1
        for line in text.split("\n"):
            marks = _MARK.findall(line)
            last = int(marks[-1]) if marks else last
            lines.append((_MARK.sub("", line), last))
        return lines

    def _render_braces(self, variables: t.Mapping[str, t.Any]) -> Rendered:
        missing: list[str] = []

        def fill(found: re.Match[str]) -> str:
            name = found.group(1)
            value = variables.get(name)
            if value is None or value == "":
                missing.append(name)
                return ""
            return escape(as_text(value, name))

        return Rendered(_BRACE.sub(fill, self.source), tuple(dict.fromkeys(missing)), frozenset())

    def _brace_line(self, variables: t.Mapping[str, t.Any], rendered_line: int) -> int:
        # multi-line values shift the following lines
        last = 0
        for number, line in enumerate(self.source.split("\n"), 1):
            last += 1 + sum(as_text(variables.get(name), name).count("\n") for name in _BRACE.findall(line))
            if rendered_line <= last:
                return number
        return self.source.count("\n") + 1

    def _compile(self, source: str) -> tuple[t.Any, t.Any]:
        """Return the compiled template and its syntax tree; parsed only once, as that takes a third of the time."""
        try:
            parsed = self._environment.parse(source)
            # both can find an unknown filter
            return self._environment.from_string(parsed), parsed
        except jinja2.TemplateSyntaxError as error:
            line = self._open_block(source) if "end of template" in (error.message or "") else None
            raise model_errors.TemplateError(f"{error.message}", f"template line {line or error.lineno}", "Correct the template.") from error
        except RecursionError as error:
            raise model_errors.TemplateError("is nested too deeply.", "template", "Correct the template.") from error

    def _open_block(self, source: str) -> int | None:
        """Return the line of the innermost block without an end tag."""
        blocks: list[tuple[str, int]] = []
        begins = False
        for line, kind, text in self._environment.lex(source):
            if begins and kind == "name":
                begins = False
                if text in _BLOCKS:
                    blocks.append((text, line))
                elif text.startswith("end") and blocks:
                    blocks.pop()
            elif kind == "block_begin":
                begins = True
        return blocks[-1][1] if blocks else None

    def _run(self, compiled: t.Any, variables: t.Mapping[str, t.Any]) -> str:
        self._missing.clear()
        try:
            return compiled.render(variables)
        except model_errors.InputError:
            raise
        # an expression in a template can raise anything: TypeError, ZeroDivisionError, SecurityError, ...
        except Exception as error:
            message = "requires too much memory" if isinstance(error, MemoryError) else f"{error}"
            raise model_errors.TemplateError(message, f"template line {_failing_line(error)}", "Correct the template.") from error


def _failing_line(error: BaseException) -> int:
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _tracked(variables: t.Mapping[str, t.Any], touched: set[str]) -> dict[str, t.Any]:
    def follow(value: t.Any, path: str) -> t.Any:
        if isinstance(value, t.Mapping):
            return Tracked({key: follow(item, f"{path}.{key}") for key, item in value.items() if item is not None}, path, touched)
        if isinstance(value, (list, tuple)):
            return [follow(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return value

    # variables without a value are undefined
    return {name: follow(value, name) for name, value in variables.items() if value is not None and value != ""}


def _environment(missing: list[str]) -> t.Any:
    class Missing(jinja2.ChainableUndefined):
        """Rendered empty and recorded; a test for its existence is not recorded."""

        def __str__(self) -> str:
            if self._undefined_exception is jinja2.sandbox.SecurityError:
                self._fail_with_undefined_error()
            missing.append(str(self._undefined_name))
            return ""

        __html__ = __str__

    def finalize(value: t.Any) -> t.Any:
        if isinstance(value, jinja2.Undefined) or hasattr(value, "__html__"):
            return value
        return as_text(value, "value")

    class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
        """Limits powers: a single large one is not interrupted by the time and memory limits."""

        intercepted_binops = frozenset(("**",))

        def call_binop(self, context: t.Any, operator: str, left: t.Any, right: t.Any) -> t.Any:
            """Return a power, unless the result is too large."""
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > _MOST_BITS:
                raise OverflowError("the result of the power is too large")
            return super().call_binop(context, operator, left, right)

    return Sandbox(autoescape=True, undefined=Missing, finalize=finalize, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True)
