# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last report about a migration, kept on its source: for an operator if the destination host is lost, and for another destination."""

from __future__ import annotations

import json
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import SOURCE_REPORT

HOME = pathlib.Path("/var/lib/reduced.footprint/source")
_ENDING = ".journal"


def keep(name: str, report: t.Mapping[str, t.Any], home: pathlib.Path | None = None) -> None:
    """Store the latest report, safe against a power loss."""
    write_atomic((home or HOME) / f"{name}{_ENDING}", json.dumps(SOURCE_REPORT.mark(report), indent=1, sort_keys=True) + "\n")


def kept(name: str, home: pathlib.Path | None = None) -> dict[str, t.Any] | None:
    """The last report, ``None`` if there never was one."""
    path = (home or HOME) / f"{name}{_ENDING}"
    text = read_text(path)
    return SOURCE_REPORT.load(text, path) if text else None


def all_kept(home: pathlib.Path | None = None) -> dict[str, dict[str, t.Any]]:
    """The last reports of all migrations this machine was the source of."""
    found = {path.name[: -len(_ENDING)] for path in (home or HOME).glob(f"*{_ENDING}")} if (home or HOME).is_dir() else set()
    return {name: report for name in sorted(found) for report in [kept(name, home)] if report}
