# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case of the module ``one_time_key``: place or withdraw the key of another host for one migration or move."""

from __future__ import annotations

import ipaddress
import re
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, io_login, io_units, model_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

if t.TYPE_CHECKING:
    # the programs that a key may run must be part of the code that is kept on this host
    from ansible_collections.reduced.footprint.plugins.module_utils._keys import run_dispatch
    from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import run_block_agent
    from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import run_agent as source_agent
    from ansible_collections.reduced.footprint.plugins.module_utils._move import run_agent, run_channel
    from ansible_collections.reduced.footprint.plugins.module_utils._remote import run_manifest_agent
    from ansible_collections.reduced.footprint.plugins.module_utils._standby import run_agent as standby_agent, run_channel as standby_channel

    _CODE = (run_block_agent, run_dispatch, run_manifest_agent, run_agent, run_channel, source_agent, standby_agent, standby_channel)

_PUBLIC_KEY = re.compile(r"\Assh-ed25519 [A-Za-z0-9+/=]+ (\S+)\Z")
_PYTHON = re.compile(r"\A/[A-Za-z0-9._/+-]+\Z")


def apply(params: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Place, renew or withdraw the key of one migration or move.

    :arg params: of the module.
    :returns: keyword arguments for ``exit_json``.
    :raises FootprintError: invalid input, or root's sessions with a key would fail on this machine.
    """
    name = parse_name(params.get("name"), "name")
    if params["purpose"] in (model_one_time_key.MOVE, model_one_time_key.BACKUP):
        name = f"{params['purpose']}-{name}"
    elif params["purpose"] == model_one_time_key.STANDBY:
        name = model_one_time_key.standby_key(parse_name(params.get("cluster"), "cluster"), name)
    marker = model_one_time_key.key_marker(name)
    before = io_authorized_keys.line_of(marker)
    public_key = str(params.get("public_key") or "").strip()
    if params["state"] != "absent" or public_key:
        found = _PUBLIC_KEY.match(public_key)
        if not found or found.group(1) != marker:
            raise InputError("is not the one-time key of this name.", "public_key", "Pass the key that the module returned with state prepared.")
    if params["state"] == "absent":
        if before is not None and public_key and public_key not in before:
            # that of another host by now
            return {"changed": False, "key_marker": marker, "diff": _diff(before, before)}
        if not check_mode:
            io_authorized_keys.forget(marker, public_key.split()[1] if public_key else None)
            io_authorized_keys.disallow(name)
        return {"changed": before is not None, "key_marker": marker, "diff": _diff(before, None)}
    addresses = [_address(each, index) for index, each in enumerate(params.get("allowed_from") or ())]
    commands = [[str(word) for word in each] for each in params.get("commands") or ()]
    warnings = io_login.check(addresses)
    permanent = params["purpose"] in model_one_time_key.PERMANENT
    until = 0 if permanent else int(time.time()) + model_one_time_key.LIMIT
    expires = None if permanent else model_one_time_key.expiry(time.time() + model_one_time_key.LIFETIME)
    command = _command(params["purpose"], name, until, public_key.split()[1], check_mode)
    line = f"{model_one_time_key.options(addresses, expires, command)} {public_key}"
    if not check_mode:
        if params["purpose"] == model_one_time_key.MIGRATE:
            io_authorized_keys.allow(name, commands)
        io_authorized_keys.place(marker, line)
    # a new expiry alone is not reported as a change
    changed = before is None or public_key not in before or (permanent and before != line)
    return {"changed": changed, "key_marker": marker, "diff": _diff(before, line), **({"warnings": warnings} if warnings else {})}


def _address(text: str, index: int) -> str:
    try:
        return str(ipaddress.ip_address(str(text)))
    except ValueError as error:
        raise InputError(f"{text!r} is not an IP address.", f"allowed_from[{index}]", "Use the address from which the other host connects.") from error


def _command(purpose: str, name: str, until: int, key: str, check_mode: bool) -> str:
    library = str(io_units.code_path() if check_mode else io_units.keep_code())
    if not _PYTHON.match(sys.executable):
        hint = "Set ansible_python_interpreter to a path without special characters."
        raise InputError(f"The path {sys.executable!r} cannot be used in authorized_keys.", hint=hint)
    program = f"PYTHONPATH={library} {sys.executable} -m {model_one_time_key.DISPATCH}"
    return f"/usr/bin/env PYTHONDONTWRITEBYTECODE=1 {program} {purpose} {name} {until} {key}"


def _diff(before: str | None, after: str | None) -> dict[str, str]:
    path = str(io_authorized_keys.PATH)
    return {"before_header": path, "after_header": path, "before": f"{before}\n" if before else "", "after": f"{after}\n" if after else ""}
