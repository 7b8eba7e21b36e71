# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: cloud_client
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Whether the control node can manage a cloud
description:
  - Returns a message for each requirement that is missing on the control node. These are the collection C(openstack.cloud) and the Python package
    C(openstacksdk), in the Python environment that runs Ansible.
options:
  _terms:
    description: Not used.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Check the requirements of the control node
  ansible.builtin.assert:
    that: query('reduced.footprint.cloud_client') | length == 0
    fail_msg: "{{ query('reduced.footprint.cloud_client') | join(' ') }}"
"""

RETURN = r"""
_raw:
  description: The messages.
  type: list
  elements: str
"""

import importlib
import importlib.metadata
import json
import pathlib
import typing as t

from ansible.plugins.lookup import LookupBase

#: The versions of ``openstack.cloud`` that the playbooks are written for.
LEAST = (2, 4)
BELOW = (3,)
#: Newer versions of openstacksdk do not import ``openstack.version``, which ``openstack.cloud`` 2.5 reads.
SDK_LEAST = (4, 4)
SDK_BELOW = (4, 11)


class LookupModule(LookupBase):
    """Look for the parts that manage a cloud."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Return the messages."""
        return missing(_version("openstack.cloud"), _sdk())


def _sdk() -> str | None:
    try:
        return importlib.metadata.version("openstacksdk")
    except importlib.metadata.PackageNotFoundError:
        return None


def missing(version: str | None, sdk: str | None) -> list[str]:
    """Return a message for each missing requirement.

    :arg version: that of the collection, ``None`` if it is not installed.
    :arg sdk: that of openstacksdk, ``None`` if it is not installed.
    """
    found = []
    install = "Install the collection, e.g. with `pip install ansible`, which contains it, or `ansible-galaxy collection install openstack.cloud`."
    if version is None:
        found.append(f"The collection openstack.cloud is not installed on the control node. {install}")
    elif not LEAST <= _numbers(version) < BELOW:
        wanted = f"{_text(LEAST)} or newer, below {_text(BELOW)}"
        found.append(f"The collection openstack.cloud has the version {version}; required is {wanted}. {install}")
    install = f"Run `pip install 'openstacksdk>={_text(SDK_LEAST)},<{_text(SDK_BELOW)}'` in the environment of Ansible on the control node."
    if sdk is None:
        found.append(f"The Python package openstacksdk is missing. {install}")
    elif not SDK_LEAST <= _numbers(sdk) < SDK_BELOW:
        found.append(f"The Python package openstacksdk has the version {sdk}, which openstack.cloud cannot use. {install}")
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _version(name: str) -> str | None:
    """Return the version of an installed collection."""
    try:
        package = importlib.import_module(f"ansible_collections.{name}")
    except ImportError:
        return None
    for folder in getattr(package, "__path__", ()):
        manifest = pathlib.Path(folder) / "MANIFEST.json"
        if manifest.is_file():
            return str(json.loads(manifest.read_text(encoding="utf-8"))["collection_info"]["version"])
    # a checkout has no manifest
    return _text(LEAST)
