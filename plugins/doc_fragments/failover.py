# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the two servers of a cluster that starts VMs by itself."""

from __future__ import annotations


class ModuleDocFragment:
    """The fragment."""

    DOCUMENTATION = r"""
options:
  cluster:
    description: Name of the cluster, which is also the name in the certificate of its servers.
    type: str
  members:
    description: The two servers.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the server.
        type: str
        required: true
      addresses:
        description: Its address, or two, in different networks. A lost network then changes nothing.
        type: list
        elements: str
        required: true
      bmc:
        description: Its management controller with Redfish, as the lookup P(reduced.footprint.bmc#lookup) returns it.
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
            description: Password of the account.
            type: str
            required: true
          verify_ca:
            description: V(false) accepts any certificate.
            type: str
            default: 'true'
          system:
            description: Id, name or UUID of the server's system, for a controller with several.
            type: str
          server_address:
            description: Address of the server itself, where a controller is refused.
            type: str
      bmc_authority:
        description: Certificate of the authority of the controller, as PEM text. By default the authorities that the other server trusts.
        type: str
      watchdog:
        description: Whether it has a hardware watchdog, C(/dev/watchdog0).
        type: bool
        default: false
  witness:
    description: Address of the witness.
    type: str
  watchdog:
    description:
      - Whether a server that lost its majority is reset by its watchdog, through SBD without a disk. V(auto) uses the watchdogs if a server has no
        O(members[].bmc), V(always) also behind the controllers, V(never) not at all.
      - A server that has neither is refused.
    type: str
    choices: [auto, always, never]
    default: auto
"""
