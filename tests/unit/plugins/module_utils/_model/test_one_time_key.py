# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a one-time key runs; every command here was sent by a real rsync or by the collection itself."""

from __future__ import annotations

import inspect
import re
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model import one_time_key as keys
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._model.one_time_key import MIGRATE, MOVE
from ansible_collections.reduced.footprint.plugins.module_utils._run import key_dispatch, source_agent

CODE = f"/var/lib/reduced.footprint/lib/{'0a' * 16}.zip"
RUN = "ansible_collections.reduced.footprint.plugins.module_utils._run"
SENDS = "rsync --server --sender -slHogDtpAXrxSe.iLsfxCIvu"


def program(module: str, arguments: str) -> str:
    return f"PYTHONPATH={CODE} python3 -m {RUN}.{module} {arguments}"


@pytest.mark.parametrize(
    ("purpose", "text"),
    [
        (MIGRATE, program("source_agent", "quiesce master")),
        (MIGRATE, program("manifest_agent", "master")),
        (MIGRATE, program("block_agent", "master")),
        (MOVE, program("move_agent", "define master")),
        (MOVE, program("move_channel", "disks master")),
        (MIGRATE, keys.install_command(CODE)),
        (MIGRATE, SENDS),
        (MIGRATE, "rsync --server --sender -lHogDtpAXIRSe.LsfxCIvu --numeric-ids --files-from=- --from0 --no-implied-dirs . /"),
        (MOVE, "rsync --server -slHogDtpAXrxSe.iLsfxCIvu"),
    ],
)
def test_what_is_needed_is_allowed(purpose: str, text: str) -> None:
    assert keys.parse_command(purpose, "master", text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "", "id", "sh -c id", f"{program('source_agent', 'state master')};id", f"{program('source_agent', 'state master')}\nid",
        program("source_agent", "state other"),
        program("source_agent", "watch master"), program("source_agent", "maintain master"), program("source_agent", "master"),
        program("move_agent", "look master"),
        program("source_agent", "state master extra"), program("define", "x master"), program("source_agent", "state master").replace(CODE, "/tmp/x.zip"),
        program("source_agent", "state $(id) master"), keys.install_command(CODE) + ";id", keys.install_command("/tmp/x.zip"),
        "rsync --server -vlogDtpre.iLsfxCIvu . /", "rsync --server --daemon .", "rsync --server --sender --config=/x -s",
        f"{SENDS} extra", "rsync --server --sender -s'",
        "rsync --server --sender -l --remove-source-files . /", "rsync --server --sender -l --log-file=/x . /", "rsync --server --sender -l . / /etc",
        "rsync --server --sender -l . relative", "rsync --server --sender -lb . /", "rsync --server --sender -l --rsh=id . /", "rsync --sender -s",
        "/usr/bin/rsync --server --sender -s", " rsync --server --sender -s",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="This key does not run"):
        keys.parse_command(MIGRATE, "master", text)


@pytest.mark.parametrize("path", ["/var/lib/libvirt/images/.m1-disk0.moving", "/var/lib/x y/.c1-root.moving/"])
def test_a_move_receives_what_has_not_arrived(path: str) -> None:
    words = ["--server", "-lHogDtpAXrxSe.iLsfxCIvu", "--delete", "--stats", "-@-1", "--numeric-ids", "--info=STATS2", "--inplace", ".", path]
    assert keys.check_rsync(MOVE, words) == tuple(words)
    with pytest.raises(InputError):
        keys.check_rsync(MIGRATE, words)


@pytest.mark.parametrize("path", ["/root/.ssh/authorized_keys", "/etc/.x", "/a/../.x.moving", "/.x.moving/../y", ".x.moving", "/a/.x.moving/y"])
def test_a_move_receives_nothing_else(path: str) -> None:
    with pytest.raises(InputError):
        keys.check_rsync(MOVE, ["--server", "-l", ".", path])


def test_a_comparison_writes_nothing_and_reads_any_path() -> None:
    options = ["--server", "-nlHogDtpAXrcxSe.iLsfxCIvu", "--log-format=%i", "--delete", "--stats", "-@-1"]
    assert keys.check_rsync(MOVE, [*options, "--numeric-ids", ".", "/var/lib/x"])


def test_the_arguments_rsync_sends_apart_are_checked_and_no_longer_apart() -> None:
    def sent(content: bytes):
        left = iter(content)
        return lambda: bytes([next(left)]) if content else b""

    ours = b"rsync\0--bwlimit=100\0--numeric-ids\0--info=STATS2\0.\0/srv/x y/\0\0rest"
    argv = key_dispatch.command_of(MIGRATE, "master", SENDS, sent(ours))
    assert argv == ["rsync", "--server", "--sender", "-lHogDtpAXrxSe.iLsfxCIvu", "--bwlimit=100", "--numeric-ids", "--info=STATS2", ".", "/srv/x y/"]
    for bad in (b"rsync\0--remove-source-files\0.\0/\0\0", b"sh\0-c\0id\0\0", b"rsync\0--log-file=/x\0.\0/\0\0", b"rsync\0-M--log-file=/x\0.\0/\0\0"):
        with pytest.raises(InputError):
            key_dispatch.command_of(MIGRATE, "master", SENDS, sent(bad))
    with pytest.raises(InputError, match="sent no arguments"):
        key_dispatch.command_of(MIGRATE, "master", SENDS, lambda: b"")


def test_every_command_of_the_sources_agent_is_known_to_be_for_the_key_or_not() -> None:
    answered = set(re.findall(r'command == "([a-z_]+)"', inspect.getsource(source_agent.answer)))
    assert answered - keys.SOURCE_COMMANDS == {"look_inside"}
    assert keys.SOURCE_COMMANDS <= answered


def test_the_agent_withdraws_its_own_key_and_runs_named_commands_only() -> None:
    keys.check_source_command("leave", {"marker": keys.key_marker("master")}, "master", [])
    keys.check_source_command("run", {"command": ["a", "b"]}, "master", [["a", "b"]])
    for command, given in (("leave", {"marker": ""}), ("forget_key", {}), ("run", {"command": ["a"]}), ("run", {}), ("look_inside", {}), ("watch", {})):
        with pytest.raises(InputError):
            keys.check_source_command(command, given, "master", [["a", "b"]])


def test_a_line_is_renewed_and_no_other() -> None:
    marker = keys.key_marker("master")
    line = f'{keys.options(["192.0.2.11"], keys.expiry(1000.0), "x")} ssh-ed25519 AAAA {marker}\n'
    other = f'expiry-time="20200101000000" ssh-ed25519 BBBB {marker}2\n'
    after = keys.renewed(line + other, marker, keys.expiry(5000.0))
    assert keys.expires_at(after, marker) == 5000.0 and other in after
    assert keys.expires_at(f"ssh-ed25519 AAAA {marker}\n", marker) is None
    assert keys.renewed("ssh-rsa A me\n", marker, keys.expiry(time.time())) == "ssh-rsa A me\n"
