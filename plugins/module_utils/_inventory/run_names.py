# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: find misspelt names in an inventory before anything is done with it."""

from __future__ import annotations

import fnmatch
import pathlib
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names

#: The files that the inventory plugin read in this process, with the error of each. For Ansible an error is only a warning.
READ: dict[str, str] = {}
#: Server → errors of its VM details, unless a template of the operator uses these keys; of the files that were read in this process.
SLIPS: dict[str, t.Sequence[str]] = {}
#: Server → path of a disk's image → the image; of the files that were read in this process.
IMAGES: dict[str, t.Mapping[str, str]] = {}
_OURS = re.compile(r"^plugin:\s*[\"']?(reduced\.footprint\.)?nodes\b", re.MULTILINE)
# packages_ is too common a prefix
_INTERNAL = ("packages",)
_ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"


def known_variables(folder: pathlib.Path = _ROLES) -> dict[str, frozenset[str]]:
    """Return the variables of the collection's roles, by their prefix."""
    texts = {}
    for role in sorted(folder.iterdir()) if folder.is_dir() else ():
        if role.name not in _INTERNAL:
            texts[role.name] = "\n".join(read_text(str(role / file)) or "" for file in ("meta/argument_specs.yml", "defaults/main.yml"))
    return plan_names.known_variables(texts)


def select_hosts(
    patterns: t.Mapping[str, t.Sequence[str]], groups: t.Mapping[str, t.Sequence[str]], variable: str = "", required: bool = True
) -> str:
    """Return the patterns that match a host, as one pattern.

    :arg patterns: pattern → its parts.
    :arg required: otherwise the result may match nothing.
    :raises InputError: no pattern matches; with the most similar name of the inventory.
    """
    if not any(pattern.strip() for pattern in patterns):
        raise InputError("is required.", variable or "hosts", f"Set it with -e {variable or 'NAME'}=HOST.")
    names = _names(groups)
    found, missing = [], {}
    for pattern, parts in patterns.items():
        unknown = plan_names.unknown_hosts(parts, names)
        missing.update(unknown)
        if not unknown:
            found.append(pattern)
    if not found and required:
        name, hint = next(iter(missing.items()))
        raise InputError(f"no host or group of the inventory is named {name}.", variable or None, hint)
    return ":".join(found or ["all", "!all"])


def check_limit(parts: t.Sequence[str], groups: t.Mapping[str, t.Sequence[str]]) -> None:
    """Check the names in ``--limit``, of which Ansible ignores unknown ones."""
    for name, hint in plan_names.unknown_hosts(parts, _names(groups)).items():
        raise InputError(f"no host or group of the inventory is named {name}.", "--limit", hint)


def _names(groups: t.Mapping[str, t.Sequence[str]]) -> set[str]:
    return {*groups.get("all", ()), *(name for name, hosts in groups.items() if hosts and name not in ("all", "ungrouped"))}


def is_ours(path: str | pathlib.Path) -> bool:
    """Whether a file names the inventory plugin, even if it is not valid YAML."""
    return pathlib.Path(path).is_file() and bool(_OURS.search(read_text(path) or ""))


def check_inventory(groups: t.Mapping[str, t.Sequence[str]], sources: t.Sequence[str]) -> None:
    """Check that the inventory plugin read every file of its own, and that there are hosts."""
    for source in sources:
        path = pathlib.Path(source).absolute()
        for name, message in READ.items():
            if message and (name == str(path) or path in pathlib.Path(name).parents):
                raise InputError(message, name)
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.suffix in (".yml", ".yaml") and str(file) not in READ and is_ours(file):
                raise InputError("could not be read as an inventory.", str(file), "Correct the error in the warnings above.")
    if not groups.get("all"):
        named = ", ".join(sources) or "none"
        raise InputError(f"the inventory has no host (sources: {named}).", None, "Give the path of the inventory with -i, and correct the warnings above.")


def slips(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Return the errors of VM details of hosts that use a packaged template."""
    return [slip for name, variables in hosts.items() if not variables.get("virt_guests_template_file") for slip in SLIPS.get(name, ())]


def images(hosts: t.Mapping[str, t.Mapping[str, t.Any]], catalogue: t.Collection[str]) -> list[str]:
    """Return the errors of the images of hosts that have a list without a template.

    :arg hosts: host → its variables, without rendering.
    """
    lists = {name: variables.get("virt_guests_images") for name, variables in hosts.items()}
    known = {name: value for name, value in lists.items() if isinstance(value, (list, tuple)) and value and not plan_names.has_template(value)}
    return [error for name, value in known.items() for error in plan_names.unknown_images(value, IMAGES.get(name, {}), catalogue)]


def role_values(hosts: t.Mapping[str, t.Mapping[str, t.Any]], known: plan_names.Known) -> dict[tuple[str, str], list[tuple[t.Any, str]]]:
    """Return the values of variables of roles that contain no template: role and name → each value, and the hosts that have it, for a message.

    :arg hosts: host → its variables, without rendering.
    """
    found: dict[tuple[str, str], list[tuple[t.Any, list[str]]]] = {}
    for host, variables in hosts.items():
        for name, value in variables.items():
            role = plan_names.role_of(name, known) if name.startswith(tuple(known)) else None
            if role and not plan_names.has_template(value):
                same = found.setdefault((role, name), [])
                names = next((names for one, names in same if one is value or one == value), None)
                if names is None:
                    same.append((value, names := []))
                names.append(host)
    return {key: [(value, where(names)) for value, names in same] for key, same in found.items()}


def unknown_sources(hosts: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Return an error for each machine to migrate that is not in the inventory.

    :arg hosts: host → its variables, without rendering.
    """
    found: dict[str, list[str]] = {}
    for host, variables in hosts.items():
        name = variables.get("master_migrate_source")
        if name and isinstance(name, str) and name not in (*hosts, "localhost") and not plan_names.has_template(name):
            found.setdefault(name, []).append(host)
    hint = "Add it to the inventory, or correct the name."
    return [f"master_migrate_source ({where(names)}): the inventory has no host {name}. {did_you_mean(name, hosts, hint)}" for name, names in found.items()]


def where(hosts: t.Sequence[str]) -> str:
    """Return which hosts have a variable, for a message."""
    return f"set for {hosts[0]}{f' and {len(hosts) - 1} more' if len(hosts) > 1 else ''}"


def unknown_variables(hosts: t.Mapping[str, t.Mapping[str, t.Any]], known: plan_names.Known) -> tuple[list[str], list[str]]:
    """Return errors and warnings about variables that have the prefix of a role of the collection, but are none of its variables.

    :arg hosts: host → its variables.
    :returns: an error for each that resembles a variable of the role, and one warning about all others.
    """
    found: dict[str, list[str]] = {}
    for host, variables in hosts.items():
        others = variables.get(plan_names.OTHERS) or ()
        # one name as text: its letters, of which * matches everything, are no names
        others = (others,) if isinstance(others, str) else others
        declared = variables.get("footprint_services") or {}
        # a declared service may have the name of one of the collection, and a role of its own
        foreign = [f"{name.replace('-', '_')}_*" for name, entry in dict(declared).items() if isinstance(entry, t.Mapping) and entry.get("role")]
        for name in variables:
            if name.startswith(tuple(known)) and not any(fnmatch.fnmatchcase(name, pattern) for pattern in (*others, *foreign)):
                found.setdefault(name, []).append(host)
    errors, others = [], []
    for name, names in found.items():
        unknown = plan_names.unknown_variable(name, known)
        if unknown and unknown[1]:
            errors.append(str(InputError(f"is not a variable of this collection ({where(names)}).", name, unknown[0])))
        elif unknown:
            others.append(name)
    if not others:
        return errors, []
    return errors, [
        f"{', '.join(sorted(others))}: not a variable of this collection, has no effect here. "
        f"List what something else uses in {plan_names.OTHERS}, for example [{sorted(others)[0].partition('_')[0]}_*]."
    ]
