# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Positions of the scalars in a YAML text, with the keys above them; standard library only.

Used to change or mask values in place without changing the rest of the text. Anchors and tags count as
part of a value. Text that is not YAML returns nothing or arbitrary positions, and raises no error.
"""

from __future__ import annotations

import re
import typing as t

Scalar = t.Tuple[t.Tuple[str, ...], int, int]

_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'"""
_KEY = re.compile(rf"""(?:\?[ ]+)?({_QUOTED}|[^\s#"'\[\]{{}},&*!|>%@`-][^\n#]*?|-[^\s\n#][^\n#]*?)[ \t]*:(?=[ \t\n]|\Z)""", re.DOTALL)
_WHOLE = re.compile(_QUOTED, re.DOTALL)
_PLAIN_END = re.compile(r"[ \t]+#|[ \t]*(?=\n|\Z)")
_FLOW_PLAIN = re.compile(r"(?:[^,\[\]{}\n:#]|:(?![\s,\[\]{}])|(?<!\s)#)+")


def scalars(text: str) -> t.Iterator[Scalar]:
    """Yield the keys above each scalar (list items have no key), its start and its end, including quotes."""
    return iter(_Scanner(text).run())


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[Scalar] = []
        # indentation and key of the open mappings and lists; a list item has no key
        self.open: list[tuple[float, str | None]] = []

    def run(self) -> list[Scalar]:
        position = 0
        while position < len(self.text):
            position = self._line(position)
        return self.found

    def _keys(self) -> tuple[str, ...]:
        return tuple(key for unused, key in self.open if key is not None)

    def _close(self, indent: float) -> None:
        while self.open and self.open[-1][0] >= indent:
            self.open.pop()

    def _line_end(self, position: int) -> int:
        end = self.text.find("\n", position)
        return len(self.text) if end < 0 else end

    def _line(self, start: int) -> int:
        """Scan the value that starts in a line; returns the position after it."""
        text, end = self.text, self._line_end(start)
        position = start + len(text[start:end]) - len(text[start:end].lstrip(" "))
        if position == end or text[position] in "#%" or text.startswith(("---", "..."), position) and position == start and not text[start + 3 : end].strip():
            return end + 1
        while text[position : position + 2] == "- " or position == end - 1 and text[position] == "-":
            # a list may have the same indentation as its key
            self._close(position - start + 0.5)
            self.open.append((position - start + 0.5, None))
            position += 1
            position += len(text[position:end]) - len(text[position:end].lstrip(" "))
        if position >= end:
            return end + 1
        indent = position - start
        key = _KEY.match(text, position)
        if key is not None and text[position] not in "[{":
            self._close(indent)
            self.open.append((indent, _unquoted(key.group(1))))
            position = key.end()
            position += len(text[position : self._line_end(position)]) - len(text[position : self._line_end(position)].lstrip(" \t"))
            end = self._line_end(position)
            if position >= end or text[position] == "#":
                return end + 1
        return self._value(position, self.open[-1][0] if self.open else -1)

    def _value(self, position: int, indent: float) -> int:
        text = self.text
        first = text[position]
        if first in "[{":
            return self._line_end(self._flow(position, self._keys())) + 1
        end = self._line_end(position)
        if first in "|>":
            block = re.compile(rf"(?:[ \t]*\n|[ ]{{{int(indent) + 1},}}[^\n]*(?:\n|\Z))*").match(text, end + 1)
            stop = block.end() if block and end < len(text) else end
            self.found.append((self._keys(), position, stop - 1 if text[stop - 1 : stop] == "\n" else stop))
            return max(stop, end + 1)
        quoted = _WHOLE.match(text, position) if first in "\"'" else None
        if quoted is not None:
            self.found.append((self._keys(), position, quoted.end()))
            return self._line_end(quoted.end()) + 1
        plain = _PLAIN_END.search(text, position)
        stop = plain.start() if plain else end
        # a plain scalar continues in lines that are indented further and have no key
        following = end + 1
        while following < len(text):
            line = text[following : self._line_end(following)]
            bare = line.lstrip(" ")
            if not bare or len(line) - len(bare) <= indent or bare[0] == "#" or _KEY.match(bare) or bare.startswith("- "):
                break
            stop, following = following + len(line.rstrip()), self._line_end(following) + 1
        self.found.append((self._keys(), position, stop))
        return following

    def _flow(self, position: int, keys: tuple[str, ...]) -> int:
        """Scan a flow mapping or list; returns the position after it."""
        text, key = self.text, None
        position += 1
        while position < len(text):
            one = text[position]
            if one in "]}":
                return position + 1
            if one in " \t\n,":
                key = None if one == "," else key
                position += 1
            elif one == "#":
                position = self._line_end(position)
            elif one in "[{":
                position = self._flow(position, keys if key is None else (*keys, key))
            elif one == ":":
                position += 1
            else:
                read = _WHOLE.match(text, position) if one in "\"'" else _FLOW_PLAIN.match(text, position)
                if read is None:
                    position += 1
                    continue
                end = position + len(read.group().rstrip())
                after = re.compile(r"\s*:").match(text, end)
                if after and key is None:
                    key, position = _unquoted(text[position:end]), after.end()
                else:
                    self.found.append((keys if key is None else (*keys, key), position, end))
                    position = read.end()
        return position


def _unquoted(text: str) -> str:
    return text[1:-1] if text[:1] in "\"'" and text[-1:] == text[:1] and len(text) > 1 else text
