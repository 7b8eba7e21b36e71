# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Positions of the scalars in a YAML text, with the keys above them, to change or mask values in place without changing the rest of the text."""

from __future__ import annotations

import typing as t

Scalar = t.Tuple[t.Tuple[str, ...], int, int]


def scalars(text: str) -> list[Scalar]:
    """Return the keys above each scalar (list items have no key), its start and its end, including quotes.

    :raises ImportError: Python has no YAML module.
    :raises ValueError: the text is not YAML.
    """
    import yaml

    found: list[Scalar] = []
    seen: set[int] = set()

    def walk(node: t.Any, keys: tuple[str, ...]) -> None:
        # an alias is the node of its anchor, which may contain it
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, (*keys, key.value) if isinstance(key, yaml.ScalarNode) else keys)
        elif isinstance(node, yaml.SequenceNode):
            for value in node.value:
                walk(value, keys)
        else:
            start = node.start_mark.index
            # a block ends before what follows it
            found.append((keys, start, start + len(text[start : node.end_mark.index].rstrip())))

    try:
        documents = list(yaml.compose_all(text, Loader=yaml.BaseLoader))
        for document in documents:
            walk(document, ())
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("is not valid YAML") from error
    return found
