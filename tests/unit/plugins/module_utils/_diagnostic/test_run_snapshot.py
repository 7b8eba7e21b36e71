# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive on the control node: what hosts return is not trusted, a silent one is named, nothing is replaced."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import stat
import tarfile
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import run_snapshot
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.run_snapshot import Host

STAMP = "20261129T120000Z"


def packed(document: t.Any) -> str:
    return base64.b64encode(gzip.compress(json.dumps(document).encode())).decode()


def given(folder: pathlib.Path, host: str, content: str) -> Host:
    return Host("", run_snapshot.keep(str(folder), host, content))


def archive(path: str) -> dict[str, str]:
    with tarfile.open(path) as stream:
        assert all(member.isfile() and member.mode == 0o600 for member in stream)
        return {member.name: t.cast(t.IO[bytes], stream.extractfile(member)).read().decode() for member in stream}


def test_the_archive_has_all_hosts(tmp_path: pathlib.Path) -> None:
    texts = {"index": [{"name": "a"}], "texts": {"logs/a": "the known-secret\n", "../../../etc/x": "\x1b[2J", "/b": "c"}}
    hosts = {"m1": given(tmp_path, "m1", packed(texts)), "m2": Host("does not answer", status={"reachable": False, "token": "hidden-too"})}
    path, silent = run_snapshot.write(str(tmp_path / "new/folder"), STAMP, hosts, {"status.txt": "ok\n"}, ["known-secret"], 1000)
    assert path == str(tmp_path / f"new/folder/{STAMP}-diagnostic.tar.gz") and stat.S_IMODE(pathlib.Path(path).stat().st_mode) == 0o600
    assert silent == {"m2": "does not answer"}
    found = archive(path)
    top = f"{STAMP}-diagnostic"
    assert {name: found[f"{top}/m1/{name}"] for name in ("logs/a", "etc/x", "b")} == {"logs/a": "the ********\n", "etc/x": "[2J", "b": "c"}
    assert found[f"{top}/m2/no-answer.txt"] == "does not answer\n" and "hidden-too" not in found[f"{top}/m2/status.json"]
    assert json.loads(found[f"{top}/index.json"]) == {"hosts": {"m1": None, "m2": "does not answer"}, "time": STAMP}
    assert found[f"{top}/status.txt"] == "ok\n" and json.loads(found[f"{top}/m1/index.json"]) == [{"name": "a"}]
    with pytest.raises(InputError, match="diagnostic_snapshot_directory: .* already exists"):
        run_snapshot.write(str(tmp_path / "new/folder"), STAMP, hosts, {}, [], 1000)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (packed({"index": [], "texts": {"a": "x" * (5 << 20)}}), "what it returned is larger than requested or incomplete"),
        (packed({"index": [], "texts": {}})[:-8], "what it returned "),
        (packed([]), "what it returned "),
        (packed({"texts": {}}), "what it returned 'index'"),
        (base64.b64encode(gzip.compress(b"no JSON")).decode(), "what it returned "),
        ("?", "what it returned cannot be unpacked: "),
    ],
    # the documents contain the time
    ids=["large", "incomplete", "list", "no index", "no JSON", "no document"],
)
def test_a_host_that_returns_something_else_is_silent(content: str, reason: str, tmp_path: pathlib.Path) -> None:
    hosts = {"m1": given(tmp_path, "m1", content), "m2": given(tmp_path, "m2", packed({"index": [], "texts": {"a": "b"}}))}
    path, silent = run_snapshot.write(str(tmp_path), STAMP, hosts, {}, [], 1000)
    assert list(silent) == ["m1"] and silent["m1"].startswith(reason)
    assert archive(path)[f"{STAMP}-diagnostic/m2/a"] == "b"


def test_names_of_hosts_stay_within_their_folders(tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").mkdir()
    hosts = {name: given(tmp_path / "kept", name, packed({"index": [], "texts": {"a": name}})) for name in ("../x", "fe80::1", "a b")}
    assert all(pathlib.Path(host.file).parent == tmp_path / "kept/diagnostic" for host in hosts.values())
    path, _silent = run_snapshot.write(str(tmp_path), STAMP, hosts, {}, [], 1000)
    names = [name.partition("/")[2] for name in archive(path)]
    assert {"fe80::1/a", "a_b/a", ".._x/a"} <= set(names)


def test_a_folder_that_cannot_be_written(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot write .*: Not a directory. Use a folder that can be written."):
        run_snapshot.write(str(tmp_path / "file/x"), STAMP, {}, {}, [], 1000)
