# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Databases and accounts as SQL."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_sql_accounts import (
    Existing,
    native_hash,
    parse_accounts,
    parse_databases,
    plan,
)

SECRET = "it's \\ a secret"
USERS = [{"name": "app", "password": SECRET, "privileges": {"foot_print.*": "ALL", "other.t": ["select", "Insert"]}}]


def test_everything_is_missing():
    statements = plan(["foot_print"], parse_accounts(USERS), ["mysql"], {})
    assert [statement.sql for statement in statements] == [
        "CREATE DATABASE IF NOT EXISTS `foot_print`",
        "CREATE USER IF NOT EXISTS 'app'@'%' IDENTIFIED BY 'it''s \\\\ a secret'",
        "GRANT ALL PRIVILEGES ON `foot\\_print`.* TO 'app'@'%'",
        "GRANT SELECT, INSERT ON `other`.`t` TO 'app'@'%'",
    ]
    assert SECRET not in "".join(statement.what for statement in statements)


def test_everything_is_there():
    there = Existing(
        "mysql_native_password",
        native_hash(SECRET),
        (
            "GRANT USAGE ON *.* TO `app`@`%` IDENTIFIED BY PASSWORD '*X'",
            "GRANT ALL PRIVILEGES ON `foot\\_print`.* TO `app`@`%`",
            "GRANT SELECT, INSERT, UPDATE ON `other`.`t` TO `app`@`%`",
        ),
    )
    assert plan(["foot_print"], parse_accounts(USERS), ["foot_print"], {"app@%": there}) == ()


def test_grant_option_is_an_option_of_the_statement():
    users = parse_accounts([{"name": "kolla", "password": "x", "privileges": {"*.*": "ALL, GRANT OPTION"}}])
    assert plan([], users, [], {})[-1].sql == "GRANT ALL PRIVILEGES ON *.* TO 'kolla'@'%' WITH GRANT OPTION"
    # ALL does not contain it
    grants = ("GRANT ALL PRIVILEGES ON *.* TO `kolla`@`%` IDENTIFIED BY PASSWORD '*X'",)
    there = Existing("mysql_native_password", native_hash("x"), grants)
    assert [one.sql for one in plan([], users, [], {"kolla@%": there})] == ["GRANT USAGE ON *.* TO 'kolla'@'%' WITH GRANT OPTION"]
    there = Existing("mysql_native_password", native_hash("x"), (f"{grants[0]} WITH GRANT OPTION",))
    assert plan([], users, [], {"kolla@%": there}) == ()


def test_what_differs():
    there = Existing("mysql_native_password", native_hash("old"), ("GRANT SELECT ON `other`.`t` TO `app`@`%`",))
    assert [statement.what for statement in plan([], parse_accounts(USERS), [], {"app@%": there})] == [
        "change authentication of app@%",
        "grant ALL PRIVILEGES on `foot\\_print`.* to app@%",
        "grant INSERT on `other`.`t` to app@%",
    ]


@pytest.mark.parametrize(
    ("there", "statements"),
    [
        (None, ["create user app@%", "require TLS for app@%"]),
        (Existing("mysql_native_password", native_hash("x"), ()), ["require TLS for app@%"]),
        (Existing("mysql_native_password", native_hash("x"), (), True), []),
    ],
)
def test_require_tls_is_set_and_never_removed(there, statements):
    users = parse_accounts([{"name": "app", "password": "x", "require_tls": True}])
    existing = {"app@%": there} if there else {}
    found = plan([], users, [], existing)
    assert [one.what for one in found] == statements
    assert not found or found[-1].sql == "ALTER USER 'app'@'%' REQUIRE SSL"
    assert plan([], parse_accounts([{"name": "app", "password": "x"}]), [], {"app@%": Existing("mysql_native_password", native_hash("x"), (), True)}) == ()


def test_local_users_do_without_a_password():
    users = parse_accounts([{"name": "look", "host": "localhost"}])
    assert plan([], users, [], {})[0].sql.endswith("'look'@'localhost' IDENTIFIED VIA unix_socket")
    assert plan([], users, [], {"look@localhost": Existing("unix_socket", "", ())}) == ()


def test_native_hash():
    # the example of MariaDB's documentation of PASSWORD()
    assert native_hash("notagoodpwd") == "*3A70EE9FC6594F88CE9E959CD51C5A1C002DC937"


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ([{"name": "a;b"}], r"users\[0\].name: 'a;b'"),
        ([{"name": "a", "password": "x", "host": "h'"}], r"users\[0\].host"),
        ([{"name": "a"}], r"users\[0\].password: is missing"),
        ([{"name": "a", "password": "x", "privileges": {"d": "ALL"}}], r"users\[0\].privileges\[d\]: 'd' is not a valid scope"),
        ([{"name": "a", "password": "x", "privileges": {"d.*": "ALL; DROP"}}], "is not a valid privilege"),
        ([{"name": "a", "password": "x", "privileges": {"*.*": "ALL, GRANT"}}], r"users\[0\].privileges\[\*.\*\]: 'GRANT' is not .* Use GRANT OPTION"),
    ],
)
def test_bad_users(users, message):
    with pytest.raises(InputError, match=message):
        parse_accounts(users)


def test_bad_database():
    with pytest.raises(InputError, match=r"databases\[0\]: 'a`b'"):
        parse_databases(["a`b"])
