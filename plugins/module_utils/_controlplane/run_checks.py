# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the questions to a host that only the playbook ``doctor`` asks. Each is asked for itself: a disk or libvirt that hangs hides no other answer."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_machine, run_add_server, run_run_lock
from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_libvirt_host import LibvirtHost

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._core.io_questions import Question

_URI = "qemu:///system"


def questions(server: bool, cluster: str) -> dict[str, Question]:
    """Return the questions by the name of their part, as documented in ``status_info``.

    :arg server: whether the host is a virt host.
    """
    found: dict[str, Question] = {name: getattr(io_machine, name) for name in ("links", "file_systems", "disks", "units", "restart", "keys")}
    found["run"] = run_run_lock.recorded
    if server:
        found |= {"pools": pools, "record": _record, "moves": functools.partial(run_add_server.departures, cluster, True)}
    return found


def pools() -> list[dict[str, t.Any]]:
    """Return the storage pools of libvirt with their space."""
    with LibvirtHost(_URI) as host:
        return [
            {"name": pool.name, "type": pool.type, "active": active, "autostart": autostart, "size_bytes": pool.capacity, "free_bytes": pool.available}
            for pool, active, autostart in host.pools()
        ]


def _record() -> dict[str, t.Any]:
    attributes = io_facts.read_recorded()[1].get("attributes") or {}
    return {**{key: attributes.get(key) for key in ("name", "cluster", "roles")}, "qemu": io_facts.qemu_version()}
