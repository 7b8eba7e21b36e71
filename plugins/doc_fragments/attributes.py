# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes of several modules."""

from __future__ import annotations


class ModuleDocFragment:
    """Attribute blocks, each extended by name."""

    LINUX = r"""
options: {}
attributes:
  platform:
    support: full
    platforms: linux
    description: Platforms the module runs on.
"""

    LIBVIRT = r"""
options: {}
attributes:
  platform:
    support: full
    platforms: linux
    description: Linux with libvirt.
"""

    READS = r"""
options: {}
attributes:
  check_mode:
    support: full
    description: Changes nothing in any mode.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to show.
"""
