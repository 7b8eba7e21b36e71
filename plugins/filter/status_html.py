# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the status report of a footprint as an HTML page."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: status_html
short_description: Show the status report of a footprint as an HTML page
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns a report of P(reduced.footprint.status#filter) as one HTML page with the placement of the virtual machines on servers, the
    effect of the loss of each server, the services and their members, and drift.
  - The page is self-contained and has no scripts. All values are escaped.
options:
  _input:
    description: The report of P(reduced.footprint.status#filter).
    type: dict
    required: true
  title:
    description: Name of the footprint in the heading, such as that of its cluster.
    type: str
    default: ''
  time:
    description: Time of the report in the heading.
    type: str
    default: ''
"""

EXAMPLES = r"""
- name: Write the page
  ansible.builtin.copy:
    content: "{{ status_report | reduced.footprint.status_html(title='home', time=now(utc=true, fmt='%Y-%m-%d %H:%M UTC')) }}"
    dest: /srv/www/status.html
    mode: "0644"
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""

from ansible.errors import AnsibleFilterError


def status_html(report: t.Mapping[str, t.Any], title: str = "", time: str = "") -> str:
    """Return the page; see :func:`plan_status_html.status_html`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_status_html

    try:
        return plan_status_html.status_html(report, str(title), str(time))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"status_html: expected a report of the filter reduced.footprint.status: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"status_html": status_html}
