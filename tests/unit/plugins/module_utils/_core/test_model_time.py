# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times in results."""

from __future__ import annotations

import re

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import dated, utc


def test_unix_seconds_become_iso_8601_in_utc():
    assert utc(0) == "1970-01-01T00:00:00Z" and utc(1767225600.9) == "2026-01-01T00:00:00Z"


def test_times_of_an_entry_become_timestamps():
    assert dated({"at": 5.0, "ended": None, "seconds": 5.0}) == {"at": "1970-01-01T00:00:05Z", "ended": None, "seconds": 5.0}


def test_without_seconds_it_is_now():
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", utc())
