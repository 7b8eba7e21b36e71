# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every expression and template of playbooks, roles and scenarios can be parsed, and has the same order in each run.

Ansible parses an expression when its task runs, and ansible-lint does not parse all of them: ``x is not none if y else z`` without
parentheses, for example, is a syntax error, because Jinja reads ``if`` as an argument of the test.
"""

from __future__ import annotations

import pathlib
import re
import typing as t

import jinja2
import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("playbooks", "roles", "lab", "extensions")
#: Keywords whose text is an expression.
BARE = frozenset({"when", "that", "until", "failed_when", "changed_when", "break_when"})
#: Names of Ansible's filters and tests are not known here, and not needed to parse.
JINJA = jinja2.Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
#: Their results have another order in each run: a file with them would be changed in each run, and the first of them would be another member in check
#: mode. ``reject('in', …)``, ``select('in', …)`` and ``(… + …) | unique`` keep the order.
SETS = frozenset({"difference", "intersect", "symmetric_difference", "union"})


class _Loader(yaml.SafeLoader):
    """A loader that ignores tags, such as those of vaults."""


_Loader.add_multi_constructor("!", lambda loader, suffix, node: None)  # type: ignore[no-untyped-call]


def texts(node: t.Any, key: str = "") -> t.Iterator[str]:
    """The templates in a document of YAML."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from texts(value, str(name))
    elif isinstance(node, list):
        for value in node:
            yield from texts(value, key)
    elif isinstance(node, str):
        yield f"{{{{ {node} }}}}" if key in BARE and "{{" not in node else node


def invalid(text: str) -> list[str]:
    """The error of a template."""
    try:
        JINJA.parse(text)
    except jinja2.TemplateSyntaxError as error:
        return [f"{text.strip()[:100]}: {error.message}"]
    return []


def unordered(text: str) -> list[str]:
    """The expressions of a template whose order is that of a set."""
    sets = [each for each in JINJA.parse(text).find_all(jinja2.nodes.Filter) if each.name in SETS]
    return [f"{text.strip()[:100]}: line {each.lineno}: {each.name}" for each in sets]


def files(*suffixes: str) -> list[pathlib.Path]:
    """The files with these suffixes."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes and path.is_file())


def doubled(text: str) -> list[str]:
    """A template with a group of a pattern whose backslash is doubled: Ansible itself keeps that of a text that YAML has read; two are printed."""
    return [text.strip()[:100]] if "{{" in text and re.search(r"\\\\\d", text) else []


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@pytest.mark.parametrize("wrong", [invalid, unordered, doubled])
def test_every_expression_is_right(wrong: t.Callable[[str], list[str]]) -> None:
    found = []
    for path in files(".yml", ".yaml"):
        documents = yaml.load_all(path.read_text("utf-8"), _Loader)  # noqa: S506
        found += [f"{path.relative_to(ROOT)}: {each}" for text in texts(list(documents)) for each in wrong(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text, found", [("(a | union(b) + c) | map('x')", True), ("a | reject('in', b) | first", False)])
def test_an_order_by_chance_is_found(text: str, found: bool) -> None:
    assert bool(unordered(f"{{{{ {text} }}}}")) == found


def test_templates_can_be_parsed() -> None:
    found = [f"{path.relative_to(ROOT)}: {error}" for path in files(".j2") for error in invalid(path.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "task",
    ["when: a.b is not none if c else d", "when: [a, b is none if c else d]", "vars: {x: '{{ a is none if b else c }}'}", "debug: {msg: '{{ a | }}'}"],
)
def test_an_invalid_expression_is_found(task: str) -> None:
    assert [error for text in texts(yaml.safe_load(task)) for error in invalid(text)]
