# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another machine that is asked over ssh, or receives data."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import number
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

_HOST = re.compile(r"\A[A-Za-z0-9:][A-Za-z0-9:._%-]{0,253}\Z")
_HOST_KEY = re.compile(r"\A(ssh-[a-z0-9-]+|ecdsa-sha2-[a-z0-9-]+) [A-Za-z0-9+/=]+( .*)?\Z")


class Machine(t.NamedTuple):
    """Its display name, ssh address and port, and accepted host keys."""

    name: str
    host: str
    port: int
    host_keys: tuple[str, ...]


def parse_machine(entry: t.Mapping[str, t.Any] | None, path: str) -> Machine:
    """Parse a machine; the default of its name is its address."""
    entry = entry or {}
    host = entry.get("host")
    if not host:
        raise InputError("is missing.", f"{path}.host", "Set the ssh address of this machine.")
    if not _HOST.match(str(host)):
        raise InputError(f"{host!r} is not a valid host name or address.", f"{path}.host", "Use an address such as 192.0.2.12.")
    keys = []
    for index, key in enumerate(entry.get("host_keys") or []):
        if not _HOST_KEY.match(str(key).strip()):
            raise InputError("is not a valid public ssh host key.", f"{path}.host_keys[{index}]", "Use the content of its /etc/ssh/ssh_host_*_key.pub.")
        keys.append(" ".join(str(key).split()[:2]))
    port = number(entry.get("port"), 22, 1, 65535, f"{path}.port")
    # IPv6 addresses contain characters that names must not have
    name = entry.get("name") or re.sub(r"[^A-Za-z0-9._-]", "-", str(host)).strip("-.") or "machine"
    return Machine(parse_name(name, f"{path}.name"), str(host), port, tuple(keys))
