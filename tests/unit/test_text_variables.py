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
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

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


def shown(expression: str, **values: t.Any) -> str:
    """The value of an expression as text."""
    known = {name: trust_as_template(value) if isinstance(value, str) and "{{" in value else value for name, value in values.items()}
    return str(Templar(DataLoader(), variables=known).template(trust_as_template(expression)))


@pytest.mark.parametrize("given, wanted", [("false", "False"), ("true", "True"), (False, "False")])
def test_tls_of_the_database_is_not_enabled_by_the_text_false(given: t.Any, wanted: str) -> None:
    text = (ROOT / "roles/galera/tasks/encryption.yml").read_text("utf-8")
    (argument,) = re.findall(r"galera_tls_decision\((.*)\) }}", text)
    assert shown(f"{{{{ {argument} }}}}", galera_tls=given) == wanted


@pytest.mark.parametrize(
    "given, wanted", [("", "fernet,credential"), ([], "fernet,credential"), (None, "fernet,credential"), ("fernet, ", "fernet"), (["credential"], "credential")]
)
def test_without_an_answer_all_keys_are_rotated(given: t.Any, wanted: str) -> None:
    values = yaml.safe_load((ROOT / "roles/keystone/vars/main.yml").read_text("utf-8"))
    kept = {"__keystone_rotated": values["__keystone_rotated"], "__keystone_repositories": [{"name": "fernet"}, {"name": "credential"}]}
    assert shown("{{ __keystone_rotated | join(',') }}", keystone_rotate=given, **kept) == wanted


def test_the_memory_of_a_witness_is_a_number() -> None:
    (line,) = [line for line in (ROOT / "roles/rabbitmq/templates/rabbitmq.conf.j2").read_text("utf-8").splitlines() if "vm_memory" in line]
    assert shown(line.partition(" = ")[2], rabbitmq_witness_memory="320") == "1280MiB"


def test_the_time_to_confirm_a_network_is_a_number() -> None:
    (step,) = [task for task in yaml.safe_load((ROOT / "roles/virt_host/tasks/keep_network.yml").read_text("utf-8")) if "wait_for_connection" in str(task)]
    assert shown(step["ansible.builtin.wait_for_connection"]["timeout"], virt_host_network_timeout="60") == "120"


@pytest.mark.parametrize("given, files", [("", 1), (None, 1), ("debian", 0)])
def test_without_an_answer_the_test_image_is_uploaded(given: str | None, files: int) -> None:
    for name in ("verify_cloud_check", "verify_cloud_create"):
        text = (ROOT / f"playbooks/tasks/{name}.yml").read_text("utf-8")
        (loop,) = re.findall(r'loop: "({{ __verify_parts.*}})"', text)
        assert shown(loop.replace(" }}", ") | length }}").replace("{{ ", "{{ ("), verify_cloud_image=given, __verify_parts=["x"]) == str(files)


def test_without_an_answer_the_only_external_network_is_used() -> None:
    (find,) = [one for one in yaml.safe_load((ROOT / "playbooks/tasks/verify_cloud_check.yml").read_text("utf-8")) if "set_fact" in str(one) and "vars" in one]
    expression = find["ansible.builtin.set_fact"]["__verify_external"]
    assert shown(expression, verify_cloud_external_network="", __verify_names=["public"]) == "public"


@pytest.mark.parametrize("playbook, variable", [("remove_virt_node", "remove_virt_node_quorums"), ("start_standby", "start_standby_witnesses")])
def test_names_separated_by_commas_are_a_list(playbook: str, variable: str) -> None:
    # not a list of the characters
    text = " ".join((ROOT / f"playbooks/{playbook}.yml").read_text("utf-8").split())
    (expression,) = re.findall(rf"{{{{ \[?{variable}\b[^{{}}]*?split.*?}}}}", text)
    assert shown(expression, **{variable: "one, two"}) == shown(expression, **{variable: ["one", "two"]}) == "['one', 'two']"


def test_an_empty_path_is_no_path() -> None:
    # as the answer to a question of AWX; it would be resolved to the current directory
    found = []
    for path in sorted(ROOT.glob("playbooks/argument_specs/*.yml")):
        options = next(iter(yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values()))["options"]
        paths = [name for name, option in options.items() if option["type"] == "path"]
        texts = {file: file.read_text("utf-8") for file in FILES if "playbooks" in file.parts}
        found += [f"{file.name}: {name}" for name in paths for file, text in texts.items() if re.search(rf"\b{name} is (?:not )?(?:un)?defined", text)]
    assert found == []
