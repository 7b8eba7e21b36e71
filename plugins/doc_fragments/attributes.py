# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attributes of the modules."""

from __future__ import annotations


_EVERY = r"""
author:
  - reduced.footprint authors (@reduced-footprint)
options: {}
attributes:
  action_group:
    description: Use C(group/reduced.footprint.footprint) in C(module_defaults) to set defaults for this module.
    support: full
    membership: [reduced.footprint.footprint]
  platform:
    support: full
    platforms: linux
    description: Platforms the module runs on.
"""
_CHANGES = f"""{_EVERY}
  check_mode:
    support: full
    description: Returns the changes of a real run, and makes none.
  diff_mode:
"""


class ModuleDocFragment:
    """Every module extends one of the blocks about check mode and diff, after one about another platform; it adds only C(details)."""

    # annotated, because ansible-test accepts only constants in other assignments
    READS: str = f"""{_EVERY}
  check_mode:
    support: full
    description: Changes nothing in any mode.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to show.
"""
    CHANGES: str = f"{_CHANGES}    support: full\n    description: Shows the changes, without secrets.\n"
    CHANGES_WITHOUT_DIFF: str = f"{_CHANGES}    support: none\n    description: Has no text to compare; the result contains the changes.\n"
    CHANGES_DIFF_IN_CHECK_MODE: str = f"{_CHANGES}    support: partial\n    description: Shows the changes in check mode only.\n"

    LIBVIRT = r"""
options: {}
attributes:
  platform:
    support: full
    platforms: linux
    description: Linux with libvirt.
"""
