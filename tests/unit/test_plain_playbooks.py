# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Expressions of playbooks only pass values: what decides is an action plugin. The files that still decide are listed, with counts that only fall."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

from tests.unit.test_expressions import _Loader, texts

PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
MAX_CHARACTERS = 150
EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
LOOP = re.compile(r"\{%[-+]?\s*for\b")
EXTRACT = re.compile(r"map\(\s*'extract',\s*hostvars\b")


class Mass(t.NamedTuple):
    """Expressions that are too long, loops, anchors of YAML, and values taken from the variables of other hosts."""

    long: int = 0
    loops: int = 0
    anchors: int = 0
    extracts: int = 0


#: The files that are not plain yet. A new file is never added; a number is lowered with the change that lowers it.
KNOWN = {
    "start_standby.yml": Mass(3, 0, 3, 0),
    "tasks/start_standby_keep.yml": Mass(1, 0, 1, 0),
}


def mass(text: str) -> Mass:
    """What decides in a file of YAML; an expression counts with single spaces."""
    expressions = [found for each in texts(list(yaml.load_all(text, _Loader))) for found in EXPRESSION.findall(each)]  # noqa: S506
    anchors = sum(isinstance(token, yaml.AnchorToken) for token in yaml.scan(text))
    # an alias repeats what its anchor has
    distinct = {" ".join(each.split()) for each in expressions}
    return Mass(sum(len(each) > MAX_CHARACTERS for each in distinct), len(LOOP.findall(text)), anchors, len(EXTRACT.findall(text)))


def current() -> dict[str, Mass]:
    """The files that are not plain."""
    found = {path.relative_to(PLAYBOOKS).as_posix(): mass(path.read_text("utf-8")) for path in sorted(PLAYBOOKS.rglob("*.yml"))}
    return {name: counts for name, counts in found.items() if any(counts)}


def differences(known: t.Mapping[str, Mass], now: t.Mapping[str, Mass]) -> list[str]:
    """What must be changed: the file if a number rose, the list if it fell."""
    found = []
    for name in sorted({*known, *now}):
        for what, before, after in zip(Mass._fields, known.get(name, Mass()), now.get(name, Mass())):
            if after > before:
                found.append(f"{name}: {what}: {after}, at most {before}: let an action plugin decide, see CONTRIBUTING.md")
            elif after < before:
                found.append(f"{name}: {what}: {after} instead of {before}: lower it in KNOWN")
    return found


def test_playbooks_only_become_plainer() -> None:
    found = differences(KNOWN, current())
    assert not found, "\n".join(found)


def test_list_has_no_plain_file() -> None:
    assert [name for name, counts in KNOWN.items() if not any(counts)] == []


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("- debug: {msg: '{{ " + "x + " * 50 + "x }}'}", Mass(long=1)),
        ("- debug: {msg: '{{ x }}'}\n  when: " + "x or " * 50 + "x", Mass(long=1)),
        ("- debug: {msg: \"{{ x }}" + "text " * 50 + "{{ y }}\"}", Mass()),
        ("- debug:\n    msg: >-\n      {{ x\n" + " " * 150 + "}}", Mass()),
        ("- {a: &long '{{ " + "x + " * 50 + "x }}', b: *long}", Mass(long=1, anchors=1)),
        ("- set_fact: {x: '{%- for y in z -%}{% for a in b %}{%- endfor -%}{% endfor %}'}", Mass(loops=2)),
        ("- debug: {msg: \"{{ groups['all'] | map('extract', hostvars) | map('extract', hostvars, 'x') }}\"}", Mass(extracts=2)),
        ("- debug: {msg: 'R&D'}", Mass()),
    ],
)
def test_what_decides_is_counted(text: str, counts: Mass) -> None:
    assert mass(text) == counts


def test_a_change_of_a_number_is_found() -> None:
    before = {"a.yml": Mass(2, 0, 1, 0)}
    assert not differences(before, before)
    assert differences(before, {"a.yml": Mass(3, 0, 0, 0)}) == [
        "a.yml: long: 3, at most 2: let an action plugin decide, see CONTRIBUTING.md", "a.yml: anchors: 0 instead of 1: lower it in KNOWN",
    ]  # fmt: skip
    assert differences(before, {**before, "b.yml": Mass(extracts=1)}) == [
        "b.yml: extracts: 1, at most 0: let an action plugin decide, see CONTRIBUTING.md"
    ]
