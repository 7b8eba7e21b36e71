# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""With a wrong parameter a module ends before it has looked at the others, and Ansible returns them all: no secret may be among them."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
import yaml

from tests.support.canary import Canaries

ROOT = pathlib.Path(__file__).resolve().parents[4]
MODULES = ROOT / "plugins" / "modules"
CALL = """
import importlib, json, os, sys
from ansible.module_utils import basic

name = sys.argv[1]
module = importlib.import_module("ansible_collections.reduced.footprint.plugins.modules." + name)
for number, given in enumerate(json.loads(sys.argv[2])):
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": given}).encode()
        basic._ANSIBLE_PROFILE = "legacy"
        try:
            module.main()
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.waitpid(pid, 0)
"""
# options that hold secrets below keys of the operator's own, or in texts
FREE = {
    "vms": [{"id": 0, "user_data": "{user_data}", "vnc_password": "{vms}", "deep": [{"token": "{vms}"}]}],
    "vm": {"id": 0, "user_data": "{user_data}", "vnc_password": "{vm}"},
    "servers": [{"name": "a", "bmc_password": "{servers}", "vms": [{"id": 0, "user_data": "{user_data}"}]}],
    "qemu_conf": {"vnc_password": "{qemu_conf}"},
    "files": [{"path": "/nowhere/x", "content": "{files}", "secret": True}],
    "health_checks": [{"type": "http", "url": "http://me:{health_checks}@h/"}],
    "source_facts": {"tree": {"/etc/x": "password={source_facts}"}},
    "template": "<domain><devices><graphics passwd='{template}'/></devices></domain>",
}
SECRET_NAME = re.compile(r"password|secret\b|cookie|private_key|token|\Akeys\Z|host_keys\Z")


def options_of(name: str) -> t.Mapping[str, t.Any]:
    text = (MODULES / f"{name}.py").read_text(encoding="utf-8")
    found = re.search(r'DOCUMENTATION = r?"""(.*?)"""', text, re.DOTALL)
    documented = yaml.safe_load(found.group(1)) if found else {}
    options: dict[str, t.Any] = {}
    for fragment in documented.get("extends_documentation_fragment") or ():
        file, _dot, part = fragment.removeprefix("reduced.footprint.").partition(".")
        module = importlib.import_module(f"ansible_collections.reduced.footprint.plugins.doc_fragments.{file}")
        options.update(yaml.safe_load(getattr(module.ModuleDocFragment, part.upper() or "DOCUMENTATION"))["options"])
    return {**options, **(documented.get("options") or {})}


def filled(options: t.Mapping[str, t.Any], canaries: Canaries) -> dict[str, t.Any]:
    """A canary in each option that holds a secret, something fit in those that are required beside it."""

    def put(value: t.Any) -> t.Any:
        if isinstance(value, dict):
            return {key: put(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [put(entry) for entry in value]
        return re.sub(r"{(\w+)}", lambda found: canaries(found.group(1)), value) if isinstance(value, str) else value

    given: dict[str, t.Any] = {}
    for name, option in options.items():
        inner = option.get("suboptions")
        if name == "wait_timeout":
            # a list with a wrong element can be a valid list of texts: the module would wait for a server that does not exist
            given[name] = 0
        elif name in FREE:
            given[name] = put(FREE[name])
        elif inner:
            content = filled(inner, canaries)
            if content:
                given[name] = [content] if option.get("type") == "list" else content
        elif SECRET_NAME.search(name) and option.get("type", "str") in ("str", "dict", "list"):
            text = canaries(name)
            given[name] = {"str": text, "dict": {"a": text}, "list": [text]}[option.get("type", "str")]
        elif option.get("required"):
            given[name] = {"list": [], "dict": {}, "int": 1, "bool": True}.get(option.get("type"), "x")
    return given


# public keys of ssh servers, and what only speaks of secrets
NONE_OF_THEM = {"galera_backup", "vm_move", "vm_standby", "keystone_keys_info"}


def outcome(name: str, wrong: t.Sequence[t.Mapping[str, t.Any]]) -> tuple[str, list[t.Any]]:
    """What a module prints with each of these parameters, and its failures that return parameters."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / ".cache" / "collections"), *sys.path])}
    # not on the command line: this test is read by others that look there
    call = CALL.replace("json.loads(sys.argv[2])", "json.load(sys.stdin)")
    done = subprocess.run([sys.executable, "-c", call, name], input=json.dumps(wrong), env=env, capture_output=True, text=True, timeout=120, check=True)
    shown = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.stdout + done.stderr, [each for each in shown if each.get("failed") and "invocation" in each]


@pytest.mark.parametrize("wrong", [{"parallel": 0}, {"pool": "\n"}, {"vms": FREE["vms"][0]}, {"vms": [FREE["vms"]]}], ids=str)
def test_invalid_request_of_vm_define_returns_no_secret(wrong: dict[str, t.Any]) -> None:
    # these are found after the validation of the parameters by Ansible
    canaries = Canaries()
    given = filled({"vms": {}}, canaries)
    given.update(json.loads(re.sub(r"{(\w+)}", lambda found: canaries(found.group(1)), json.dumps(wrong))))
    printed, failures = outcome("vm_define", [{"cluster": "lab", **given}])
    assert len(failures) == 1 and canaries.in_text(json.dumps(given), "given"), printed
    assert not canaries.in_text(printed, "vm_define")


# others only document an action plugin, whose options are results of modules
RUN = sorted(path.stem for path in MODULES.glob("*.py") if path.stem not in NONE_OF_THEM and "\ndef main(" in path.read_text("utf-8"))


@pytest.mark.parametrize("name", RUN)
def test_invalid_parameter_returns_no_secret(name: str) -> None:
    canaries = Canaries()
    options = options_of(name)
    given = filled(options, canaries)
    if not canaries.in_text(json.dumps(given), "given"):
        # nothing secret goes in
        return
    # one that does not exist, a list that is none, a choice that is none, a required one that is missing
    wrong = [{**given, "no_such_option": 1}, {**given, "no_such_option": {"a": ["b"]}}]
    wrong += [{**given, key: [*given.get(key, []), "x" if option.get("suboptions") else {}]} for key, option in options.items() if option.get("type") == "list"]
    wrong += [{**given, key: "nonsense"} for key, option in options.items() if option.get("choices") or option.get("type") in ("int", "dict")]
    wrong += [{other: value for other, value in given.items() if other != key} for key, option in options.items() if option.get("required")]
    printed, failures = outcome(name, wrong)
    assert len(failures) >= 2, printed
    assert not canaries.in_text(printed, name), [each for each in failures if canaries.in_text(json.dumps(each), "")][:1]
