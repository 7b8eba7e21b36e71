# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requested objects of RabbitMQ compared with its definitions."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_schema import (
    SchemaPlan,
    contents,
    parse,
    password_hash,
    plan,
    same_password,
)

SALT = b"salt"
#: A hash that RabbitMQ 3.10 itself made of "guest".
GUEST = {"name": "guest", "password_hash": "jREZue5Gi7PgsxQ4GkcF9HO9YdgMCP5oDIMppxUyUXtjrFD+", "hashing_algorithm": "rabbit_password_hashing_sha256"}
FRESH: dict[str, t.Any] = {
    "rabbitmq_version": "3.10.8",
    "users": [{**GUEST, "tags": ["administrator"], "limits": {}}],
    "vhosts": [{"name": "/", "limits": [], "metadata": {"description": "Default virtual host", "tags": []}}],
    "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    "policies": [], "queues": [], "exchanges": [], "bindings": [],
}
WANTED: dict[str, t.Any] = {
    "vhosts": [{"name": "rpc", "default_queue_type": None}, {"name": "notes", "default_queue_type": "quorum"}],
    "users": [{"name": "shop", "password": "opensesame", "tags": ["monitoring"], "permissions": [{"vhost": "rpc", "read": "^a"}, {"vhost": "/"}]}],
    "policies": [{"name": "short", "vhost": "rpc", "pattern": None, "apply_to": None, "priority": None, "definition": {"expires": 1000}}],
    "queues": [{"name": "info", "vhost": "notes", "type": None, "arguments": {"x-max-length": 5}}],
    "absent": ["guest", "former"],
}


def planned(there: dict[str, t.Any], **changes: t.Any) -> SchemaPlan:
    return plan(parse(**{**copy.deepcopy(WANTED), **changes}), there, lambda: SALT)


def imported(there: dict[str, t.Any], what: SchemaPlan) -> dict[str, t.Any]:
    """What the server has after the import, as it would export it."""
    keys = {"vhosts": ("name",), "users": ("name",), "permissions": ("user", "vhost"), "policies": ("vhost", "name"), "queues": ("vhost", "name")}
    after = copy.deepcopy(there)
    for kind, entries in what.definitions.items():
        for entry in entries:
            same = [old for old in after[kind] if all(old[key] == entry[key] for key in keys[kind])]
            after[kind] = [old for old in after[kind] if old not in same] + [{**(same[0] if same else {}), **entry}]
    after["users"] = [user for user in after["users"] if user["name"] not in what.delete_users]
    return after


def test_all_of_it_is_missing() -> None:
    found = planned(FRESH)
    assert found.actions == (
        "create virtual host rpc",
        "create virtual host notes",
        "create user shop",
        "set permissions of shop in rpc",
        "set permissions of shop in /",
        "set policy short in rpc",
        "declare quorum queue info in notes",
        "delete user guest",
    )
    assert found.delete_users == ("guest",)
    assert found.definitions["permissions"][0] == {"user": "shop", "vhost": "rpc", "configure": ".*", "write": ".*", "read": "^a"}
    assert found.definitions["queues"][0]["arguments"] == {"x-queue-type": "quorum", "x-max-length": 5}
    assert "opensesame" not in json.dumps(found.definitions) + "".join(found.actions)


@pytest.mark.parametrize("version", ["3.10.8", "3.11.0", "4.0.5"])
def test_a_second_time_nothing_is_left_to_do(version: str) -> None:
    there = {**FRESH, "rabbitmq_version": version}
    after = imported(there, planned(there))
    again = planned(after)
    assert not again.actions
    assert not again.definitions
    assert not again.delete_users


def test_the_type_of_queues_by_itself() -> None:
    old = planned(FRESH)
    assert "clients of notes must declare quorum queues" in old.warnings[0]
    assert "default_queue_type" not in json.dumps(old.definitions["vhosts"])
    new = planned({**FRESH, "rabbitmq_version": "3.13.1"})
    assert not new.warnings
    assert new.definitions["vhosts"][1]["metadata"]["default_queue_type"] == "quorum"
    there = imported({**FRESH, "rabbitmq_version": "3.13.1"}, planned(FRESH))
    there["rabbitmq_version"] = "3.13.1"
    assert planned(there).actions == ("set the default queue type of notes to quorum",)


@pytest.mark.parametrize(
    ("kind", "change", "action"),
    [
        ("users", {"password": "another"}, "change the password of user shop"),
        ("users", {"tags": []}, "change the tags of user shop"),
        ("policies", {"definition": {"expires": 2000}}, "set policy short in rpc"),
        ("policies", {"pattern": "^reply"}, "set policy short in rpc"),
        ("users", {"permissions": [{"vhost": "rpc", "read": "^a"}, {"vhost": "/", "write": ""}]}, "set permissions of shop in /"),
    ],
)
def test_what_differs_is_changed_alone(kind: str, change: dict[str, t.Any], action: str) -> None:
    there = imported(FRESH, planned(FRESH))
    found = planned(there, **{kind: [{**WANTED[kind][0], **change}]})
    assert found.actions == (action,)
    assert sum(len(entries) for entries in found.definitions.values()) == 1


def test_changed_tags_keep_the_hash() -> None:
    there = imported(FRESH, planned(FRESH))
    found = planned(there, users=[{**WANTED["users"][0], "tags": []}])
    assert found.definitions["users"][0]["password_hash"] == next(user for user in there["users"] if user["name"] == "shop")["password_hash"]


def test_passwords() -> None:
    assert same_password("guest", GUEST)
    assert not same_password("Guest", GUEST)
    assert not same_password("guest", {**GUEST, "hashing_algorithm": "rabbit_password_hashing_md5"})
    assert not same_password("", {"password_hash": ""})
    assert not same_password("x", {"password_hash": "no base64!"})
    assert password_hash("guest", b"\x8d\x11\x19\xb9") == GUEST["password_hash"]


def test_contents_of_a_broker() -> None:
    assert contents(FRESH) == ()
    after = imported(FRESH, planned(FRESH))
    assert contents(after) == ("user shop", "virtual host rpc", "virtual host notes", "queue info")


def test_a_queue_of_another_type_is_refused() -> None:
    there = copy.deepcopy(FRESH)
    there["queues"] = [{"name": "info", "vhost": "notes", "durable": True, "arguments": {}}]
    with pytest.raises(InputError, match=r"queues\[0\]\.type: 'info' already exists as a classic queue"):
        planned(there)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vhosts": [{"name": ""}]}, r"vhosts\[0\]\.name: '' is not a valid name"),
        ({"vhosts": [{"name": "a"}, {"name": "a"}]}, r"vhosts\[1\]\.name: 'a' is listed twice"),
        ({"vhosts": [{"name": "a", "default_queue_type": "mirrored"}]}, r"vhosts\[0\]\.default_queue_type: 'mirrored'"),
        ({"users": [{"name": "x", "password": ""}]}, r"users\[0\]\.password: is missing"),
        ({"users": [{"name": "x\n", "password": "p"}]}, r"users\[0\]\.name"),
        ({"users": [{"name": "-x", "password": "p"}]}, r"users\[0\]\.name"),
        ({"users": [{"name": "x", "password": "p", "permissions": [{"vhost": "nowhere"}]}]}, r"users\[0\]\.permissions\[0\]\.vhost: 'nowhere' is not one"),
        ({"users": [{"name": "x", "password": "p", "permissions": [{"vhost": "rpc", "read": "("}]}]}, r"permissions\[0\]\.read: '\(' is not a valid regular"),
        ({"users": [{"name": "x", "password": "p", "permissions": [{"vhost": "rpc"}, {"vhost": "rpc"}]}]}, r"permissions\[1\]\.vhost: 'rpc' is listed twice"),
        ({"policies": [{"name": "p", "vhost": "nowhere", "definition": {"a": 1}}]}, r"policies\[0\]\.vhost: 'nowhere' is not one of the virtual hosts"),
        ({"policies": [{"name": "p", "vhost": "rpc", "definition": {}}]}, r"policies\[0\]\.definition"),
        ({"policies": [{"name": "p", "vhost": "rpc", "apply_to": "all of it", "definition": {"a": 1}}]}, r"policies\[0\]\.apply_to"),
        ({"queues": [{"name": "q", "vhost": "rpc", "type": "mirrored"}]}, r"queues\[0\]\.type: 'mirrored'"),
        ({"absent": ["shop"]}, r"absent_users: 'shop' is in both users and absent_users"),
    ],
)
def test_bad_input(change: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        planned(FRESH, **change)
    assert refused.value.hint
    assert "opensesame" not in str(refused.value)
