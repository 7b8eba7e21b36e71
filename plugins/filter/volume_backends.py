# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: what servers need for the backends of volumes."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: volume_backends
short_description: Return what cinder-volume, libvirt and the servers need for the backends of volumes
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Checks the variable C(cinder_volume_backends) and returns an entry for each backend. For internal use by the role C(cinder_volume), which describes the
    keys of each type of backend.
positional: environment
options:
  _input:
    description: "Name → C(type), the keys of the type, and C(settings)."
    type: dict
    required: true
  environment:
    description: Name of the environment.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the names of the backends
  ansible.builtin.debug:
    msg: "{{ cinder_volume_backends | reduced.footprint.volume_backends('shop') | map(attribute='name') }}"
"""

RETURN = r"""
_value:
  description:
    - For each backend C(name), C(shared), C(settings), C(files), C(packages), C(client_packages) and C(secret). C(files) and C(secret) contain keys.
  type: list
  elements: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError


def volume_backends(backends: t.Any, environment: str) -> list[dict[str, t.Any]]:
    """Return the backends."""
    import dataclasses

    from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_backends

    try:
        return [
            {**dataclasses.asdict(one), **{key: list(getattr(one, key)) for key in ("files", "packages", "client_packages")}}
            for one in model_backends.parse(backends, environment)
        ]
    except InputError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"volume_backends": volume_backends}
