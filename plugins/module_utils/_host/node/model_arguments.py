# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of modules for the details of a node, documented in the fragment ``virt_node``."""

from __future__ import annotations

import typing as t

_POOL = {
    "name": {"type": "str", "required": True},
    "type": {"type": "str", "choices": ["dir", "logical"]},
    "path": {"type": "str"},
    "source": {"type": "str"},
    "reserve": {"type": "str"},
    "mounted": {"type": "bool"},
}
_NETWORK = {"name": {"type": "str"}, "bridge": {"type": "str", "required": True}}
DETAILS_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "roles": {"type": "list", "elements": "str", "default": []},
    "vms": {"type": "raw", "default": []},
    "pool": {"type": "str", "default": "default"},
    "pool_path": {"type": "path"},
    "pools": {"type": "list", "elements": "dict", "default": [], "options": _POOL},
    "networks": {"type": "list", "elements": "dict", "default": [], "options": _NETWORK},
    "bridges": {"type": "list", "elements": "str", "default": []},
    "memory_reserve": {"type": "str", "default": "1 GiB"},
    "vcpu_ratio": {"type": "float", "default": 4.0},
    "pool_reserve": {"type": "str", "default": "0"},
}
