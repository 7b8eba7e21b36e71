# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One member brought into its clusters, on databases that behave as those of OVN do."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._ovn import run_ovn
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.plan_ovn import NORTHBOUND

ME, PEER = "ssl:192.0.2.2:6643", "ssl:192.0.2.1:6643"
SERVES = {"file": "clustered", "up": True}


class Database:
    """A database and its cluster, in memory."""

    name, unit = NORTHBOUND, "ovn-ovsdb-server-nb.service"

    def __init__(self, **state: t.Any) -> None:
        self.file, self.up, self.led, self.old = "none", False, True, False
        self.servers = [ME, PEER]
        self.since = 100
        self.said: list[str] = []
        self.__dict__.update(state)

    def installed(self) -> bool:
        return True

    def kind(self) -> str:
        return self.file

    def cluster(self) -> str:
        return "one"

    def running(self) -> bool:
        return self.up

    def started(self) -> int:
        return self.since if self.up else 0

    def outdated(self) -> bool:
        return self.old

    def status(self) -> str:
        lines = ["Status: cluster member", "Role: follower", "Term: 1", f"Leader: {'0000' if self.led else 'unknown'}", "Servers:"]
        lines += [f"    {number:04} ({number:04} at {server}){' (self)' if server == ME else ''}" for number, server in enumerate(self.servers)]
        return "\n".join(lines)

    def __getattr__(self, word: str) -> t.Callable[..., t.Any]:
        def act(*arguments: t.Any) -> t.Any:
            self.said.append(word)
            if word in ("create", "join"):
                assert not self.up
                self.file = "clustered"
            elif word == "put_away":
                self.file = "none"
            elif word in ("start", "restart"):
                assert self.file == "clustered"
                self.up = True
            elif word == "stop":
                self.up = False
            elif word == "kick":
                self.servers.remove(arguments[0])
            elif word == "convert":
                self.old = False
            elif word == "to_standalone":
                return self
            return None

        return act


def ensure(database: Database, check_mode: bool = False, config_files: t.Sequence[str] = (), wait_timeout: float = 9, **step: t.Any) -> tuple[str, ...]:
    steps = run_ovn.parse_steps({NORTHBOUND: step})
    options = {"check_mode": check_mode, "config_files": config_files, "wait_timeout": wait_timeout, "sleep": lambda _seconds: None}
    done = run_ovn.ensure({NORTHBOUND: database}, "192.0.2.2", steps, **options)
    return tuple(action.split()[0] for action in done.actions)


@pytest.mark.parametrize(
    ("state", "step", "actions", "said"),
    [
        ({}, {"join": [PEER]}, ("join", "start"), ["join", "start"]),
        ({}, {"create": True}, ("create", "start"), ["stop", "create", "start", "initialize"]),
        # a run was killed before the start
        ({"file": "clustered"}, {"join": [PEER]}, ("start",), ["start"]),
        ({"file": "clustered"}, {}, ("start",), ["start"]),
        # old data are moved away
        (SERVES, {"join": [PEER], "discard": True}, ("discard", "join", "start"), ["stop", "put_away", "join", "start"]),
        # a new cluster
        (SERVES, {"force": True}, ("force",), ["stop", "to_standalone", "create", "unlink", "start", "initialize"]),
        ({**SERVES, "old": True}, {"upgrade": True}, ("upgrade",), ["convert"]),
    ],
)
def test_what_is_done_once_and_not_in_check_mode(state: dict[str, t.Any], step: dict[str, t.Any], actions: tuple[str, ...], said: list[str]) -> None:
    checked, database = Database(**state), Database(**state)
    assert ensure(checked, check_mode=True, **step) == ensure(database, **step) == actions
    assert (checked.said, database.said) == ([], said)
    # the next decision has these steps no more
    assert ensure(database, **{name: value for name, value in step.items() if name not in ("discard", "force")}) == ()
    assert database.said == said


def test_servers_are_removed_but_never_this_one():
    database = Database(file="clustered", up=True)
    assert ensure(database, kick=[PEER, ME]) == ("kick",)
    assert database.servers == [ME]
    assert ensure(database, kick=[PEER]) == ()


def test_a_newer_file_restarts_a_running_server(tmp_path):
    path = tmp_path / "key.pem"
    path.write_text("new", "utf-8")
    database = Database(file="clustered", up=True)
    assert ensure(database, config_files=[str(path)]) == ("restart",)
    database.since = 1 << 40
    assert ensure(database, config_files=[str(path), str(tmp_path / "missing")]) == ()


def test_a_member_without_a_leader_fails():
    with pytest.raises(BackendError, match="no leader"):
        ensure(Database(led=False), wait_timeout=0, join=[PEER])


def test_an_unknown_database_is_refused():
    with pytest.raises(InputError, match="steps.OVN_X: unknown database"):
        run_ovn.parse_steps({"OVN_X": {}})


def test_a_look_waits_for_running_servers_only():
    found = run_ovn.look({NORTHBOUND: Database()}, wait_timeout=60, sleep=lambda _seconds: pytest.fail("waited"))
    assert found["problems"] == ["OVN_Northbound is not running"]
    assert run_ovn.look({NORTHBOUND: Database(file="clustered", up=True)}, 2)["problems"] == []
