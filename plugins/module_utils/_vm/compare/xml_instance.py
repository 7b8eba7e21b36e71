# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metadata of OpenStack Nova in a domain's ``<metadata>``: an instance of a tenant, which only Nova may change."""

from __future__ import annotations

import typing as t

#: Versions 1.0 and 1.1 are in use.
NAMESPACE = "http://openstack.org/xmlns/libvirt/nova/"


class Instance(t.NamedTuple):
    """An instance: its name in Nova, and its project."""

    name: str
    project: str

    @property
    def text(self) -> str:
        """Return it as text."""
        return f"instance {self.name} of the project {self.project}" if self.project else f"instance {self.name}"


def read(document: t.Any) -> Instance | None:
    """Return the instance of a domain, ``None`` if Nova has not defined it."""
    for element in document.iterfind("metadata/*"):
        tag = str(element.tag)
        if tag.startswith(f"{{{NAMESPACE}") and tag.endswith("}instance"):
            namespace = tag[1:].partition("}")[0]
            name = element.findtext(f"{{{namespace}}}name") or ""
            return Instance(name.strip(), (element.findtext(f"{{{namespace}}}owner/{{{namespace}}}project") or "").strip())
    return None
