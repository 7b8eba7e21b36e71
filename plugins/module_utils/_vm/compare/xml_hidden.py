# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hides the passwords of a document (VNC, SPICE): they are compared and applied, but never shown or stored."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "VALUE_HIDDEN"

_PASSWORD = re.compile(r"""(\spasswd\s*=\s*)("[^"]*"|'[^']*')""")


# a start tag in canonical form: attributes in double quotes, which may hold a ">"
_GRAPHICS = re.compile(r"""<graphics(?:\s+[\w:.-]+="[^"]*")*""")
_CANONICAL = re.compile(r"""(\spasswd=)"[^"]*\"""")
_PLACES = "devices/graphics[@passwd]"


def concealed(text: str) -> str:
    """A canonical document for the metadata, which any user of libvirt can read, so passwords are omitted.

    The text still shows that there is a password; only libvirt stores it, see :func:`reveal`.
    """
    if "passwd" not in text:
        return text
    return _GRAPHICS.sub(lambda found: _CANONICAL.sub(rf'\1"{HIDDEN}"', found.group()), text)


def reveal(document: t.Any, source: t.Any) -> list[str]:
    """Insert the passwords of another document into a concealed one.

    :arg source: the same domain, read from libvirt with its passwords; a device is found by its type.
    :returns: types of the devices whose password is unknown.
    """
    unknown = []
    for element in document.iterfind(_PLACES):
        if element.get("passwd") != HIDDEN:
            continue
        kind = element.get("type")
        twin = next((other for other in source.iterfind(_PLACES) if other.get("type") == kind), None)
        if twin is None:
            unknown.append(kind)
        else:
            element.set("passwd", twin.get("passwd"))
    return unknown


def hidden(text: str) -> str:
    """A document or a part of it without its passwords."""
    return _PASSWORD.sub(rf"\1'{HIDDEN}'", text) if "passwd" in text else text


def secret_free(path: str, value: str | None) -> str | None:
    """A value at a path without passwords, as it can be stored and shown."""
    return value if value is None else HIDDEN if path.endswith("/@passwd") else hidden(value)


def shown(entry: t.Mapping[str, str | None]) -> dict[str, str | None]:
    """One entry of ``changes`` or ``drift`` (``path`` and values) without passwords."""
    path = entry.get("path") or ""
    return {key: value if key in ("path", "class") else secret_free(path, value) for key, value in entry.items()}
