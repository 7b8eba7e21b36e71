# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What both demos share: commands of the lab, titles and the table of results."""

from __future__ import annotations

import subprocess
import sys
import typing as t

from .plays import PlayRun, play
from .settings import LAB_DIR, current


def lab(*arguments: str, show: bool = True) -> str:
    """Run a command of the lab; return its output unless it is shown."""
    done = subprocess.run([str(LAB_DIR / "lab"), *arguments], check=False, stdout=None if show else subprocess.PIPE, encoding="utf-8")
    if done.returncode:
        sys.exit(f"lab/lab {' '.join(arguments)} failed; see its output above.")
    return done.stdout or ""


def say(text: str) -> None:
    print(f"\n=== {text}", flush=True)


def run(playbook: str, log: str, *arguments: str, **options: t.Any) -> PlayRun:
    """Run a playbook of the collection and stop the demo if it fails."""
    done = play(f"reduced.footprint.{playbook}", *arguments, log=current().state / f"{log}.log", echo=True, **options)
    if done.rc:
        sys.exit(f"{playbook} failed with exit code {done.rc}; see its output above.")
    return done


def table(rows: t.Sequence[tuple[str, str]]) -> str:
    """Format rows of a name and a value in a frame."""
    left = max(len(name) for name, _value in rows)
    right = max(len(line) for _name, value in rows for line in value.splitlines())
    edge = f"+{'-' * (left + 2)}+{'-' * (right + 2)}+"
    lines = [edge]
    for name, value in rows:
        for number, line in enumerate(value.splitlines()):
            lines.append(f"| {'' if number else name:<{left}} | {line:<{right}} |")
        lines.append(edge)
    return "\n".join(lines)
