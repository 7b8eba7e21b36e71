# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One text of a diagnostic snapshot: the output of a command, or the end of a file."""

from __future__ import annotations

import typing as t


class Piece(t.NamedTuple):
    """One text.

    :arg name: its path in the archive.
    :arg text: the text; of a long one the end.
    :arg path: path of the file that determines the format of the text, for masking.
    :arg lost: bytes before the text that are left out.
    :arg error: why the text is missing or incomplete.
    """

    name: str
    text: str = ""
    path: str = ""
    lost: int = 0
    error: str = ""
