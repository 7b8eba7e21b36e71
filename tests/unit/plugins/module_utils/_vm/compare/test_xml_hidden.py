# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passwords are never shown."""

from __future__ import annotations

from lxml import etree

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import HIDDEN, concealed, hidden, reveal, shown


def test_text() -> None:
    assert hidden("<graphics type='vnc' passwd='a\"b'/>") == f"<graphics type='vnc' passwd='{HIDDEN}'/>"
    assert hidden('&lt;graphics passwd="x" type="vnc"/&gt;') == f"&lt;graphics passwd='{HIDDEN}' type=\"vnc\"/&gt;"
    assert hidden("<name>passwd</name>") == "<name>passwd</name>"


def test_entries() -> None:
    entry = {"path": "devices/graphics[vnc]/@passwd", "class": "next_boot", "before": None, "after": "secret", "applied": "old"}
    assert shown(entry) == {**entry, "after": HIDDEN, "applied": HIDDEN}
    whole = {"path": "devices/graphics[vnc]", "wanted": "<graphics passwd='secret'/>", "live": None}
    assert shown(whole) == {**whole, "wanted": f"<graphics passwd='{HIDDEN}'/>"}


def test_what_is_kept_says_that_there_is_a_password_and_not_which() -> None:
    text = '<domain><devices><graphics passwd="a&quot;&gt; b" type="vnc"><listen passwd="kept"/></graphics></devices><x passwd="kept"/></domain>'
    assert concealed(text) == text.replace("a&quot;&gt; b", HIDDEN)
    assert concealed(concealed(text)) == concealed(text)
    assert concealed("<graphics name='passwd'/>") == "<graphics name='passwd'/>"


def test_passwords_come_back_by_the_type_of_the_device() -> None:
    kept = etree.fromstring(f"<d><devices><graphics type='spice' passwd='{HIDDEN}'/><graphics type='vnc' passwd='{HIDDEN}'/></devices></d>")
    source = etree.fromstring("<d><devices><graphics type='vnc' passwd='one'/><graphics type='spice'/></devices></d>")
    assert reveal(kept, source) == ["spice"]
    assert [each.get("passwd") for each in kept.iter("graphics")] == [HIDDEN, "one"]
