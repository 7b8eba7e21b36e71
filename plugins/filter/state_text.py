# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the text of a file that playbooks keep on a host between runs."""

from __future__ import annotations

import json
import typing as t

DOCUMENTATION = r"""
name: state_text
short_description: Return the text of a file that is kept between runs
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns the values as JSON with the schema number of their kind, so that other versions of this collection know whether they can read it.
options:
  _input:
    description: The values.
    type: dict
    required: true
  kind:
    description: What is kept.
    type: str
    choices: [completed_step, discovered_server, secrets_record]
    required: true
"""

EXAMPLES = r"""
- name: Record a step as done
  ansible.builtin.copy:
    content: "{{ {'step': 'Create the database'} | reduced.footprint.state_text('completed_step') }}"
    dest: /var/lib/reduced.footprint/once/database
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The text.
  type: str
  sample: '{"schema": 1, "step": "Create the database"}'
"""

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def state_text(values: t.Mapping[str, t.Any], kind: str) -> str:
    """Return the text of the file, with a line feed at its end."""
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import KINDS

    if kind not in KINDS:
        raise InputError(f"state_text: unknown kind {kind!r}; expected one of {', '.join(KINDS)}.")
    return json.dumps(KINDS[kind].mark(values), sort_keys=True) + "\n"


FilterModule = filter_module("state_text", state_text)
