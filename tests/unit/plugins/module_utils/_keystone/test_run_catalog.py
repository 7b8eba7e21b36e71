# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The account and the endpoints of a service, against an identity service that is a few dictionaries."""

from __future__ import annotations

import itertools
import typing as t
import urllib.parse

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.io_keystone import NotAnswering
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_catalog import Catalog, ensure_all, wanted

RAW = {"name": "glance", "type": "image", "description": "Images", "region": "one", "public_url": "https://192.0.2.20:9292", "project": "service"}
WANTED = wanted({**RAW, "roles": ["admin", "service"]})
LOGIN = ("admin", "adminpw", "admin")


class Identity:
    """Answers like keystone's API. ``deaf``: accepts changes without doing them."""

    def __init__(self) -> None:
        self.ids = itertools.count()
        self.kinds: dict[str, list[dict[str, t.Any]]] = {"projects": [], "users": [], "services": [], "endpoints": []}
        self.roles = [{"id": "r-admin", "name": "admin"}]
        self.assigned: set[tuple[str, str, str]] = set()
        self.passwords: dict[str, str] = {}
        self.deaf = False
        self.changes = 0

    def token_id(self, username: str, password: str, project: str) -> str | None:
        return "TOKEN" if (username, password, project) == LOGIN else None

    def token(self, username: str, password: str, project: str) -> dict[str, t.Any] | None:
        return {} if self.passwords.get(username) == password else None

    def call(self, method: str, path: str, token: str, body: t.Any = None) -> t.Any:
        assert token == "TOKEN"
        place, unused, query = path.strip("/").partition("?")
        words = place.split("/")
        if method == "GET":
            assert path.isascii() and " " not in path
            return self._get(words, dict(urllib.parse.parse_qsl(query, strict_parsing=bool(query))))
        self.changes += 1
        if self.deaf:
            return {}
        if words[-2:-1] == ["roles"]:
            self.assigned.add((words[1], words[3], words[5]))
            return {}
        (value,) = body.values()
        value = dict(value)
        if words[0] == "roles":
            self.roles.append({"id": f"r-{value['name']}", **value})
        elif method == "POST":
            value["id"] = f"{words[0]}{next(self.ids)}"
            self.kinds[words[0]].append(value)
        else:
            next(one for one in self.kinds[words[0]] if one["id"] == words[1]).update(value)
        if "password" in value:
            name = next(one for one in self.kinds["users"] if one["id"] in (value.get("id"), words[-1]))["name"]
            self.passwords[name] = value["password"]
        return {}

    def _get(self, words: list[str], query: dict[str, str]) -> t.Any:
        if words == ["roles"]:
            return {"roles": self.roles}
        if words[-1] == "roles":
            return {"roles": [role for role in self.roles if (words[1], words[3], role["id"]) in self.assigned]}
        return {words[0]: [one for one in self.kinds[words[0]] if all(one.get(key) == value for key, value in query.items())]}


def run(identity: Identity, password: str = "pw", check_mode: bool = False, account: t.Any = WANTED) -> tuple[str, ...]:
    return ensure_all([(account, password)], lambda: Catalog(t.cast(t.Any, identity), LOGIN), check_mode=check_mode)


def test_everything_is_created_once() -> None:
    identity = Identity()
    first = run(identity)
    assert first[0] == "create the project service" and "create the role service" in first
    assert [one["interface"] for one in identity.kinds["endpoints"]] == ["public", "internal", "admin"]
    assert {one["service_id"] for one in identity.kinds["endpoints"]} == {identity.kinds["services"][0]["id"]}
    before = identity.changes
    assert run(identity) == () and identity.changes == before


def test_check_mode_returns_the_changes_of_a_real_run() -> None:
    identity = Identity()
    expected = run(identity, check_mode=True)
    assert identity.changes == 0
    assert set(expected) == set(run(identity))


def test_changed_password_address_and_description() -> None:
    identity = Identity()
    run(identity)
    assert run(identity, "other") == ("set the password of glance",)
    moved = wanted({**RAW, "roles": ["admin", "service"], "public_url": "https://images.example.com:9292", "description": "Other"})
    found = run(identity, "other", account=moved)
    assert len(found) == 4 and found[0].startswith("change the name") and "was https://192.0.2.20:9292" in found[1]
    assert len(identity.kinds["endpoints"]) == 3 and run(identity, "other", account=moved) == ()


def test_account_without_entries_in_the_catalog() -> None:
    identity = Identity()
    run(identity, account=wanted({**RAW, "type": None, "roles": ["admin"]}))
    assert not identity.kinds["services"] and identity.kinds["users"]


def test_several_accounts_with_one_login() -> None:
    identity, logins = Identity(), []
    accounts = [(WANTED, "pw"), (wanted({**RAW, "name": "nova", "type": "compute", "roles": ["service"]}), "other")]

    def connect() -> Catalog:
        logins.append(1)
        return Catalog(t.cast(t.Any, identity), LOGIN)

    found = ensure_all(accounts, connect, check_mode=False)
    assert found.count("create the project service") == 1 and len(logins) == 1
    assert {one["name"] for one in identity.kinds["users"]} == {"glance", "nova"} and identity.passwords["nova"] == "other"
    identity.passwords["nova"] = "changed"
    assert ensure_all(accounts, connect, check_mode=True) == ("set the password of nova",)


def test_change_without_effect_is_an_error() -> None:
    identity = Identity()
    identity.deaf = True
    with pytest.raises(BackendError, match="had no effect"):
        run(identity)


def test_wrong_password_of_the_administrator() -> None:
    with pytest.raises(BackendError, match="password of admin is not valid"):
        ensure_all([(WANTED, "pw")], lambda: Catalog(t.cast(t.Any, Identity()), ("admin", "no", "admin")), check_mode=False)


def test_waits_for_keystone_but_not_in_check_mode() -> None:
    answers: list[t.Any] = [NotAnswering("no"), NotAnswering("no")]
    identity = Identity()

    def connect() -> Catalog:
        if answers:
            raise answers.pop()
        return Catalog(t.cast(t.Any, identity), LOGIN)

    assert ensure_all([(WANTED, "pw")], connect, check_mode=True)[0] == "create the project service"
    assert ensure_all([(WANTED, "pw")], connect, check_mode=False, sleep=lambda seconds: None)
    with pytest.raises(NotAnswering):
        ensure_all([(WANTED, "pw")], lambda: (unused for unused in ()).throw(NotAnswering("no")), check_mode=False, wait_timeout=2, sleep=lambda seconds: None)


def test_names_are_part_of_the_query_whatever_their_characters() -> None:
    identity = Identity()
    account = wanted({**RAW, "roles": ["admin"], "project": "services & more", "name": "glänce=1"})
    assert run(identity, account=account)
    assert [one["name"] for one in identity.kinds["projects"]] == ["services & more"]
    assert run(identity, account=account) == ()
