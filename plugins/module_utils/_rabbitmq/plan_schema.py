# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare requested with existing virtual hosts, users, permissions, policies and queues of RabbitMQ, without I/O.

The result is in RabbitMQ's definitions format, contains only what is missing or differs, and is imported in one step.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

_NAME = re.compile(r"\A(?!-)[^\x00-\x1f\x7f]{1,255}\Z")
_HASHING = "rabbit_password_hashing_sha256"
#: First RabbitMQ version whose virtual hosts have a default queue type.
DEFAULT_TYPE_SINCE = (3, 11)
_FOR = ("queues", "exchanges", "all", "quorum_queues", "classic_queues", "streams")
_TYPES = ("quorum", "classic", "stream")
_SCOPES = ("configure", "write", "read")


@dataclasses.dataclass(frozen=True)
class Schema:
    """The validated request. Entries are in the server's definitions format; users have a ``password``."""

    vhosts: tuple[dict[str, t.Any], ...] = ()
    users: tuple[dict[str, t.Any], ...] = ()
    permissions: tuple[dict[str, t.Any], ...] = ()
    policies: tuple[dict[str, t.Any], ...] = ()
    queues: tuple[dict[str, t.Any], ...] = ()
    absent: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class SchemaPlan:
    """The required changes; only ``actions`` and ``warnings`` may be shown, ``definitions`` contain password hashes."""

    actions: tuple[str, ...]
    definitions: dict[str, t.Any]
    delete_users: tuple[str, ...]
    warnings: tuple[str, ...]


def parse(vhosts: t.Any, users: t.Any, policies: t.Any, queues: t.Any, absent: t.Any = ()) -> Schema:
    """Validate the requested schema.

    :raises InputError: with the path of the invalid value; never contains a password.
    """
    places = _vhosts(vhosts)
    known = {place["name"] for place in places} | {"/"}
    people, permissions = _users(users, known)
    unwanted = tuple(_name(name, f"absent_users[{index}]") for index, name in enumerate(absent or ()))
    for person in people:
        if person["name"] in unwanted:
            raise InputError(f"{person['name']!r} is in both users and absent_users.", "absent_users", "Remove it from one of the two.")
    return Schema(places, people, permissions, _policies(policies, known), _queues(queues, known), unwanted)


def _name(value: t.Any, path: str) -> str:
    if not isinstance(value, str) or not _NAME.match(value):
        raise InputError(f"{value!r} is not a valid name.", path, "Use 1 to 255 printable characters, not starting with -.")
    return value


def _once(name: t.Any, seen: set[t.Any], path: str) -> None:
    if name in seen:
        raise InputError(f"{name!r} is listed twice.", path, "List it once.")
    seen.add(name)


def _vhost(value: t.Any, known: t.Collection[str], path: str) -> str:
    name = _name(value, path)
    if name not in known:
        raise InputError(f"{name!r} is not one of the virtual hosts {', '.join(sorted(known))}.", path, "Add it to vhosts, or fix its name.")
    return name


def _vhosts(value: t.Any) -> tuple[dict[str, t.Any], ...]:
    found, seen = [], set()  # type: list[dict[str, t.Any]], set[t.Any]
    for index, entry in enumerate(value or ()):
        here = f"vhosts[{index}]"
        entry = {"name": entry} if isinstance(entry, str) else entry
        name, kind = _name(entry.get("name"), f"{here}.name"), entry.get("default_queue_type")
        _once(name, seen, f"{here}.name")
        if kind not in (None, "", *_TYPES):
            raise InputError(f"{kind!r} is not a valid queue type.", f"{here}.default_queue_type", f"Use one of {', '.join(_TYPES)}.")
        found.append({"name": name, **({"default_queue_type": kind} if kind else {})})
    return tuple(found)


def _users(value: t.Any, known: t.Collection[str]) -> tuple[tuple[dict[str, t.Any], ...], tuple[dict[str, t.Any], ...]]:
    users, permissions, seen = [], [], set()  # type: list[dict[str, t.Any]], list[dict[str, t.Any]], set[t.Any]
    for index, entry in enumerate(value or ()):
        here = f"users[{index}]"
        name = _name(entry.get("name"), f"{here}.name")
        _once(name, seen, f"{here}.name")
        if not isinstance(entry.get("password"), str) or not entry["password"]:
            raise InputError("is missing.", f"{here}.password", "Set a password; lookup('reduced.footprint.secret', …) generates one.")
        tags = [_name(tag, f"{here}.tags[{place}]") for place, tag in enumerate(entry.get("tags") or ())]
        users.append({"name": name, "password": entry["password"], "tags": sorted(tags)})
        places: set[t.Any] = set()
        for number, grant in enumerate(entry.get("permissions") or ()):
            where = f"{here}.permissions[{number}]"
            vhost = _vhost(grant.get("vhost"), known, f"{where}.vhost")
            _once(vhost, places, f"{where}.vhost")
            patterns = {scope: _pattern(grant.get(scope), f"{where}.{scope}") for scope in _SCOPES}
            permissions.append({"user": name, "vhost": vhost, **patterns})
    return tuple(users), tuple(permissions)


def _pattern(value: t.Any, path: str) -> str:
    value = ".*" if value is None else value
    try:
        re.compile(value)
    except (re.error, TypeError) as error:
        raise InputError(f"{value!r} is not a valid regular expression.", path, "Use for example .* for all names, or an empty string for none.") from error
    return str(value)


def _policies(value: t.Any, known: t.Collection[str]) -> tuple[dict[str, t.Any], ...]:
    found, seen = [], set()  # type: list[dict[str, t.Any]], set[t.Any]
    for index, entry in enumerate(value or ()):
        here = f"policies[{index}]"
        name = _name(entry.get("name"), f"{here}.name")
        vhost = _vhost(entry.get("vhost"), known, f"{here}.vhost")
        _once((vhost, name), seen, f"{here}.name")
        apply_to, definition = entry.get("apply_to") or "queues", entry.get("definition")
        if apply_to not in _FOR:
            raise InputError(f"{apply_to!r} is not supported.", f"{here}.apply_to", f"Use one of {', '.join(_FOR)}.")
        if not isinstance(definition, dict) or not definition:
            raise InputError("must be a mapping that is not empty.", f"{here}.definition", "Use for example {expires: 1800000}.")
        pattern = _pattern(entry.get("pattern"), f"{here}.pattern")
        priority = entry.get("priority") or 0
        found.append({"name": name, "vhost": vhost, "pattern": pattern, "apply-to": apply_to, "priority": int(priority), "definition": definition})
    return tuple(found)


def _queues(value: t.Any, known: t.Collection[str]) -> tuple[dict[str, t.Any], ...]:
    found, seen = [], set()  # type: list[dict[str, t.Any]], set[t.Any]
    for index, entry in enumerate(value or ()):
        here = f"queues[{index}]"
        name = _name(entry.get("name"), f"{here}.name")
        vhost = _vhost(entry.get("vhost"), known, f"{here}.vhost")
        _once((vhost, name), seen, f"{here}.name")
        kind = entry.get("type") or "quorum"
        if kind not in _TYPES:
            raise InputError(f"{kind!r} is not a valid queue type.", f"{here}.type", f"Use one of {', '.join(_TYPES)}.")
        arguments = {**(entry.get("arguments") or {}), "x-queue-type": kind}
        found.append({"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": arguments})
    return tuple(found)


def password_hash(password: str, salt: bytes) -> str:
    """Return the hash that RabbitMQ stores for a password.

    :arg salt: four random bytes.
    """
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode("utf-8")).digest()).decode("ascii")


def same_password(password: str, user: t.Mapping[str, t.Any]) -> bool:
    """Return whether a user in the definitions has this password."""
    if user.get("hashing_algorithm", _HASHING) != _HASHING:
        return False
    try:
        kept = base64.b64decode(str(user.get("password_hash") or ""), validate=True)
    except ValueError:
        return False
    return len(kept) > 4 and password_hash(password, kept[:4]) == user["password_hash"]


def contents(definitions: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """List what a broker has in addition to a fresh one, as text."""
    found = [f"user {user['name']}" for user in definitions.get("users") or () if user.get("name") != "guest"]
    found += [f"virtual host {vhost['name']}" for vhost in definitions.get("vhosts") or () if vhost.get("name") != "/"]
    found += [f"queue {queue['name']}" for queue in definitions.get("queues") or ()]
    found += [f"exchange {exchange['name']}" for exchange in definitions.get("exchanges") or ()]
    return tuple(found)


def _version(definitions: t.Mapping[str, t.Any]) -> tuple[int, ...]:
    text = str(definitions.get("rabbitmq_version") or definitions.get("rabbit_version") or "0.0")
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def plan(schema: Schema, there: t.Mapping[str, t.Any], salt: t.Callable[[], bytes]) -> SchemaPlan:
    """Return what is missing or differs. Nothing is deleted except the users in ``absent``.

    :arg there: the server's definitions.
    :arg salt: returns four new random bytes.
    :raises InputError: a queue exists with another type; it would have to be deleted with its messages.
    """
    actions: list[str] = []
    wanted: dict[str, list[t.Any]] = {"vhosts": [], "users": [], "permissions": [], "policies": [], "queues": []}
    warnings = _plan_vhosts(schema, there, actions, wanted["vhosts"])
    users = {user["name"]: user for user in there.get("users") or ()}
    for user in schema.users:
        has = users.get(user["name"])
        if has and same_password(user["password"], has) and _tags(has) == user["tags"]:
            continue
        keep = has is not None and same_password(user["password"], has)
        kept = str(has["password_hash"]) if has and keep else password_hash(user["password"], salt())
        actions.append(f"create user {user['name']}" if not has else f"change {'the tags' if keep else 'the password'} of user {user['name']}")
        wanted["users"].append({"name": user["name"], "password_hash": kept, "hashing_algorithm": _HASHING, "tags": user["tags"]})
    _plan_keyed(schema.permissions, there.get("permissions"), ("user", "vhost"), "permissions", "set permissions of {user} in {vhost}", actions, wanted)
    _plan_keyed(schema.policies, there.get("policies"), ("vhost", "name"), "policies", "set policy {name} in {vhost}", actions, wanted)
    queues = {(queue["vhost"], queue["name"]): queue for queue in there.get("queues") or ()}
    for index, queue in enumerate(schema.queues):
        found = queues.get((queue["vhost"], queue["name"]))
        kind = queue["arguments"]["x-queue-type"]
        if found is None:
            actions.append(f"declare {kind} queue {queue['name']} in {queue['vhost']}")
            wanted["queues"].append(queue)
        elif (found.get("arguments") or {}).get("x-queue-type", "classic") != kind:
            has_type = (found.get("arguments") or {}).get("x-queue-type", "classic")
            raise InputError(f"{queue['name']!r} already exists as a {has_type} queue.", f"queues[{index}].type", "Delete it first, with its messages.")
    delete = tuple(name for name in schema.absent if name in users)
    actions += [f"delete user {name}" for name in delete]
    return SchemaPlan(tuple(actions), {key: value for key, value in wanted.items() if value}, delete, tuple(warnings))


def _plan_vhosts(schema: Schema, there: t.Mapping[str, t.Any], actions: list[str], wanted: list[t.Any]) -> list[str]:
    vhosts = {vhost["name"]: vhost for vhost in there.get("vhosts") or ()}
    warnings = []
    for vhost in schema.vhosts:
        name, kind = vhost["name"], vhost.get("default_queue_type")
        has = vhosts.get(name)
        if kind and _version(there) < DEFAULT_TYPE_SINCE:
            if kind != "classic":
                warnings.append(
                    f"RabbitMQ {there.get('rabbitmq_version')} has no default queue type per virtual host: clients of {name} must declare {kind} "
                    f"queues (x-queue-type: {kind}; in OpenStack rabbit_quorum_queue = true), or list them in queues."
                )
            kind = None
        before = ((has or {}).get("metadata") or {}).get("default_queue_type") or (has or {}).get("default_queue_type")
        if has and (not kind or before == kind):
            continue
        actions.append(f"create virtual host {name}" if not has else f"set the default queue type of {name} to {kind}")
        metadata = {"description": "", "tags": [], **((has or {}).get("metadata") or {}), **({"default_queue_type": kind} if kind else {})}
        wanted.append({"name": name, "metadata": metadata, **({"default_queue_type": kind} if kind else {})})
    return warnings


def _tags(user: t.Mapping[str, t.Any]) -> list[str]:
    tags = user.get("tags") or []
    return sorted(tag for tag in (tags.split(",") if isinstance(tags, str) else tags) if tag)


def _plan_keyed(
    entries: t.Sequence[dict[str, t.Any]],
    there: t.Any,
    key: tuple[str, str],
    kind: str,
    template: str,
    actions: list[str],
    wanted: t.Mapping[str, list[t.Any]],
) -> None:
    has = {tuple(entry[part] for part in key): entry for entry in there or ()}
    for entry in entries:
        found = has.get(tuple(entry[part] for part in key)) or {}
        if any(found.get(name) != value for name, value in entry.items()):
            actions.append(template.format(**entry))
            wanted[kind].append(entry)
