# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: read the hardware of this server."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._metal import io_hardware, plan_hardware


def read(lldp_timeout: float, backend: t.Any = io_hardware) -> dict[str, t.Any]:
    """Return the hardware.

    :arg lldp_timeout: seconds to wait for the neighbours of the cards with a link.
    """
    backend.require_root()
    nics = backend.nics()
    raw = plan_hardware.Raw(
        dmi=backend.dmi(),
        tables=backend.dmi_tables(),
        memory=backend.memory(),
        cpus=backend.cpus(),
        cpuinfo=backend.cpuinfo(),
        lsblk=backend.lsblk(),
        nics=nics,
        lldp=backend.lldp([nic["name"] for nic in nics if nic["link"]], lldp_timeout),
        uefi=backend.uefi(),
        iommu=backend.iommu(),
    )
    try:
        return plan_hardware.hardware(raw)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BackendError(f"the output of lsblk or lldpctl cannot be parsed: {error}.", hint="Update util-linux and lldpd.") from error
