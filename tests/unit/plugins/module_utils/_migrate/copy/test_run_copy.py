# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records and errors of a copy pass; rsync is replaced here and real in the backend's tests."""

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import run_copy
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import plan_preflight
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_rsync
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

MIB = 1 << 20


@pytest.fixture(name="context")
def fixture_context(tmp_path):
    journal = Journal("master")
    # what is taken on the copy's disks, whatever rsync counts
    taken = iter([5 * MIB, 20 * MIB, 35 * MIB, 35 * MIB, 60 * MIB, 80 * MIB])
    journal.facts["vm"] = {"disk": str(tmp_path / "image")}
    return types.SimpleNamespace(
        journal=journal,
        spec=types.SimpleNamespace(excludes=("/srv/cache/*",), services=("a.service",), bandwidth_limit=512, quiesce="stop_services", boot="image"),
        source=types.SimpleNamespace(ssh_argv=lambda: ["ssh"], address="host"),
        source_facts={"filesystems": [{"mount": "/", "used": 30 * MIB}, {"mount": "/srv", "used": 70 * MIB}]},
        layout=lambda: types.SimpleNamespace(raws=()),
        disk=lambda: types.SimpleNamespace(mount=lambda: Tree(tmp_path), used=lambda: next(taken)),
        settle=lambda: None,
        progress=lambda **values: journal.progress.update(values),
        save=lambda: None,
        log=lambda text: None,
    )


def pull(calls, options, limits):
    def stand_in(ssh, address, mount, target, how, *, tolerate_vanished, checksum, limit, progress):
        options[mount] = [*how, *(["--checksum"] if checksum else [])]
        limits.append(limit)
        progress(10 * MIB, 33, "1MB/s")
        calls.append(dict(ssh=ssh, address=address, target=target, vanished=tolerate_vanished))
        return io_rsync.Copied(1.0, 3, 25 * MIB, 30 * MIB, False, ())

    return stand_in


def test_pass_copies_all_file_systems_and_reports_progress(context, monkeypatch):
    calls, options, limits = [], {}, []
    monkeypatch.setattr(io_rsync, "pull", pull(calls, options, limits))
    run_copy.copy_pass(context, "live", tolerate_vanished=True)
    assert [each["target"].rpartition("/")[2] for each in calls][1] == "srv" and limits == [512, 512]
    assert "--exclude=/cache/*" in options["/srv"] and "--exclude=/srv/*" in options["/"]
    assert any("migrations" in each or "reduced.footprint" in each for each in options["/"])
    assert context.journal.progress["number"] == 1 and context.journal.progress["percent"] == 35 and "seconds_left" not in context.journal.progress
    assert context.journal.passes[0]["bytes"] == 50 * MIB
    assert context.journal.downtime["predicted"] > 0 and set(context.journal.downtime["predicted_parts"]) >= {"final", "verify", "cutover"}


def test_nothing_slows_the_last_copy_down(context, monkeypatch):
    limits = []
    monkeypatch.setattr(io_rsync, "pull", pull([], {}, limits))
    run_copy.final(context)
    assert limits == [0, 0] and "predicted" not in context.journal.downtime


def test_first_pass_reports_the_remaining_time(context, monkeypatch):
    seen = []
    context.progress = lambda **values: seen.append(values)
    monkeypatch.setattr(io_rsync, "pull", pull([], {}, []))
    run_copy.copy_pass(context, "live", tolerate_vanished=True)
    run_copy.copy_pass(context, "live", tolerate_vanished=True)
    assert ["seconds_left" in each for each in seen] == [True, True, False, False]


@pytest.mark.parametrize(
    ("boot", "since", "again"),
    [("image", None, False), ("image", "now", False), ("image", "before", True), ("pxe", None, False), ("pxe", "now", True), ("pxe", "before", True)],
)
def test_after_an_interrupted_pass_the_content_is_compared(context, monkeypatch, boot, since, again):
    monkeypatch.setattr(run_copy.io_state, "boot_id", lambda: "now")
    context.spec.boot, options, saved = boot, {}, []
    context.save = lambda: saved.append(context.journal.facts.get("unsettled"))
    if since:
        context.journal.facts["unsettled"] = since
    monkeypatch.setattr(io_rsync, "pull", pull([], options, []))
    run_copy.copy_pass(context, "live", tolerate_vanished=True)
    assert ["--checksum" in each for each in options.values()] == [again, again]
    assert saved == ["now", None], "recorded before the first file, removed when all are on the disk"
    run_copy.copy_pass(context, "live", tolerate_vanished=True)
    assert not any("--checksum" in each for each in options.values())


def test_failed_pass_is_reported_and_not_counted(context, monkeypatch):
    def fail(*unused, **more):
        raise CommandError(["rsync"], 12, "rsync: connection unexpectedly closed")

    monkeypatch.setattr(io_rsync, "pull", fail)
    with pytest.raises(BackendError, match="unexpectedly closed"):
        run_copy.copy_pass(context, "live", tolerate_vanished=True)
    assert context.journal.passes == []


def test_full_pool_is_reported(context, monkeypatch):
    def fail(*unused, **more):
        raise CommandError(["rsync"], 11, "rsync: write failed: Input/output error (5)")

    monkeypatch.setattr(io_rsync, "pull", fail)
    monkeypatch.setattr(io_rsync, "_LITTLE", 1 << 62)
    with pytest.raises(BackendError, match="pool with the copy's disk is full"):
        run_copy.copy_pass(context, "live", tolerate_vanished=True)


def test_text_that_a_login_prints_is_a_problem_before_anything_is_copied(context, monkeypatch):
    facts = {"facts": {"time": 0.0, "tree": {}, "interfaces": []}}
    context.source = types.SimpleNamespace(ask=lambda *unused: facts, printed="Welcome to laptop")
    context.spec = types.SimpleNamespace(services=(), containers=(), excludes=(), admin=types.SimpleNamespace(address="192.0.2.2"))
    context.vm = None
    for module, name, value in ((run_copy, "layout_of", None), (plan_preflight, "find_problems", []), (run_copy, "destination", {})):
        monkeypatch.setattr(module, name, lambda *unused, value=value: value)
    with pytest.raises(FootprintError, match="prints text before the output of a command: 'Welcome to laptop'"):
        run_copy.preflight(context)
