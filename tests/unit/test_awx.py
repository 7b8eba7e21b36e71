# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects in awx/config: modules of awx.awx accept them, they cover every playbook, and surveys ask for variables that exist."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.support import awx_schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
AWX = ROOT / "awx"
#: Without ``init``, which asks and writes files on the control node: a job can do neither.
PLAYBOOKS = {path.stem: path for path in (ROOT / "playbooks").glob("*.yml") if path.stem != "init"}
SCHEMA = awx_schema.load()["modules"]
KINDS: t.Mapping[str, type | tuple[type, ...]] = {"bool": bool, "int": int, "str": str, "dict": dict, "list": list, "float": (int, float)}
QUESTION = {"question_name", "question_description", "required", "type", "variable", "min", "max", "default", "choices"}
YES_OR_NO = ["true", "false"]


class Loader(yaml.SafeLoader):
    """YAML with Ansible's mark of texts that are no templates."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_mapping(node, deep=True))


def config() -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    for path in sorted((AWX / "config").glob("*.yml")):
        found.update(yaml.load(path.read_text("utf-8"), Loader))
    # the parts of the list, as Ansible joins them; the items stay as they are written
    found["controller_templates"] = Templar(DataLoader(), variables=found).template(trust_as_template(found["controller_templates"]))
    return found


CONFIG = config()
OBJECTS = [(variable, item) for variable in awx_schema.MODULES for item in CONFIG[variable]]
TEMPLATES = {item["extra_vars"]["footprint_playbook"]: item for item in CONFIG["controller_templates"]}
QUESTIONS = [(name, question) for name, item in TEMPLATES.items() for question in item["survey_spec"]["spec"]]
ALL_QUESTIONS = [*QUESTIONS, *(("site", question) for item in CONFIG["controller_workflows"] for question in item["survey_spec"]["spec"])]


def problems(value: t.Any, spec: t.Mapping[str, t.Any], path: str) -> list[str]:
    """What the argument specification of a module refuses in a value."""
    if isinstance(value, str) and "{{" in value:
        return []
    kind = KINDS.get(spec["type"])
    if kind and (not isinstance(value, kind) or (isinstance(value, bool) and spec["type"] != "bool")):
        return [f"{path}: {value!r} is not of type {spec['type']}"]
    if spec.get("choices") and value not in spec["choices"]:
        return [f"{path}: {value!r} is not one of {spec['choices']}"]
    if spec["type"] == "list":
        inner = {**spec, "type": spec.get("elements", "str")}
        return [text for index, one in enumerate(value) for text in problems(one, inner, f"{path}[{index}]")]
    if spec["type"] == "dict" and spec.get("suboptions"):
        return refused(value, spec["suboptions"], path)
    return []


def refused(item: t.Mapping[str, t.Any], options: t.Mapping[str, t.Any], path: str) -> list[str]:
    """What a module refuses in its arguments."""
    found = [f"{path}.{key}: is not an option" for key in item if key not in options]
    found += [f"{path}.{key}: is required" for key, spec in options.items() if spec.get("required") and key not in item]
    return found + [text for key, value in item.items() if key in options for text in problems(value, options[key], f"{path}.{key}")]


@pytest.mark.parametrize("variable, item", OBJECTS, ids=[f"{variable}-{item['name']}" for variable, item in OBJECTS])
def test_the_module_accepts_it(variable: str, item: dict[str, t.Any]) -> None:
    assert refused(item, SCHEMA[awx_schema.MODULES[variable]], variable) == []


@pytest.mark.parametrize(
    "change, words",
    [
        ({"playbok": "x"}, "playbok: is not an option"),
        ({"job_type": "walk"}, "'walk' is not one of"),
        ({"survey_enabled": "yes"}, "is not of type bool"),
        ({"credentials": [1]}, "credentials[0]"),
        ({"name": None}, "None is not of type str"),
    ],
)
def test_a_slip_is_found(change: dict[str, t.Any], words: str) -> None:
    assert words in " ".join(refused({**CONFIG["controller_templates"][0], **change}, SCHEMA["job_template"], "x"))


def test_every_playbook_has_a_job_template() -> None:
    assert sorted(TEMPLATES) == sorted(PLAYBOOKS)
    assert len(TEMPLATES) == len(CONFIG["controller_templates"])
    assert {item["playbook"] for item in TEMPLATES.values()} == {path.name for path in (AWX / "project").iterdir()}


@pytest.mark.parametrize("path", sorted((AWX / "config").iterdir()), ids=lambda path: path.name)
def test_a_file_of_objects_is_short(path: pathlib.Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400


def test_every_playbook_runs_in_a_job_of_the_long_tests() -> None:
    text = (ROOT / "tests" / "awx" / "test_flow.py").read_text("utf-8")
    assert [name for name in PLAYBOOKS if f'"{name}"' not in text] == []


def test_every_name_that_is_referred_to_exists() -> None:
    named = {variable: {item["name"] for item in CONFIG[variable]} for variable in awx_schema.MODULES}
    for item in CONFIG["controller_templates"]:
        assert item["project"] in named["controller_projects"]
        assert item["inventory"] in named["controller_inventories"]
        assert item["execution_environment"] in named["controller_execution_environments"]
        assert item["credentials"] == "{{ awx_setup_credentials }}"
    assert set(CONFIG["awx_setup_credentials"]) <= named["controller_credentials"]
    for item in CONFIG["controller_inventory_sources"]:
        assert item["inventory"] in named["controller_inventories"]
        assert item["source_project"] in named["controller_projects"]
    for item in CONFIG["controller_credentials"]:
        assert item["credential_type"] in {"Machine", "Vault", *named["controller_credential_types"]}


def test_the_workflow_asks_before_it_migrates() -> None:
    (workflow,) = CONFIG["controller_workflows"]
    nodes = {node["identifier"]: node for node in workflow["workflow_nodes"]}
    order, name = [], "provision"
    while name:
        job = nodes[name]["unified_job_template"]
        order.append(job["name"].removeprefix("Footprint ") if job["type"] == "job_template" else job["type"])
        following = nodes[name].get("related", {}).get("success_nodes", [])
        name = following[0]["identifier"] if following else ""
    assert order == ["provision_virt", "spawn_vms", "deploy_controllers", "workflow_approval", "migrate_master"]
    assert len(order) == len(nodes)
    assert all(not nodes[one].get("related", {}).get(f"{kind}_nodes") for one in nodes for kind in ("failure", "always"))


def reached(name: str) -> tuple[set[str], str]:
    """The roles that a playbook uses, and its text with that of the files it includes."""
    roles: set[str] = set()
    texts, todo, seen = [], [PLAYBOOKS[name]], set()
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = re.sub(r"(?m)^\s*#.*$", "", path.read_text("utf-8"))
        texts.append(text)
        todo += [PLAYBOOKS[found] for found in re.findall(r"import_playbook: reduced\.footprint\.(\w+)", text)]
        todo += [path.parent / found for found in re.findall(r"(?:include|import)_tasks: ([\w./]+)", text)]
        roles |= set(re.findall(r"(?:role|name): reduced\.footprint\.(\w+)$", text, re.MULTILINE))
        # the roles of services are chosen when the play runs
        roles |= {"galera", "keystone", "load_balancer", "memcached", "rabbitmq", "witness"} if "deploy_step.role" in text else set()
    return roles, "\n".join(texts)


def arguments(roles: t.Iterable[str]) -> dict[str, dict[str, t.Any]]:
    """The documented variables of roles."""
    found: dict[str, dict[str, t.Any]] = {}
    for role in roles:
        path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
        for entry in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values() if path.is_file() else ():
            found.update(entry.get("options", {}))
    return found


@pytest.mark.parametrize("name, question", ALL_QUESTIONS, ids=[f"{name}-{question['variable']}" for name, question in ALL_QUESTIONS])
def test_a_survey_asks_for_a_variable_of_the_playbook(name: str, question: dict[str, t.Any]) -> None:
    assert set(question) <= QUESTION
    assert {"question_name", "type", "variable", "required"} <= set(question)
    roles, text = reached(name)
    variable, kind, known = question["variable"], question["type"], arguments(roles)
    assert re.search(rf"\b{variable}\b", text) or variable in known, f"{variable} is not a variable of {name}"
    spec = known.get(variable, {})
    if spec.get("type") == "bool" or re.search(rf"\b{variable} \| default\((?:true|false)", text):
        assert (kind, question["choices"]) == ("multiplechoice", YES_OR_NO)
    if spec.get("type") == "int":
        assert kind == "integer"
    if spec.get("choices"):
        assert kind == ("multiselect" if spec["type"] == "list" else "multiplechoice")
        assert set(question["choices"]) <= set(spec["choices"])


@pytest.mark.parametrize("name, question", ALL_QUESTIONS, ids=[f"{name}-{question['variable']}" for name, question in ALL_QUESTIONS])
def test_awx_accepts_the_question(name: str, question: dict[str, t.Any]) -> None:
    """As AWX checks it; it also checks an empty answer against choices, so a choice is required."""
    kind, default = question["type"], question.get("default")
    assert kind in ("text", "textarea", "integer", "multiplechoice", "multiselect"), "secrets are in credentials, not in surveys"
    if kind == "multiplechoice":
        assert question["required"] and default in question["choices"]
    if kind == "multiselect":
        assert default is None and not question["required"]
    if kind == "integer":
        assert question["required"] and question["min"] <= default <= question["max"]
    if kind == "text":
        assert default is None
        assert question["required"] == bool(question.get("min"))
    assert all(isinstance(choice, str) for choice in question.get("choices", []))
    assert not re.search("password|secret|token|cookie|key$", question["variable"]), name


@pytest.mark.parametrize("name, question", QUESTIONS, ids=[f"{name}-{question['variable']}" for name, question in QUESTIONS])
def test_an_unanswered_question_changes_nothing(name: str, question: dict[str, t.Any]) -> None:
    """AWX passes defaults as answers, so they are those of the role."""
    spec = arguments(reached(name)[0]).get(question["variable"], {})
    if "default" in spec and question["type"] in ("integer", "multiplechoice"):
        wanted = str(spec["default"]).lower() if spec["type"] == "bool" else spec["default"]
        assert question["default"] == wanted


def test_every_playbook_with_the_gate_asks_for_it() -> None:
    gated = {name for name in PLAYBOOKS if "expert_gate" in reached(name)[1]}
    assert gated == {name for name, question in QUESTIONS if question["variable"] == "expert_mode"}


def test_credentials_are_references() -> None:
    inputs = [value for item in CONFIG["controller_credentials"] for key, value in item["inputs"].items() if key != "username"]
    assert inputs
    assert all(value.startswith("{{ lookup('ansible.builtin.env', ") for value in inputs)
    assert not any(item["update_secrets"] for item in CONFIG["controller_credentials"])


@pytest.mark.parametrize("existing", [True, False])
def test_what_was_entered_in_awx_is_kept(existing: bool) -> None:
    # the module replaces all inputs of a credential: without the key in the environment it would remove the one in AWX
    (play,) = yaml.safe_load((AWX / "apply.yml").read_text("utf-8"))
    (task,) = [task for task in play["tasks"] if "awx.awx.credential" in task]
    item = {"inputs": {"username": "root", "ssh_key_data": ""}}
    known = {"item": item, "omit": "omitted", "__awx_setup_existing": existing}
    found = Templar(DataLoader(), variables=known).template(trust_as_template(task["awx.awx.credential"]["inputs"]))
    assert found == ("omitted" if existing else {"username": "root"})
    assert "controller_api" in task["vars"]["__awx_setup_existing"]


def test_secrets_that_awx_keeps_are_variables_of_the_roles() -> None:
    for kind in CONFIG["controller_credential_types"]:
        fields = {field["id"] for field in kind["inputs"]["fields"]}
        assert all(field["secret"] for field in kind["inputs"]["fields"])
        assert fields == set(kind["injectors"]["extra_vars"]) == set(kind["inputs"]["required"])
        assert fields <= set(arguments(["keystone", "rabbitmq"]))


def test_the_playbook_passes_every_value_on() -> None:
    (play,) = yaml.safe_load((AWX / "apply.yml").read_text("utf-8"))
    assert sorted(path.split("/")[1] for path in play["vars_files"]) == sorted(path.name for path in (AWX / "config").glob("*.yml"))
    passed = {}
    for task in play["tasks"]:
        (module,) = (key for key in task if key.startswith("awx.awx."))
        passed[module.removeprefix("awx.awx.")] = task[module]
        assert re.fullmatch(r"{{ (\w+) }}", task["loop"]), task["loop"]
    for variable, item in OBJECTS:
        assert set(item) <= set(passed[awx_schema.MODULES[variable]]), f"{variable}: {item['name']}"
    for module, given in passed.items():
        assert set(given) <= set(SCHEMA[module])


OPTIONAL = sorted({question["variable"] for _name, question in ALL_QUESTIONS if not question.get("required")})
#: How a text is used that is not prepared for no answer, which is an empty text or, with ansible-core 2.20 and newer, nothing at all.
UNPREPARED = r"\b{0} in \['', \[\]\]|\b{0} \| default\(\[\]\) is not string|only: \"\{{\{{ {0} \}}\}}\""


@pytest.mark.parametrize("variable", OPTIONAL)
def test_a_question_without_an_answer_is_no_answer(variable: str) -> None:
    files = [*PLAYBOOKS.values(), *ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/vars/*.yml")]
    found = [path.name for path in files if re.search(UNPREPARED.format(variable), path.read_text("utf-8"))]
    assert not found, f"an empty answer for {variable} arrives as null or as an empty text"


def test_no_question_hides_the_server_of_the_master() -> None:
    """An empty answer would override the inventory, and the migration would start on another server than its continuation and its rollback."""
    asking = [name for name, question in ALL_QUESTIONS if question["variable"] == "master_migrate_destination"]
    assert not asking
