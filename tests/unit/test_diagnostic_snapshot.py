# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook diagnostic_snapshot: one archive of all hosts, also if some are dead, without the secrets that the control node knows."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import stat
import tarfile
import textwrap
import typing as t

import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from tests.support.control_node import ControlNode
from tests.unit.test_status import SILENT, answer

SECRETS = {name: f"canary-of-the-{name.replace(' ', '-')}" for name in ("inventory", "file", "sealed file", "sealed variable")}


def control_node(folder: pathlib.Path, **texts: str) -> ControlNode:
    """Two servers; one without texts is dead."""
    control = ControlNode(folder, "status_info", "diagnostic_info")
    (folder / "kept").mkdir()
    for host in ("metal1", "metal2"):
        control.answers[f"status_info {host}"] = answer(host == "metal1") if host in texts else SILENT
        if host in texts:
            document = {"index": [], "texts": {"logs/nova.log": texts[host]}}
            (folder / "kept" / host).write_bytes(base64.b64encode(gzip.compress(json.dumps(document).encode())))
            control.answers[f"diagnostic_info {host}"] = {"diagnostic": {"reachable": True, "reason": "", "file": str(folder / "kept" / host)}}
    return control


def snapshot(control: ControlNode, *options: str, **given: t.Any) -> tuple[int, str, dict[str, str]]:
    """Run the playbook; returns its exit code and output, and the content of the archive."""
    code, output = control.run("reduced.footprint.diagnostic_snapshot", *options, "-e", json.dumps({"diagnostic_snapshot_directory": "out", **given}))
    archives = list((control.folder / "out").glob("*-diagnostic.tar.gz"))
    assert len(archives) <= 1
    texts = {}
    for path in archives:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with tarfile.open(path) as stream:
            texts = {member.name.partition("/")[2]: t.cast(t.IO[bytes], stream.extractfile(member)).read().decode() for member in stream}
    return code, output, texts


def test_a_dead_host_is_named_and_does_not_end_it(tmp_path: pathlib.Path) -> None:
    control = control_node(tmp_path, metal1="a line\n")
    code, output, texts = snapshot(control, diagnostic_snapshot_hours=2, diagnostic_snapshot_size="8 MiB")
    assert code == 0 and "NO ANSWER metal2: does not answer" in output and "1 of 2 hosts" in output, output
    assert texts["metal1/logs/nova.log"] == "a line\n" and texts["metal2/no-answer.txt"] == "does not answer\n"
    assert json.loads(texts["index.json"])["hosts"] == {"metal1": None, "metal2": "does not answer"}
    assert "metal2: no answer" in texts["status.txt"] and json.loads(texts["metal1/status.json"])["reachable"] and not json.loads(texts["status.json"])["ok"]
    assert texts["versions.txt"].startswith("ansible-core 2.")
    # the dead one is not asked again; the size is divided
    (call,) = control.calls("diagnostic_info")
    assert call["host"] == "metal1" and call["arguments"] == {"hours": 2, "size_bytes": 4 << 20, "gather_timeout": 60}


def test_a_host_that_is_too_slow_for_the_status_is_asked(tmp_path: pathlib.Path) -> None:
    control = control_node(tmp_path, metal1="a", metal2="overloaded")
    control.answers["status_info metal2"] = {"changed": False, "host": {**SILENT["host"], "reason": "accepts ssh, but does not answer within 20 s"}}
    code, output, texts = snapshot(control)
    assert code == 0 and "NO ANSWER" not in output and "2 of 2 hosts" in output, output
    assert texts["metal2/logs/nova.log"] == "overloaded" and "accepts ssh" in texts["metal2/status.json"]


def test_the_archive_is_written_but_it_fails_if_no_host_answered(tmp_path: pathlib.Path) -> None:
    code, output, texts = snapshot(control_node(tmp_path))
    assert code == 2 and "NO ANSWER metal1, metal2: does not answer" in output and "no host answered. First check the network" in output, output
    assert {"metal1/no-answer.txt", "metal2/no-answer.txt", "status.txt", "index.json"} <= set(texts)


def test_secrets_of_the_control_node_are_masked(tmp_path: pathlib.Path) -> None:
    control = control_node(tmp_path, metal1="".join(f"said {secret}" for secret in SECRETS.values()), metal2=f"{SECRETS['file']}\n")
    control.more = {"metal3": {"some_password": SECRETS["inventory"]}}
    control.answers["status_info metal3"] = SILENT
    (tmp_path / ".secrets/footprint").mkdir(parents=True)
    (tmp_path / ".secrets/footprint/nova.txt").write_text(f"{SECRETS['file']}\n")
    (tmp_path / "password").write_text("the vault")
    (tmp_path / ".secrets/footprint/sealed.txt").write_text(_vault("the vault", SECRETS["sealed file"]))
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/metal2.yml").write_text(f"remark: !vault |\n{textwrap.indent(_vault('the vault', SECRETS['sealed variable']), '  ')}")
    code, output, texts = snapshot(control, "--vault-password-file", str(tmp_path / "password"))
    assert code == 0, output
    whole = output + "".join(texts.values())
    assert not [name for name, secret in SECRETS.items() if secret in whole]
    assert texts["metal1/logs/nova.log"] == "said ********" * 4


def _vault(password: str, text: str) -> str:
    return VaultLib([("default", VaultSecret(password.encode()))]).encrypt(text).decode()


def test_a_secret_that_cannot_be_read_is_named(tmp_path: pathlib.Path) -> None:
    control = control_node(tmp_path, metal1="a", metal2="b")
    (tmp_path / ".secrets/footprint").mkdir(parents=True)
    (tmp_path / ".secrets/footprint/sealed.txt").write_text(_vault("another", "x"))
    code, output, texts = snapshot(control)
    assert code == 0 and "NOTE " in output and "sealed.txt: cannot be read, so these secrets are masked only where their names show them" in output, output
    assert texts["metal1/logs/nova.log"] == "a"


def test_check_mode_writes_nothing(tmp_path: pathlib.Path) -> None:
    code, output, texts = snapshot(control_node(tmp_path, metal1="a"), "--check")
    assert code == 0 and "NO ANSWER metal2: does not answer" in output and "Check mode: no archive was written." in output, output
    assert not texts and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"diagnostic_snapshot_hours": 0}, "diagnostic_snapshot_hours: 0 is not a number of hours above 0. Use 24, for example."),
        ({"diagnostic_snapshot_size": "many"}, "diagnostic_snapshot_size: 'many' is not a size."),
        ({"diagnostic_snapshot_size": "100 KiB"}, "100 KiB is less than 64 KiB for each of 2 hosts."),
        ({"diagnostic_snapshot_hour": 1}, "Did you mean diagnostic_snapshot_hours?"),
        ({"diagnostic_snapshot_timeout": -1}, "diagnostic_snapshot_timeout: -1 is not a number of seconds above 0. Use 60, for example."),
    ],
)
def test_invalid_variables(given: dict[str, t.Any], message: str, tmp_path: pathlib.Path) -> None:
    control = control_node(tmp_path, metal1="a")
    code, output, texts = snapshot(control, **given)
    assert code != 0 and message in output, output
    assert not texts and control.calls() == []
