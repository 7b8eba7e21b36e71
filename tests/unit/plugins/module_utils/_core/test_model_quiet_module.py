# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A quiet module with what a task sends along: the task's own no_log takes the place of the module's."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils import basic

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_quiet_module import quiet


def started(monkeypatch, given):
    logged = []
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": {**given, "_ansible_no_log": False}}).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy")
    monkeypatch.setattr(basic.AnsibleModule, "log", lambda self, message, log_args=None: logged.append((message, log_args)))
    spec = {"vms": {"type": "raw"}, "number": {"type": "int"}}
    return lambda base: quiet(base)(argument_spec=spec), logged


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
