# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A finding of ``doctor``."""

from __future__ import annotations

import typing as t

OK, NOTE, REPAIR, UNKNOWN = "ok", "note", "repair", "unknown"
#: Host → its answer.
Known = t.Mapping[str, t.Mapping[str, t.Any]]


class Finding(t.NamedTuple):
    """What one check found.

    :arg todo: what to do, a sentence without its full stop.
    :arg host: empty if it is about several.
    :arg fix: a step that is safe, as :mod:`plan_doctor_fixes` returns it.
    """

    check: str
    state: str
    text: str
    todo: str = ""
    host: str = ""
    fix: t.Mapping[str, t.Any] = {}
