# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a configuration file of OpenStack (oslo.config) from settings by section and name. No I/O."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, kind_of, shown

_SECTION = re.compile(r"[A-Za-z0-9_.:/-]+\Z")
_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
_SECRET = re.compile(r"(password|secret|secret_key)\Z")
_BREAK = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def text_of(settings: t.Any, path: str = "settings") -> str:
    """Return the sections, each after an empty line, without those that are empty.

    An element of a list is a line of its own, for options that may be set several times. In passwords and secrets, ``$`` does not refer to
    another option.

    :raises InputError: with the path of the invalid value.
    """
    lines: list[str] = []
    for section, values in sorted(_mapping(settings, path, "section").items(), key=lambda one: str(one[0])):
        here = f"{path}.{section}"
        if not _SECTION.match(str(section)):
            raise InputError(f"{shown(section)} is not a valid name of a section.", here, "Use letters, digits and underscores.")
        found = [line for name, value in sorted(_mapping(values, here, "name").items(), key=_by_name) for line in _lines(name, value, f"{here}.{name}")]
        lines += ["", f"[{section}]", *found] if found else []
    return "".join(f"{line}\n" for line in lines)


def _by_name(item: tuple[t.Any, t.Any]) -> str:
    return str(item[0]).lower()


def _mapping(value: t.Any, path: str, key: str) -> t.Mapping[t.Any, t.Any]:
    if not isinstance(value, t.Mapping):
        raise InputError(f"expected a mapping, got {kind_of(value)}.", path, f"Write settings by section and name, e.g. {{DEFAULT: {{debug: true}}}} ({key}).")
    return value


def _lines(name: t.Any, value: t.Any, path: str) -> list[str]:
    if not _NAME.match(str(name)):
        raise InputError(f"{shown(name)} is not a valid name of an option.", path, "Use letters, digits and underscores.")
    values = value if isinstance(value, (list, tuple)) else [value]
    paths = [f"{path}[{index}]" for index in range(len(values))] if values is value else [path]
    return [f"{name} = {_text(str(name), one, where)}".rstrip() for one, where in zip(values, paths)]


def _text(name: str, value: t.Any, path: str) -> str:
    if not isinstance(value, (str, bool, int, float)):
        raise InputError(f"expected text, a number or a boolean, got {kind_of(value)}.", path, "Use a list for an option that may be set several times only.")
    secret = bool(_SECRET.search(name))
    text = str(value) if secret else str(value).strip()
    if _BREAK.search(text):
        raise InputError("contains a line break or another control character.", path, "Use one line of text.")
    # they are removed when the file is read
    if secret and (text != text.strip() or text[:1] == text[-1:] and text[:1] in ('"', "'")):
        raise InputError("begins and ends with quotes, or with a blank, which services would not read.", path, "Use another one.")
    # "\$" also stands for "$"
    return re.sub(r"(\\?)\$", lambda found: r"\\$" if found[1] else "$$", text) if secret else text
