# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of a matrix that runs for hours: each cell is kept as soon as it ended, so that an interrupted run can be resumed."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "runner"))

import workspace  # noqa: E402

Row = t.Dict[str, t.Any]


class Cells:
    """Rows of a matrix, in ``NAME.json`` for the next run and in ``NAME.md`` as a table.

    :arg name: name of the matrix.
    :arg hidden: columns that the table leaves out.
    :arg state: what identifies the code that the rows are valid for, as :func:`workspace.code_state` returns it.
    :arg output: the folder of both files.
    """

    def __init__(self, name: str, hidden: t.Collection[str], state: str | None = None, output: pathlib.Path = workspace.OUTPUT) -> None:
        self._path, self._hidden = output / f"{name}.json", hidden
        self._state = workspace.code_state() if state is None else state
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        self._rows: dict[str, Row] = kept.get("rows", {}) if kept.get("state") == self._state else {}

    def held(self, cell: t.Sequence[str]) -> Row | None:
        """Return the row of a cell that held with the same code."""
        row = self._rows.get(" ".join(cell))
        return row if row and row["held"] else None

    def add(self, cell: t.Sequence[str], row: Row) -> None:
        """Print and keep the result of a cell; ``held`` in it says whether the cell ended as expected."""
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
        self._rows[" ".join(cell)] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._write(self._path, json.dumps({"state": self._state, "rows": self._rows}, indent=1))
        columns = [each for each in row if each not in self._hidden]
        lines = [columns, ["---"] * len(columns), *([str(each.get(name)) for name in columns] for each in self._rows.values())]
        self._write(self._path.with_suffix(".md"), "".join(f"| {' | '.join(line)} |\n" for line in lines))

    @staticmethod
    def _write(path: pathlib.Path, text: str) -> None:
        new = path.with_name(f"{path.name}.new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
