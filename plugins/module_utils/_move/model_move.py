# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request to move a VM to another virt host, and what is copied for it."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import number
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, parse_rate
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine, parse_machine
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

_MOST = 10**9
AUTO, LIVE, COPY = "auto", "live", "copy"

DISK, STATE = "disk", "state"


class MoveSpec(t.NamedTuple):
    """The request; times in seconds, ``bandwidth_limit`` in KiB per second, 0 for no limit."""

    id: str
    cluster: str
    destination: Machine
    uri: str | None
    destination_uri: str | None
    method: str
    shutdown_timeout: int
    force: bool
    max_downtime: float
    max_passes: int
    bandwidth_limit: int
    live_timeout: int
    start_timeout: int


class Item(t.NamedTuple):
    """One file or folder of a VM.

    ``kind`` is file or dir. A ``base`` is an image that other VMs may use too: it is copied if
    missing and never changed. ``carried`` marks what libvirt transfers in a live migration: a
    ``disk``, or the ``state`` of a device. Sizes in bytes; for a folder the size of its tree.
    """

    path: str
    kind: str
    base: bool = False
    carried: str = ""
    format: str = "raw"
    capacity: int = 0
    size: int = 0
    backing: str | None = None
    backing_format: str | None = None


def parse_spec(params: t.Mapping[str, t.Any]) -> MoveSpec:
    """Parse the request from the module parameters or the job file, which have the same keys."""
    return MoveSpec(
        id=parse_name(params.get("id"), "id"),
        cluster=parse_name(params.get("cluster") or "default", "cluster"),
        destination=parse_machine(params.get("destination"), "destination"),
        uri=params.get("uri"),
        destination_uri=params.get("destination_uri") or params.get("uri"),
        method=params.get("method") or AUTO,
        shutdown_timeout=number(params.get("shutdown_timeout"), 120, 1, _MOST, "shutdown_timeout"),
        force=bool(params.get("force")),
        max_downtime=_seconds(params.get("max_downtime"), 1.0, "max_downtime"),
        max_passes=number(params.get("max_passes"), 5, 0, _MOST, "max_passes"),
        bandwidth_limit=-(-parse_rate(params.get("bandwidth_limit"), "bandwidth_limit") // KIB),
        live_timeout=number(params.get("live_timeout"), 3600, 1, _MOST, "live_timeout"),
        start_timeout=number(params.get("start_timeout"), 60, 1, _MOST, "start_timeout"),
    )


def _seconds(value: t.Any, default: float, path: str) -> float:
    if value is None:
        return default
    if not 0.01 <= float(value) <= 3600:
        raise InputError(f"{value} is not between 0.01 and 3600.", path, "Use seconds, e.g. 1.")
    return float(value)
