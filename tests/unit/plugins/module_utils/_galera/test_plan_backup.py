# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backups: choice of the member, metadata, retention, server compatibility."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import (
    Backup,
    backup_name,
    check_server,
    choose_member,
    parse_backup,
    parse_note,
    superfluous,
)
from hypothesis import given
from hypothesis import strategies as st

UUID = "aaaaaaaa-0000-11ef-8000-000000000001"
ONE = Backup(
    name="lab-20261122T021500Z",
    file="lab-20261122T021500Z.mbs.zst",
    cluster="lab",
    member="metal3",
    made="20261122T021500Z",
    server="10.11.6-MariaDB-0+deb12u1",
    compression="zstd",
    sha256="0" * 64,
    bytes=1234,
    uuid=UUID,
    seqno=17,
    gtid="0-1-17",
    databases=("app", "shop"),
)


def ready(clients=0):
    return {"ready": True, "clients": clients}


def ill(*why):
    return {"ready": False, "clients": 0, "problems": list(why)}


@pytest.mark.parametrize(
    ("looks", "wanted", "chosen"),
    [
        ({"a": ready(9), "b": ready(0), "c": ready(1)}, None, "b"),
        ({"a": ready(9), "b": ready(0), "c": ready(0)}, None, "c"),
        ({"a": ready(9), "b": None, "c": ill("x")}, None, "a"),
        ({"a": ready(9), "b": ready(0)}, "a", "a"),
        ({"a": ready(9), "b": {}, "c": ready(3)}, "", "c"),
    ],
)
def test_choice(looks, wanted, chosen):
    assert choose_member(looks, wanted) == chosen


def test_of_two_components_one_has_to_be_named():
    looks = {name: {**ready(), "primary": True, "cluster_uuid": "u", "node": name, "view": [name], "seqno": 4} for name in "ab"}
    with pytest.raises(RefusedError, match="there are 2 Primary Components of the cluster u at once"):
        choose_member(looks)
    assert choose_member(looks, "b") == "b"


@pytest.mark.parametrize(
    ("looks", "wanted", "words"),
    [
        ({"a": None, "b": ill("x")}, None, "no member is Primary and Synced"),
        ({}, None, "no member is Primary"),
        ({"a": ready()}, "z", "galera_backup_member: z is not among the members a"),
        ({"a": ready(), "b": ill("it is Joined")}, "b", "b is not ready: it is Joined"),
        ({"a": ready(), "b": None}, "b", "b is not ready: it does not answer"),
    ],
)
def test_a_member_that_is_not_ready_is_refused(looks, wanted, words):
    with pytest.raises(RefusedError, match=words):
        choose_member(looks, wanted)


def test_what_is_noted_is_read_again():
    assert parse_note(ONE.note(), "x") == ONE
    assert parse_backup(ONE.as_dict(), "x") == ONE


def test_the_room_for_a_restore():
    # metadata of an earlier version does not have the size of the unpacked data
    content = {key: value for key, value in ONE.as_dict().items() if key != "unpacked_bytes"}
    assert parse_backup(content, "x").room == 2 * ONE.bytes
    assert parse_backup({**content, "unpacked_bytes": 100_000}, "x").room == 110_000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": None}, r"x: invalid backup metadata, expected a mapping with format"),
        ({"bytes": "many"}, r"x\.bytes: expected int, got 'many'"),
        ({"bytes": True}, r"x\.bytes: expected int, got True"),
        ({"seqno": None}, r"x\.seqno: expected int, got None"),
        ({"databases": "app"}, r"x\.databases: expected list, got 'app'"),
        ({"name": "../../etc/passwd"}, r"x\.name: '../../etc/passwd' is not valid as part of a file name"),
        ({"file": "a/b"}, r"x\.file"),
        ({"cluster": ""}, r"x\.cluster"),
        ({"compression": "sh"}, r"x\.compression: expected one of zstd, gzip, got 'sh'"),
        ({"sha256": "0"}, r"x\.sha256"),
        ({"made": "yesterday"}, r"x\.made"),
    ],
)
def test_invalid_metadata_is_refused_with_its_path(change, words):
    with pytest.raises(InputError, match=words):
        parse_backup({**ONE.as_dict(), **change}, "x")


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Backup) if field.default is dataclasses.MISSING])
def test_what_is_missing_is_named(field):
    content = ONE.as_dict()
    del content[field]
    with pytest.raises(InputError, match=rf"x\.{field}: is missing"):
        parse_backup(content, "x")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_no_note_crashes(content):
    with pytest.raises(FootprintError):
        parse_note(json.dumps(content), "x")


def test_no_json():
    with pytest.raises(InputError, match="note: invalid backup metadata"):
        parse_note("{", "note")


def test_names():
    assert backup_name("lab", "20261122T021500Z") == "lab-20261122T021500Z"
    for bad in ("", ".", "a/b", "-a", "a b", None, "ä"):
        with pytest.raises(InputError, match="cluster: "):
            backup_name(bad, "20261122T021500Z")


def at(number, cluster="lab"):
    made = f"202611{number:02d}T000000Z"
    return dataclasses.replace(ONE, name=f"{cluster}-{made}", made=made, cluster=cluster)


def test_the_newest_are_kept_each_cluster_by_itself():
    there = [at(3), at(1), at(2), at(1, "other")]
    assert superfluous(there, at(3), 2) == (at(1),)
    assert superfluous(there, at(3), 1) == (at(1), at(2))
    assert superfluous(there, at(3), 3) == superfluous(there, at(3), 0) == superfluous(there, at(3, "third"), 1) == ()


def test_the_last_backup_is_kept_although_the_clock_was_set_back():
    there = [at(1), at(2), at(26), at(27), at(3)]
    assert superfluous(there, at(3), 2) == (at(1),)
    assert superfluous([at(26), at(27), at(3)], at(3), 2) == ()


@given(st.lists(st.integers(1, 28), unique=True), st.integers(0, 5))
def test_never_the_newest_and_never_more_than_asked(days, keep):
    doomed = superfluous([at(day) for day in days], at(max(days, default=1)), keep)
    assert len(doomed) == (max(0, len(days) - keep) if keep else 0)
    assert not keep or at(max(days, default=1)) not in doomed


@pytest.mark.parametrize("version", ["10.11.19-MariaDB", "10.11.1"])
def test_the_same_series_takes_it(version):
    check_server(ONE, version)


@pytest.mark.parametrize("version", ["", "11.4.2-MariaDB", "10.6.12", "8.0"])
def test_another_series_does_not(version):
    with pytest.raises(RefusedError, match=r"the backup is from MariaDB 10\.11\.6"):
        check_server(ONE, version)
