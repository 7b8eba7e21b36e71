# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the servers that are installed, and what is installed on each."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: install_plan
short_description: Return what is installed on servers
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Validates C(install) of the servers in the inventory, and returns the options of M(reduced.footprint.server_install) for each.
options:
  _input:
    description: Each server with its variables.
    type: dict
    required: true
  names:
    description: The servers to install, a list or names separated by commas. Empty means all with C(install).
    type: raw
  restart:
    description: The servers that may be restarted, a list or names separated by commas.
    type: raw
  erase:
    description: Serial numbers of disks whose data may be lost, a list or texts separated by commas.
    type: raw
"""

EXAMPLES = r"""
- name: Show what is installed
  ansible.builtin.debug:
    msg: "{{ {'metal1': hostvars.metal1} | reduced.footprint.install_plan }}"
"""

RETURN = r"""
_value:
  description:
    - V(servers), a mapping of names to V(options), V(lines) (the partitions) and V(connection) (variables with which only the installed system is accepted),
      V(restart) and V(erase). With an invalid value V(error).
  type: dict
"""

import pathlib

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install


def _names(value: t.Any) -> list[str]:
    # a survey and the command line give text
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [str(name) for name in value or ()]


def install_plan(variables: t.Mapping[str, t.Mapping[str, t.Any]], names: t.Any = (), restart: t.Any = (), erase: t.Any = ()) -> dict[str, t.Any]:
    """Return the plan; see :func:`model_install.parse`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install, plan_install_step

    try:
        asked, again = _names(names), _names(restart)
        found = model_install.servers(asked, variables, _parse)
        plan_install_step.check(asked, again, variables, found)
        serials = plan_install.serials(erase, found)
        return {"servers": {one.name: _one(one, variables[one.name]) for one in found}, "restart": again, "erase": serials}
    except InputError as error:
        return {"error": str(error), "servers": {}, "restart": [], "erase": []}
    except (AttributeError, TypeError) as error:
        raise AnsibleFilterError(f"install_plan: expected a mapping of servers to their variables, and lists of names: {error!r}") from None


def _parse(name: str, variables: t.Mapping[str, t.Any]) -> model_install.Install:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware, model_install

    path = f"servers.{name}"
    hardware = model_hardware.parse(variables.get("hardware"), f"{path}.hardware")
    bmc = variables.get("bmc") or {}
    known = model_install.Known(bmc.get("boot_mac"), tuple(disk.serial for disk in hardware.disks), tuple(nic.mac for nic in hardware.nics))
    return model_install.parse(variables.get("install"), name, variables.get("ansible_host", name), f"{path}.install", known, path)


def _one(install: model_install.Install, variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware, model_install, run_inventory
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install

    hosts = variables.get("footprint_known_hosts")
    if not hosts:
        raise InputError("is required for the host key of the server.", "footprint_known_hosts", "Use the inventory plugin reduced.footprint.nodes.")
    hardware = model_hardware.parse(variables.get("hardware"), "hardware")
    firmware = hardware.firmware or "bios"
    size = next((disk.size for disk in hardware.disks if disk.serial == install.disk), None)
    lines = plan_install.lines(plan_install.layout(install, firmware, size))
    if not hardware.firmware:
        lines[0] = "partition 1: for the boot loader, by the firmware that boots"
    path = pathlib.Path(str(hosts))
    return {
        "options": model_install.options(install),
        "lines": lines,
        "recorded": install.name in run_inventory.host_keys(path).public,
        "connection": run_inventory.host_connection(install.name, path),
    }


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"install_plan": install_plan}
