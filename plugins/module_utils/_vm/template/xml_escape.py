# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Escaping of XML text.

Importing Python's ``xml.sax.saxutils`` also imports an HTTP client, which takes more time in each run of
a module than comparing fifty domains.
"""

from __future__ import annotations

_ENTITIES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&apos;"}


def escape(text: str) -> str:
    """Return a text escaped for an element, or for an attribute in single or double quotes."""
    return text.translate(_ENTITIES)
