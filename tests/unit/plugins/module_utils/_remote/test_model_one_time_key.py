# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a one-time key runs; every command here was sent by a real rsync or by the collection itself."""

from __future__ import annotations

import inspect
import re
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._keys import run_dispatch
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import run_agent
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import MIGRATE, MOVE, STANDBY

CODE = f"/var/lib/reduced.footprint/lib/{'0a' * 16}.zip"
PACKAGE = "ansible_collections.reduced.footprint.plugins.module_utils"
SOURCE = "_migrate.source.run_agent"
SENDS = "rsync --server --sender -slHogDtpAXrxSe.iLsfxCIvu"


def program(module: str, arguments: str) -> str:
    return f"PYTHONPATH={CODE} python3 -m {PACKAGE}.{module} {arguments}"


@pytest.mark.parametrize(
    ("purpose", "text"),
    [
        (MIGRATE, program(SOURCE, "quiesce master")),
        (MIGRATE, program("_remote.run_manifest_agent", "master")),
        (MIGRATE, program("_migrate.disks.run_block_agent", "master")),
        (MOVE, program("_move.run_agent", "define master")),
        (MOVE, program("_move.run_channel", "disks master")),
        (MIGRATE, model_one_time_key.install_command(CODE)),
        (MIGRATE, SENDS),
        (MIGRATE, "rsync --server --sender -lHogDtpAXIRSe.LsfxCIvu --numeric-ids --ignore-missing-args --files-from=- --from0 --no-implied-dirs . /"),
        (MOVE, "rsync --server -slHogDtpAXrxSe.iLsfxCIvu"),
    ],
)
def test_what_is_needed_is_allowed(purpose: str, text: str) -> None:
    assert model_one_time_key.parse_command(purpose, "master", text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "", "id", "sh -c id", f"{program(SOURCE, 'state master')};id", f"{program(SOURCE, 'state master')}\nid",
        program(SOURCE, "state other"),
        program(SOURCE, "watch master"), program(SOURCE, "maintain master"), program(SOURCE, "master"),
        program("_move.run_agent", "look master"),
        program(SOURCE, "state master extra"), program("_vm.apply.run_define", "x master"),
        program(SOURCE, "state master").replace(CODE, "/tmp/x.zip"),
        program(SOURCE, "state $(id) master"), model_one_time_key.install_command(CODE) + ";id", model_one_time_key.install_command("/tmp/x.zip"),
        "rsync --server -vlogDtpre.iLsfxCIvu . /", "rsync --server --daemon .", "rsync --server --sender --config=/x -s",
        f"{SENDS} extra", "rsync --server --sender -s'",
        "rsync --server --sender -l --remove-source-files . /", "rsync --server --sender -l --log-file=/x . /", "rsync --server --sender -l . / /etc",
        "rsync --server --sender -l . relative", "rsync --server --sender -lb . /", "rsync --server --sender -l --rsh=id . /", "rsync --sender -s",
        "/usr/bin/rsync --server --sender -s", " rsync --server --sender -s",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="This key must not run"):
        model_one_time_key.parse_command(MIGRATE, "master", text)


@pytest.mark.parametrize(
    "text", [program("_move.run_agent", "define master"), program("_standby.run_agent", "look other"), SENDS, "rsync --server -slHogDtpAXrxSe.iLsfxCIvu"]
)
def test_a_standby_runs_only_its_own_programs(text: str) -> None:
    with pytest.raises(InputError, match="This key must not run"):
        model_one_time_key.parse_command(STANDBY, "master", text)


@pytest.mark.parametrize("module, first", [("_standby.run_agent", "begin"), ("_standby.run_channel", "vda")])
def test_the_key_of_copies_is_that_of_one_vm_of_one_cluster(module: str, first: str) -> None:
    names = [model_one_time_key.standby_key(*one) for one in (("lab", "master"), ("a-b", "c"), ("a", "c-b"), ("a", "b-c"), ("b", "c-a"))]
    assert len(set(names)) == len(names)
    for name in names:
        for other in names:
            text = program(module, f"{first} {other}")
            if name == other:
                assert model_one_time_key.parse_command(STANDBY, name, text).arguments[-1] == name
            else:
                with pytest.raises(InputError, match="This key must not run"):
                    model_one_time_key.parse_command(STANDBY, name, text)


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("standby-master@lab", ("lab", "master")), ("standby-a.b-1@c-d", ("c-d", "a.b-1")), ("standby-master", None), ("standby-master@", None),
        ("standby-@lab", None), ("standby-m@../x", None), ("standby-../m@lab", None), ("standby-m@lab@x", None), ("standby-m@lab\n", None),
        ("move-m@lab", None),
    ],
)  # fmt: skip
def test_whose_copies_a_key_is_for(name: str, whose: t.Any) -> None:
    assert model_one_time_key.parse_standby_key(name) == whose
    assert whose is None or model_one_time_key.standby_key(*whose) == name


def test_a_permanent_key_has_no_expiry() -> None:
    assert model_one_time_key.options(["192.0.2.1"], None, "c") == 'from="192.0.2.1",restrict,command="c"'


@pytest.mark.parametrize("path", ["/var/lib/libvirt/images/.m1-disk0.moving", "/var/lib/x y/.c1-root.moving/"])
def test_a_move_receives_what_has_not_arrived(path: str) -> None:
    words = ["--server", "-lHogDtpAXrxSe.iLsfxCIvu", "--delete", "--stats", "-@-1", "--numeric-ids", "--info=STATS2", "--inplace", ".", path]
    assert model_one_time_key.check_rsync(MOVE, words) == tuple(words)
    with pytest.raises(InputError):
        model_one_time_key.check_rsync(MIGRATE, words)


@pytest.mark.parametrize("path", ["/root/.ssh/authorized_keys", "/etc/.x", "/a/../.x.moving", "/.x.moving/../y", ".x.moving", "/a/.x.moving/y"])
def test_a_move_receives_nothing_else(path: str) -> None:
    with pytest.raises(InputError):
        model_one_time_key.check_rsync(MOVE, ["--server", "-l", ".", path])


def test_a_comparison_writes_nothing_and_reads_any_path() -> None:
    options = ["--server", "-nlHogDtpAXrcxSe.iLsfxCIvu", "--log-format=%i", "--delete", "--stats", "-@-1"]
    assert model_one_time_key.check_rsync(MOVE, [*options, "--numeric-ids", ".", "/var/lib/x"])


def test_the_arguments_rsync_sends_apart_are_checked_and_no_longer_apart() -> None:
    def sent(content: bytes):
        left = iter(content)
        return lambda: bytes([next(left)]) if content else b""

    ours = b"rsync\0--bwlimit=100\0--numeric-ids\0--info=STATS2\0.\0/srv/x y/\0\0rest"
    argv = run_dispatch.command_of(MIGRATE, "master", SENDS, sent(ours))
    assert argv == ["rsync", "--server", "--sender", "-lHogDtpAXrxSe.iLsfxCIvu", "--bwlimit=100", "--numeric-ids", "--info=STATS2", ".", "/srv/x y/"]
    for bad in (b"rsync\0--remove-source-files\0.\0/\0\0", b"sh\0-c\0id\0\0", b"rsync\0--log-file=/x\0.\0/\0\0", b"rsync\0-M--log-file=/x\0.\0/\0\0"):
        with pytest.raises(InputError):
            run_dispatch.command_of(MIGRATE, "master", SENDS, sent(bad))
    with pytest.raises(InputError, match="sent no arguments"):
        run_dispatch.command_of(MIGRATE, "master", SENDS, lambda: b"")


def test_every_command_of_the_sources_agent_is_known_to_be_for_the_key_or_not() -> None:
    answered = set(re.findall(r'command == "([a-z_]+)"', inspect.getsource(run_agent.answer)))
    assert answered - model_one_time_key.SOURCE_COMMANDS == {"look_inside"}
    assert model_one_time_key.SOURCE_COMMANDS <= answered


def test_the_agent_withdraws_its_own_key_and_runs_named_commands_only() -> None:
    model_one_time_key.check_source_command("leave", {"marker": model_one_time_key.key_marker("master")}, "master", [])
    model_one_time_key.check_source_command("run", {"command": ["a", "b"]}, "master", [["a", "b"]])
    for command, given in (("leave", {"marker": ""}), ("forget_key", {}), ("run", {"command": ["a"]}), ("run", {}), ("look_inside", {}), ("watch", {})):
        with pytest.raises(InputError):
            model_one_time_key.check_source_command(command, given, "master", [["a", "b"]])


def test_a_line_is_renewed_and_no_other() -> None:
    marker = model_one_time_key.key_marker("master")
    line = f'{model_one_time_key.options(["192.0.2.11"], model_one_time_key.expiry(1000.0), "x")} ssh-ed25519 AAAA {marker}\n'
    other = f'expiry-time="20200101000000" ssh-ed25519 BBBB {marker}2\n'
    after = model_one_time_key.renewed(line + other, marker, model_one_time_key.expiry(5000.0))
    assert model_one_time_key.expires_at(after, marker) == 5000.0 and other in after
    assert model_one_time_key.expires_at(f"ssh-ed25519 AAAA {marker}\n", marker) is None
    assert model_one_time_key.renewed("ssh-rsa A me\n", marker, model_one_time_key.expiry(time.time())) == "ssh-rsa A me\n"
