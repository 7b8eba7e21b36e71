# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of controlplane_info for healthy hosts, as input of tests."""

from __future__ import annotations

import typing as t

UUID = "11111111-2222-3333-4444-555555555555"
ADDRESS = "192.0.2.20"


def unit(state: str = "active", invocation: str = "a1") -> dict[str, t.Any]:
    return {"state": state, "sub": "running" if state == "active" else "dead", "pid": 1, "since": "2026-01-01T00:00:00Z", "invocation": invocation}


def galera(state: str = "active", ready: bool = True, size: int = 3, seqno: int = 7, **facts: t.Any) -> dict[str, t.Any]:
    defaults = {"ready": ready, "primary": ready, "running": True, "size": size, "seqno": seqno, "cluster_uuid": UUID, "local_state": "Synced", "problems": []}
    return {"units": {"mariadb.service": unit(state)}, "facts": {**defaults, **facts} if state == "active" else None}


def balancer(held: bool = False, in_use: str | None = "c1", down: t.Sequence[str] = (), haproxy: str = "active", vrrp: str = "") -> dict[str, t.Any]:
    servers = {name: {"status": "DOWN" if name in down else "UP", "sessions": 0} for name in ("c1", "c2", "c3")}
    return {
        "units": {"haproxy.service": unit(haproxy), "keepalived.service": unit()},
        "facts": {
            "virtual_addresses": [ADDRESS],
            "held": [ADDRESS] if held else [],
            "vrrp": {"footprint": vrrp or ("MASTER" if held else "BACKUP")},
            "frontends": {"mysql": {"servers": servers, "in_use": in_use}} if haproxy == "active" else None,
            "fronts": [{"address": ADDRESS, "port": 3306, "scheme": "mysql"}] if held else [],
        },
    }


def rabbitmq(running: t.Sequence[str] = ("c1", "c2", "c3"), state: str = "active", **facts: t.Any) -> dict[str, t.Any]:
    defaults = {"members": ["c1", "c2", "c3"], "running": list(running), "partitions": {}, "alarms": [], "version": "3.10.8"}
    return {"units": {"rabbitmq-server.service": unit(state)}, "facts": {**defaults, **facts} if state == "active" else None}


def look(held: bool = False, **services: t.Any) -> dict[str, t.Any]:
    """Return the result of one host with database and load balancer, with additions and changes."""
    return {"addresses": ["192.0.2.11", *([ADDRESS] if held else [])], "services": {"galera": galera(), "load_balancer": balancer(held), **services}}
