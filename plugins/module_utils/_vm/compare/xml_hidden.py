# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passwords a document carries (VNC, SPICE) are compared and applied, and never shown or kept."""

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
    """A canonical document as the metadata keep it: everybody may read those, so passwords are left out.

    That there is one still shows; which one is libvirt's to know, see :func:`reveal`.
    """
    if "passwd" not in text:
        return text
    return _GRAPHICS.sub(lambda found: _CANONICAL.sub(rf'\1"{HIDDEN}"', found.group()), text)


def reveal(document: t.Any, source: t.Any) -> list[str]:
    """Put the passwords of a document that has them into one that was concealed.

    :arg source: the same domain, read from libvirt with its passwords; a device is found by its type.
    :returns: types of the devices whose password nobody knows.
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
    """A document or a piece of one without its passwords."""
    return _PASSWORD.sub(rf"\1'{HIDDEN}'", text) if "passwd" in text else text


def secret_free(path: str, value: str | None) -> str | None:
    """A value at a path as it may be kept and shown."""
    return value if value is None else HIDDEN if path.endswith("/@passwd") else hidden(value)


def shown(entry: t.Mapping[str, str | None]) -> dict[str, str | None]:
    """One change or outside change (``path`` and values) without passwords."""
    path = entry.get("path") or ""
    return {key: value if key in ("path", "class") else secret_free(path, value) for key, value in entry.items()}
