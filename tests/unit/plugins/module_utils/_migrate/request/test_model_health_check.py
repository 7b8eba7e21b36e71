# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import parse_checks

# as a module hands it over: what was not given is there as None
NOTHING = {"type": "tcp", "port": None, "url": None, "status": 200, "command": None, "unit": None, "rehearse": True}


@pytest.mark.parametrize(
    ("entry", "title"),
    [
        ({"port": 3306}, "tcp 3306"),
        ({"type": "ssh"}, "ssh 22"),
        ({"type": "http", "url": "http://192.0.2.2:8080/health"}, "http http://192.0.2.2:8080/health"),
        ({"type": "unit", "unit": "mariadb"}, "unit mariadb.service"),
        ({"type": "unit", "unit": "backup.timer"}, "unit backup.timer"),
        ({"type": "command", "command": ["head", "-c", 1, "/etc/hosts"]}, "command head -c 1 /etc/hosts"),
    ],
)
def test_a_check_has_a_title(entry, title):
    (check,) = parse_checks([{**NOTHING, **entry}])
    assert check.title == title and check.rehearse
    assert parse_checks([entry]) == (check,)


@pytest.mark.parametrize(("value", "wanted"), [(None, True), (True, True), (False, False), (0, False)])
def test_a_check_may_stay_out_of_the_rehearsal(value, wanted):
    assert parse_checks([{"port": 53, "rehearse": value}])[0].rehearse is wanted


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ("tcp", "health_checks[1]"),
        ({"type": "ping"}, "health_checks[1].type"),
        ({"type": "tcp"}, "health_checks[1].port"),
        ({"port": 70000}, "health_checks[1].port"),
        ({"type": "http", "url": "ftp://x"}, "health_checks[1].url"),
        ({"type": "http", "url": "http://192.0.2.2:80a/"}, "health_checks[1].url"),
        ({"type": "http", "url": "http://[192.0.2.2/"}, "health_checks[1].url"),
        ({"type": "http", "url": "http://operator:secret@192.0.2.2/"}, "health_checks[1].url"),
        ({"type": "http", "url": "http://x/\x01"}, "health_checks[1].url"),
        ({"type": "http", "url": "http://x", "status": 9}, "health_checks[1].status"),
        ({"type": "unit"}, "health_checks[1].unit"),
        ({"type": "unit", "unit": "--all"}, "health_checks[1].unit"),
        ({"type": "command"}, "health_checks[1].command"),
        ({"type": "command", "command": "true"}, "health_checks[1].command"),
        ({"type": "command", "command": []}, "health_checks[1].command"),
        ({"type": "command", "command": [""]}, "health_checks[1].command[0]"),
        ({"type": "command", "command": ["echo", {"a": 1}]}, "health_checks[1].command[1]"),
        ({"type": "command", "command": ["echo", "a\0b"]}, "health_checks[1].command[1]"),
        ({"port": 1, "rehearse": "sometimes"}, "health_checks[1].rehearse"),
    ],
)
def test_an_invalid_check_is_refused_with_its_path(entry, path):
    with pytest.raises(InputError) as caught:
        parse_checks([{"port": 1}, entry])
    assert caught.value.path == path and caught.value.hint
