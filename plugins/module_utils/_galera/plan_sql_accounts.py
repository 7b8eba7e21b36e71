# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare requested with existing databases and accounts of MariaDB and return the missing SQL, without I/O."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

_NAME = re.compile(r"\A[A-Za-z0-9_$.-]{1,64}\Z")
_HOST = re.compile(r"\A[A-Za-z0-9_.:%/-]{1,255}\Z")
_PRIVILEGE = re.compile(r"\A[A-Z]+( [A-Z]+)*\Z")
_GRANT = re.compile(r"\AGRANT (?P<privileges>.+?) ON (?P<scope>\S+) TO ")
_ALL = "ALL PRIVILEGES"
# an option of a grant: MariaDB accepts and shows it behind the account only, and ALL does not contain it
_OPTION = "GRANT OPTION"


@dataclasses.dataclass(frozen=True)
class Account:
    """A requested user. Without a password, only the system user of that name can log in (unix_socket).

    :arg require_tls: reject logins without TLS.
    """

    name: str
    host: str
    password: str | None
    privileges: t.Mapping[str, tuple[str, ...]]
    require_tls: bool = False

    @property
    def label(self) -> str:
        """Return the account in MariaDB's notation, for messages."""
        return f"{self.name}@{self.host}"


@dataclasses.dataclass(frozen=True)
class Existing:
    """An existing user: authentication plugin, password hash, lines of SHOW GRANTS, and whether TLS is required."""

    plugin: str
    hashed: str
    grants: tuple[str, ...]
    requires_tls: bool = False


@dataclasses.dataclass(frozen=True)
class Statement:
    """An SQL statement and its description; only ``what`` may be shown, ``sql`` may contain secrets."""

    what: str
    sql: str


def parse_databases(value: t.Any, path: str = "databases") -> tuple[str, ...]:
    """Validate database names.

    :raises InputError: invalid name.
    """
    names = tuple(value or ())
    for index, name in enumerate(names):
        if not isinstance(name, str) or not _NAME.match(name):
            raise InputError(f"{name!r} is not a valid database name.", f"{path}[{index}]", "Use letters, digits, _, $, . and -.")
    return names


def parse_accounts(value: t.Any, path: str = "users") -> tuple[Account, ...]:
    """Validate users and their privileges by scope (``database.*``, ``database.table`` or ``*.*``).

    :raises InputError: with the path of the invalid value; never contains a password.
    """
    accounts = []
    for index, entry in enumerate(value or ()):
        here = f"{path}[{index}]"
        name, host = entry.get("name"), entry.get("host") or "%"
        if not isinstance(name, str) or not _NAME.match(name):
            raise InputError(f"{name!r} is not a valid user name.", f"{here}.name", "Use letters, digits, _, $, . and -.")
        if not isinstance(host, str) or not _HOST.match(host):
            raise InputError(f"{host!r} is not a valid host.", f"{here}.host", "Use % for all hosts, an address, or a name.")
        if not entry.get("password") and host != "localhost":
            raise InputError("is missing.", f"{here}.password", "Set a password; only users of the host localhost can log in without one.")
        privileges = {}
        for scope, wanted in (entry.get("privileges") or {}).items():
            where = f"{here}.privileges[{scope}]"
            wanted = wanted.split(",") if isinstance(wanted, str) else wanted
            names = tuple(_ALL if word.strip().upper() == "ALL" else word.strip().upper() for word in wanted)
            bad = [word for word in names if not _PRIVILEGE.match(word)]
            if bad:
                raise InputError(f"{bad[0]!r} is not a valid privilege.", where, "Use for example ALL, or SELECT, INSERT.")
            if "GRANT" in names:
                raise InputError("'GRANT' is not a valid privilege.", where, f"Use {_OPTION}.")
            privileges[_scope(str(scope), where)] = names
        accounts.append(Account(name, host, entry.get("password"), privileges, bool(entry.get("require_tls"))))
    return tuple(accounts)


def _scope(scope: str, path: str) -> str:
    """Convert a scope to the notation of SHOW GRANTS."""
    database, dot, table = scope.partition(".")
    if not dot or (database != "*" and not _NAME.match(database)) or (table != "*" and not _NAME.match(table)):
        raise InputError(f"{scope!r} is not a valid scope.", path, "Use database.*, database.table or *.*.")
    if database == "*":
        return "*.*"
    if table == "*":
        # in a grant on a whole database, an unescaped _ matches any character
        return f"{identifier(database.replace('_', chr(92) + '_'))}.*"
    return f"{identifier(database)}.{identifier(table)}"


def identifier(name: str) -> str:
    """Quote an identifier."""
    return "`" + name.replace("`", "``") + "`"


def text(value: str) -> str:
    """Quote a string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def account(item: Account) -> str:
    """Quote an account."""
    return f"{text(item.name)}@{text(item.host)}"


def native_hash(password: str) -> str:
    """Return the hash that mysql_native_password stores for a password."""
    return "*" + hashlib.sha1(hashlib.sha1(password.encode("utf-8")).digest()).hexdigest().upper()


def plan(
    databases: t.Sequence[str],
    accounts: t.Sequence[Account],
    there: t.Collection[str],
    existing: t.Mapping[str, Existing],
) -> tuple[Statement, ...]:
    """Return the statements that create what is missing. Nothing is ever dropped or revoked.

    :arg there: existing databases.
    :arg existing: existing users by label.
    """
    statements = [Statement(f"create database {name}", f"CREATE DATABASE IF NOT EXISTS {identifier(name)}") for name in databases if name not in there]
    for item in accounts:
        statements.extend(_account(item, existing.get(item.label)))
    return tuple(statements)


def _account(item: Account, there: Existing | None) -> t.Iterator[Statement]:
    how = f"IDENTIFIED BY {text(item.password)}" if item.password else "IDENTIFIED VIA unix_socket"
    if there is None:
        yield Statement(f"create user {item.label}", f"CREATE USER IF NOT EXISTS {account(item)} {how}")
    elif not _same_login(item, there):
        yield Statement(f"change authentication of {item.label}", f"ALTER USER {account(item)} {how}")
    if item.require_tls and not (there and there.requires_tls):
        yield Statement(f"require TLS for {item.label}", f"ALTER USER {account(item)} REQUIRE SSL")
    granted: dict[str, set[str]] = {}
    for line in there.grants if there else ():
        found = _GRANT.match(line)
        if found:
            words = {word.strip() for word in found.group("privileges").split(",")}
            granted.setdefault(found.group("scope"), set()).update(words | ({_OPTION} if line.rstrip().endswith(f" WITH {_OPTION}") else set()))
    for scope, wanted in item.privileges.items():
        has = granted.get(scope, set())
        missing = [word for word in wanted if word not in has and (word == _OPTION or _ALL not in has)]
        if missing:
            words = ", ".join(word for word in missing if word != _OPTION) or "USAGE"
            option = f" WITH {_OPTION}" if _OPTION in missing else ""
            yield Statement(f"grant {', '.join(missing)} on {scope} to {item.label}", f"GRANT {words} ON {scope} TO {account(item)}{option}")


def _same_login(item: Account, there: Existing) -> bool:
    if item.password:
        return there.plugin in ("", "mysql_native_password") and there.hashed == native_hash(item.password)
    return there.plugin == "unix_socket"
