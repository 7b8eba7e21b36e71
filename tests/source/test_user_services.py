# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services of a user with lingering, which systemd starts without a login, for example rootless containers."""

from __future__ import annotations

import typing as t

import pytest
from source_machine import SourceMachine
from support import eventually

USER = "keeper"
UNIT = """\
[Service]
ExecStart=/bin/sh -c 'while :; do date >> %h/written; sleep 0.2; done'
[Install]
WantedBy=default.target
"""


class Keeper:
    """The user, whose service writes all the time."""

    def __init__(self, source: SourceMachine) -> None:
        self.source = source
        folder = f"/home/{USER}/.config/systemd/user"
        self.run("useradd", "--create-home", USER)
        self.run("install", "-d", "-o", USER, f"{folder}/default.target.wants")
        self.source.lab.ssh("laptop", "tee", f"{folder}/writer.service", stdin=UNIT)
        self.run("ln", "-s", "../writer.service", f"{folder}/default.target.wants/writer.service")
        self.run("loginctl", "enable-linger", USER)

    def run(self, *argv: str) -> str:
        """Run a command on the source."""
        return self.source.lab.ssh(self.source.address(), *argv)

    def processes(self) -> str:
        """The processes of the user; empty without any."""
        return self.source.lab.ssh(self.source.address(), "pgrep", "--list-full", "--uid", USER, check=False)

    def writes(self) -> bool:
        """Whether its service runs."""
        return f"/home/{USER}/written" in self.processes()

    def remove(self) -> None:
        """Remove the user."""
        self.run("loginctl", "disable-linger", USER)
        eventually("the user has no process", lambda: self.processes() == "", 30)
        self.run("userdel", "--remove", "--force", USER)


@pytest.fixture(name="keeper")
def fixture_keeper(source: SourceMachine) -> t.Iterator[Keeper]:
    it = Keeper(source)
    eventually("the service of the user runs", it.writes, 30)
    yield it
    source.take_back()
    it.remove()


def test_services_without_a_login_are_reported(source: SourceMachine, keeper: Keeper) -> None:
    """They would run on a source that is set aside as well, because systemd-logind starts them at every boot."""
    facts = source.remote.ask("facts", {"services": ["all"], "address": source.admin})["facts"]
    assert facts["user_services"] == {USER: ["writer.service"]}
    keeper.run("loginctl", "disable-linger", USER)
    eventually("the user has no process", lambda: keeper.processes() == "", 30)
    assert source.remote.ask("facts", {"services": ["all"], "address": source.admin})["facts"]["user_services"] == {}
