# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_rsync

# rsync runs this in place of ssh: it forgets the host and runs the rest here
LOCAL = "#!/bin/sh\nshift\nexec \"$@\"\n"


@pytest.fixture(name="ssh")
def fixture_ssh(tmp_path):
    script = tmp_path / "local-ssh"
    script.write_text(LOCAL)
    script.chmod(0o755)
    return [str(script)]


def test_patterns_are_made_relative_to_the_file_system():
    options = io_rsync.filters("/srv", ["/", "/srv", "/srv/data"], ["/srv/cache/*", "/var/tmp/*"])
    assert "--exclude=/cache/*" in options
    assert "--exclude=/data/*" in options
    assert not any("var" in each or "proc" in each for each in options)
    options = io_rsync.filters("/", ["/", "/srv"], ["/var/tmp/*"])
    assert {"--exclude=/srv/*", "--exclude=/var/tmp/*", "--exclude=/proc/*", "--exclude=/lost+found"} <= set(options)


@pytest.mark.parametrize(
    ("excludes", "mount", "out"),
    [
        (["/backup"], "/backup", True),
        (["/backup/"], "/backup/old", True),
        (["/srv/*"], "/srv/data", True),
        (["/srv/**"], "/srv/data", True),
        (["/backup"], "/backup2", False),
        (["/srv/*/cache"], "/srv/data", False),
        (["/srv/data/x"], "/srv/data", False),
        (["/var/lib/x"], "/", False),
    ],
)
def test_a_file_system_that_is_excluded_is_not_copied(excludes, mount, out):
    assert ("--exclude=/*" in io_rsync.filters(mount, ["/", mount], excludes)) is out


def test_names_of_other_file_systems_are_no_patterns(tmp_path: pathlib.Path, ssh):
    source, target = tmp_path / "source", tmp_path / "target"
    names = ["data[1]", "data1", "a*b", "axb", "back\\slash", "backslash", "what?", "whatx"]
    for name in names:
        (source / name).mkdir(parents=True)
        (source / name / "file").write_text(name)
    target.mkdir()
    others = [f"{source}/{name}" for name in names[::2]]
    io_rsync.pull(ssh, "host", str(source), str(target), io_rsync.filters(str(source), [str(source), *others], []), tolerate_vanished=False)
    assert sorted(each.parent.name for each in target.rglob("file")) == sorted(names[1::2])


def test_a_copy_brings_everything_and_takes_away_what_is_too_much(tmp_path: pathlib.Path, ssh):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "skipped").mkdir(parents=True)
    (source / "a").write_text("hello")
    (source / "skipped" / "b").write_text("not this")
    (source / "c").hardlink_to(source / "a")
    with open(source / "sparse", "wb") as stream:
        stream.truncate(64 * 1024 * 1024)
    (target / "skipped").mkdir(parents=True)
    (target / "skipped" / "stays").write_text("x")
    (target / "goes").write_text("x")
    seen = []
    copied = io_rsync.pull(ssh, "host", str(source), str(target), ["--exclude=/skipped/*"], tolerate_vanished=True, progress=lambda *each: seen.append(each))
    assert (target / "a").samefile(target / "c")
    assert (target / "skipped" / "stays").exists() and not (target / "goes").exists() and not (target / "skipped" / "b").exists()
    assert (target / "sparse").stat().st_blocks * 512 < 1024 * 1024
    assert copied.files == 2 and copied.bytes == 64 * 1024 * 1024 + 5
    assert seen and not copied.vanished


def test_listed_files_are_copied_again_regardless_of_their_times(tmp_path: pathlib.Path):
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "d").mkdir(parents=True)
    (source / "d" / "odd\nname").write_text("new")
    (source / "d" / "other").write_text("new")
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    for name in ("odd\nname", "other"):
        before = (target / "d" / name).stat()
        (target / "d" / name).write_text("old")
        os.utime(target / "d" / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    (target / "d" / "too much").write_text("x")
    # the root of the machine that is asked is a folder here
    script = tmp_path / "ssh"
    script.write_text(f"#!{sys.executable}\nimport os, sys\nargv = sys.argv[2:]\nos.execvp(argv[0], [*argv[:-1], {str(source)!r}])\n")
    script.chmod(0o755)
    io_rsync.pull_paths([str(script)], "host", [b"/d", b"/d/odd\nname"], str(target), tolerate_vanished=False)
    assert sorted(each.read_text() for each in (target / "d").iterdir()) == ["new", "old", "x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk that is full")
@pytest.mark.parametrize("options, words", [("size=1m", "/srv of the copy is full: size 1 MiB"), ("nr_inodes=10", "/srv of the copy has no inodes left")])
def test_full_disk_is_reported(tmp_path: pathlib.Path, ssh, options, words):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    for number in range(20):
        (source / str(number)).write_bytes(os.urandom(100_000))
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(target)], check=True)
    try:
        with pytest.raises(CommandError) as caught:
            io_rsync.pull(ssh, "host", str(source), str(target), [], tolerate_vanished=True)
        found = io_rsync.full_disk(caught.value, "/srv", str(target), "/var/lib/image")
    finally:
        subprocess.run(["umount", str(target)], check=True)
    assert found is not None and words in found.message and found.path == "disk_schema" and found.hint


def test_another_failure_is_no_full_disk(tmp_path):
    assert io_rsync.full_disk(CommandError(["rsync"], 23, "Permission denied"), "/", str(tmp_path), str(tmp_path / "image")) is None


def test_a_limit_is_kept(tmp_path: pathlib.Path, ssh, monkeypatch):
    asked = []
    monkeypatch.setattr(io_rsync, "transfer", lambda argv, **unused: asked.append(argv))
    io_rsync.pull(ssh, "host", "/srv", str(tmp_path), [], tolerate_vanished=True, limit=2048)
    io_rsync.pull(ssh, "host", "/srv", str(tmp_path), [], tolerate_vanished=True)
    assert "--bwlimit=2048" in asked[0] and not any("bwlimit" in each for each in asked[1])


def test_a_file_truncated_while_it_is_read_does_not_end_a_live_pass(tmp_path, ssh):
    """As by a rotation of logs with copytruncate; rsync reports it as a failed transfer."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "other").write_text("x")
    log = source / "log"

    def rotate(moved, *unused):
        if moved and log.stat().st_size > 1000:
            os.truncate(log, 1000)

    for tolerate in (True, False):
        log.write_bytes(os.urandom(6_000_000))
        (target / "log").unlink(missing_ok=True)
        if tolerate:
            assert io_rsync.pull(ssh, "host", str(source), str(target), [], tolerate_vanished=True, limit=2000, progress=rotate).vanished
            assert (target / "other").exists() and log.stat().st_size == 1000
        else:
            with pytest.raises(CommandError, match="exit code 23"):
                io_rsync.pull(ssh, "host", str(source), str(target), [], tolerate_vanished=False, limit=2000, progress=rotate)


_END = "rsync error: some files/attrs were not transferred (see previous errors) (code 23) at main.c(1865) [generator=3.2.7]"


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (['rsync: [sender] read errors mapping "/var/log/x": No data available (61)', _END], True),
        (["WARNING: var/lib/db failed verification -- update discarded (will try again).",
          "ERROR: var/lib/db failed verification -- update discarded.", _END], True),
        (['rsync: read errors mapping "/var/log/x": No data available (61)', 'file has vanished: "/tmp/y"', _END], True),
        (['rsync: [sender] read errors mapping "/var/log/x": Input/output error (5)', _END], False),
        (['rsync: [sender] read errors mapping "/x": No data available (61)', 'rsync: [receiver] open "/y" failed: No space left on device (28)', _END], False),
        (['rsync: [sender] readlink_stat("/srv/mnt") failed: Permission denied (13)', _END], False),
        ([_END], False),
        ([], False),
    ],
)
def test_only_files_in_use_are_tolerated(lines, wanted):
    assert io_rsync.in_use("\n".join(lines)) is wanted


def test_a_failure_has_rsyncs_own_words(tmp_path, ssh):
    with pytest.raises(CommandError) as caught:
        io_rsync.pull(ssh, "host", str(tmp_path / "nowhere"), str(tmp_path / "target"), [], tolerate_vanished=True)
    assert caught.value.rc == 23 and "nowhere" in str(caught.value)


def test_rsync_is_there():
    assert subprocess.run(["rsync", "--version"], capture_output=True, check=False).returncode == 0
