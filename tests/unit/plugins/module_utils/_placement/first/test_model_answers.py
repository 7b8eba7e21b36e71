# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.first import model_answers

GIVEN = {
    "servers": ["metal1=192.0.2.11", "metal2 = 192.0.2.12"], "user": "root", "wanted": "control_plane", "source": "", "addresses": "192.0.2.20-192.0.2.40",
    "cluster": "home", "expert_mode": False,
}  # fmt: skip


def test_machines_and_range() -> None:
    found = model_answers.parse({**GIVEN, "source": "laptop=192.0.2.2"})
    assert [*map(tuple, found.machines)] == [("metal1", "192.0.2.11"), ("metal2", "192.0.2.12"), ("laptop", "192.0.2.2")]
    assert (str(found.first), str(found.last), found.source) == ("192.0.2.20", "192.0.2.40", ("laptop", "192.0.2.2"))


@pytest.mark.parametrize(
    ("wanted", "source", "uses"),
    [
        ("vms", "", ["vm1"]),
        ("control_plane", "", [model_answers.VIRTUAL, "controller1", "controller2", "controller3"]),
        ("control_plane", "laptop=192.0.2.2", [model_answers.VIRTUAL, "controller1", "controller2", "controller3", model_answers.TEMPORARY]),
        ("cloud", "", [model_answers.VIRTUAL, "controller1", "controller2", "controller3", model_answers.FLOATING]),
        ("move", "old=192.0.2.2", [model_answers.TEMPORARY]),
    ],
)
def test_each_use_has_an_address(wanted: str, source: str, uses: list[str]) -> None:
    answers = model_answers.parse({**GIVEN, "wanted": wanted, "source": source})
    assert model_answers.addresses(answers) == {use: f"192.0.2.{20 + number}" for number, use in enumerate(uses)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"servers": []}, "init_servers: is required. Write each server as NAME=ADDRESS, e.g. metal1=192.0.2.11,metal2=192.0.2.12."),
        ({"servers": ["192.0.2.11"]}, "init_servers[0]: '192.0.2.11' is not a machine. Write NAME=ADDRESS"),
        ({"servers": ["a=192.0.2.1", "b=192.0.2.300"]}, "init_servers[1]: '192.0.2.300' is not an IPv4 address."),
        ({"servers": ["a=127.0.0.1"]}, "init_servers[0]: 127.0.0.1 is this machine wherever it is used."),
        ({"servers": ["a=192.0.2.1", "a=192.0.2.2"]}, "init_servers[1]: a is already used at init_servers[0]."),
        ({"servers": ["a=192.0.2.1", "b=192.0.2.1"]}, "init_servers[1]: 192.0.2.1 is already used at init_servers[0]."),
        ({"servers": ["Metal=192.0.2.1"]}, "init_servers[0]: 'Metal=192.0.2.1' is not a machine."),
        ({"servers": ["a: {b}=192.0.2.1"]}, "init_servers[0]: 'a: {b}=192.0.2.1' is not a machine."),
        ({"servers": ["controller1=192.0.2.1"]}, "init_servers[0]: controller1 is the name of a group or VM."),
        ({"source": "metal1=192.0.2.3"}, "init_source: metal1 is already used at init_servers[0]."),
        ({"source": "laptop=192.0.2.12"}, "init_source: 192.0.2.12 is already used at init_servers[1]."),
        ({"wanted": "move"}, "init_source: is required to move a machine."),
        ({"wanted": "cluster"}, "init_wanted: 'cluster' is not supported. Use one of vms, control_plane, cloud, move."),
        ({"user": "{{ x }}"}, "init_user: '{{ x }}' is not valid here."),
        ({"cluster": "my home"}, "init_cluster: 'my home' is not valid here."),
        ({"addresses": ""}, "init_addresses: is required. Write the first and the last free address"),
        ({"addresses": "192.0.2.0/24"}, "init_addresses: '192.0.2.0/24' is not a range."),
        ({"addresses": "192.0.2.9-192.0.2.400"}, "init_addresses: '192.0.2.400' is not an IPv4 address."),
        ({"addresses": "192.0.2.9-192.0.2.1"}, "init_addresses: 192.0.2.9-192.0.2.1 is not a range: the first address must be lower"),
        ({"addresses": "192.0.2.9-192.0.2.20"}, "init_addresses: contains 192.0.2.11, which is in use by metal1."),
        ({"addresses": "192.0.2.20-192.0.2.22"}, "init_addresses: has 3 addresses, but 4 are required, for the virtual address, controller1, controller2, "),
        ({"addresses": "192.0.2.20-192.0.2.26", "wanted": "cloud"}, "init_addresses: has 7 addresses, but 8 are required, for the virtual address"),
    ],
)
def test_an_invalid_answer_is_refused_with_a_hint(change: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        model_answers.parse({**GIVEN, **change})
    assert str(raised.value).startswith(message)
    assert raised.value.hint


def test_all_invalid_answers_are_reported_at_once() -> None:
    with pytest.raises(InputError, match=r"3 errors:\n  init_servers\[1\].*\n  init_user.*\n  init_addresses"):
        model_answers.parse({**GIVEN, "servers": ["a=192.0.2.1", "b"], "user": "a b", "addresses": "all"})
