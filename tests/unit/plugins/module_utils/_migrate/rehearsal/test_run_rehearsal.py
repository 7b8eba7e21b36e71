# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of a rehearsal's questions, and its sweeping; the boot itself is in tests/rehearse, for it needs a hypervisor."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import run_health, run_rehearsal
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.io_health import Failure
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.xml_rehearsal import Stage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

SPEC = {
    "vm": {"id": "master", "nics": [{"bridge": "b"}], "disks": [{"size": 6}]},
    "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
}
STAGE = Stage("master-rehearsal", "00000000-0000-4000-8000-000000000002", {}, ("rfr0",), "/nowhere/vars", "/nowhere/console")


class Here:
    """A network that is this one, and a domain that is always fine."""

    def run(self, work, *arguments, **named):
        return work(*arguments, **named)

    def resume(self, uuid):
        assert uuid == STAGE.uuid


@pytest.fixture(name="context")
def fixture_context(tmp_path):
    checks = [{"port": 1}, {"type": "unit", "unit": "a"}, {"port": 2, "rehearse": False}]
    spec = parse_spec({**SPEC, "health_checks": checks, "rehearse_timeout": 10})
    return Context(spec, vm_details(spec), JournalStore("master", tmp_path), Journal("master"), tmp_path, None)


def ask(context, monkeypatch, rounds):
    """Put the questions; ``rounds`` are the titles that fail, one set per round of questions."""
    asked = []
    monkeypatch.setattr(run_rehearsal, "_POLL", 0)
    monkeypatch.setattr(run_rehearsal.io_rehearsal, "check_alive", lambda host, uuid: None)

    def check_all(checks, ways, *, stop_at_first=False):
        asked.append([each.title for each in checks])
        return [Failure(each, "no") for each in checks if each.title in rounds[min(len(asked), len(rounds)) - 1]]

    monkeypatch.setattr(run_rehearsal.io_health, "check_all", check_all)
    checks = run_health.questions(context, rehearsal=True)
    return asked, lambda: run_rehearsal._run_checks(context, Here(), Here(), STAGE, checks)


def test_what_answered_is_asked_once_more_with_all_the_others(context, monkeypatch):
    asked, question = ask(context, monkeypatch, [{"ssh 22", "tcp 1", "unit a.service"}, {"unit a.service"}, set(), set()])
    question()
    assert asked == [["ssh 22", "tcp 1", "unit a.service"], ["ssh 22", "tcp 1", "unit a.service"], ["unit a.service"], ["ssh 22", "tcp 1", "unit a.service"]]
    assert [line.split(": ", 1)[1] for line in context.store.tail()] == ["ssh 22 passed", "tcp 1 passed", "unit a.service passed"]


def test_what_died_after_it_answered_is_waited_for_again(context, monkeypatch):
    asked, question = ask(context, monkeypatch, [set(), {"tcp 1"}, set(), set()])
    question()
    assert asked[2:] == [["tcp 1"], ["ssh 22", "tcp 1", "unit a.service"]]


def test_when_the_time_is_over_every_failure_is_named(context, monkeypatch):
    _asked, question = ask(context, monkeypatch, [{"tcp 1", "unit a.service"}])
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(run_rehearsal.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(BackendError, match=r"after 10 s: tcp 1: no; unit a\.service: no"):
        question()


def test_failed_boot_ends_the_rehearsal_early(context, monkeypatch):
    _asked, question = ask(context, monkeypatch, [{"ssh 22"}])
    monkeypatch.setattr(run_rehearsal.io_rehearsal, "read_console", lambda path: "You are in emergency mode. After logging in")
    with pytest.raises(BackendError, match="emergency mode; ssh 22: no"):
        question()


def test_a_rehearsal_that_is_not_wanted_leaves_no_old_result(context):
    context.journal.facts["rehearsal"] = {"passed": True}
    context.spec = parse_spec({**SPEC, "rehearse": False})
    run_rehearsal.rehearse(context)
    assert "rehearsal" not in context.journal.facts and "skipped" in context.store.tail()[-1]


class Domains:
    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass


def test_what_a_killed_rehearsal_left_is_swept_once(context, monkeypatch, tmp_path):
    overlay, console = tmp_path / "overlay.qcow2", tmp_path / "console"
    overlay.write_text("x")
    context.journal.facts["rehearsing"] = {"uuid": STAGE.uuid, "files": [str(overlay), str(console)]}
    monkeypatch.setattr(Context, "domains", lambda self: Domains())
    monkeypatch.setattr(run_rehearsal.io_rehearsal, "destroy", lambda host, uuid: uuid == STAGE.uuid)
    run_rehearsal.sweep(context)
    assert not overlay.exists() and context.store.read().facts == {}
    assert "removed the leftovers" in context.store.tail()[-1] and "its VM" in context.store.tail()[-1] and str(overlay) in context.store.tail()[-1]
    run_rehearsal.sweep(context)
    assert len(context.store.tail()) == 1


def test_what_cannot_be_swept_yet_stays_noted_and_stops_nothing(context, monkeypatch, tmp_path):
    left = {"uuid": STAGE.uuid, "files": [str(tmp_path / "overlay")]}
    (tmp_path / "overlay").write_text("x")
    context.journal.facts["rehearsing"] = left

    def fail(self):
        raise BackendError("cannot connect to qemu:///system")

    monkeypatch.setattr(Context, "domains", fail)
    run_rehearsal.sweep(context)
    assert context.journal.facts["rehearsing"] == left and (tmp_path / "overlay").exists()
    assert "cannot be removed yet: cannot connect" in context.store.tail()[-1]


def test_a_copy_that_is_asked_from_within_has_the_newest_key_and_no_older_one(context, monkeypatch):
    monkeypatch.setattr(run_health, "ensure_key", lambda directory, name: f"ssh-ed25519 NEW {context.key_marker}")
    monkeypatch.setattr(run_health, "own_address", lambda peer, routed=False: "198.51.100.7" if routed else None)
    tree = {run_health.AUTHORIZED_KEYS: f'ssh-rsa A me\nfrom="192.0.2.9",restrict ssh-ed25519 OLD {context.key_marker}'}
    monkeypatch.setattr(run_health.time, "time", lambda: 0.0)
    ours = f'from="192.0.2.3,198.51.100.7",restrict,expiry-time="197001030000" ssh-ed25519 NEW {context.key_marker}\n'
    assert run_health.own_way_in(context, tree) == {run_health.AUTHORIZED_KEYS: f"ssh-rsa A me\n{ours}"}
    assert run_health.own_way_in(context, {run_health.AUTHORIZED_KEYS: ""}) == {run_health.AUTHORIZED_KEYS: ours}
    # what is a link on the master stays one
    assert run_health.own_way_in(context, {}) == {}


def test_copy_without_inside_checks_gets_no_key(context):
    context.spec = parse_spec({**SPEC, "health_checks": [{"port": 1}]})
    assert run_health.own_way_in(context, {run_health.AUTHORIZED_KEYS: ""}) == {} and run_health.ways(context).clone is None
