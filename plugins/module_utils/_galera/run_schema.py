# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the databases and users a service needs, once in the whole Galera cluster."""

from __future__ import annotations

import dataclasses
import typing as t

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


@dataclasses.dataclass(frozen=True)
class SchemaResult:
    """What was done, or in check mode would be, in words without secrets."""

    changed: bool
    actions: tuple[str, ...]


def ensure_schema(databases: t.Any, users: t.Any, unit: str, *, check_mode: bool) -> SchemaResult:
    """:func:`ensure` with the server of this host."""
    return ensure(databases, users, MariaDb(unit), check_mode=check_mode)


def ensure(databases: t.Any, users: t.Any, database: MariaDb, *, check_mode: bool) -> SchemaResult:
    """Create what is missing.

    :raises InputError: a bad name or privilege.
    :raises CommandError: the server does not answer or refuses.
    """
    names, accounts = parse_databases(databases), parse_accounts(users)
    try:
        there, existing = _read(accounts, database)
    except CommandError:
        if not check_mode or database.status() is not None:
            raise
        # before the first run there is no server to ask: all of it would be created
        there, existing = (), {}
    statements = plan(names, accounts, there, existing)
    if not check_mode:
        for statement in statements:
            database.query(f"SET SESSION sql_mode = ''; {statement.sql};")
    return SchemaResult(bool(statements), tuple(statement.what for statement in statements))


def _read(accounts: t.Sequence[Account], database: MariaDb) -> tuple[tuple[str, ...], dict[str, Existing]]:
    there = tuple(row[0] for row in database.query("SELECT schema_name FROM information_schema.schemata;"))
    rows = database.query(
        "SELECT CONCAT(user, '@', host), COALESCE(JSON_VALUE(Priv, '$.plugin'), ''), "
        "COALESCE(JSON_VALUE(Priv, '$.authentication_string'), ''), COALESCE(JSON_VALUE(Priv, '$.ssl_type'), '0') FROM mysql.global_priv;"
    )
    logins = {row[0]: (row[1], row[2] if len(row) > 2 else "") for row in rows}
    # the server notes any TLS as 1, and a certificate it asks for as more
    encrypted = {row[0] for row in rows if len(row) > 3 and row[3] != "0"}
    existing = {}
    for item in accounts:
        if item.label in logins:
            # --batch doubles the backslashes of what it prints
            lines = tuple(row[0].replace("\\\\", "\\") for row in database.query(f"SHOW GRANTS FOR {account(item)};"))
            existing[item.label] = Existing(*logins[item.label], grants=lines, requires_tls=item.label in encrypted)
    return there, existing
