# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The remaining capacity of a node, with the active guests and with all defined guests."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest


def left(facts: HostFacts, recorded: t.Mapping[str, t.Any], guests: t.Sequence[Guest]) -> dict[str, t.Any]:
    """Return total, reserved and remaining memory and vCPUs of the node.

    A paused or suspended guest keeps its memory, so it counts as active. The
    remaining values are negative if the guests exceed the capacity.

    :arg recorded: the recorded capacity, for its reserve and ratio.
    """
    reserve, ratio = recorded.get("memory_reserve_mib", 0), recorded.get("vcpu_ratio", 1)
    memory, vcpus = facts.memory_mib - reserve, math.floor(facts.cpus * ratio)
    active = [guest for guest in guests if guest.active]
    return {
        "memory_mib": facts.memory_mib,
        "memory_reserve_mib": reserve,
        "cpus": facts.cpus,
        "vcpu_ratio": ratio,
        "arch": facts.arch,
        "kernel": facts.kernel,
        "cpu_model": facts.cpu_model,
        "qemu_version": facts.qemu_version,
        "active_mib": sum(guest.memory_mib for guest in active),
        "active_vcpus": sum(guest.cpu for guest in active),
        "defined_mib": sum(guest.memory_mib for guest in guests),
        "defined_vcpus": sum(guest.cpu for guest in guests),
        "memory_left_mib": memory - sum(guest.memory_mib for guest in active),
        "vcpus_left": vcpus - sum(guest.cpu for guest in active),
        "memory_left_all_running_mib": memory - sum(guest.memory_mib for guest in guests),
    }
