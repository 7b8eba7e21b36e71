# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mark in the definition of a VM that was moved away, for administrators who read it with libvirt's own tools."""

from __future__ import annotations

try:
    from lxml import etree
except ImportError:
    # the missing library is reported by the parser (_vm.compare.xml_domain)
    etree = None

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import MOVED_METADATA

NAMESPACE = f"https://reduced.footprint/xmlns/moved/{MOVED_METADATA.number}"
PREFIX = "footprint-moved"


def mark_text(to: str, at: str) -> str:
    """The element without its namespace, as libvirt expects it."""
    element = etree.Element("moved", {"to": to, "at": at})
    element.text = "do not start"
    return etree.tostring(element, encoding="unicode")
