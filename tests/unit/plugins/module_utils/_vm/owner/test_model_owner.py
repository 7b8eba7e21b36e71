# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a VM as text: each value is checked."""

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ASK,
    FORMER,
    MOVE,
    Operation,
    Record,
    parse_record,
    record_from,
)

PATH = "/etc/reduced.footprint/vms/u.json"
FULL = Record("lab", "m", "u", "lab-m", 3, FORMER, "metal2", "2030-01-01T00:00:00Z", ASK, Operation(MOVE, "1", "metal2", "metal1"), "handed over by metal9")


@pytest.mark.parametrize("record", [FULL, Record("lab", "m", "u", "lab-m")])
def test_a_record_is_read_as_it_was_written(record):
    assert parse_record(record.to_json(), PATH) == record


def test_an_answer_is_about_the_vm_that_was_asked_for():
    assert record_from(FULL.values(), "metal2/u.json") == FULL
    with pytest.raises(InputError, match="is not the UUID"):
        record_from(FULL.values(), "metal2/v.json")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("uuid",), "another"),
        (("epoch",), -1),
        (("epoch",), "3"),
        (("epoch",), True),
        (("epoch",), None),
        (("role",), "master"),
        (("start",), None),
        (("name",), 5),
        (("to",), "a\nb"),
        (("operation", "kind"), "dance"),
        (("operation", "step"), 1),
        (("proof",), None),
        (("more",), 1),
    ],
)
def test_an_invalid_value_is_named(place, value):
    data = json.loads(FULL.to_json())
    part = data
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    with pytest.raises(InputError) as raised:
        parse_record(json.dumps(data), PATH)
    assert (raised.value.path or "").startswith(PATH) and str(place[0]) in raised.value.path


@pytest.mark.parametrize("text", ["", "{half", "[]"])
def test_a_damaged_file(text):
    with pytest.raises(InputError, match="is not a record of a VM"):
        parse_record(text, PATH)


def test_a_missing_value_and_a_newer_version():
    data = json.loads(FULL.to_json())
    with pytest.raises(RefusedError, match="schema"):
        parse_record(json.dumps({**data, "schema": 99}), PATH)
    del data["epoch"]
    with pytest.raises(InputError, match="is missing") as raised:
        parse_record(json.dumps(data), PATH)
    assert raised.value.path == f"{PATH}.epoch"
