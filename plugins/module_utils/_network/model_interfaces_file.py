# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A minimal parser of /etc/network/interfaces of ifupdown."""

from __future__ import annotations

#: Keywords that start a stanza.
BEGINNINGS = ("iface", "auto", "mapping", "source", "source-directory", "rename", "no-auto-down", "no-scripts", "template")


def link_of(name: str) -> str:
    """Return the link of an alias such as ``eno1:0``, which only stands for more addresses; other names are returned as they are."""
    return name.partition(":")[0]


def has_stanza(text: str, name: str) -> bool:
    """Whether an interfaces file configures a link, or an alias of it."""
    return any(words[0] == "iface" and link_of(words[1]) == name for words in map(str.split, joined(text)) if len(words) > 1)


def methods(text: str, name: str) -> list[tuple[str, str]]:
    """Return family and method of each stanza of a link and its aliases, e.g. ``("inet", "static")``."""
    lines = (line.split() for line in joined(text))
    return [(words[2], words[3]) for words in lines if len(words) > 3 and words[0] == "iface" and link_of(words[1]) == name]


def sourced_patterns(text: str) -> list[str]:
    """Return the files and folders that an interfaces file includes."""
    words = (line.split() for line in joined(text))
    return [parts[1] for parts in words if len(parts) > 1 and parts[0] in ("source", "source-directory")]


def stanzas(text: str) -> list[list[str]]:
    """Split an interfaces file into stanzas: the first line and the lines that belong to it."""
    groups: list[list[str]] = []
    for line in joined(text):
        words = line.split()
        begins = bool(words) and (words[0] in BEGINNINGS or words[0].startswith(("allow-", "#")))
        if begins or not groups:
            groups.append([line])
        else:
            groups[-1].append(line)
    return groups


def joined(text: str) -> list[str]:
    """Return the lines of a file, with lines that end in a backslash joined with the next."""
    return text.replace("\\\n", " ").splitlines()
