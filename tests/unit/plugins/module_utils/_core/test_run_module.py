# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of a module; a quiet module with what a task sends along: the task's own no_log takes the place of the module's."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils import basic

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet


def started(monkeypatch, given):
    logged = []
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": {**given, "_ansible_no_log": False}}).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
    monkeypatch.setattr(basic.AnsibleModule, "log", lambda self, message, log_args=None: logged.append((message, log_args)))
    spec = {"vms": {"type": "raw"}, "number": {"type": "int"}}
    return lambda base: quiet(base)(argument_spec=spec), logged


class Module:
    """Keeps how it ends."""

    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)

    def exit_json(self, **values):
        raise SystemExit(("exit", values))

    def fail_json(self, **values):
        raise SystemExit(("fail", values))


def invalid():
    raise InputError("is too small.", "ram", "Use 1 GiB.")


FAILED = ("fail", InputError("is too small.", "ram", "Use 1 GiB.").as_result())


@pytest.mark.parametrize(
    ("use_case", "end", "warnings"),
    [
        (lambda: {"changed": False, "warnings": ["slow"]}, ("exit", {"changed": False}), ["slow"]),
        (lambda: {**FAILED[1], "warnings": ["slow"]}, FAILED, ["slow"]),
        (invalid, FAILED, []),
    ],
)
def test_a_module_ends_with_a_result_or_an_error(use_case, end, warnings):
    module = Module()
    with pytest.raises(SystemExit) as caught:
        answer(module, use_case)
    assert (caught.value.code, module.warnings) == (end, warnings)


@pytest.mark.parametrize(
    ("changes", "key", "result"),
    [
        (Changes(()), "", {"changed": False, "actions": [], "warnings": [], "diff": {"before": "", "after": ""}}),
        (
            Changes(("start",), {"running": False}, {"running": True}, ("slow",)),
            "galera",
            {
                "changed": True,
                "actions": ["start"],
                "warnings": ["slow"],
                "diff": {"before": {"running": False, "actions": []}, "after": {"running": True, "actions": ["start"]}},
                "galera": {"running": True},
            },
        ),
    ],
)
def test_changes_as_a_result(changes, key, result):
    assert changes.as_result(key) == result


def test_parameters_are_not_logged(monkeypatch):
    start, logged = started(monkeypatch, {"vms": [{"password": "sesame"}]})
    module = start(basic.AnsibleModule)
    assert logged and "sesame" not in str(logged)
    assert module.params["vms"] == [{"password": "sesame"}]


def test_ansible_module_would_log_the_parameters(monkeypatch):
    unused, logged = started(monkeypatch, {"vms": [{"password": "sesame"}]})
    basic.AnsibleModule(argument_spec={"vms": {"type": "raw"}, "number": {"type": "int"}}, no_log=True)
    assert "sesame" in str(logged)


def test_invalid_parameter_returns_no_parameters(monkeypatch, capsys):
    start, logged = started(monkeypatch, {"vms": [{"password": "sesame"}], "number": "x"})
    with pytest.raises(SystemExit):
        start(basic.AnsibleModule)
    out = capsys.readouterr().out
    assert json.loads(out)["failed"] and "sesame" not in out + str(logged)
