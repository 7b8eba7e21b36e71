# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Misspelt names in an inventory: keys of servers, roles, hosts, and variables of the collection's roles; invalid addresses. No I/O."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import SLIP, did_you_mean, near_miss, refuse_slips

#: Variable with the names (``fnmatch`` patterns) of variables with the prefix of a role of this collection that others use.
OTHERS = "footprint_other_variables"
#: Keys of a server that are read by this collection; all other keys are host variables.
SERVER_KEYS = ("roles", "node_roles", "vms", "vm_defaults", "node_capacity", "bmc", "hardware", "install")
#: Variables of the collection that belong to no role.
COMMON = frozenset(
    ("footprint_addresses", "footprint_allow_list", "footprint_allowed", "footprint_cluster", "footprint_components", "footprint_environment")
    + ("footprint_cloud", "footprint_ssh_args", "footprint_takeover", "footprint_witness_leaves")
    + ("footprint_network_addresses", "footprint_networks", "footprint_playbook", "footprint_secrets_generate")
    + ("footprint_external_name", "footprint_known_hosts", "footprint_secrets", "footprint_secrets_stores", "footprint_services", OTHERS)
    # set by the inventory plugin and the playbooks
    + ("footprint_checked", "footprint_environments", "footprint_inventory", "footprint_listed", "footprint_topology")
)
#: Variables of the playbooks and results of tasks that have the prefix of a role.
_MORE = {
    "galera": ("galera_sst_password",),
    "keystone": ("keystone_password",),
    "master_migrate": ("master_migrate_destination", "master_migrate_result"),
    "rabbitmq": ("rabbitmq_password",),
    "virt_guests": ("virt_guests_result",),
}
_PORT = re.compile(r"(?:\A|[._])port\Z")
#: What was meant as an IPv4 address or network.
_NUMBERS = re.compile(r"\A[0-9]+(\.[0-9]+)*\Z")
_FOUR_NUMBERS = re.compile(r"\A[0-9]{1,3}(\.[0-9]{1,3}){3}(/[0-9]+)?\Z")
# an option in the argument specification of a role, or a default
_OPTION = re.compile(r"^(?: {6})?(\w+):", re.MULTILINE)
# the common prefix makes all of these names similar
_SLIP_OF_ANSIBLE = 0.9
_SLIP_OF_ROLE = 0.85
_MOST_NAMES = 12
_ANSIBLE = tuple(
    f"ansible_{name}"
    for name in (
        "host", "port", "user", "password", "connection", "timeout", "pipelining", "private_key_file", "python_interpreter", "remote_tmp",
        "become", "become_exe", "become_flags", "become_method", "become_pass", "become_password", "become_user", "host_key_checking",
        "shell_type", "shell_executable", "scp_extra_args", "sftp_extra_args", "ssh_args", "ssh_common_args", "ssh_executable",
        "ssh_extra_args", "ssh_host", "ssh_pass", "ssh_password", "ssh_pipelining", "ssh_port", "ssh_private_key_file", "ssh_retries",
        "ssh_timeout", "ssh_transfer_method", "ssh_user", "sudo_pass", "su_pass", "control_path", "control_path_dir", "private_key",
    )
)  # fmt: skip

Known = t.Mapping[str, t.Collection[str]]


def known_variables(roles: t.Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return the variables of each role, by its prefix without the underscore.

    :arg roles: role → text of its ``meta/argument_specs.yml`` and ``defaults/main.yml``. Parsing YAML would take a second.
    """
    return {"footprint": COMMON, **{role: frozenset((*_OPTION.findall(text), *_MORE.get(role, ()))) for role, text in roles.items()}}


def role_of(name: str, known: Known) -> str | None:
    """Return the role or ``footprint`` that a variable belongs to, ``None`` if it is not a variable of the collection."""
    prefix = _prefix(name, known)
    return prefix if prefix and name in known[prefix] else None


def _prefix(name: str, known: Known) -> str | None:
    return max((prefix for prefix in known if name.startswith(f"{prefix}_")), key=len, default=None)


def unknown_variable(name: str, known: Known) -> tuple[str, bool] | None:
    """Return the hint for a variable that has the prefix of a role and is not one of its variables, ``None`` for any other.

    :returns: also whether it is an error: it resembles one of them, or has the prefix of the collection. Others may belong to something else that uses
        the same inventory, such as kolla-ansible.
    """
    prefix = _prefix(name, known)
    if prefix is None or name in known[prefix]:
        return None
    # without the prefix, which would make all of them similar
    near = near_miss(name[len(prefix) + 1 :], {each[len(prefix) + 1 :] for each in known[prefix]})
    whose = "this collection" if prefix == "footprint" else f"the role {prefix}"
    hint = f"Did you mean {prefix}_{near}?" if near else f"See the variables of {whose}, or list it in {OTHERS} if something else uses it."
    return hint, bool(near) or prefix == "footprint"


def invalid_ports(value: t.Any, path: str) -> t.Iterator[str]:
    """Yield a message for each value that is not a port, of what is named ``port``, or has a name that ends with ``_port``.

    :arg value: a port, or mappings and lists that contain some.
    """
    if isinstance(value, t.Mapping):
        for key, inner in value.items():
            yield from invalid_ports(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from invalid_ports(inner, f"{path}[{number}]")
    # nothing, and what is not known yet, are other types
    elif _PORT.search(path) and isinstance(value, (str, int, float)) and value != "" and not (str(value).isdecimal() and 0 < int(value) < 65536):
        yield str(InputError(f"{value!r} is not a port.", path, "Use a number from 1 to 65535."))


def check_settings(settings: t.Mapping[str, t.Any], path: str, known: Known, real: t.Callable[[str], str] = str) -> None:
    """Check the settings of a topology: those below a service, and variables.

    :arg real: returns the service that implements a logical one.
    """
    for key, value in settings.items():
        prefix = real(key)
        if prefix in known and isinstance(value, t.Mapping):
            check_variables([(f"{prefix}_{name}", f"{path}.{key}.{name}") for name in value], known, f"{prefix}_")
        else:
            check_variables([(key, f"{path}.{key}")], known)


def check_variables(named: t.Iterable[tuple[str, str]], known: Known, prefix: str = "") -> None:
    """Check variables, given with their paths.

    :arg prefix: the start of the names that is not written in the input; below it, any unknown name is an error.
    """
    for name, path in named:
        unknown = unknown_variable(name, known)
        if unknown and (unknown[1] or prefix):
            raise InputError(f"{name} is not a variable of this collection.", path, unknown[0].replace(f"mean {prefix}", "mean "))


def check_server(variables: t.Collection[str], path: str, known: Known) -> None:
    """Check the keys of a server, of which unknown ones are host variables."""
    refuse_slips([key for key in variables if not key.startswith("ansible_")], SERVER_KEYS, path)
    refuse_slips([key for key in variables if key.startswith("ansible_")], _ANSIBLE, path, _SLIP_OF_ANSIBLE)
    check_variables([(key, f"{path}.{key}") for key in variables], known)


def check_role(role: str, path: str, known: t.Collection[str], declared: bool) -> None:
    """Check the role of a server or VM.

    :arg known: roles of the collection, and those that the topology declares.
    :arg declared: whether the topology declares roles; then all others are unknown.
    """
    near = near_miss(role, known, 0.6 if declared else _SLIP_OF_ROLE)
    if role not in known and (declared or near):
        hint = f"Did you mean {near}?" if near else f"Use one of {', '.join(sorted(known))}, or declare it below roles."
        raise InputError(f"unknown role {role!r}.", path, hint)


def unknown_hosts(parts: t.Iterable[str], names: t.Collection[str]) -> dict[str, str]:
    """Return the names in a host pattern that match no host and no group, with a hint for each.

    :arg parts: of the pattern, for example ``virt`` and ``&rack1`` or ``controller[0]``.
    :arg names: all hosts, and the groups that have hosts.
    """
    found = {}
    for part in parts:
        name = part.strip().lstrip("!&")
        if not name or name.startswith(("~", "@")):
            continue
        bare = re.sub(r"\[-?\d*:?-?\d*\]\Z", "", name)
        if not any(fnmatch.fnmatchcase(each, form) for each in (*names, "all", "ungrouped", "localhost", "127.0.0.1", "::1") for form in (name, bare)):
            some = f"{', '.join(sorted(names)[:_MOST_NAMES])}{', ...' if len(names) > _MOST_NAMES else ''}"
            found[bare] = did_you_mean(bare, names, f"The inventory has {some}.")
    return found


def invalid_addresses(value: t.Any, path: str) -> list[FootprintError]:
    """Return an error for each text that consists of four numbers and is not an IPv4 address or network, also within lists and mappings.

    That of an address may not consist of fewer numbers either.
    """
    if isinstance(value, t.Mapping):
        return [error for key, one in value.items() for error in invalid_addresses(one, f"{path}.{key}")]
    if isinstance(value, (list, tuple)):
        return [error for index, one in enumerate(value) for error in invalid_addresses(one, f"{path}[{index}]")]
    if not isinstance(value, str) or not (_FOUR_NUMBERS.match(value) or path.endswith("address") and _NUMBERS.match(value)):
        return []
    try:
        ipaddress.ip_interface(value)
        return []
    except ValueError:
        return [InputError(f"{shown(value)} is not an IP address.", path, "Write four numbers from 0 to 255, e.g. 192.0.2.10.")]


def unknown_images(listed: t.Sequence[t.Any], used: t.Mapping[str, str], catalogue: t.Collection[str]) -> list[str]:
    """Return a message for each image of a list without a URL that is not in the catalogue, and for each of a disk that is similar to a known one.

    :arg used: path → image of a disk. One that is not similar may be on the server.
    """
    names = {index: str(one["name"]) for index, one in enumerate(listed) if isinstance(one, t.Mapping) and one.get("name")}
    hint = f"Use one of {', '.join(catalogue)}, or add a url and a checksum."
    found = [
        InputError(f"{name!r} is not an image of the catalogue.", f"virt_guests_images[{index}].name", did_you_mean(name, catalogue, hint))
        for index, name in names.items() if name not in catalogue and not listed[index].get("url")
    ]  # fmt: skip
    known = {*catalogue, *names.values()}
    # a name may have an ending
    near = {path: near_miss(image, known, SLIP) for path, image in used.items() if not image.startswith(tuple(known))}
    hint = "Otherwise list it in virt_guests_images."
    found += [InputError(f"no image is named {used[path]!r}.", path, f"Did you mean {name}? {hint}") for path, name in near.items() if name]
    return [str(error) for error in found]


def has_template(value: t.Any) -> bool:
    """Whether a value contains a template, so that it is known only in a run."""
    if isinstance(value, t.Mapping):
        return any(has_template(one) for one in (*value, *value.values()))
    if isinstance(value, (list, tuple)):
        return any(has_template(one) for one in value)
    return isinstance(value, str) and ("{{" in value or "{%" in value)
