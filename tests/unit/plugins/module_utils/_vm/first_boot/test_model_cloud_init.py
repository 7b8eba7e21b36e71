# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What cloud-init is to find, from the details of a VM."""

from __future__ import annotations

import json
import typing as t

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_cloud_init import parse_cloud_init, to_json, without_secrets


def files(**details: t.Any) -> dict[str, str]:
    """The files of a seed."""
    seed = parse_cloud_init(details, "v", "the-uuid", "the-name")
    assert seed is not None
    return {name: content.decode() for name, content in seed.files().items()}


def test_details_without_cloud_init_have_no_seed() -> None:
    assert parse_cloud_init({"user_data": "", "meta_data": None}, "v", "u", "n") is None


def test_a_mapping_gets_the_header_and_a_text_stays() -> None:
    assert files(user_data={"a": 1})["user-data"] == '#cloud-config\n{\n "a": 1\n}\n'
    assert files(user_data="#!/bin/sh\n")["user-data"] == "#!/bin/sh\n"
    assert files(network_config="version: 2")["network-config"] == "version: 2"
    # all files of a seed are there, those without content too
    assert files(network_config={"version": 1}) == {
        "user-data": "",
        "meta-data": '{\n "instance-id": "the-uuid",\n "local-hostname": "the-name"\n}\n',
        "network-config": '{\n "version": 1\n}\n',
    }


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(0.5, 1000) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12)


@given(st.dictionaries(TEXT, VALUES))
def test_yaml_reads_back_what_was_written(value: dict[str, t.Any]) -> None:
    assert yaml.safe_load(to_json(value)) == value


@pytest.mark.parametrize("text", ["yes", "1e3", "2024-01-01", " a ", "a: b", "a\nb\n", "\t", "é", "😀", "\x7f\x85\x9f", "\u2028\ufeff\uffff", "\0"])
def test_yaml_reads_back_any_text(text: str) -> None:
    assert yaml.safe_load(to_json({text: [text]})) == {text: [text]}


META = [
    (None, {"instance-id": "the-uuid", "local-hostname": "the-name"}),
    ({"local-hostname": "x", "k": [1]}, {"instance-id": "the-uuid", "local-hostname": "x", "k": [1]}),
    ({"instance-id": "mine"}, {"instance-id": "mine", "local-hostname": "the-name"}),
    ("local-hostname: x\n", {"instance-id": "the-uuid", "local-hostname": "x"}),
    ("instance-id: mine\n", {"instance-id": "mine"}),
    ('{"instance-id": "mine"}', {"instance-id": "mine"}),
    ('{"k": 1, "instance-id": "mine"}', {"k": 1, "instance-id": "mine"}),
    (' {"local-hostname": "x"}', {"instance-id": "the-uuid", "local-hostname": "x"}),
    ("{}", {"instance-id": "the-uuid"}),
]


@pytest.mark.parametrize("meta, expected", META)
def test_instance_id_is_the_uuid_of_the_vm(meta: t.Any, expected: dict[str, t.Any]) -> None:
    assert yaml.safe_load(files(user_data="#", meta_data=meta)["meta-data"]) == expected


@pytest.mark.parametrize("key", ["user_data", "network_config", "meta_data"])
@pytest.mark.parametrize(
    "value",
    [["hunter2"], 5, {"a": {"hunter2"}}, {"a": b"hunter2"}, "hunter2\ud800", {"a": "hunter2\ud800"}, {"a": float("nan")}, "hunter2" * 4000000],
    ids=range(8),
)
def test_invalid_values_are_reported_by_path_only(key: str, value: t.Any) -> None:
    with pytest.raises(InputError) as raised:
        parse_cloud_init({key: value}, "vms[3]", "u", "n")
    assert (raised.value.path, "hunter2" in str(raised.value), bool(raised.value.hint)) == (f"vms[3].{key}", False, True)


def test_content_is_excluded_from_repr() -> None:
    vms = [{"id": "a", "rack": "r1", "user_data": {"password": "hunter2"}, "meta_data": "hunter2", "network_config": "hunter2"}]
    for details in (vms, json.dumps(vms)):
        vm = parse_vms(details, cluster="lab")[0]
        assert "hunter2" not in repr(vm) and vm.cloud_init is not None
        assert "hunter2" not in json.dumps(without_secrets(details))
    assert without_secrets(vms)[0]["rack"] == "r1"
    assert "user_data" not in vm.free and "user_data" in vm.given
    assert without_secrets([{"id": 1}, "x", None]) == [{"id": 1}, "x", None]
    assert without_secrets('[{"id": 1}]') == '[{"id": 1}]'


def test_secrets_of_details_that_are_no_valid_list_are_hidden() -> None:
    vm = {"id": "a", "user_data": {"password": "hunter2"}}
    for details in (vm, [[vm]], [json.dumps(vm)]):
        assert "hunter2" not in json.dumps(without_secrets(details))
    assert without_secrets(vm)["id"] == "a"
