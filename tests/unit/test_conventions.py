# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all modules have in common: names and types of options and results, errors, attributes."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import pathlib
import re
import typing as t

import pytest
import yaml
from ansible.utils.plugin_docs import add_fragments
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import arguments

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = "ansible_collections.reduced.footprint.plugins"
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("[a-z]*.py"))
#: QEMU's name; a live migration pauses a guest for less than a second
SECONDS_UNDER_OTHER_NAMES = ("cutover_window", "max_downtime", "max_pause")
#: VM details and servers contain keys of the user's own
FREE_KEYS = ("vms", "servers", "wanted")

Options = t.Mapping[str, t.Mapping[str, t.Any]]
NUMBERS = ("int", "float")
SECONDS, BYTES = re.compile(r"\bseconds\b", re.IGNORECASE), re.compile(r"\bbytes?\b|\b[KMGT]iB\b", re.IGNORECASE)
TIME = re.compile(r"\A(since|started|ended|written|not_after|(.*_)?at)\Z")


class _Captured(Exception):
    """Raised instead of running a module; its argument is the argument spec."""


class _FakeModule:
    def __init__(self, argument_spec: Options, **unused: t.Any) -> None:
        raise _Captured(argument_spec)


class _Fragments:
    """Finds the documentation fragments of this collection, as Ansible's loader does."""

    @staticmethod
    def get(name: str) -> t.Any:
        collection, _dot, fragment = name.rpartition(".")
        if collection != "reduced.footprint":
            return None
        found = importlib.import_module(f"{PLUGINS}.doc_fragments.{fragment}").ModuleDocFragment
        found.ansible_name = name
        return found


@functools.lru_cache(None)
def constant(module: str, name: str) -> dict[str, t.Any]:
    for node in ast.parse((ROOT / "plugins" / "modules" / f"{module}.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return dict(yaml.safe_load(ast.literal_eval(node.value)))
    raise AssertionError(f"{module} has no {name}")


@functools.lru_cache(None)
def documentation(module: str) -> dict[str, t.Any]:
    found = copy.deepcopy(constant(module, "DOCUMENTATION"))
    add_fragments(found, str(ROOT / "plugins" / "modules" / f"{module}.py"), _Fragments(), is_module=True)
    return dict(found)


def results(module: str) -> dict[str, t.Any]:
    return {key: value for key, value in constant(module, "RETURN").items() if key != "error"}


def entries(options: Options, inner: str, path: str = "") -> t.Iterator[tuple[str, t.Mapping[str, t.Any]]]:
    """Path and content of all options or results, also of those in others."""
    for name, option in options.items():
        yield path + name, option
        yield from entries(option.get(inner) or {}, inner, f"{path}{name}.")


def options_of(module: str) -> list[tuple[str, t.Mapping[str, t.Any]]]:
    return list(entries(documentation(module).get("options") or {}, "suboptions"))


def results_of(module: str) -> list[tuple[str, t.Mapping[str, t.Any]]]:
    return list(entries(results(module), "contains"))


def description(entry: t.Mapping[str, t.Any]) -> str:
    return " ".join([entry["description"]] if isinstance(entry["description"], str) else entry["description"])


def each(*names: str) -> t.Callable[[t.Any], t.Any]:
    return pytest.mark.parametrize("module", names or MODULES)


def test_module_defaults_reach_every_module_through_one_group() -> None:
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))
    assert runtime["action_groups"]["footprint"] == MODULES


def argument_spec(module: str, monkeypatch: pytest.MonkeyPatch) -> Options:
    code = importlib.import_module(f"{PLUGINS}.modules.{module}")
    if not hasattr(code, "main"):
        # the documentation of an action plugin
        return arguments(module)
    monkeypatch.setattr(code, "AnsibleModule", _FakeModule)
    with pytest.raises(_Captured) as captured:
        code.main()
    return t.cast(Options, captured.value.args[0])


@each()
def test_documentation_has_the_options_of_the_argument_spec(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = entries(argument_spec(module, monkeypatch), "options")
    keys = ("type", "elements", "default", "required")
    documented = {path: [option.get(key) for key in keys] for path, option in options_of(module)}
    assert {path: [option.get(key) for key in keys] for path, option in spec} == documented


@each()
def test_a_module_waits_with_wait_and_wait_timeout(module: str) -> None:
    options = documentation(module).get("options") or {}
    if "wait" in options:
        # what to wait for, if there is a choice
        assert (options["wait"]["type"] == "bool" or options["wait"]["choices"]) and "wait_timeout" in options
    if "wait_timeout" in options:
        assert description(options["wait_timeout"]).startswith("Maximum number of seconds to wait")


@each()
def test_time_limits_are_whole_seconds(module: str) -> None:
    for path, option in options_of(module):
        name = path.rpartition(".")[2]
        if name in SECONDS_UNDER_OTHER_NAMES:
            continue
        if "timeout" in name:
            assert name.endswith("_timeout") and option["type"] == "int", path
        if option["type"] in NUMBERS and SECONDS.search(description(option)):
            assert name.endswith(("_timeout", "_seconds")), path
        assert option["type"] != "float" or name.endswith("_ratio"), path


@each()
def test_sizes_are_text_in_options_and_name_their_unit_in_results(module: str) -> None:
    for path, option in options_of(module):
        assert option["type"] not in NUMBERS or not BYTES.search(description(option)), path
    for path, result in results_of(module):
        for unit, names in ((SECONDS, ("seconds",)), (BYTES, ("bytes", "kib", "mib"))):
            if result["type"] in NUMBERS and unit.search(description(result)):
                assert path.endswith(names), path


@each()
def test_times_in_results_are_timestamps(module: str) -> None:
    for path, result in results_of(module):
        if TIME.search(path.rpartition(".")[2]):
            assert result["type"] not in NUMBERS and "(UTC)" in description(result), path
        assert not re.search(r"\bepoch\b|\bUnix\b", description(result)), path
        assert not re.search(r"(?<![\d.])1[5-9]\d{8}(?![\d.])", str(result.get("sample"))), f"{path}: its sample contains Unix seconds"


@each()
def test_results_can_be_read_with_a_dot_in_jinja(module: str) -> None:
    # ``result.keys`` is a method of the mapping
    assert [path for path, _result in results_of(module) if hasattr(dict, path.rpartition(".")[2])] == []


@each()
def test_a_failure_is_documented_and_returned_in_one_form(module: str) -> None:
    error = constant(module, "RETURN")["error"]
    assert error == constant(MODULES[0], "RETURN")["error"] and error["returned"] == "failure"
    assert all(f"C({key})" in error["description"] for key in ("message", "path", "hint"))
    for node in ast.walk(ast.parse((ROOT / "plugins" / "modules" / f"{module}.py").read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fail_json":
            # only as keyword arguments that FootprintError.as_result() returned
            assert not node.args and [keyword.arg for keyword in node.keywords] == [None], f"line {node.lineno}"


@each(*(name for name in MODULES if name.endswith("_info")))
def test_an_info_module_returns_one_thing_and_changes_nothing(module: str) -> None:
    assert len(results(module)) == 1
    assert "reduced.footprint.attributes.reads" in constant(module, "DOCUMENTATION")["extends_documentation_fragment"]


@each()
def test_attributes_come_from_the_fragment(module: str) -> None:
    own = constant(module, "DOCUMENTATION").get("attributes", {})
    for name in ("action_group", "check_mode", "diff_mode"):
        assert set(own.get(name, {})) <= {"details"}, name
        assert documentation(module)["attributes"][name]["description"], name
    assert documentation(module)["attributes"]["platform"]["platforms"]


@each()
def test_only_vm_details_and_servers_have_free_keys(module: str) -> None:
    for path, option in options_of(module):
        assert "raw" not in (option["type"], option.get("elements")) or path in FREE_KEYS, path
        assert option.get("elements") != "dict" or option.get("suboptions"), path
    assert not [path for path, result in results_of(module) if "raw" in (result["type"], result.get("elements"))]


def test_the_changelog_lists_only_modules_and_plugins_that_exist() -> None:
    for name, release in yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text("utf-8"))["releases"].items():
        kinds = {"modules": release.get("modules", []), **release.get("plugins", {})}
        listed = {f"plugins/{kind}/{one['name']}.py" for kind, entries in kinds.items() for one in entries}
        assert listed and not [path for path in sorted(listed) if not (ROOT / path).is_file()], name
