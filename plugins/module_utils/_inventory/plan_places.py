# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where Ansible reaches a server, to find two names of one machine. No I/O."""

from __future__ import annotations

import ipaddress
import typing as t

# Connections for which ``ansible_host`` is the address of the machine, unless one of these variables changes the way to it.
_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.builtin.paramiko_ssh")
_DETOURS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_PORT = "22"


def place(name: str, variables: t.Mapping[str, t.Any]) -> str:
    """Return the address at which Ansible reaches a server, with a port if another one is set; empty if its variables do not show it."""
    host = str(variables.get("ansible_host") or name)
    if (variables.get("ansible_connection") or "ssh") not in _SSH or any(variables.get(key) for key in _DETOURS) or "{{" in host:
        return ""
    port = str(variables.get("ansible_port") or variables.get("ansible_ssh_port") or _PORT)
    return f"{_address(host)} port {port}" if port != _PORT and _address(host) else _address(host)


def _address(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return "" if host == "localhost" else host.lower()
    # through a tunnel, which may lead anywhere
    return "" if address.is_loopback else str(address)
