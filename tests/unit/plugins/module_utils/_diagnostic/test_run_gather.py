# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one host contributes: real files and commands below another root; nothing that hangs hides the rest."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import sys
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import plan_sources, run_gather
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.plan_sources import Command


def sleep(seconds: int) -> Command:
    return Command(f"sleep-{seconds}", (sys.executable, "-c", f"import time; print('begun', flush=True); time.sleep({seconds})"))


@pytest.fixture(name="root", autouse=True)
def fixture_root(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The files of a host, and few commands."""
    monkeypatch.setattr(plan_sources, "COMMANDS", {"system": (Command("kernel", ("uname", "-s")),)})
    monkeypatch.setattr(plan_sources, "VM_CONNECTIONS", ())
    files = {
        "etc/nova/nova.conf": "[database]\nconnection = mysql://nova:hunter22x@192.0.2.1/nova\n",
        "var/log/nova/api.log": "connected with hunter22x\n" * 3,
        "var/log/mysql/error.log": "cookie-of-rabbit\n" + "long\n" * 50000,
        "var/lib/rabbitmq/.erlang.cookie": "cookie-of-rabbit\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def gather(root: pathlib.Path, size: int = 1 << 20, seconds: int = 20) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """The result without its content, and the content."""
    found = run_gather.gather(24, size, seconds, root)
    return found, json.loads(gzip.decompress(base64.b64decode(found.pop("content"))))


def test_files_and_commands_without_secrets(root: pathlib.Path) -> None:
    found, document = gather(root)
    texts = document["texts"]
    assert texts["system/kernel.txt"] == "Linux\n"
    assert texts["logs/var/log/nova/api.log"] == "connected with ********\n" * 3
    assert texts["configuration/etc/nova/nova.conf"] == "[database]\nconnection = mysql://nova:********@192.0.2.1/nova\n"
    assert texts["logs/var/log/mysql/error.log"].startswith("********\nlong\n") and not any("erlang" in name for name in texts)
    assert found["texts"] == len(texts) and found["size_bytes"] == sum(map(len, texts.values()))
    assert {"name": "system/kernel.txt", "bytes": 6, "omitted_bytes": 0, "error": None} in document["index"]


def test_the_size_is_kept(root: pathlib.Path) -> None:
    found, document = gather(root, 70000)
    assert 60000 < found["size_bytes"] <= 70000
    omitted = {entry["name"]: entry["omitted_bytes"] for entry in document["index"]}
    # only the longest one lost its begin
    assert omitted["logs/var/log/mysql/error.log"] > 180000 and omitted["logs/var/log/nova/api.log"] == 0


def test_what_does_not_end_hides_nothing_else(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_sources, "COMMANDS", {"slow": (sleep(600), sleep(601)), "system": (Command("kernel", ("uname", "-s")),)})
    begun = time.monotonic()
    found, document = gather(root, seconds=5)
    assert time.monotonic() - begun < 60
    assert document["texts"]["slow/sleep-600.txt"] == "begun\n" and document["texts"]["system/kernel.txt"] == "Linux\n"
    slow = [error for error in found["errors"] if error.startswith("slow/")]
    assert len(slow) == 2 and slow[1] == "slow/sleep-601.txt: no time was left", slow


def test_a_topic_without_an_answer_is_named(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_unused: t.Any) -> t.Any:
        time.sleep(600)

    monkeypatch.setattr(run_gather.io_sources, "end_of_file", hang)
    monkeypatch.setattr(run_gather._Reader, "secrets", lambda _self: [])
    found, document = gather(root, seconds=3)
    assert "configuration/missing.txt: no answer within 3 s" in found["errors"] and "system/kernel.txt" in document["texts"]


def test_nothing_is_returned_if_secrets_cannot_be_read(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_gather._Reader, "secrets", lambda _self: 1 // 0)
    found, document = gather(root)
    assert document["texts"] == {} and found["errors"][0].startswith("missing.txt: the files whose content must be masked are unknown: cannot be read: Zero")


@pytest.mark.parametrize("given", [(0, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_numbers_that_are_invalid(given: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="is not greater than 0"):
        run_gather.gather(*given)
