# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create the databases and users of a service in a Galera cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_sql_accounts import (
    Account,
    Existing,
    account,
    parse_accounts,
    parse_databases,
    plan,
)


def ensure_schema(databases: t.Any, users: t.Any, unit: str, *, check_mode: bool) -> Changes:
    """Call :func:`ensure` with the server of this host."""
    return ensure(databases, users, MariaDb(unit), check_mode=check_mode)


def ensure(databases: t.Any, users: t.Any, database: MariaDb, *, check_mode: bool) -> Changes:
    """Create missing databases, users and grants.

    :raises InputError: invalid name or privilege.
    :raises CommandError: the server does not answer or reports an error.
    """
    names, accounts = parse_databases(databases), parse_accounts(users)
    try:
        there, existing = _read(accounts, database)
    except CommandError:
        if not check_mode or database.status() is not None:
            raise
        # the server does not exist before the first run: everything would be created
        there, existing = (), {}
    statements = plan(names, accounts, there, existing)
    if not check_mode:
        for statement in statements:
            database.query(f"SET SESSION sql_mode = ''; {statement.sql};")
    return Changes(tuple(statement.what for statement in statements))


def _read(accounts: t.Sequence[Account], database: MariaDb) -> tuple[tuple[str, ...], dict[str, Existing]]:
    there = tuple(row[0] for row in database.query("SELECT schema_name FROM information_schema.schemata;"))
    rows = database.query(
        "SELECT CONCAT(user, '@', host), COALESCE(JSON_VALUE(Priv, '$.plugin'), ''), "
        "COALESCE(JSON_VALUE(Priv, '$.authentication_string'), ''), COALESCE(JSON_VALUE(Priv, '$.ssl_type'), '0') FROM mysql.global_priv;"
    )
    logins = {row[0]: (row[1], row[2] if len(row) > 2 else "") for row in rows}
    # the server stores REQUIRE SSL as 1, and a required certificate as a higher number
    encrypted = {row[0] for row in rows if len(row) > 3 and row[3] != "0"}
    existing = {}
    for item in accounts:
        if item.label in logins:
            # --batch doubles backslashes in its output
            lines = tuple(row[0].replace("\\\\", "\\") for row in database.query(f"SHOW GRANTS FOR {account(item)};"))
            existing[item.label] = Existing(*logins[item.label], grants=lines, requires_tls=item.label in encrypted)
    return there, existing
