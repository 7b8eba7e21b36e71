# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: whether a machine is the server that it was booted as."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: discovery_problems
short_description: Check that a machine is the server that it was booted as
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Compares the identity of a machine (UUID of the system, else its serial number, else a MAC) with that of all servers whose hardware was read.
positional: name
options:
  _input:
    description: RV(reduced.footprint.server_hardware_info#module:hardware) of the machine.
    type: dict
    required: true
  name:
    description: The name of the server.
    type: str
    required: true
  address:
    description: The address at which it was reached.
    type: str
    required: true
  boot_mac:
    description: C(bmc.boot_mac) of the server.
    type: str
  kept:
    description: Each server whose hardware was read, with the text of its file.
    type: dict
    default: {}
  folder:
    description: Folder of these files.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Check the identity
  ansible.builtin.debug:
    msg: "{{ result.hardware | reduced.footprint.discovery_problems('metal1', address='192.0.2.11', folder='.discovered') }}"
"""

RETURN = r"""
_value:
  description: The reasons why it is another machine. Empty if it is this server.
  type: list
  elements: str
"""

from ansible.errors import AnsibleFilterError


def discovery_problems(
    hardware: t.Mapping[str, t.Any], name: str, address: str, folder: str, boot_mac: str | None = None, kept: t.Mapping[str, str] | None = None
) -> list[str]:
    """Return the problems; see :func:`plan_discovery.problems`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import DISCOVERED_SERVER
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery

    try:
        others = {each: DISCOVERED_SERVER.load(text, f"{folder}/{each}.json").get("hardware") for each, text in (kept or {}).items()}
        return plan_discovery.problems(name, hardware, boot_mac, address, {each: its for each, its in others.items() if its}, folder)
    except ValueError as error:
        raise AnsibleFilterError(f"discovery_problems: cannot parse a file in {folder}: {error}. Remove it.") from None
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"discovery_problems: expected results of server_hardware_info: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"discovery_problems": discovery_problems}
