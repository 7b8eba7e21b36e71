# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two real trees, real rsync, real manifests; only ssh is a program that stays on this machine."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import run_copy, run_verify
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest, io_rsync, model_manifest
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.plan_manifest import Difference

# the agent, which takes a folder for the root of its machine
AGENT = """
import json, pathlib, sys
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest_wire as manifest_wire
from ansible_collections.reduced.footprint.plugins.module_utils._remote.plan_manifest import excluded
given = json.load(sys.stdin)
manifest_wire.send(sys.stdout.buffer, pathlib.Path({stored!r}), excluded(given["patterns"], given["names"]), have=given["have"],
    mounts=set(), settle=given["settle"], root={root!r})
"""
SSH = "#!{python}\nimport os, sys\nargv = sys.argv[2:]\nos.execvp(argv[0], [*argv[:-1], {root!r}])\n"


class Machines:
    """A source and its copy, and what the worker has of them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.source, self.copy, store = folder / "source", folder / "copy", folder / "store"
        for each in (self.source / "etc", self.source / "srv", store):
            each.mkdir(parents=True)
        for number in range(5):
            (self.source / "srv" / str(number)).write_text(f"content {number}")
        (self.source / "etc" / "fstab").write_text("/dev/sda1 / ext4")
        ssh = folder / "ssh"
        ssh.write_text(SSH.format(python=sys.executable, root=str(self.source)))
        ssh.chmod(0o755)
        agent = folder / "agent.py"
        agent.write_text(AGENT.format(stored=str(store / "theirs"), root=os.fsencode(self.source)))
        self.said: list[str] = []
        self.context = types.SimpleNamespace(
            journal=Journal("master"),
            store=types.SimpleNamespace(directory=store),
            spec=types.SimpleNamespace(excludes=()),
            source=types.SimpleNamespace(program=lambda module: [sys.executable, str(agent)], ssh_argv=lambda: [str(ssh)], address="host"),
            source_facts={"filesystems": [{"mount": "/", "fstype": "ext4", "used": 1}]},
            layout=lambda: types.SimpleNamespace(mounts=(), raws=()),
            disk=lambda: types.SimpleNamespace(mount=lambda: Tree(self.copy)),
            settle=lambda: None,
            manifests=lambda: (store / "source.manifest", store / "copy.manifest"),
            save=lambda: None,
            log=self.said.append,
            progress=lambda **unused: None,
        )
        self.bring()

    def bring(self) -> None:
        """A copy as it should be."""
        io_rsync.transfer(["rsync", *io_rsync.FLAGS, f"{self.source}/", f"{self.copy}/"])

    def spoil(self, name: str, content: str) -> None:
        """Change content on the copy without changing time or size."""
        path = self.copy / name
        before = path.stat()
        path.write_text(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture(name="machines")
def fixture_machines(tmp_path: pathlib.Path) -> Machines:
    return Machines(tmp_path)


def test_a_good_copy_is_proven(machines):
    run_verify.live(machines.context)
    run_verify.verify(machines.context)
    assert machines.context.journal.verified
    assert machines.context.journal.facts["manifest"]["files"] == 9


def test_difference_missed_by_rsync_is_found_and_transferred_again(machines):
    machines.spoil("srv/1", "CONTENT 1")
    os.unlink(machines.copy / "srv" / "2")
    (machines.copy / "srv" / "more").mkdir()
    (machines.copy / "srv" / "more" / "x").write_text("x")
    os.chmod(machines.copy / "srv" / "3", 0o600)
    run_verify.verify(machines.context)
    assert machines.context.journal.verified
    assert sorted(each.name for each in (machines.copy / "srv").iterdir()) == ["0", "1", "2", "3", "4"]
    assert (machines.copy / "srv" / "1").read_text() == "content 1" and (machines.copy / "srv" / "3").stat().st_mode & 0o777 == 0o644
    assert any("/srv/1 (content)" in each for each in machines.said)


def test_nothing_is_written_through_a_link_of_the_copy(machines, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "1").write_text("of the host")
    shutil.rmtree(machines.copy / "srv")
    (machines.copy / "srv").symlink_to(outside)
    differing = {f"/srv/{number}".encode(): Difference(f"/srv/{number}".encode(), ("content",), None, None) for number in range(3)}
    run_verify._transfer_again(machines.context, {**differing, b"/srv/9": Difference(b"/srv/9", ("extra",), None, None)}, tolerate_vanished=False)
    assert {each.name: each.read_text() for each in outside.iterdir()} == {"1": "of the host"}
    assert sorted(each.name for each in (machines.copy / "srv").iterdir()) == ["0", "1", "2"] and not (machines.copy / "srv").is_symlink()
    # neither a flag nor the removal of one
    (machines.copy / "etc" / "host").symlink_to(outside)
    for path in ("/etc/host/1", "/etc/host"):
        machines.context.journal.facts["flags"] = [path]
        with contextlib.suppress(BackendError, OSError):
            run_verify._set_flags(machines.context, {os.fsencode(path): b"i"})
        with contextlib.suppress(BackendError, OSError):
            run_copy.drop_flags(machines.context, Tree(machines.copy))
    assert io_manifest.get_flags(os.fsencode(outside / "1")) & model_manifest.IMMUTABLE == 0
    assert io_manifest.get_flags(os.fsencode(outside)) & model_manifest.IMMUTABLE == 0


def test_a_file_rewritten_under_its_old_time_is_found_in_the_pause(machines):
    run_verify.live(machines.context)
    path = machines.source / "srv" / "1"
    before = path.stat()
    path.write_text("CONTENT 1")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    machines.bring()
    assert (machines.copy / "srv" / "1").read_text() == "content 1"
    run_verify.verify(machines.context)
    assert (machines.copy / "srv" / "1").read_text() == "CONTENT 1"


def test_names_that_were_one_file_are_one_file_again(machines):
    os.link(machines.source / "srv" / "1", machines.source / "srv" / "one")
    machines.bring()
    os.unlink(machines.copy / "srv" / "one")
    (machines.copy / "srv" / "one").write_text("content 1")
    run_verify.verify(machines.context)
    assert (machines.copy / "srv" / "one").samefile(machines.copy / "srv" / "1")


def test_files_changed_by_fix_ups_are_not_compared(machines):
    (machines.copy / "etc" / "fstab").write_text("UUID=1 / ext4")
    (machines.copy / "etc" / "new").mkdir()
    (machines.copy / "etc" / "new" / "file").write_text("x")
    machines.context.journal.facts["fixups"] = ["/etc/fstab", "/etc/new/file"]
    run_verify.verify(machines.context)
    assert (machines.copy / "etc" / "fstab").read_text() == "UUID=1 / ext4" and (machines.copy / "etc" / "new" / "file").exists()


def test_copy_with_fewer_holes_is_fixed_or_a_warning(machines, monkeypatch):
    with open(machines.source / "srv" / "hollow", "wb") as stream:
        stream.truncate(8 << 20)
    machines.bring()
    machines.spoil("srv/hollow", "\0" * (8 << 20))
    fetch = io_rsync.pull_paths
    monkeypatch.setattr(io_rsync, "pull_paths", lambda *unused, **more: None)
    run_verify.verify(machines.context)
    assert ["/srv/hollow (sparse)" in each for each in machines.context.journal.warnings] == [True]
    monkeypatch.setattr(io_rsync, "pull_paths", fetch)
    run_verify.verify(machines.context)
    assert (machines.copy / "srv" / "hollow").stat().st_blocks * 512 < 1 << 20 and machines.context.journal.verified


def test_a_source_that_does_not_keep_still_is_not_proven(machines, monkeypatch):
    fetch = io_rsync.pull_paths

    def restless(*arguments, **more):
        done = fetch(*arguments, **more)
        with open(machines.source / "srv" / "0", "a", encoding="ascii") as stream:
            stream.write("more")
        return done

    monkeypatch.setattr(io_rsync, "pull_paths", restless)
    machines.spoil("srv/0", "CONTENT 0")
    with pytest.raises(BackendError, match="/srv/0 .*services"):
        run_verify.verify(machines.context)
    assert not machines.context.journal.verified


def test_a_copy_that_does_not_take_it_is_found_before_the_pause(machines, monkeypatch):
    machines.spoil("srv/0", "CONTENT 0")
    monkeypatch.setattr(io_rsync, "pull_paths", lambda *unused, **more: None)
    with pytest.raises(BackendError, match="/srv/0 .content"):
        run_verify.live(machines.context)


def test_what_the_source_changes_while_it_serves_is_no_reason_to_stop(machines, monkeypatch):
    monkeypatch.setattr(io_rsync, "pull_paths", lambda *unused, **more: (machines.source / "srv" / "0").write_text("later"))
    (machines.source / "srv" / "0").write_text("sooner")
    run_verify.live(machines.context)
    assert machines.context.journal.facts["manifest"]["differing"] == 1


def test_a_file_removed_between_comparison_and_transfer_is_no_reason_to_stop(machines, monkeypatch):
    """Files that differ are those in use, and on a busy source they are often removed a moment later."""
    fetch = io_rsync.pull_paths

    def later(*arguments, **more):
        (machines.source / "srv" / "0").unlink(missing_ok=True)
        return fetch(*arguments, **more)

    monkeypatch.setattr(io_rsync, "pull_paths", later)
    for step in (run_verify.live, run_verify.verify):
        (machines.source / "srv" / "0").write_text("in use")
        (machines.source / "srv" / "1").write_text("kept")
        machines.spoil("srv/2", "CONTENT 2")
        step(machines.context)
        assert (machines.copy / "srv" / "1").read_text() == "kept" and (machines.copy / "srv" / "2").read_text() == "content 2"
    assert not (machines.copy / "srv" / "0").exists() and machines.context.journal.verified


def test_unreachable_source_is_reported(machines):
    machines.context.source.program = lambda module: [sys.executable, "-c", "import sys; sys.exit('no route to it')"]
    with pytest.raises(BackendError, match="no route to it"):
        run_verify.verify(machines.context)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files immutable")
def test_immutable_files_are_so_on_the_copy_and_can_be_copied_over_again(machines):
    flagged = {"srv/1": b"i", "srv/2": b"a", "etc": b"i"}
    try:
        for name, text in flagged.items():
            io_manifest.set_flags(os.fsencode(machines.source / name), text)
        run_verify.live(machines.context)
        run_verify.verify(machines.context)
        assert {name: io_manifest.flags_text(io_manifest.get_flags(os.fsencode(machines.copy / name))) for name in flagged} == flagged
        assert machines.context.journal.facts["flags"] == ["/etc", "/srv/1", "/srv/2"]
        run_copy.drop_flags(machines.context, Tree(machines.copy))
        for name in flagged:
            io_manifest.set_flags(os.fsencode(machines.source / name), b"-")
        (machines.source / "srv" / "1").write_text("other")
        machines.bring()
        assert (machines.copy / "srv" / "1").read_text() == "other" and "flags" not in machines.context.journal.facts
    finally:
        for folder in (machines.source, machines.copy):
            for name in flagged:
                io_manifest.set_flags(os.fsencode(folder / name), b"-")


def test_copy_is_not_compared_before_it_is_on_the_disk(machines, tmp_path):
    def full():
        raise BackendError("The pool with the copy's disk is full", "pool")

    machines.context.settle = full
    for step in (run_verify.live, run_verify.verify):
        with pytest.raises(BackendError, match="is full"):
            step(machines.context)
    assert not (tmp_path / "store" / "copy.manifest").exists() and not machines.context.journal.verified
