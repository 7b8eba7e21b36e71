# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watch on the source with real files and without commands; tests/source has the real ones."""

from __future__ import annotations

import io
import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_state, run_agent
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_state import SourceState
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PARKED, QUIESCED


class Ended(Exception):
    """The watch has done what the test waits for."""


@pytest.fixture(name="watched")
def fixture_watched(tmp_path, monkeypatch):
    """A source whose disk is full, so that it cannot be set aside, and which notes its return."""
    monkeypatch.setattr(io_state, "HOME", tmp_path)
    monkeypatch.setattr(io_state, "boot_id", lambda: "boot-1")
    monkeypatch.setattr(run_agent, "boot_id", lambda: "boot-1")
    monkeypatch.setattr(run_agent.time, "sleep", lambda unused: None)
    state = SourceState("master")
    returned = []

    def full(*unused):
        raise OSError(28, "No space left on device")

    def restore(self, reason, *, unasked=False):
        returned.append((reason, unasked))
        raise Ended

    monkeypatch.setattr(run_agent, "_enable_at_boot", full)
    monkeypatch.setattr(SourceState, "restore", restore)
    state.request_file.write_text("detach")
    return state, returned


def lease(state, name, seconds):
    """Write a state whose lease ends in some seconds."""
    state.write({"state": name, "admin": {}, "boot_id": "boot-1", "lease": 60, "deadline": io_state.time.clock_gettime(io_state.time.CLOCK_BOOTTIME) + seconds})


@pytest.mark.parametrize("name", [QUIESCED, PARKED])
def test_a_source_that_cannot_be_set_aside_returns_when_its_lease_expires(watched, name):
    state, returned = watched
    lease(state, name, -1)
    with pytest.raises(Ended):
        run_agent.watch("master")
    assert returned == [("the lease expired without contact to the destination", True)]


def test_before_that_it_tries_again(watched):
    state, returned = watched
    lease(state, QUIESCED, 30)
    with pytest.raises(OSError):
        run_agent.watch("master")
    assert not returned


@pytest.mark.parametrize(("uptime", "returns"), [(30.0, False), (61.0, True)])
def test_a_source_that_was_rebooted_and_cannot_record_its_lease_returns_after_it(watched, monkeypatch, uptime, returns):
    state, returned = watched
    state.request_file.unlink()
    lease(state, PARKED, 1000)
    monkeypatch.setattr(io_state, "boot_id", lambda: "boot-2")
    monkeypatch.setattr(run_agent, "boot_id", lambda: "boot-2")
    monkeypatch.setattr(run_agent.time, "clock_gettime", lambda clock: uptime)

    def full(*unused):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SourceState, "write", full)
    with pytest.raises(Ended if returns else OSError):
        run_agent.watch("master")
    assert returned == ([("the lease could not be recorded after a reboot", True)] if returns else [])


def test_the_boot_that_starts_the_watch_is_on_disk_before_the_address_is_given_up(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(run_agent, "_boot_file", lambda name: tmp_path / f"{name}.service")
    monkeypatch.setattr(run_agent, "make_link", lambda link, target: made.append((link.name, target)))
    run_agent._enable_at_boot("master")
    assert made == [("reduced-footprint-parked-master.service", tmp_path / "master.service")]
    assert "-m" in (tmp_path / "master.service").read_text()


def test_a_request_with_a_hostile_value_changes_nothing(monkeypatch, capsys):
    monkeypatch.setattr(run_agent.sys, "stdin", io.StringIO('{"services": ["../../../etc/evil"], "lease": 60}'))
    monkeypatch.setattr(run_agent, "answer", lambda *unused: pytest.fail("was carried out"))
    assert run_agent.main(["quiesce", "master"]) == 1
    assert "not a valid unit name" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_only_facts_for_check_mode_say_whether_a_key_will_work(monkeypatch):
    """A destination that asks by ssh has proved that its key works, perhaps at an address with settings of its own."""

    def check(addresses):
        raise RefusedError("AllowUsers admin", hint="Add root to it.")

    monkeypatch.setattr(run_agent.io_login, "check", check)
    monkeypatch.setattr(run_agent.io_facts, "gather", lambda *unused: {})
    monkeypatch.setattr(run_agent.io_facts, "read_tree", lambda patterns: {})
    for name in ("everything", "running_containers", "user_services"):
        monkeypatch.setattr(run_agent.io_services, name, list)
    assert run_agent.gather_facts()["login"] == ["The migration's key will not work on the source. AllowUsers admin Add root to it."]
    assert run_agent.gather_facts(secrets=True)["login"] == []
