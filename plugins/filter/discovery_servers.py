# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the servers that are discovered."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: discovery_servers
short_description: Return the servers that are discovered
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns the servers of the inventory with a management controller, or those among them that are named.
positional: names
options:
  _input:
    description: The names of all servers with C(bmc), a mapping that is empty for a server without it.
    type: dict
    required: true
  names:
    description: The servers to discover, a list or names separated by commas. Empty means all.
    type: raw
  restart:
    description: The servers that may be restarted, a list or names separated by commas.
    type: raw
"""

EXAMPLES = r"""
- name: Choose the servers
  ansible.builtin.debug:
    msg: "{{ {'metal1': hostvars.metal1.bmc} | reduced.footprint.discovery_servers(['metal1']) }}"
"""

RETURN = r"""
_value:
  description: V(servers), and V(restart), those that may be restarted. With an invalid name V(error).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def _names(value: t.Any) -> list[str]:
    # a survey and the command line give text
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [str(name) for name in value or ()]


def discovery_servers(servers: t.Mapping[str, t.Any], names: t.Any = (), restart: t.Any = ()) -> dict[str, t.Any]:
    """Return the servers; see :func:`plan_discovery.chosen`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery

    try:
        again = _names(restart)
        return {"servers": plan_discovery.chosen(_names(names), again, [name for name, bmc in servers.items() if bmc], list(servers)), "restart": again}
    except InputError as error:
        return {"error": str(error), "servers": [], "restart": []}
    except (AttributeError, TypeError) as error:
        raise AnsibleFilterError(f"discovery_servers: expected a mapping of servers to bmc, and lists of names: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"discovery_servers": discovery_servers}
