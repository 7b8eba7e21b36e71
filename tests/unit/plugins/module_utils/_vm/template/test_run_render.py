# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile values and broken templates on their way to a document."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, TemplateError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.run_render import render
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_template import Template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_variables import variables_of

BRACES = "<domain><name>{id}</name><title>{note}</title><description>{deep}</description></domain>"
JINJA2 = "<domain><name>{{ id }}</name><title>{{ note }}</title><description>{{ deep }}</description>{% for n in nics %}<b a='{{ n.x }}'/>{% endfor %}</domain>"


def filled(source: str, **details: t.Any) -> t.Any:
    """The document of a template."""
    vm = parse_vms([dict({"id": "c1"}, **details)], cluster="lab")[0]
    return render(vm, Template(source), variables_of(vm, "lab", "qemu", []))[1]


@pytest.mark.parametrize("source", [BRACES, JINJA2], ids=["braces", "jinja2"])
@pytest.mark.parametrize(
    "value",
    [
        "{{ 7 * 7 }}",
        "{% for i in range(9) %}x{% endfor %}",
        "{id}{note}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "</title><os><loader>/etc/shadow</loader></os><title>",
        "]]><!--",
        "&entity; &#0; <!DOCTYPE x>",
        "' or \" onload=''",
        "$(reboot) `reboot` ; reboot",
        "\ue0005\ue001",
        "a\tb\nc",
        "x" * 100000,
        "\U0001f600 ß \u202e",
    ],
)
def test_values_are_unchanged_and_never_evaluated(source: str, value: str) -> None:
    document = filled(source, note=value)
    assert document.findtext("title") == value
    assert [child.tag for child in document] == ["name", "title", "description"]


@pytest.mark.parametrize("source", [BRACES, JINJA2], ids=["braces", "jinja2"])
def test_a_deep_value_arrives_as_json(source: str) -> None:
    deep: t.Any = "x"
    for unused in range(30):
        deep = [deep]
    assert filled(source, deep=deep).findtext("description") == "[" * 30 + '"x"' + "]" * 30


@pytest.mark.parametrize(
    "source, details, path",
    [
        (BRACES, {"note": "bell\a"}, "vms[0].note"),
        (JINJA2, {"note": "null\0"}, "vms[0].note"),
        (JINJA2, {"note": "\ud800"}, "vms[0].note"),
        (JINJA2, {"nics": [{"bridge": "b"}, {"bridge": "b", "x": "\ufffe"}]}, "vms[0].nics[1].x"),
    ],
)
def test_character_not_allowed_in_xml_is_reported_with_its_path(source: str, details: dict[str, t.Any], path: str) -> None:
    with pytest.raises(InputError, match="which XML does not allow") as raised:
        filled(source, **details)
    assert raised.value.path == path


@pytest.mark.parametrize("source", [BRACES, JINJA2], ids=["braces", "jinja2"])
def test_a_huge_document_is_refused(source: str) -> None:
    with pytest.raises(TemplateError, match=r"^VM 'c1': the rendered document is 4 MiB, the limit is 1 MiB\. "):
        filled(source, note="x" * 4 * 1024 * 1024)


@pytest.mark.parametrize(
    "source",
    [
        "<domain>{{ cycler.__init__.__globals__ }}</domain>",
        "<domain>{{ nics.append(1) }}</domain>",
        "<domain>{{ id.format_map(x) }}{{ '{0.__class__}'.format(id) }}</domain>",
        "<domain>{% include '/etc/passwd' %}</domain>",
        "<domain>{% import 'os' as os %}</domain>",
        "<domain>{{ lipsum.__globals__['os'].popen('id').read() }}</domain>",
        "<domain>{{ self._TemplateReference__context }}</domain>",
        "<domain>{{ joiner.__init__['__globals__'] }}</domain>",
        "<domain>{{ id | attr('__class__') }}</domain>",
    ],
)
def test_template_cannot_escape_the_sandbox(source: str) -> None:
    with pytest.raises(FootprintError) as raised:
        filled(source, nics=[{"bridge": "b"}])
    assert "root:" not in str(raised.value)
