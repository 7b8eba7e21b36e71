# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How RabbitMQ's tools are called and its files read."""

from __future__ import annotations

import json
import os
import pathlib
import pwd
import stat
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq import io_rabbitmq


class Tools:
    """Answers in the place of the tools, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], str | None]] = []
        self.answer, self.rc = "", 0
        self.file = ("", 0)

    def run(self, argv: t.Sequence[str], *, stdin: str | None = None, ok: t.Container[int] = (0,), **_more: t.Any) -> Completed:
        self.asked.append((list(argv), stdin))
        if argv[-1].endswith(".json"):
            path = pathlib.Path(argv[-1])
            self.file = (path.read_text(encoding="utf-8"), path.stat().st_mode & 0o777)
        if self.rc not in ok:
            raise CommandError(argv, self.rc, "no")
        return Completed(tuple(argv), self.rc, self.answer, "")


@pytest.fixture(name="tools")
def fixture_tools(monkeypatch: pytest.MonkeyPatch) -> Tools:
    tools = Tools()
    monkeypatch.setattr(io_rabbitmq, "run", tools.run)
    return tools


@pytest.fixture(name="broker")
def fixture_broker(tmp_path: pathlib.Path) -> io_rabbitmq.RabbitMq:
    return io_rabbitmq.RabbitMq("rabbit@m1", home=str(tmp_path))


def test_no_shell_and_no_secret_in_the_words(broker: io_rabbitmq.RabbitMq, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution's wrapper would hand the words to a shell, so it is passed by; RabbitMQ 4.0 hangs when it reads standard input."""
    monkeypatch.setattr(io_rabbitmq.shutil, "chown", lambda *_words: None)
    broker.import_definitions({"users": [{"name": "shop", "password_hash": "SECRET"}]})
    (argv, unused), = tools.asked
    assert argv[:4] == ["runuser", "-u", "rabbitmq", "--"]
    assert "/usr/lib/rabbitmq/bin/rabbitmqctl" in argv
    assert not any(word.startswith("/usr/sbin") or word in ("sh", "su", "-c") for word in argv)
    assert "SECRET" not in " ".join(argv)
    assert json.loads(tools.file[0])["users"][0]["password_hash"] == "SECRET" and tools.file[1] == 0o600
    assert not list(broker.home.glob("**/*.json"))


def test_one_that_does_not_answer(broker: io_rabbitmq.RabbitMq, tools: Tools) -> None:
    tools.rc = 69
    assert broker.status() is None
    assert broker.status("rabbit@m2") is None
    assert tools.asked[1][0][-5:] == ["-n", "rabbit@m2", "cluster_status", "--formatter", "json"]


@pytest.mark.parametrize("noise", ["", "warning: something old\n"])
def test_answers(broker: io_rabbitmq.RabbitMq, tools: Tools, noise: str) -> None:
    tools.answer = noise + '{"running_nodes":["rabbit@m1"]}\n'
    assert broker.status() == {"running_nodes": ["rabbit@m1"]}
    tools.answer = noise + '[{"name":"q","type":"quorum","members":["rabbit@m1"]},{"name":"c","type":"classic"}]'
    assert broker.quorum_queues(["/"]) == [{"name": "q", "type": "quorum", "members": ["rabbit@m1"], "vhost": "/"}]
    tools.answer = "nothing of the kind"
    with pytest.raises(BackendError, match="returned invalid JSON"):
        broker.definitions()


def test_critical(broker: io_rabbitmq.RabbitMq, tools: Tools) -> None:
    assert broker.critical() is None
    tools.rc, tools.answer = 69, "queue\n  orders"
    assert broker.critical() == "queue orders"


@pytest.mark.parametrize(
    ("members", "running", "wanted"),
    [
        ("{[rabbit@m1,'rabbit@m-2'],[rabbit@m1,'rabbit@m-2']}.\n", "[rabbit@m1].\n", (("rabbit@m1", "rabbit@m-2"), ("rabbit@m1",))),
        ("{['rabbit@m1.lab'],['rabbit@m1.lab']}.", "[].", (("rabbit@m1.lab",), ())),
        (None, None, ((), ())),
    ],
)
def test_notes(broker: io_rabbitmq.RabbitMq, members: str | None, running: str | None, wanted: t.Any) -> None:
    folder = broker.home / "mnesia" / broker.node
    folder.mkdir(parents=True)
    if members and running:
        (folder / "cluster_nodes.config").write_text(members, "utf-8")
        (folder / "nodes_running_at_shutdown").write_text(running, "utf-8")
    assert broker.noted() == wanted


def test_replicas_that_forget_left_are_removed_once_more(broker: io_rabbitmq.RabbitMq, monkeypatch: pytest.MonkeyPatch) -> None:
    """As seen with RabbitMQ 4.0: the member was forgotten, and a queue did not answer in time."""
    left, commands = ["rabbit@m2", "rabbit@m3"], []

    def run(argv: t.Sequence[str], **_more: t.Any) -> Completed:
        commands.append(" ".join(argv[argv.index("-q") + 1 :]))
        if "forget_cluster_node" in argv:
            raise CommandError(argv, 69, "RabbitMQ failed to shrink some entities")
        return Completed(tuple(argv), 0, json.dumps({"disk_nodes": left}), "")

    monkeypatch.setattr(io_rabbitmq, "run", run)
    broker.forget("rabbit@m1", "rabbit@m2")
    assert commands[-1] == "-n rabbit@m2 shrink rabbit@m1"
    left.append("rabbit@m1")
    with pytest.raises(CommandError):
        broker.forget("rabbit@m1", "rabbit@m2")


def test_data_are_set_aside_whole(broker: io_rabbitmq.RabbitMq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_rabbitmq.shutil, "chown", lambda *_words: None)
    folder = broker.home / "mnesia"
    (folder / "rabbit@m1" / "quorum").mkdir(parents=True)
    (folder / "rabbit@m1-feature_flags").write_text("[khepri_db].\n", "utf-8")
    broker.set_aside()
    (aside,) = folder.iterdir()
    assert aside.name.startswith("rabbit@m1.before-") and sorted(path.name for path in aside.iterdir()) == ["rabbit@m1", "rabbit@m1-feature_flags"]
    assert not broker.khepri() and broker.noted() == ((), ())


def test_with_khepri_the_record_of_the_guard_names_the_cluster(broker: io_rabbitmq.RabbitMq) -> None:
    """RabbitMQ then deletes its files with the members, or they name the node only."""
    folder = broker.home / "mnesia"
    folder.mkdir()
    (folder / "rabbit@m1").mkdir()
    broker.note_members(["rabbit@m1"])
    assert (broker.khepri(), broker.served(), broker.noted()) == (False, (), ((), ()))
    (folder / "rabbit@m1-feature_flags").write_text("[implicit_default_bindings,\n khepri_db,\n quorum_queue].\n", "utf-8")
    broker.note_members(["rabbit@m2", "rabbit@m1"])
    assert (broker.khepri(), broker.noted()) == (True, (("rabbit@m1", "rabbit@m2"), ()))
    (folder / "rabbit@m1" / "cluster_nodes.config").write_text("{[rabbit@m1],[rabbit@m1]}.\n", "utf-8")
    assert broker.noted() == (("rabbit@m1", "rabbit@m2"), ())
    (folder / "rabbit@m1" / "cluster_nodes.config").unlink()
    for damaged in ("", "{", "7"):
        (folder / "rabbit@m1-served.json").write_text(damaged, "utf-8")
        assert (broker.served(), broker.noted()) == ((), ((), ()))


def test_the_cookie_is_never_open_and_never_half(broker: io_rabbitmq.RabbitMq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_rabbitmq.pwd, "getpwnam", lambda _name: pwd.getpwuid(os.geteuid()))
    assert broker.cookie() is None
    broker.write_cookie("FIRST")
    file = broker.home / ".erlang.cookie"
    assert (broker.cookie(), stat.S_IMODE(file.stat().st_mode)) == ("FIRST", 0o400)

    def killed(*_words: t.Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(io_rabbitmq.os, "replace", killed)
        broker.write_cookie("SECOND")
    assert broker.cookie() == "FIRST"
    broker.write_cookie("SECOND")
    assert broker.cookie() == "SECOND"
    assert [path.name for path in broker.home.iterdir()] == [".erlang.cookie"]


def test_names(broker: io_rabbitmq.RabbitMq) -> None:
    assert broker.resolve("127.0.0.1") == "127.0.0.1"
    assert broker.resolve("no-such-name.invalid") is None
