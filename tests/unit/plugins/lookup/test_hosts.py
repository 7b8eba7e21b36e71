# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup ``hosts``: patterns that match, and names that do not."""

from __future__ import annotations

import typing as t

import pytest

from ansible.errors import AnsibleError
from ansible_collections.reduced.footprint.plugins.lookup import hosts as plugin

GROUPS = {"all": ["metal1", "metal2", "c1"], "ungrouped": [], "virt": ["metal1", "metal2"], "controller": ["c1"], "empty": []}


@pytest.fixture(autouse=True)
def _options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options as Ansible would set them from the documentation."""
    monkeypatch.setattr(plugin.context, "CLIARGS", {})
    monkeypatch.setattr(plugin.LookupModule, "set_options", lambda self, var_options=None, direct=None: setattr(self, "given", direct or {}))
    monkeypatch.setattr(plugin.LookupModule, "get_option", lambda self, name: self.given.get(name, {"variable": "", "required": True, "in_limit": False}[name]))


def lookup(*terms: str, groups: t.Any = None, limit: str = "", sources: t.Sequence[str] = ("hosts,",), **options: t.Any) -> str:
    known = {"groups": GROUPS if groups is None else groups, "ansible_limit": limit, "ansible_inventory_sources": sources}
    (found,) = plugin.LookupModule(loader=None, templar=None).run(list(terms), variables=known, **options)
    return found


@pytest.mark.parametrize(
    "pattern",
    ["virt", "all", "virt[0]", "virt[-1]", "virt[0:1]", "virt:!metal2", "virt:&controller", "metal*", "~meta.*", "c1,metal1", "localhost", "all:!all"],
)
def test_pattern_that_matches(pattern: str) -> None:
    assert lookup(pattern) == pattern
    assert lookup("virt", limit=pattern) == "virt"


@pytest.mark.parametrize(
    "terms, wanted", [(("servers", "virt"), "virt"), (("virt", "controller"), "virt:controller"), (("virt:&servers", "controller"), "controller")]
)
def test_patterns_with_unknown_names_are_left_out(terms: tuple[str, ...], wanted: str) -> None:
    assert lookup(*terms) == wanted


def test_pattern_that_may_match_nothing() -> None:
    assert lookup("servers", required=False) == "all:!all"


@pytest.mark.parametrize(
    "terms, options, message",
    [
        (("vrt",), {}, "no host or group of the inventory is named vrt. Did you mean virt?"),
        (("empty",), {}, "no host or group of the inventory is named empty. The inventory has c1, controller, metal1, metal2, virt."),
        (("metl1[0]",), {"variable": "node"}, "node: no host or group of the inventory is named metl1. Did you mean metal1?"),
        (("",), {"variable": "node"}, "node: is required. Set it with -e node=HOST."),
        (("virt",), {"limit": "virt,!metl2"}, "--limit: no host or group of the inventory is named metl2. Did you mean metal2?"),
        (("virt",), {"groups": {"all": [], "ungrouped": []}}, "the inventory has no host (sources: hosts,). "
         "Give the path of the inventory with -i, and correct the warnings above."),
    ],
)  # fmt: skip
def test_names_that_do_not_exist(terms: tuple[str, ...], options: dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleError) as refused:
        lookup(*terms, **options)
    assert str(refused.value) == message


@pytest.mark.parametrize("option", ["syntax", "listtasks", "listtags"])
def test_nothing_is_checked_without_a_run(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(plugin.context, "CLIARGS", {option: True})
    assert lookup("anything") == "anything"
    assert lookup("") == "all"


def test_many_names_are_shortened() -> None:
    with pytest.raises(AnsibleError, match=r"host11, \.\.\.\."):
        lookup("nothing-like-it", groups={"all": [f"host{number:02}" for number in range(30)]})


@pytest.mark.parametrize("limit", ["metal1", "all", "virt[0]", "c1,metal1", "!metal2", "virt:!metal2", ""])
def test_a_host_within_the_limit(limit: str) -> None:
    assert lookup("metal1", limit=limit, in_limit=True) == "metal1"
    assert lookup("virt[0]", limit=limit, in_limit=True) == "virt[0]"


@pytest.mark.parametrize("limit", ["metal2", "c1", "!metal1", "virt:!metal1", "virt[1]"])
def test_a_host_outside_the_limit(limit: str) -> None:
    # Ansible would skip the play and report success
    assert lookup("metal1", limit=limit) == "metal1"
    with pytest.raises(AnsibleError, match=r"^node: virt\[0\] is excluded by --limit .*Run it without --limit"):
        lookup("virt[0]", limit=limit, in_limit=True, variable="node")
