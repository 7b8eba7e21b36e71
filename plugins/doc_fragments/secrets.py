# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of the lookups that keep secrets on the control node."""

from __future__ import annotations


class ModuleDocFragment:
    """The directory of the secrets of an environment."""

    DOCUMENTATION = r"""
options:
  directory:
    description: Directory of the secrets. Default C(.secrets/) and the name of the environment, in the directory of the inventory.
    type: str
    vars:
      - name: footprint_secrets
  environment:
    description: Name of the environment. Default is the variable C(footprint_cluster), else V(footprint).
    type: str
    vars:
      - name: footprint_environment
"""
