# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Features of templates, and their errors."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, TemplateError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_template import Template, is_jinja2


@pytest.mark.parametrize(
    "source, jinja2", [("<a>{id}</a>", False), ("<a>{{ id }}</a>", True), ("<a>{% if x %}{% endif %}</a>", True), ("<a>{# x #}</a>", True), ("<a/>", False)]
)
def test_format_is_detected_by_the_content(source: str, jinja2: bool) -> None:
    assert is_jinja2(source) is jinja2


@pytest.mark.parametrize("source", ["<a>{x}{y}{x}</a>", "<a>{{ x }}{{ y }}{{ x }}</a>"])
def test_a_missing_variable_is_empty_and_counted_once(source: str) -> None:
    rendered = Template(source).render({"y": "1"})
    assert (rendered.text, rendered.missing) == ("<a>1</a>", ("x",))


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("source", ["<a>{x}</a>", "<a>{{ x }}</a>"])
def test_a_variable_without_a_value_is_missing(source: str, value: t.Any) -> None:
    assert Template(source).render({"x": value}).missing == ("x",)


def test_existence_test_does_not_count_as_missing() -> None:
    rendered = Template("{% if x %}{{ x }}{% endif %}{{ y | default('d') }}{% for z in zs %}{{ z }}{% endfor %}").render({})
    assert (rendered.text, rendered.missing) == ("d", ())


def test_loops_see_any_free_key() -> None:
    source = "{% for share in shares %}{{ share.path }}={{ share.mode }};{% endfor %}{% for n in numbers %}{{ n }}{% endfor %}"
    rendered = Template(source).render({"shares": [{"path": "/a", "mode": "ro"}, {"path": "/b"}], "numbers": [0, 1]})
    assert rendered.text == "/a=ro;/b=;01"
    assert rendered.missing == ("mode",)


@pytest.mark.parametrize("source", ["{x}", "{{ x }}"])
@pytest.mark.parametrize("value, text", [(True, "true"), (0, "0"), (1.5, "1.5"), ([1, "é"], "[1, &quot;é&quot;]"), ({"a": 1}, "{&quot;a&quot;: 1}")])
def test_values_as_text(source: str, value: t.Any, text: str) -> None:
    assert Template(source).render({"x": value}).text.replace("&#34;", "&quot;") == text


BROKEN = [
    ("<a>\n{{ x. }}\n</a>", "template line 2: "),
    ("<a>\n\n{% if x %}</a>", "template line 3: "),
    ("<a>\n{{ 1 / 0 }}\n</a>", "template line 2: division by zero"),
    ("<a>\n\n\n{{ x.__class__.__mro__ }}\n</a>", "template line 4: access to attribute"),
    ("{% for i in range(1000000000) %}{% endfor %}", "template line 1: Range too big"),
    ("{% include '/etc/passwd' %}", "template line 1: "),
    ("{{ x.append(1) }}", "template line 1: "),
    ("<a>\n{{ x | nosuch }}\n</a>", "template line 2: No filter named"),
    ("<a>\n{% if x is nosuch %}{% endif %}\n</a>", "template line 2: No test named"),
]


@pytest.mark.parametrize("source, message", BROKEN, ids=[case[0] for case in BROKEN])
def test_invalid_jinja2_is_reported_with_its_line(source: str, message: str) -> None:
    with pytest.raises(TemplateError) as raised:
        Template(source).render({"x": [1]})
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    "source, used",
    [
        ("{% for disk in disks %}{{ disk.path }}{% endfor %}", {"disks"}),
        ("{% for disk in disks %}{{ disk.path }}{% endfor %}{{ disk }}", {"disks", "disk"}),
        ("{% set cpu = cpu or 2 %}{{ cpu }}", {"cpu"}),
        ("{% macro row(nic) %}{{ nic }}{{ rack }}{% endmacro %}{{ row(1) }}{{ range(3) }}", {"rack"}),
        ("{% if x is defined and y[z] %}{% endif %}", {"x", "y", "z"}),
    ],
)
def test_used_variables_are_found(source: str, used: set[str]) -> None:
    template = Template(source)
    names = ("disks", "disk", "cpu", "row", "nic", "rack", "range", "x", "y", "z", "loop")
    assert {name for name in names if template.uses(name)} == used


@pytest.mark.parametrize(
    "source, line", [("a\n{% if x %}\n{% for y in z %}\n{% endfor %}\n", 2), ("{% if x %}\n{% for y in z %}\nb", 2), ("\n{{ x | nofilter }}", 2)]
)
def test_block_without_end_is_reported_with_its_line(source: str, line: int) -> None:
    with pytest.raises(TemplateError, match=f"^template line {line}: "):
        Template(source)


def test_character_not_allowed_in_xml_is_refused() -> None:
    with pytest.raises(InputError, match="U\\+0007"):
        Template("<a>{x}</a>").render({"x": "bell\a"})


def test_rendered_lines_have_their_template_line() -> None:
    source = "<a>\n{% for i in items %}\n  <b/>\n  <c>{{ i }}</c>\n{% endfor %}\n</a>\n"
    lines = Template(source).marked({"items": [1, 2]})
    assert [(text.strip(), line) for text, line in lines[:6]] == [("<a>", 1), ("<b/>", 3), ("<c>1</c>", 4), ("<b/>", 3), ("<c>2</c>", 4), ("</a>", 6)]


def test_a_value_of_several_lines_shifts_the_single_brace_form() -> None:
    lines = Template("<a>{x}</a>\n<b/>").marked({"x": "1\n2\n3"})
    assert [line for unused, line in lines] == [1, 1, 1, 2]


XML_TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffe\uffff"))


@given(XML_TEXT)
def test_arbitrary_value_is_read_back_unchanged(value: str) -> None:
    for source in ("<a b='{x}'><c>{x}</c></a>", "<a b=\"{{ x }}\"><c>{{ x }}</c></a>"):
        document = parse(Template(source).render({"x": value}).text)
        assert document.get("b") == value
        assert (document.findtext("c") or "") == value
        assert len(document) == 1
