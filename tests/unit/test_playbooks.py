# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every playbook that changes something asks for expert_mode before it does anything else, and every playbook validates its variables."""

from __future__ import annotations

import pathlib
import re
import shutil
import typing as t

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.lookup.playbook_variables import complaints, invalid

PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
GATE = "tasks/expert_gate.yml"
#: These read, and change neither a host nor the footprint.
READ_ONLY = {"config_dump", "diagnostic_snapshot", "export_kolla", "export_metal", "init", "plan_placement", "status"}

#: These change something with an option only, and pass the gate then.
OPTIONAL = {"doctor": "doctor_fix | default(false) | bool"}


def gated(path: pathlib.Path) -> bool:
    """Whether the first thing a playbook does is to pass the gate, or to run a playbook that does so."""
    first = yaml.safe_load(path.read_text("utf-8"))[0]
    if "ansible.builtin.import_playbook" in first:
        return gated(path.parent / f"{first['ansible.builtin.import_playbook'].rpartition('.')[2]}.yml")
    tasks: list[dict[str, t.Any]] = [*first.get("pre_tasks", []), *first.get("tasks", [])]
    # a play with roles alone has no task before them
    return bool(tasks) and tasks[0].get("ansible.builtin.import_tasks") == GATE and tasks[0].get("when") == OPTIONAL.get(path.stem)


def ungated(folder: pathlib.Path) -> list[str]:
    """The playbooks that lack the gate and are not known to be read-only."""
    return sorted(path.stem for path in folder.glob("*.yml") if path.stem not in READ_ONLY and not gated(path))


def test_every_playbook_that_changes_something_has_the_gate() -> None:
    assert ungated(PLAYBOOKS) == []


def test_the_list_of_read_only_playbooks_names_only_playbooks() -> None:
    assert {path.stem for path in PLAYBOOKS.glob("*.yml")} >= READ_ONLY


@pytest.mark.parametrize("name", ["remove_virt_node"])
def test_a_first_play_without_hosts_does_not_open_the_gate(name: str) -> None:
    plays = yaml.safe_load((PLAYBOOKS / f"{name}.yml").read_text("utf-8"))
    assert all(play["pre_tasks"][0]["ansible.builtin.import_tasks"] == GATE for play in plays)


def test_a_playbook_without_the_gate_is_found(tmp_path: pathlib.Path) -> None:
    for path in PLAYBOOKS.glob("*.yml"):
        shutil.copy(path, tmp_path)
    plays = yaml.safe_load((PLAYBOOKS / "rotate_keys.yml").read_text("utf-8"))
    del plays[0]["pre_tasks"]
    (tmp_path / "rotate_keys.yml").write_text(yaml.safe_dump(plays), "utf-8")
    assert ungated(tmp_path) == ["rotate_keys"]


NAMES = sorted(path.stem for path in PLAYBOOKS.glob("*.yml"))
VALIDATION = "tasks/validate_variables.yml"
FILES = {path: path.read_text("utf-8") for path in [*PLAYBOOKS.glob("*.yml"), *PLAYBOOKS.glob("tasks/*.yml")]}


def options(name: str) -> dict[str, dict[str, t.Any]]:
    """The documented variables of a playbook."""
    (entry,) = yaml.safe_load((PLAYBOOKS / "argument_specs" / f"{name}.yml").read_text("utf-8"))["argument_specs"].items()
    assert entry[0] == name and entry[1]["short_description"]
    found: dict[str, dict[str, t.Any]] = entry[1]["options"]
    return found


def named(prefix: str, text: str) -> set[str]:
    """Variables with the prefix of a playbook; names of files, plugins and internal variables are none."""
    return set(re.findall(rf"(?<![\w./]){prefix}_\w+\b(?![.](?:yml|md)|/)", text))


@pytest.mark.parametrize("name", NAMES)
def test_variables_of_a_playbook_are_those_of_its_specification(name: str) -> None:
    used: set[str] = set().union(*(named(name, text) for text in FILES.values()))
    assert used == set(options(name))


def test_playbooks_share_variables_for_the_same_thing() -> None:
    whole = "\n".join(FILES.values())
    assert {"footprint_takeover", "footprint_ssh_args"} == set(options("shared")) == set(re.findall(r"(?<!\w)(?!ansible_)\w+_(?:takeover|ssh_args)\b", whole))


@pytest.mark.parametrize("name", NAMES)
def test_defaults_in_a_playbook_are_those_of_its_specification(name: str) -> None:
    for variable, option in options(name).items():
        assert option["description"] and option["type"]
        for text in FILES.values():
            for value in re.findall(rf"(?<![\w.]){variable} \| default\(('[^']*'|[\w.]+|\[[^]]*\])\)", text):
                if value not in ("omit", "footprint_cluster") and "default" in option:
                    assert option["default"] == yaml.safe_load(value), variable


@pytest.mark.parametrize("name", NAMES)
def test_playbook_validates_its_variables_first(name: str) -> None:
    first = yaml.safe_load(FILES[PLAYBOOKS / f"{name}.yml"])[0]
    tasks = [*first.get("pre_tasks", []), *first.get("tasks", [])]
    assert tasks[0]["ansible.builtin.import_tasks"] in (GATE, VALIDATION)
    assert name in first["vars"]["__playbooks"] or name == "site"
    assert all(options(each) is not None for each in first["vars"]["__playbooks"])


def test_gate_validates_the_variables() -> None:
    assert yaml.safe_load(FILES[PLAYBOOKS / GATE])[-1]["ansible.builtin.import_tasks"] == pathlib.PurePath(VALIDATION).name


def test_documents_name_known_variables_only() -> None:
    root = PLAYBOOKS.parent
    plugins = {path.stem for path in root.glob("plugins/*/*.py")}
    for name in NAMES:
        for path in [*root.glob("docs/*.md"), *root.glob("awx/**/*.yml"), *root.glob("awx/*.md"), root / "README.md"] if "_" in name else ():
            assert named(name, path.read_text("utf-8")) - plugins <= {*options(name), f"{name}_"}, path


@pytest.mark.parametrize(
    "playbook, given, words",
    [
        ("add_server", "add_server_sevrers", "add_server_sevrers: the playbook add_server has no such variable. Did you mean add_server_servers?"),
        ("add_server", "add_server_qqq", "Use some of add_server_database_port, add_server_gate_timeout"),
        ("status", "status_reprot_file", "Did you mean status_report_file?"),
        # other variables may begin with an ordinary word
        ("status", "status_page_url", ""),
        ("site", "site_name", ""),
        ("add_server", "add_servers", ""),
        ("add_server", "__add_server_todo", ""),
        ("recover_database", "recover_database_takeover", "the playbook recover_database has no such variable. It has none of its own."),
    ],
)
def test_unknown_variables_are_reported(playbook: str, given: str, words: str) -> None:
    found = complaints(playbook, options(playbook), [given, "expert_mode", *options(playbook)])
    assert (found == []) is (words == "")
    assert words in "".join(found)


def test_empty_answer_of_a_survey_counts_as_no_answer() -> None:
    assert invalid(options("plan_placement"), {"plan_placement_profile": "", "plan_placement_measure": None}) == []
    assert invalid(options("plan_placement"), {"plan_placement_profile": "wide"})[0].startswith("value of plan_placement_profile must be one of")
    assert invalid(options("remove_controller"), {"remove_controller_name": ""}) == ["missing required arguments: remove_controller_name."]


def test_invalid_values_of_secrets_are_not_shown() -> None:
    spec = {"users": {"type": "list", "elements": "dict", "options": {"name": {"type": "int"}, "password": {"type": "str", "no_log": True, "choices": ["x"]}}}}
    found = invalid(spec, {"users": [{"name": "hidden-word", "password": "hidden-word"}]})
    assert len(found) == 2 and "hidden-word" not in "".join(found), found


def test_variables_read_from_other_hosts_are_set_somewhere() -> None:
    root = PLAYBOOKS.parent
    paths = [path for folder in ("playbooks", "roles", "plugins") for path in root.glob(f"{folder}/**/*.*") if path.suffix in (".yml", ".j2", ".py")]
    texts = {path: path.read_text("utf-8") for path in paths}
    whole = "\n".join(texts.values())

    def is_set(name: str) -> bool:
        return name.startswith("ansible_") or bool(re.search(rf'register: {name}$|^ +{name}:|"{name}"', whole, re.MULTILINE))

    read = re.compile(
        r"hostvars\[[^\]]*\]+\.(\w+)|extract', hostvars\)\s*\|\s*map\(attribute='(\w+)|extract', hostvars, '(\w+)'|hostvars \| [\w.]+host_values\('(\w+)"
    )
    unset = [f"{path}: {name}" for path, text in texts.items() for found in read.findall(text) for name in found if name and not is_set(name)]
    assert not unset
    assert not is_set("__nothing_sets_this")


def test_the_administrator_s_password_is_not_an_argument_of_modules() -> None:
    """ansible-core would hide the name of the administrator wherever modules return it, also as a part of other names."""
    found = {path.name for path in PLAYBOOKS.rglob("*.yml") if "keystone_admin_password" in path.read_text("utf-8")}
    assert found == {"cloud_login.yml"}


def test_tasks_files_have_other_names_than_playbooks() -> None:
    # a file that is included by an included one is looked for beside the playbook first
    tasks = {path.name for path in PLAYBOOKS.glob("tasks/*.yml")}
    assert not tasks & {path.name for path in PLAYBOOKS.glob("*.yml")}


def test_a_playbook_that_asks_the_control_plane_finds_new_controllers_first() -> None:
    # in a job of AWX the inventory has no address of a controller that was created after it began, so that it would count as lost
    asking = {path.stem for path, text in FILES.items() if "controlplane_look.yml" in text and path.parent.name == "tasks"}
    users = [path for path, text in FILES.items() if path.parent == PLAYBOOKS and any(f"tasks/{name}.yml" in text for name in (*asking, "controlplane_look"))]
    assert {path.stem for path in users} == {"maintain_virt_node", "remove_controller", "remove_virt_node", "replace_controller", "replace_server"}
    assert [path.stem for path in users if "tasks/find_addresses.yml" not in FILES[path]] == []


def test_what_is_kept_next_to_the_inventory_is_hidden() -> None:
    # Ansible reads each other file of a folder that is an inventory: an image fails, and an inventory of another tool adds its groups
    files = [*PLAYBOOKS.glob("**/*.yml"), *PLAYBOOKS.parent.glob("roles/*/*/*.yml")]
    found = {path: re.findall(r"\b(?:inventory_dir|__directory)\b[^/\n]*/(.)", path.read_text("utf-8")) for path in files}
    assert {path.name for path, first in found.items() if first} >= {"export_kolla.yml", "build_image.yml", "verify_cloud_steps.yml"}
    assert [str(path) for path, first in found.items() if set(first) - {"."}] == []
