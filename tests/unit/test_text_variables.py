# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables that arrive as text, from -e NAME=VALUE or a survey of AWX, also as an empty text or list: "false" is not true, and "60" is a number."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted(
    path
    for pattern in ("roles/*/tasks/*.yml", "roles/*/vars/*.yml", "roles/*/templates/*.j2", "playbooks/*.yml", "playbooks/tasks/*.yml")
    for path in ROOT.glob(pattern)
)


def flags() -> list[str]:
    """The documented variables that are true or false."""
    found: list[str] = []
    for path in [*ROOT.glob("roles/*/meta/argument_specs.yml"), *ROOT.glob("playbooks/argument_specs/*.yml")]:
        for entry in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values():
            found += [name for name, option in (entry.get("options") or {}).items() if option.get("type") == "bool"]
    return found


def misused(text: str, names: t.Iterable[str]) -> list[str]:
    """The variables that decide without the filter bool. As an argument of a module, its own specification converts them."""
    value = rf"\b({'|'.join(names)})\b(?! +is |[:=]| not in |(?: *\| *default\((?:[^()]|\([^()]*\))*\))* *\| *(?:ansible\.builtin\.)?bool\b)"
    return re.findall(rf"\b(?:if|not|and|or|when:) +{value}|^ +- +{value} *$", text, re.MULTILINE)


@pytest.mark.parametrize("text", ["when: some_flag", "  - not some_flag", "{{ 1 if some_flag else 2 }}", "  - some_flag\n", "when: a and some_flag"])
def test_a_decision_by_a_text_is_found(text: str) -> None:
    assert misused(text, ["some_flag"])


@pytest.mark.parametrize("text", ["when: some_flag | bool", "- not some_flag | default(true) | bool", "a: '{{ some_flag }}'", "when: some_flag is undefined"])
def test_a_decision_by_a_truth_value_is_not(text: str) -> None:
    assert not misused(text, ["some_flag"])


def test_no_flag_decides_as_text() -> None:
    names, found = flags(), []
    for path in FILES:
        code = "\n".join(line for line in path.read_text("utf-8").splitlines() if not line.lstrip().startswith("#"))
        # messages mention names of variables
        code = re.sub(r"(?m)^( *)(?:fail_msg|msg|hint): >-\n(?:\1 +.*\n)+", "", code + "\n")
        found += [f"{path.relative_to(ROOT)}: {' '.join(match).strip()}" for match in misused(code, names)]
    assert found == []


def test_an_empty_path_is_no_path() -> None:
    # as the answer to a question of AWX; it would be resolved to the current directory
    found = []
    for path in sorted(ROOT.glob("playbooks/argument_specs/*.yml")):
        options = next(iter(yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values()))["options"]
        paths = [name for name, option in options.items() if option["type"] == "path"]
        texts = {file: file.read_text("utf-8") for file in FILES if "playbooks" in file.parts}
        found += [f"{file.name}: {name}" for name in paths for file, text in texts.items() if re.search(rf"\b{name} is (?:not )?(?:un)?defined", text)]
    assert found == []
