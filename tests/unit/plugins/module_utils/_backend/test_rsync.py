# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import rsync
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import CommandError

# rsync runs this in place of ssh: it forgets the host and runs the rest here
LOCAL = "#!/bin/sh\nshift\nexec \"$@\"\n"


@pytest.fixture(name="ssh")
def fixture_ssh(tmp_path):
    script = tmp_path / "local-ssh"
    script.write_text(LOCAL)
    script.chmod(0o755)
    return [str(script)]


def test_patterns_are_made_relative_to_the_file_system():
    options = rsync.filters("/srv", ["/", "/srv", "/srv/data"], ["/srv/cache/*", "/var/tmp/*"])
    assert "--exclude=/cache/*" in options
    assert "--exclude=/data/*" in options
    assert not any("var" in each or "proc" in each for each in options)
    options = rsync.filters("/", ["/", "/srv"], ["/var/tmp/*"])
    assert {"--exclude=/srv/*", "--exclude=/var/tmp/*", "--exclude=/proc/*", "--exclude=/lost+found"} <= set(options)


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
    copied = rsync.pull(ssh, "host", str(source), str(target), ["--exclude=/skipped/*"], tolerate_vanished=True, progress=lambda *each: seen.append(each))
    assert (target / "a").samefile(target / "c")
    assert (target / "skipped" / "stays").exists() and not (target / "goes").exists() and not (target / "skipped" / "b").exists()
    assert (target / "sparse").stat().st_blocks * 512 < 1024 * 1024
    assert copied.files == 2 and copied.bytes == 64 * 1024 * 1024 + 5
    assert seen and not copied.vanished

    options = ["--exclude=/skipped/*"]
    assert rsync.pull(ssh, "host", str(source), str(target), options, tolerate_vanished=False, dry_run=True).changes == ()
    (source / "a").write_text("other")
    (target / "new").write_text("x")
    changes = rsync.pull(ssh, "host", str(source), str(target), options, tolerate_vanished=False, dry_run=True).changes
    assert any(each.endswith(" a") or each.endswith(" c") for each in changes) and any("deleting" in each for each in changes)
    assert (target / "new").exists()


def test_a_failure_has_rsyncs_own_words(tmp_path, ssh):
    with pytest.raises(CommandError) as caught:
        rsync.pull(ssh, "host", str(tmp_path / "nowhere"), str(tmp_path / "target"), [], tolerate_vanished=True)
    assert caught.value.rc == 23 and "nowhere" in str(caught.value)


def test_rsync_is_there():
    assert subprocess.run(["rsync", "--version"], capture_output=True, check=False).returncode == 0
