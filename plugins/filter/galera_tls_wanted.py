# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: whether the members of a Galera cluster must use TLS."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_tls_wanted
short_description: Decide whether the members of a Galera cluster use TLS
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A new cluster uses TLS. An existing cluster keeps its setting, so that no run changes it unexpectedly.
  - The operator's setting always takes precedence.
positional: asked
options:
  _input:
    description: The result C(galera) of M(reduced.footprint.galera_info) for each member, nothing for one that does not answer.
    type: list
    elements: dict
    required: true
  asked:
    description: The operator's setting, nothing if unset.
    type: bool
"""

EXAMPLES = r"""
- name: Show whether TLS is used
  ansible.builtin.debug:
    msg: "{{ [{'tls': 'off', 'tls_written': 'off'}, none] | reduced.footprint.galera_tls_wanted }}"
"""

RETURN = r"""
_value:
  description: Whether TLS is wanted.
  type: bool
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_tls import tls_wanted


def galera_tls_wanted(looks: t.Iterable[t.Mapping[str, t.Any] | None], asked: bool | None = None) -> bool:
    """Return whether TLS is wanted; see :func:`tls_wanted`."""
    try:
        return tls_wanted(None if asked is None else bool(asked), looks)
    except (AttributeError, TypeError) as error:
        raise AnsibleFilterError(f"galera_tls_wanted: expected results of galera_info: {error!r}") from error


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"galera_tls_wanted": galera_tls_wanted}
