# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An archive as Ansible makes one: each of its modules is compiled once, and everything else is as without that."""

from __future__ import annotations

import json
import marshal
import pathlib
import subprocess
import sys
import typing as t
import zipfile

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import run_zip_imports

CALL = """
import importlib.util, json, sys, zipimport

archive, source, ours, folder, check = sys.argv[1:]
compiled = []
sys.path.insert(0, archive)
import early
sys.addaudithook(lambda event, what: compiled.append(str(what[1])) if event == "compile" else None)
if ours == "ours":
    spec = importlib.util.spec_from_file_location("zip_imports", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.compile_once(folder)
    module.compile_once(folder)
import package.inner.part
if ours == "ours":
    module.keep_compiled(check == "check")
print(json.dumps({
    "compiled": sorted(name for name in compiled if name.startswith(archive)),
    "files": [package.__file__, package.inner.__file__, package.inner.part.__file__],
    "paths": [list(package.__path__), list(package.inner.__path__)],
    "says": package.inner.part.SAYS,
    "hooks": len(sys.path_hooks),
}))
"""


def call(archive: pathlib.Path, how: str, check: str = "") -> dict[str, t.Any]:
    argv = [sys.executable, "-c", CALL, str(archive), str(run_zip_imports.__file__), how, str(archive.parent / "kept"), check]
    return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(name="archive")
def fixture_archive(tmp_path: pathlib.Path) -> pathlib.Path:
    return packed(tmp_path / "payload.zip", "SAYS = __name__")


def packed(path: pathlib.Path, part: str) -> pathlib.Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (("early", ""), ("package/__init__", ""), ("package/inner/__init__", ""), ("package/inner/part", part)):
            archive.writestr(f"{name}.py", text)
    return path


def test_each_module_is_compiled_once(archive: pathlib.Path) -> None:
    with_it, without = call(archive, "ours"), call(archive, "plain")
    names = [f"{archive}/package/__init__.py", f"{archive}/package/inner/__init__.py", f"{archive}/package/inner/part.py"]
    assert with_it["compiled"] == names
    # should Python itself learn it one day, the module can go
    assert len(without["compiled"]) > len(names)
    for key in ("files", "paths", "says"):
        assert with_it[key] == without[key]
    assert with_it["files"] == names and with_it["hooks"] == without["hooks"] + 1


def test_compiled_code_is_cached_for_the_next_run(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    first = call(archive, "ours")
    kept = next((tmp_path / "kept").iterdir())
    assert kept.stat().st_mode & 0o777 == 0o600 and kept.parent.stat().st_mode & 0o777 == 0o700
    # the next archive lies elsewhere, and one of its files is another
    moved = packed(tmp_path / "other.zip", "SAYS = __name__ + '!'")
    again = call(moved, "ours")
    assert len(first["compiled"]) == 3 and again["compiled"] == [f"{moved}/package/inner/part.py"]
    assert (again["says"], again["files"][2]) == ("package.inner.part!", f"{moved}/package/inner/part.py")
    assert call(moved, "ours")["compiled"] == []


def test_check_mode_writes_no_cache(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    call(archive, "ours", "check")
    assert not (tmp_path / "kept").exists()


MIXED = marshal.dumps({"package": 1, "package.inner": (), "package.inner.part": (b"", b"")})


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"i\x01\x00\x00\x00", MIXED], ids=len)
def test_damaged_cache_is_compiled_again(archive: pathlib.Path, tmp_path: pathlib.Path, damage: bytes) -> None:
    call(archive, "ours")
    kept = next((tmp_path / "kept").iterdir())
    kept.write_bytes(damage)
    assert call(archive, "ours")["says"] == "package.inner.part"
    assert call(archive, "ours")["compiled"] == []


def test_cache_writable_by_others_is_ignored(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    call(archive, "ours")
    next((tmp_path / "kept").iterdir()).chmod(0o622)
    assert len(call(archive, "ours")["compiled"]) == 3


def test_unwritable_cache_is_ignored(archive: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    assert len(call(archive, "ours")["compiled"]) == 3
