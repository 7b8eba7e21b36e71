# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of a control plane: those of the collection and those declared by the operator."""

from __future__ import annotations

import dataclasses
import re
import types
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, did_you_mean, mapping, number
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK

CONTROLLER = "controller"
WITNESS = "witness"
LOAD_BALANCER = "load_balancer"
ROLE_NAME = re.compile(r"[A-Za-z_]\w*([.][A-Za-z_]\w*)*\Z")
SERVICE_NAME = re.compile(r"[A-Za-z][\w-]*\Z")


@dataclasses.dataclass(frozen=True)
class Once:
    """A step that runs once per deployment, on one member, before or after the service itself."""

    name: str
    tasks_from: str
    after: bool = False
    depends: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Service:
    """A service, either real (with a role) or logical (an alias of a real service).

    :arg memory: MiB that each member needs for it.
    :arg exclusive: whether a host may have it for one environment only.
    :arg frontend: the name of its frontend at the load balancer, if that differs from its own.
    :arg check: whether its role has a tasks file ``check`` that validates settings and changes nothing.
    :arg witnessed: whether witnesses are members of its cluster as well, which vote only.
    :arg cloud: whether controllers have it only if ``footprint_cloud`` is true.
    :arg optional: whether controllers have it only if its group is set to theirs.
    :arg even: whether the number of its members may be even for some time.
    :arg leaving: whether the witnesses leave soon: they are still members if that makes the number of votes even.
    """

    name: str
    role: str = ""
    service_def: str = ""
    depends: tuple[str, ...] = ()
    once: tuple[Once, ...] = ()
    mapping: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    configs: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    defaults: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    port: int = 0
    scheme: str = "http"
    memory: int = 0
    exclusive: bool = True
    frontend: str = ""
    group: str = ""
    check: bool = False
    witnessed: bool = False
    cloud: bool = False
    optional: bool = False
    even: bool = False
    leaving: bool = False

    @property
    def variable_prefix(self) -> str:
        """Return the prefix of its role's variables, without the underscore."""
        return self.name.replace("-", "_")

    @property
    def group_name(self) -> str:
        """Return the group of its members."""
        return self.group or self.name.replace("-", "_")


BUILT_IN: t.Mapping[str, Service] = types.MappingProxyType(
    {
        service.name: service
        for service in (
            Service("galera", "reduced.footprint.galera", port=3306, scheme="mysql", memory=300, frontend="mysql", check=True),
            Service("rabbitmq", "reduced.footprint.rabbitmq", port=5672, scheme="amqp", memory=160, witnessed=True, even=True, check=True),
            Service(WITNESS, "reduced.footprint.witness", depends=("database",), memory=40, exclusive=False, even=True, check=True),
            Service("memcached", "reduced.footprint.memcached", port=11211, scheme="memcached", memory=80),
            Service(LOAD_BALANCER, "reduced.footprint.load_balancer", depends=("database",), memory=60, check=True),
            Service("keystone", "reduced.footprint.keystone", depends=("database", "memcached", LOAD_BALANCER), port=5000, memory=250, check=True),
            Service("ovn_database", "reduced.footprint.ovn_database", port=6641, scheme="ssl", memory=60, witnessed=True, cloud=True, check=True),
            *(
                Service(
                    one.name, f"reduced.footprint.{one.name}", depends=one.depends, port=one.port, memory=one.memory, cloud=True, check=True,
                    optional=one.optional,
                )  # fmt: skip
                for one in OPENSTACK.values()
            ),
            Service("database", service_def="galera"),
            Service("rpc", service_def="rabbitmq"),
            Service("notifications", service_def="rabbitmq"),
        )
    }
)
#: MiB that a host without services needs.
SYSTEM_MEMORY = 150

_LOGICAL_KEYS = ("service_def", "mapping", "configs")
_REAL_KEYS = ("role", "depends", "once", "mapping", "configs", "defaults", "port", "scheme", "memory", "exclusive", "frontend", "group", "check")
_ONCE_KEYS = ("name", "tasks_from", "when", "depends")


def parse_services(value: t.Any, path: str = "services") -> dict[str, Service]:
    """Return all services by name: the built-in ones, changed and extended by the declared ones."""
    services = dict(BUILT_IN)
    entries = mapping(value, path, "Write each service as NAME: {role: NAMESPACE.COLLECTION.ROLE}.")
    for name, entry in entries.items():
        here = f"{path}.{name}"
        if not SERVICE_NAME.match(name):
            raise InputError(f"{name!r} is not a valid service name.", here, "Use letters, digits, hyphens and underscores.")
        services[name] = _service(name, mapping(entry, here, "Write the service as a mapping, e.g. {service_def: rabbitmq}."), here)
    _check_references(services, path)
    _check_names(services, path)
    return services


def names_of(value: t.Any, path: str) -> tuple[str, ...]:
    """Return a list of names without duplicates; a single name is accepted."""
    names = [value] if isinstance(value, str) else value or []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"expected a list of names, got {value!r}.", path, "Write a list of names, e.g. [database, rpc].")
    return tuple(dict.fromkeys(str(name) for name in names))


def _service(name: str, entry: dict[str, t.Any], path: str) -> Service:
    known = BUILT_IN.get(name)
    shared: dict[str, t.Any] = {}
    if "mapping" in entry:
        given = mapping(entry["mapping"], f"{path}.mapping", "Write LOGICAL: SERVICE.")
        shared["mapping"] = {key: str(target) for key, target in given.items()}
    if "configs" in entry:
        shared["configs"] = mapping(entry["configs"], f"{path}.configs", "Write the service's own settings as a mapping.")
    if "service_def" in entry or (known and known.service_def and "role" not in entry):
        check_known(entry, _LOGICAL_KEYS, path, "")
        return Service(name, service_def=str(entry.get("service_def") or (known.service_def if known else "")), **shared)
    check_known(entry, _REAL_KEYS, path, "")
    base = known if known and known.role else Service(name)
    role = entry.get("role", base.role)
    if not isinstance(role, str) or not ROLE_NAME.match(role):
        raise InputError(
            "role or service_def is required." if not role else f"{role!r} is not a valid role name.",
            f"{path}.role",
            "Set role: NAMESPACE.COLLECTION.ROLE, or service_def: the real service.",
        )
    if "depends" in entry:
        shared["depends"] = names_of(entry["depends"], f"{path}.depends")
    if "defaults" in entry:
        shared["defaults"] = mapping(entry["defaults"], f"{path}.defaults", "Write the role's defaults without the prefix of the role.")
    for key in ("scheme", "frontend", "group"):
        if entry.get(key) is not None:
            shared[key] = str(entry[key])
    for key in ("exclusive", "check"):
        if key in entry:
            if not isinstance(entry[key], bool):
                raise InputError(f"expected a boolean, got {entry[key]!r}.", f"{path}.{key}", "Use true or false.")
            shared[key] = entry[key]
    return dataclasses.replace(
        base,
        role=role,
        once=tuple(_once(entry["once"], f"{path}.once")) if "once" in entry else base.once,
        port=number(entry.get("port"), base.port, 1, 65535, f"{path}.port"),
        memory=number(entry.get("memory"), base.memory, 0, 16 << 20, f"{path}.memory"),
        **shared,
    )


def _once(value: t.Any, path: str) -> t.Iterator[Once]:
    if not isinstance(value, (list, tuple)):
        raise InputError(f"expected a list, got {kind_of(value)}.", path, "Write a list, e.g. [{name: db-sync, tasks_from: db_sync}].")
    names: set[str] = set()
    for index, entry in enumerate(value):
        here = f"{path}[{index}]"
        step = mapping(entry, here, "Write {name: db-sync, tasks_from: db_sync}.")
        check_known(step, _ONCE_KEYS, here, "")
        name = step.get("name")
        if not isinstance(name, str) or not SERVICE_NAME.match(name) or name in names:
            raise InputError(f"{name!r} is not a valid, unique name.", f"{here}.name", "Use letters, digits and hyphens, and each name once.")
        names.add(name)
        when = step.get("when", "before")
        if when not in ("before", "after"):
            raise InputError(f"{when!r} is not supported.", f"{here}.when", "Use before or after.")
        tasks_from = step.get("tasks_from", name.replace("-", "_"))
        if not isinstance(tasks_from, str) or not re.match(r"\w[\w.-]*\Z", tasks_from):
            raise InputError(f"{tasks_from!r} is not a valid tasks file name.", f"{here}.tasks_from", "Use the name of a tasks file, e.g. db_sync.")
        yield Once(name, tasks_from, when == "after", names_of(step.get("depends"), f"{here}.depends"))


def known(services: t.Mapping[str, Service]) -> str:
    """Return the names of all services, for a message."""
    return ", ".join(sorted(services))


def real(services: t.Mapping[str, Service], name: str) -> Service:
    """Return the real service a name stands for."""
    service = services[name]
    return services[service.service_def] if service.service_def else service


def _check_references(services: t.Mapping[str, Service], path: str) -> None:
    for service in services.values():
        here = f"{path}.{service.name}"
        if service.service_def and not (service.service_def in services and services[service.service_def].role):
            real_ones = sorted(name for name, one in services.items() if one.role)
            hint = did_you_mean(service.service_def, real_ones, f"Use one of {', '.join(real_ones)}, or declare it with its role.")
            raise InputError(f"unknown real service {service.service_def!r}.", f"{here}.service_def", hint)
        named = [(f"{here}.depends[{index}]", name) for index, name in enumerate(service.depends)]
        for number_, step in enumerate(service.once):
            named += [(f"{here}.once[{number_}].depends[{index}]", name) for index, name in enumerate(step.depends)]
        named += [(f"{here}.mapping.{key}", name) for key, name in service.mapping.items()]
        for where, name in named:
            if name not in services:
                raise InputError(f"unknown service {name!r}.", where, did_you_mean(name, services, f"Use one of {known(services)}, or declare it."))


def _check_names(services: t.Mapping[str, Service], path: str) -> None:
    """Reject names with the same group, such as ``heat-api`` and ``heat_api``, because their members would be mixed."""
    seen: dict[str, str] = {}
    for service in services.values():
        first = seen.setdefault(service.group_name, service.name)
        if first != service.name:
            raise InputError(f"has the same group {service.group_name} as {first}.", f"{path}.{service.name}", "Rename one of them.")
