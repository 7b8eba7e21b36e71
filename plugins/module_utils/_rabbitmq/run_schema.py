# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create virtual hosts, users, policies and queues in a RabbitMQ cluster, and add missing replicas of quorum queues."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq import plan_schema
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.io_rabbitmq import RabbitMq
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_rabbitmq import lacking_replicas
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.run_rabbitmq import local_broker

_NAMED: t.Mapping[str, t.Mapping[str, t.Any]] = {"name": {"type": "str", "required": True}}
_PLACED: t.Mapping[str, t.Mapping[str, t.Any]] = {**_NAMED, "vhost": {"type": "str", "required": True}}
_TYPES = ("quorum", "classic", "stream")
_PATTERN: t.Mapping[str, t.Any] = {"type": "str", "default": ".*"}


def _list(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {"type": "list", "elements": "dict", "default": [], "options": dict(options)}


ARGUMENTS: t.Mapping[str, t.Mapping[str, t.Any]] = {
    "node": {"type": "str", "required": True},
    "unit": {"type": "str", "default": "rabbitmq-server.service"},
    "vhosts": _list({**_NAMED, "default_queue_type": {"type": "str", "choices": list(_TYPES)}}),
    "users": _list(
        {
            **_NAMED,
            "password": {"type": "str", "required": True, "no_log": True},
            "tags": {"type": "list", "elements": "str", "default": []},
            "permissions": _list({"vhost": {"type": "str", "required": True}, "configure": _PATTERN, "write": _PATTERN, "read": _PATTERN}),
        }
    ),
    "policies": _list(
        {
            **_PLACED,
            "pattern": _PATTERN,
            "apply_to": {"type": "str", "choices": ["queues", "exchanges", "all", "quorum_queues", "classic_queues", "streams"], "default": "queues"},
            "priority": {"type": "int", "default": 0},
            "definition": {"type": "dict", "required": True},
        }
    ),
    "queues": _list({**_PLACED, "type": {"type": "str", "choices": list(_TYPES), "default": "quorum"}, "arguments": {"type": "dict", "default": {}}}),
    "absent_users": {"type": "list", "elements": "str", "default": []},
}


def ensure_schema(node: str, unit: str, *, check_mode: bool, absent_users: t.Any, **given: t.Any) -> Changes:
    """Call :func:`ensure` with the node of this host and the options of the module.

    :raises InputError: invalid value, with its path.
    """
    return ensure(plan_schema.parse(**given, absent=absent_users), local_broker(node, unit), check_mode=check_mode)


def ensure(schema: plan_schema.Schema, broker: RabbitMq, *, check_mode: bool, salt: t.Callable[[], bytes] = lambda: os.urandom(4)) -> Changes:
    """Create what is missing, change what differs.

    :raises InputError: a queue exists with another type.
    :raises CommandError: the server does not answer or reports an error.
    """
    status = broker.status() if broker.installed() else None
    if status is None and check_mode:
        # the server does not exist before the first run: everything would be created
        planned = plan_schema.plan(schema, {"rabbitmq_version": "99.0", "users": [{"name": name} for name in schema.absent]}, salt)
        return Changes(planned.actions)
    there = broker.definitions()
    planned = plan_schema.plan(schema, there, salt)
    actions = list(planned.actions)
    if not check_mode:
        if planned.definitions:
            broker.import_definitions(planned.definitions)
        for name in planned.delete_users:
            broker.delete_user(name)
    actions += _replicate(there, planned.definitions, list((status or {}).get("running_nodes") or ()), broker, check_mode)
    return Changes(tuple(actions), warnings=planned.warnings)


def _replicate(there: t.Mapping[str, t.Any], new: t.Mapping[str, t.Any], nodes: t.Sequence[str], broker: RabbitMq, check_mode: bool) -> list[str]:
    """Add replicas of quorum queues on members that joined after the queue was declared."""
    known = {vhost["name"] for vhost in there.get("vhosts") or ()}
    queues = [*(there.get("queues") or ()), *((new.get("queues") or ()) if not check_mode else ())]
    vhosts = {queue["vhost"] for queue in queues if (queue.get("arguments") or {}).get("x-queue-type") == "quorum"}
    if check_mode:
        vhosts &= known
    if not vhosts:
        return []
    actions = []
    listed = [{**queue, "members": list(queue.get("members") or ())} for queue in broker.quorum_queues(sorted(vhosts))]
    for node in nodes:
        for vhost, name in lacking_replicas(listed, node, len(nodes)):
            actions.append(f"add a replica of queue {name} in {vhost} on {node}")
            if not check_mode:
                broker.add_replica(vhost, name, node)
            next(queue for queue in listed if (queue["vhost"], queue["name"]) == (vhost, name))["members"].append(node)
    return actions
