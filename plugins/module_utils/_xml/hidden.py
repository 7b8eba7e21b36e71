# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Passwords a document carries (VNC, SPICE) are compared and applied, and never shown."""

from __future__ import annotations

import re
import typing as t

HIDDEN = "VALUE_HIDDEN"

_PASSWORD = re.compile(r"""(\spasswd\s*=\s*)("[^"]*"|'[^']*')""")


def hidden(text: str) -> str:
    """A document or a piece of one without its passwords."""
    return _PASSWORD.sub(rf"\1'{HIDDEN}'", text) if "passwd" in text else text


def shown(entry: t.Mapping[str, str | None]) -> dict[str, str | None]:
    """One change or outside change (``path`` and values) without passwords."""
    secret = (entry.get("path") or "").endswith("/@passwd")
    return {key: value if value is None or key in ("path", "class") else HIDDEN if secret else hidden(value) for key, value in entry.items()}
