# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import PathFound, UnitFound, parse_service_files
from ansible_collections.reduced.footprint.plugins.module_utils._service.plan_service_files import plan

CFG, DROP = "/etc/x/x.cfg", "/etc/systemd/system/x.service.d/y.conf"
FILES = [{"path": CFG, "content": "new\n", "group": "x", "mode": "0640"}, {"path": DROP, "content": "[Service]\n"}]
UNITS = [{"name": "x.service", "enabled": True, "started": True, "reload_after": [CFG], "restart_after": [DROP]}]
CONFIG = parse_service_files(FILES, UNITS)
FOLDERS = {"/etc/x": PathFound("root", "root", 0o755), DROP.rpartition("/")[0]: PathFound("root", "root", 0o755)}
THERE = {**FOLDERS, CFG: PathFound("root", "x", 0o640, 50, "new\n"), DROP: PathFound("root", "root", 0o644, 50, "[Service]\n")}
RUNS = UnitFound(known=True, active=True, enabled=True, started=100, settled=100)
TIMES = {CFG: 50.5, DROP: 50.5}


def test_what_is_as_it_should_be_is_left_alone():
    found = plan(CONFIG, THERE, {"x.service": RUNS}, TIMES)
    assert (found.actions, found.needs, found.read_units) == ([], {}, False)


def test_a_new_host_gets_everything():
    found = plan(CONFIG, {}, {"x.service": UnitFound()}, {CFG: 99, DROP: 99})
    assert found.actions == ["create the directory /etc/x", f"create the directory {DROP.rpartition('/')[0]}", f"write {CFG}", f"write {DROP}",
                             "enable x.service", "start x.service"]  # fmt: skip
    assert found.read_units


@pytest.mark.parametrize(
    ("times", "settled", "due"),
    [
        ({CFG: 150.0, DROP: 50.0}, 100, "reload"),
        ({CFG: 150.0, DROP: 50.0}, 151, ""),
        ({CFG: 100.001, DROP: 50.0}, 100, "reload"),
        ({CFG: 100.001, DROP: 50.0}, 100.002, ""),
        ({CFG: 50.0, DROP: 150.0}, 160, "restart"),
        ({CFG: 150.0, DROP: 150.0}, 100, "restart"),
        ({CFG: 0.0, DROP: 0.0}, 100, ""),
    ],
)
def test_a_service_older_than_its_files_is_due(times, settled, due):
    unit = UnitFound(known=True, active=True, enabled=True, started=100, settled=settled)
    found = plan(CONFIG, THERE, {"x.service": unit}, times)
    assert found.actions == ([f"{due} x.service"] if due else [])
    request = parse_service_files(FILES, [{**UNITS[0], "act": False}])
    found = plan(request, THERE, {"x.service": unit}, times)
    assert (found.actions, dict(found.needs)) == ([], {"x.service": due} if due else {})


def test_one_that_does_not_run_is_started_and_not_restarted_too():
    found = plan(CONFIG, THERE, {"x.service": UnitFound(known=True, enabled=True)}, {CFG: 150, DROP: 150})
    assert found.actions == ["start x.service"]


def test_one_that_is_to_be_left_alone_is():
    units = [{"name": "x.service"}, {"name": "y.socket", "started": False, "enabled": False}]
    found = plan(parse_service_files([], units), {}, {"y.socket": RUNS}, {})
    assert found.actions == ["disable y.socket", "stop y.socket"]


def test_one_that_is_masked_is_unmasked_to_be_enabled():
    units = [{"name": "x.service", "enabled": True}]
    found = plan(parse_service_files([], units), {}, {"x.service": UnitFound(known=True, masked=True)}, {})
    assert found.actions == ["unmask x.service", "enable x.service"]
    assert plan(parse_service_files([], [{"name": "x.service"}]), {}, {"x.service": UnitFound(known=True, masked=True)}, {}).actions == []


def test_check_mode_knows_what_would_be_younger():
    before = {**THERE, CFG: PathFound("root", "x", 0o640, 50, "old\n")}
    assert plan(CONFIG, before, {"x.service": RUNS}, TIMES, check_mode=True).actions == [f"write {CFG}", "reload x.service"]


def test_owner_and_mode_alone():
    before = {**THERE, CFG: PathFound("root", "root", 0o644, 50, "new\n")}
    assert plan(CONFIG, before, {"x.service": RUNS}, TIMES).actions == [f"set owner and mode of {CFG}"]


def test_a_folder_is_set_when_that_is_asked_for():
    asked = parse_service_files([{"path": CFG, "content": "new\n", "group": "x", "mode": "0640", "folder_mode": "0750", "folder_group": "x"}], [])
    assert plan(asked, THERE, {}, {}).actions == ["create the directory /etc/x"]
    assert plan(asked, {**THERE, "/etc/x": PathFound("root", "x", 0o750)}, {}, {}).actions == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_new_folder_is_as_one_of_its_files_asks_for(order):
    files = [{"path": CFG, "content": "new\n", "folder_mode": "0750", "folder_group": "x"}, {"path": f"{CFG}.pem", "content": "new\n"}]
    made = plan(parse_service_files([files[index] for index in order], []), {}, {}, {}).folders
    assert [(folder.path, folder.group, folder.mode) for folder in made] == [("/etc/x", "x", 0o750)]


@pytest.mark.parametrize("check_mode", [False, True])
def test_units_that_systemd_has_not_read_are_read(check_mode):
    units = {"x.service": UnitFound(known=True, active=True, enabled=True, started=100, settled=100, unread=True)}
    found = plan(CONFIG, THERE, units, TIMES, check_mode)
    assert found.read_units and found.actions == ["read the files of the units"]
    # part of writing one
    written = plan(CONFIG, {**THERE, DROP: THERE[CFG]}, units, TIMES, check_mode)
    assert written.read_units and f"write {DROP}" in written.actions and "read the files of the units" not in written.actions


@pytest.mark.parametrize(
    ("files", "units", "path"),
    [
        ([{"path": "etc/x", "content": ""}], [], "files[0].path"),
        ([{"path": "/etc/../x", "content": ""}], [], "files[0].path"),
        ([{"path": CFG}], [], "files[0].content"),
        ([{"path": CFG, "content": "", "mode": "rw"}], [], "files[0].mode"),
        ([{"path": CFG, "content": "", "mode": 420}], [], "files[0].mode"),
        ([{"path": CFG, "content": "", "owner": "a b"}], [], "files[0].owner"),
        ([{"path": CFG, "content": "", "validate": ["true"]}], [], "files[0].validate"),
        ([{"path": CFG, "content": "", "moed": "0600"}], [], "files[0].moed"),
        ([{"path": CFG, "content": ""}] * 2, [], "files[1]"),
        (["x"], [], "files[0]"),
        ([], [{"name": "haproxy"}], "units[0].name"),
        ([], [{"name": "--now.service; x"}], "units[0].name"),
        ([], [{"name": "x.service", "restart_after": ["y"]}], "units[0].restart_after[0]"),
        ([], [{"name": "x.service"}] * 2, "units[1]"),
    ],
)
def test_bad_input(files, units, path):
    with pytest.raises(InputError) as raised:
        parse_service_files(files, units)
    assert raised.value.path == path
    assert raised.value.hint
