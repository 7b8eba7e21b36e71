# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Characters that mean something in XML.

Python's own ``xml.sax.saxutils`` brings a whole HTTP client along, which costs each run of a module
more time than comparing fifty domains does.
"""

from __future__ import annotations

_ENTITIES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord('"'): "&quot;", ord("'"): "&apos;"}


def escape(text: str) -> str:
    """A text as it may stand in an element or in an attribute of either kind of quotes."""
    return text.translate(_ENTITIES)
