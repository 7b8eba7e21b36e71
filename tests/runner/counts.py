# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Count tests from the reports of the tools."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t
from xml.etree import ElementTree


@dataclasses.dataclass(frozen=True)
class Count:
    """Numbers of tests that passed, failed and were skipped.

    :arg names: of failed tests with their message, if a report contains them.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped, self.names + other.names)

    def __str__(self) -> str:
        """The last line of a run."""
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def count_exit(rc: int, name: str = "") -> Count:
    """Count a command as one test."""
    return Count(passed=1) if rc == 0 else Count(failed=1, names=(name,) if name else ())


def count_junit(reports: t.Iterable[pathlib.Path], rc: int) -> Count:
    """Count the tests of JUnit reports, taking the exit code of the tool into account.

    :arg reports: the report files; an unreadable one is a failure.
    :arg rc: exit code of the tool that wrote them. Not zero without a failed test means that it crashed: one failure.
    :returns: the count, never empty: if no test ran, it is one failure.
    """
    total = Count()
    for report in reports:
        try:
            cases = ElementTree.parse(report).iter("testcase")
            for case in cases:
                kinds = {child.tag for child in case}
                if kinds & {"failure", "error"}:
                    total += Count(failed=1, names=(_name(case),))
                elif "skipped" in kinds:
                    total += Count(skipped=0 if _not_applicable(case) else 1)
                else:
                    total += Count(passed=1)
        except (OSError, ElementTree.ParseError):
            total += Count(failed=1)
    if total.failed == 0 and (rc != 0 or total.passed == 0):
        total += Count(failed=1)
    return total


def _name(case: ElementTree.Element) -> str:
    """Return the name of a test in the report, and the first line of its message."""
    message = next((child.get("message", "") for child in case if child.tag in ("failure", "error")), "").partition("\n")[0]
    name = "::".join(part for part in (case.get("classname", ""), case.get("name", "")) if part)
    return f"{name}: {message[:200]}" if message else name


def _not_applicable(case: ElementTree.Element) -> bool:
    """Return whether ansible-test reports that a test is not applicable, e.g. without PowerShell files: neither a test nor a skip."""
    return any(child.tag == "skipped" and "No tests applicable" in (child.text or "") + child.get("message", "") for child in case)


def table(rows: t.Sequence[tuple[str, Count, float, float, str]]) -> str:
    """Format the gates as a table.

    :arg rows: name, count, begin and duration in seconds, and a remark (empty if it passed) of each gate.
    """
    head = ("gate", "passed", "failed", "skipped", "began", "seconds", "")
    body = [
        (name, str(count.passed), str(count.failed), str(count.skipped), f"{began:.0f}", f"{seconds:.1f}", remark)
        for name, count, began, seconds, remark in rows
    ]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    lines = []
    for line in [head, *body]:
        cells = [line[0].ljust(widths[0])]
        cells += [line[column].rjust(widths[column]) for column in range(1, 6)]
        cells.append(line[6])
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)
