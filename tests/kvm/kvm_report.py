# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a proof: JSON for programs, Markdown for people. It contains no name and no address of the servers."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import typing as t

SCHEMA = 1
PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
_ADDRESS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
_MAC = re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE)


@dataclasses.dataclass
class Step:
    """One step: what was measured, or the end of the output of what failed."""

    name: str
    title: str
    state: str = NOT_RUN
    seconds: float | None = None
    facts: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    error: str | None = None


def hidden(text: str, names: t.Mapping[str, str]) -> str:
    """Return a text without addresses, and with other names for the servers."""
    for name, other in sorted(names.items(), key=lambda pair: -len(pair[0])):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", other, text)
    return _MAC.sub("MAC", _ADDRESS.sub("ADDRESS", text))


def build(steps: t.Sequence[Step], about: t.Mapping[str, t.Any], names: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return the report.

    :arg about: when and with what the proof was run.
    :arg names: name of a server → its name in the report.
    """
    ok = bool(steps) and all(step.state == PASSED for step in steps)
    report = {"schema": SCHEMA, "ok": ok, **about, "steps": [dataclasses.asdict(step) for step in steps]}
    return _walk(report, names)


def _walk(value: t.Any, names: t.Mapping[str, str]) -> t.Any:
    if isinstance(value, str):
        return hidden(value, names)
    if isinstance(value, dict):
        return {_walk(key, names): _walk(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_walk(one, names) for one in value]
    return value


def markdown(report: t.Mapping[str, t.Any]) -> str:
    """Return the report as a page."""
    about = {key: value for key, value in report.items() if key not in ("schema", "ok", "steps")}
    lines = [f"# KVM proof: {'passed' if report['ok'] else 'FAILED'}", ""]
    if report.get("emulation"):
        lines += ["**Emulated: this run proves nothing about KVM.**", ""]
    lines += [f"- {key}: {_text(value)}" for key, value in about.items()]
    lines += ["", "| step | state | seconds |", "|---|---|---|"]
    lines += [f"| {step['title']} | {step['state']} | {'' if step['seconds'] is None else step['seconds']} |" for step in report["steps"]]
    for step in report["steps"]:
        if step["facts"] or step["error"]:
            lines += ["", f"## {step['title']}", ""]
            lines += [f"- {key}: {_text(value)}" for key, value in step["facts"].items()]
        if step["error"]:
            lines += ["", "```text", step["error"].rstrip().replace("```", "'''"), "```"]
    return "\n".join(lines) + "\n"


def _text(value: t.Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key} {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    return {True: "yes", False: "no", None: "-"}.get(value, str(value)) if isinstance(value, (bool, type(None))) else str(value)


def save(report: t.Mapping[str, t.Any], folder: pathlib.Path, stamp: str) -> tuple[pathlib.Path, pathlib.Path]:
    """Write both files; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"kvm-proof-{stamp}.json", folder / f"kvm-proof-{stamp}.md"
    paths[0].write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    paths[1].write_text(markdown(report), encoding="utf-8")
    return paths
