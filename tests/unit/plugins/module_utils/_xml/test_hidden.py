# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passwords are never shown."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._xml.hidden import HIDDEN, hidden, shown


def test_text() -> None:
    assert hidden("<graphics type='vnc' passwd='a\"b'/>") == f"<graphics type='vnc' passwd='{HIDDEN}'/>"
    assert hidden('&lt;graphics passwd="x" type="vnc"/&gt;') == f"&lt;graphics passwd='{HIDDEN}' type=\"vnc\"/&gt;"
    assert hidden("<name>passwd</name>") == "<name>passwd</name>"


def test_entries() -> None:
    entry = {"path": "devices/graphics[vnc]/@passwd", "class": "next_boot", "before": None, "after": "secret", "applied": "old"}
    assert shown(entry) == {**entry, "after": HIDDEN, "applied": HIDDEN}
    whole = {"path": "devices/graphics[vnc]", "wanted": "<graphics passwd='secret'/>", "live": None}
    assert shown(whole) == {**whole, "wanted": f"<graphics passwd='{HIDDEN}'/>"}
