# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the module ``master_migrate``; ``model_migration`` validates their values."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import FILESYSTEMS
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import CHECK_TYPES
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES

OPTIONS: dict[str, t.Any] = {
    "name": {"type": "str"},
    "state": {"type": "str", "choices": ["prepared", "migrated", "rolled_back", "retired"], "default": "migrated"},
    "source": {
        "type": "dict",
        "options": {
            "address": {"type": "str"},
            "port": {"type": "int", "default": 22},
            "machine_id": {"type": "str"},
            "host_keys": {"type": "list", "elements": "str", "no_log": False},
        },
    },
    "source_facts": {"type": "dict"},
    "admin": {
        "type": "dict",
        "options": {"address": {"type": "str"}, "interface": {"type": "str"}, "temporary_address": {"type": "str"}},
    },
    "quiesce": {"type": "str", "choices": ["stop_services", "maintenance_boot"], "default": "stop_services"},
    "services": {"type": "list", "elements": "str", "default": []},
    "containers": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"engine": {"type": "str", "choices": ["docker", "podman"], "required": True}, "name": {"type": "str", "required": True}},
    },
    "vm": {"type": "dict", "default": {}},
    "cluster": {"type": "str", "default": "footprint"},
    "uri": {"type": "str", "default": "qemu:///system"},
    "template": {"type": "str"},
    "pool": {"type": "str", "default": "default"},
    "boot": {"type": "str", "choices": ["image", "pxe"], "default": "image"},
    "pxe_from_source": {"type": "bool", "default": False},
    "sync": {"type": "str", "choices": ["rsync", "rsync_dd"], "default": "rsync"},
    "disk_schema": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "mount": {"type": "str"},
            "fs": {"type": "str", "choices": list(FILESYSTEMS)},
            "size": {"type": "str"},
            "disk": {"type": "int", "default": 0},
            "raw": {"type": "str"},
        },
    },
    "bandwidth_limit": {"type": "str"},
    "excludes": {"type": "list", "elements": "str", "default": []},
    "rehearse": {"type": "bool", "default": True},
    "rehearse_timeout": {"type": "int"},
    "health_checks": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "type": {"type": "str", "choices": list(CHECK_TYPES), "default": "tcp"},
            "port": {"type": "int"},
            "url": {"type": "str"},
            "status": {"type": "int", "default": 200},
            "command": {"type": "list", "elements": "str"},
            "unit": {"type": "str"},
            "rehearse": {"type": "bool", "default": True},
        },
    },
    "hooks": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "phase": {"type": "str", "choices": list(PHASES), "required": True},
            "when": {"type": "str", "choices": ["before", "after"], "default": "before"},
            "on": {"type": "str", "choices": ["source", "destination"], "default": "destination"},
            "command": {"type": "list", "elements": "str", "required": True},
            "command_timeout": {"type": "int", "default": 600},
        },
    },
    "preparation_timeout": {"type": "int", "default": 0},
    "cutover_at": {"type": "str"},
    "cutover_window": {"type": "int", "default": 3600},
    "max_pause": {"type": "int", "default": 0},
    "max_passes": {"type": "int", "default": 6, "no_log": False},
    "max_downtime": {"type": "int", "default": 5},
    "boot_timeout": {"type": "int", "default": 300},
    "lease_timeout": {"type": "int", "default": 120},
    "source_after": {"type": "str", "choices": ["temp_address", "shutdown"], "default": "temp_address"},
    "stop_after": {"type": "str"},
    "discard_vm_data": {"type": "bool", "default": False},
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 7200},
}
