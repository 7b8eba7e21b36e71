# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON text of a user, and the places that take it."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_redaction
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import parse_node
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report import run_plan
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request import model_placement
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm

TWICE = [
    ('{"a": 1, "a": 2}', "vms.a"),
    ('[{"id": 1, "ram": 1, "ram": 64}]', "vms[0].ram"),
    ('[{"id": 1}, {"id": 2, "disks": [{"size": 1}, {"size": 1, "name": "x", "name": "y"}]}]', "vms[1].disks[1].name"),
    ('[{"id": 1, "user_data": {"a b": 1, "a b": 1}}]', "vms[0].user_data['a b']"),
    # the duplicate value contains a duplicate key itself
    ('[{"x": {"y": 1, "y": 2}, "x": {}}]', "vms[0].x"),
    ('{"a": {"b": 1, "b": 2}, "c": {"d": 1, "d": 2}}', "vms.a.b"),
]


@pytest.mark.parametrize("text, path", TWICE)
def test_duplicate_key_is_refused_with_its_path(text: str, path: str) -> None:
    with pytest.raises(InputError, match="is a duplicate key") as raised:
        parse_json(text, "vms")
    assert raised.value.path == path and raised.value.hint


@pytest.mark.parametrize("text", ["{", "[1", "nothing", "[" * 100000])
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not valid JSON") as raised:
        parse_json(text, "vms")
    assert raised.value.path == "vms"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_other_values_are_read_unchanged(value: t.Any) -> None:
    assert parse_json(json.dumps(value), "x") == value


def _inventory(text: str) -> t.Any:
    return run_inventory.parse("lab", run_inventory.parse_servers({"n1": {"roles": ["virt"], "vms": text}}))


TAKERS: list[tuple[str, t.Callable[[str], t.Any], str]] = [
    ("vm_define", lambda text: model_vm.parse_vms(text, cluster="lab"), "vms[0].ram"),
    ("virt_node", lambda text: parse_node("n1", "lab", ["virt"], text), "vms[0].ram"),
    ("footprint_plan", lambda text: model_placement.as_list(text, "vms"), "vms[0].ram"),
    ("nodes", _inventory, "servers.n1.vms[0].ram"),
]


@pytest.mark.parametrize("taker, path", [case[1:] for case in TAKERS], ids=[case[0] for case in TAKERS])
def test_duplicate_key_is_refused_by_all_readers_of_vm_details(taker: t.Callable[[str], t.Any], path: str) -> None:
    with pytest.raises(InputError, match="is a duplicate key") as raised:
        taker('[{"id": 1, "cpu": 1, "ram": 1, "ram": 64}]')
    assert raised.value.path == path


def test_secrets_of_duplicate_keys_are_found() -> None:
    text = '[{"id": 1, "password": "first", "password": "second"}]'
    assert model_redaction.hidden_values(text) == {"first", "second"}
    assert run_plan.hidden_values({"vms": text}) == {"first", "second"}
    assert model_redaction.hidden_values("[" * 100000) == set()
