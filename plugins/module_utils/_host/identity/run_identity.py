# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: keep the identity of servers on another server, so that a machine that takes over the name of a lost one is recognized."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_records
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import parse_time
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity import io_identity
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.model_identity import (
    KNOWN,
    REPLACING,
    Identity,
    Machine,
    parse_identity,
    parse_machine,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

REPLACED = "replaced"


def identity(home: pathlib.Path | None = None) -> dict[str, t.Any]:
    """Return the identity of this machine, and its records about servers."""
    machine = io_identity.here()
    records = [record.as_dict() for record in io_records.read_all(home or io_identity.HOME, parse_identity)]
    return {"here": {"machine_id": machine.machine_id, "product_uuid": machine.product_uuid}, "records": records}


def apply(
    machines: t.Sequence[t.Mapping[str, t.Any]], state: str, at: str, proof: str = "", *, check_mode: bool, home: pathlib.Path | None = None
) -> dict[str, t.Any]:
    """Record servers on this host.

    :arg machines: ``name`` and the values of :class:`Machine` of each.
    :returns: keyword arguments for ``exit_json``.
    """
    parse_time(at, "at")
    records: list[dict[str, t.Any]] = []
    lines: list[str] = []
    warnings: list[str] = []
    names: dict[str, list[str]] = {}
    for number, given in enumerate(machines):
        path = f"machines[{number}]"
        name, machine = parse_name(given.get("name"), f"{path}.name"), parse_machine(given, path)
        if not machine.machine_id:
            raise InputError("is required.", f"{path}.machine_id", "Copy /etc/machine-id of the server.")
        names.setdefault(machine.machine_id, []).append(name)
        before = io_records.read(home or io_identity.HOME, name, parse_identity)
        after, warning = _next(name, machine, before, state, at, proof)
        warnings += [warning] if warning else []
        records.append(after.as_dict())
        if after != before:
            lines.append(f"{name}: {after.machine.machine_id} at {after.machine.address or 'an unknown address'}, {after.state}")
            if not check_mode:
                io_records.write(home or io_identity.HOME, name, after.to_json())
    warnings += [_twins(same) for same in names.values() if len(same) > 1]
    text = "".join(f"{line}\n" for line in lines)
    return {"changed": bool(lines), "records": records, "warnings": warnings, "diff": {"before": "", "after": text}}


def _twins(names: t.Sequence[str]) -> str:
    return (
        f"{' and '.join(names)} have the same machine-id. If they are one machine with two addresses, its loss takes the VMs of both: remove one of them from "
        "the inventory. If its system was copied, remove /etc/machine-id on one of them and run systemd-machine-id-setup there."
    )


def _next(name: str, machine: Machine, before: Identity | None, state: str, at: str, proof: str) -> tuple[Identity, str]:
    """Return the record after this run, and a warning."""
    if before is None:
        return Identity(name, machine, at, REPLACING if state == REPLACING else KNOWN, (), proof), ""
    if before.machine.machine_id == machine.machine_id:
        # an unfinished replacement remains one until it is completed
        return before._replace(machine=machine, state=KNOWN if state == REPLACED else before.state), ""
    if state == KNOWN:
        return before, (
            f"{name} is another machine now: its machine-id is {machine.machine_id}, recorded is {before.machine.machine_id}. "
            f"If it takes over the name, run replace_server with replace_server_name={name}."
        )
    if state == REPLACING:
        old = (before.machine, *(one for one in before.old if one.machine_id not in (machine.machine_id, before.machine.machine_id)))
        return Identity(name, machine, at, REPLACING, old, proof), ""
    raise RefusedError(
        f"{name} has the machine-id {machine.machine_id}, but recorded is {before.machine.machine_id}.", "machines", "Use state: replacing first."
    )
