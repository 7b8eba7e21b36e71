# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the modules for power control."""

from __future__ import annotations


class ModuleDocFragment:
    """The machine: a server by its BMC, or a VM."""

    DOCUMENTATION = r"""
options:
  bmc:
    description:
      - The management controller of a server, with Redfish. P(reduced.footprint.bmc#lookup) returns it for a server of the inventory.
      - Its address, user and password are never shown or logged.
    type: dict
    suboptions:
      address:
        description: Name or address of the controller, with C(:PORT) if that is not 443.
        type: str
        required: true
      user:
        description: Name of the account.
        type: str
        required: true
      password:
        description: Password of the account. A wrong one is tried once.
        type: str
        required: true
      verify_ca:
        description:
          - How to verify the certificate of the controller. V(true) uses the authorities of the machine that runs the task, an absolute path
            the authorities in that file.
          - V(false) accepts any certificate, with a warning.
        type: str
        default: 'true'
      system:
        description: Id, name or UUID of the server's system, for a controller with several.
        type: str
      server_address:
        description: Address of the server itself. A controller at this address is refused, because it would not answer while the server is off.
        type: str
  vm:
    description: Name of a VM on this host, instead of O(bmc).
    type: str
  uri:
    description: libvirt connection URI of the VM; by default all drivers of the host are searched. Required if two of them have a VM of this name.
    type: str
  request_timeout:
    description: Seconds to wait for each answer of the controller.
    type: int
    default: 30
"""
