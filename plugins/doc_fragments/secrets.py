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
  generate:
    description:
      - Whether what is missing is generated. Without it, a missing file is an error.
      - Default is V(true), except in a job of AWX, whose files are lost when it ends. There, set it to V(true) only if O(directory)
        survives, for example on a mounted volume; it must exist.
    type: bool
    vars:
      - name: footprint_secrets_generate
  stores:
    description:
      - The marks of the directories with whose secrets the hosts were deployed, if they are known. Nothing is generated in a
        directory with another mark, or without one.
      - The playbooks that write secrets to hosts set the variable, for example C(deploy_controllers) and C(spawn_vms).
    type: list
    elements: str
    vars:
      - name: footprint_secrets_stores
"""
