# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status page of an example: two servers, the master migrated, a controller changed by others.

    python -m tests.support.status_page status.html     # PYTHONPATH as for the tests
    python scripts/record-demo --page status.html       # its picture, docs/images/status.png
"""

from __future__ import annotations

import pathlib
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_html import status_html
from tests.support.controlplane import balancer, galera, rabbitmq

NAMES = ("controller1", "controller2", "controller3")
PLACES = dict(zip(NAMES, ("metal1", "metal1", "metal2")))


def _vm(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "state": "running", "memory_mib": 4096, "cpu": 2, "hypervisor": "kvm", **more}


def _room(size: int, free: int) -> dict[str, t.Any]:
    return {"name": "default", "active": True, "size_bytes": size << 30, "free_bytes": free << 30}


def _look(held: bool) -> dict[str, t.Any]:
    services = {"galera": galera(), "rabbitmq": rabbitmq(NAMES), "load_balancer": balancer(held, in_use="controller1")}
    return {"addresses": ["192.0.2.20"] if held else [], "services": services}


def page() -> str:
    """The page."""
    vms = {
        "metal1": [_vm("controller1"), _vm("controller2", drift=[{"path": "vcpu"}]), _vm("master", memory_mib=8192)],
        "metal2": [_vm("controller3")],
    }
    found = {
        "servers": {name: {"reachable": True, "vms": here, "memory": _room(32, 14), "pools": [_room(400, 310)]} for name, here in vms.items()},
        "controllers": {name: {"reachable": True, "error": "", "place": PLACES[name], "look": _look(name == "controller1")} for name in NAMES},
        "members": {"galera": NAMES, "rabbitmq": NAMES, "load_balancer": NAMES},
        "migrations": [{"name": "master", "state": "done", "phase": "commit", "downtime_seconds": 28.1, "host": "metal1"}],
    }
    return status_html(build_status(found), "home", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(page(), "utf-8")
