# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Identities of a VM, the same on every host and in every run: derived, never random."""

from __future__ import annotations

import hashlib
import uuid

# Must never change: another value would give every existing VM a new identity.
_NAMESPACE = uuid.UUID("6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11")


def _seed(*parts: object) -> str:
    # length-prefixed, so that ("a", "bc") and ("ab", "c") differ
    return "".join(f"{len(str(part))}:{part}," for part in parts)


def vm_uuid(cluster: str, vm_id: str | int) -> str:
    """Return the UUID of a VM, derived from its cluster and id; ``0`` and ``"0"`` are the same id."""
    return str(uuid.uuid5(_NAMESPACE, _seed("vm", cluster, vm_id)))


def nic_mac(cluster: str, vm_id: str | int, key: str | int) -> str:
    """Return the MAC of a NIC, in the range ``52:54:00`` of QEMU and libvirt.

    :arg key: the NIC's name, or its position in the list (from 0); ``0`` and ``"0"`` are the same NIC.
    """
    digest = hashlib.sha256(_seed("nic", cluster, vm_id, key).encode("utf-8")).digest()
    return "52:54:00:" + ":".join(f"{byte:02x}" for byte in digest[:3])
