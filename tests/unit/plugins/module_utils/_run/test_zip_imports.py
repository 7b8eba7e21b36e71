# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An archive as Ansible makes one: each of its modules is compiled once, and everything else is as without that."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import typing as t
import zipfile

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._run import zip_imports

CALL = """
import importlib.util, json, sys, zipimport

archive, source, ours = sys.argv[1:]
compiled = []
sys.path.insert(0, archive)
import early
sys.addaudithook(lambda event, what: compiled.append(str(what[1])) if event == "compile" else None)
if ours == "ours":
    spec = importlib.util.spec_from_file_location("zip_imports", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.compile_once()
    module.compile_once()
import package.inner.part
print(json.dumps({
    "compiled": sorted(name for name in compiled if name.startswith(archive)),
    "files": [package.__file__, package.inner.__file__, package.inner.part.__file__],
    "paths": [list(package.__path__), list(package.inner.__path__)],
    "says": package.inner.part.SAYS,
    "hooks": len(sys.path_hooks),
}))
"""


def call(archive: pathlib.Path, how: str) -> dict[str, t.Any]:
    argv = [sys.executable, "-c", CALL, str(archive), str(zip_imports.__file__), how]
    return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


@pytest.fixture(name="archive")
def fixture_archive(tmp_path: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(tmp_path / "payload.zip", "w") as archive:
        for name, text in (("early", ""), ("package/__init__", ""), ("package/inner/__init__", ""), ("package/inner/part", "SAYS = __name__")):
            archive.writestr(f"{name}.py", text)
    return tmp_path / "payload.zip"


def test_each_module_is_compiled_once(archive: pathlib.Path) -> None:
    with_it, without = call(archive, "ours"), call(archive, "plain")
    names = [f"{archive}/package/__init__.py", f"{archive}/package/inner/__init__.py", f"{archive}/package/inner/part.py"]
    assert with_it["compiled"] == names
    # should Python itself learn it one day, the module can go
    assert len(without["compiled"]) > len(names)
    for key in ("files", "paths", "says"):
        assert with_it[key] == without[key]
    assert with_it["files"] == names and with_it["hooks"] == without["hooks"] + 1
