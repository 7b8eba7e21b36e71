# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A source that is asked over a program that stands in for ssh; its exit codes and words are ssh's."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import subprocess
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_hooks import Hook
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest_wire, io_remote_source, io_rsync
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource

LOST = "ssh: connect to host 192.0.2.2 port 22: No route to host"


@pytest.fixture(name="ssh")
def fixture_ssh(tmp_path, monkeypatch):
    """A place for a program of the name ssh."""

    def becomes(text: str) -> None:
        path = tmp_path / "bin" / "ssh"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")

    return becomes


@pytest.fixture(name="source")
def fixture_source(tmp_path: pathlib.Path) -> RemoteSource:
    library = tmp_path / "code.zip"
    library.write_bytes(b"code")
    return RemoteSource("master", tmp_path, ["192.0.2.2", "192.0.2.3"], 22, ["ssh-ed25519 AAAA"], library)


def test_connection_error_names_all_addresses(ssh, source):
    ssh(f"echo {LOST} >&2; exit 255")
    with pytest.raises(BackendError) as caught:
        source.ask("state")
    assert caught.value.message == f"The source cannot be reached at 192.0.2.2 or 192.0.2.3: {LOST}"
    assert "accepts the migration's key" in caught.value.hint


@pytest.mark.parametrize(
    ("said", "code", "named"),
    [
        ("root@192.0.2.2: Permission denied (publickey).", 255, "AuthorizedKeysFile"),
        ("Host key verification failed.", 255, "Another machine answers"),
        ("open terminal failed: not a terminal", 1, "tmux"),
        ("This account is currently not available.", 1, "chsh"),
    ],
)
def test_each_cause_of_a_refused_session_has_its_own_hint(ssh, source, said, code, named):
    ssh(f"cat >/dev/null; echo '{said}' >&2; exit {code}")
    with pytest.raises(BackendError) as caught:
        source.ask("state")
    assert named in caught.value.hint and said.rstrip(".") in caught.value.message


def test_text_of_a_login_is_kept_for_the_report(ssh, source):
    ssh("""cat >/dev/null; echo Welcome to laptop; case "$*" in *run_agent*) echo '{"ok": {}}';; esac""")
    assert source.ask("state") == {} and source.printed == "Welcome to laptop"


def test_what_the_source_itself_says_is_not_taken_for_a_lost_link(ssh, source):
    ssh("cat >/dev/null; echo no python3 >&2; exit 127")
    with pytest.raises(BackendError, match="exit code 127: no python3"):
        source.ask("state")


def test_an_answer_comes_from_the_address_that_has_one(ssh, source):
    ssh("""case "$*" in *192.0.2.2*) exit 255;; esac; cat >/dev/null; echo '{"ok": {"state": "parked"}}'""")
    assert source.ask("state") == {"state": "parked"} and source.address == "192.0.2.3"


@pytest.mark.parametrize(("lost", "runs"), [(True, 1), (False, 1)])
def test_a_hook_is_not_run_again_when_its_answer_is_lost(ssh, source, tmp_path, lost, runs):
    """The source is reached at its second address; the connection ends while the hook runs."""
    noted = tmp_path / "ran"
    answer = "exit 255" if lost else "echo '{\"ok\": {}}'"
    ssh(
        f"""case "$*" in *192.0.2.2*) exit 255;; esac
case "$*" in *"run master"*) cat >/dev/null; echo ran >>{noted}; {answer};; *) cat >/dev/null; echo '{{"ok": {{"state": "serving"}}}}';; esac"""
    )
    context = types.SimpleNamespace(
        source=source,
        spec=types.SimpleNamespace(hooks=[Hook("quiesce", "before", "source", ("/usr/local/bin/drain",), 60)]),
        log=lambda message: None,
        progress=lambda **unused: None,
        journal=types.SimpleNamespace(progress={}),
    )
    if lost:
        source.addresses.append("192.0.2.4")
        with pytest.raises(BackendError, match="The hook before quiesce on the source failed"):
            run_worker.run_hooks(context, "quiesce", "before")
    else:
        run_worker.run_hooks(context, "quiesce", "before")
    assert noted.read_text().split() == ["ran"] * runs and source.address == "192.0.2.3"


def test_copies_that_lose_the_link_say_so(ssh, tmp_path):
    (tmp_path / "there").mkdir()
    ssh(f"echo {LOST} >&2; exit 255")
    with pytest.raises(CommandError, match="^The connection to the source was lost: .*No route to host"):
        io_rsync.pull(["ssh"], "192.0.2.2", "/srv", str(tmp_path / "there"), [], tolerate_vanished=False)
    with pytest.raises(CommandError, match="^The connection to the source was lost: .*No route to host"):
        io_manifest_wire.fetch(["ssh", "x"], {}, tmp_path / "manifest")
    (tmp_path / "disk").write_bytes(bytes(4096))
    with pytest.raises(CommandError, match="^The connection to the source was lost: .*No route to host"):
        io_blocks.fetch(["ssh", "x"], {"device": "/dev/x"}, io_blocks.Target(str(tmp_path / "disk"), 4096, tmp_path / "list"))


def test_broken_stream_without_an_ssh_error_may_be_a_full_disk(ssh, tmp_path):
    (tmp_path / "there").mkdir()
    ssh("exit 0")
    with pytest.raises(CommandError, match="exit code 12") as caught:
        io_rsync.pull(["ssh"], "192.0.2.2", "/srv", str(tmp_path / "there"), [], tolerate_vanished=False)
    assert "full disk" in caught.value.hint


ANSWERS = """given=$(cat)
case "$*" in *"test -s"*) exit 0;; esac
case "$*" in
  *192.0.2.3*) test -e TMP/off && exit 255; echo '{"ok": {"state": "parked"}, "mark": "m"}';;
  *) echo "$*" >> TMP/admin; echo '{"ok": {"state": "serving"}, "mark": null}';;
esac"""


def test_a_copy_with_the_same_host_keys_is_not_believed(ssh, source, tmp_path):
    ssh(ANSWERS.replace("TMP", str(tmp_path)))
    # before the source is quiesced no copy can answer
    assert source.ask("state") == {"state": "serving"}
    source.identity.mark = "m"
    assert source.ask("state") == {"state": "parked"} and source.address == "192.0.2.3"
    (tmp_path / "off").touch()
    with pytest.raises(BackendError, match="cannot be reached|copy of the source"):
        source.ask("state")


def test_a_source_that_stepped_aside_is_asked_where_it_went_and_nowhere_else(ssh, source, tmp_path):
    ssh(ANSWERS.replace("TMP", str(tmp_path)))
    source.identity.only = "192.0.2.3"
    assert source.ask("state") == {"state": "parked"}
    (tmp_path / "off").touch()
    with pytest.raises(BackendError, match="cannot be reached at 192.0.2.3:"):
        source.ask("state")
    assert not (tmp_path / "admin").exists()


def test_two_jobs_that_prepare_a_migration_get_the_same_key(tmp_path: pathlib.Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _number: io_remote_source.ensure_key(tmp_path / "m", "m"), range(4)))
    said = subprocess.run(["ssh-keygen", "-y", "-f", str(tmp_path / "m/id_ed25519")], capture_output=True, text=True, check=True)
    (key,) = found
    assert key.split()[:2] == said.stdout.split()[:2]


@pytest.mark.parametrize("empty", ["id_ed25519", "id_ed25519.pub"])
def test_a_key_that_a_power_loss_left_empty_is_created_again(tmp_path: pathlib.Path, empty: str) -> None:
    before = io_remote_source.ensure_key(tmp_path, "m")
    (tmp_path / empty).write_text("")
    assert not io_remote_source.has_key(tmp_path)
    after = io_remote_source.ensure_key(tmp_path, "m")
    assert after.split()[0] == "ssh-ed25519" and after != before and io_remote_source.has_key(tmp_path)
