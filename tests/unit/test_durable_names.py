# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files and folders get their final names with ``_core.io_files``, which flushes content and names; nothing else renames."""

from __future__ import annotations

import ast
import pathlib
import shutil
import subprocess
import sys
import textwrap
import typing as t

import pytest

from tests.support.control_node import ROOT

#: File → why it renames by itself.
ALLOWED = {
    "plugins/module_utils/_core/io_files.py": "the functions themselves",
    "plugins/module_utils/_core/io_tree.py": "by the handle of a folder, because a copied machine or a container decides its path; the folder is flushed",
    "plugins/module_utils/_network/io_deadman.py": "a program without imports; it flushes the files, renames all of them, then flushes their folders",
    "plugins/module_utils/_ovn/io_ovn.py": "a second name of a database, whose folder is flushed when the new one is renamed",
    "roles/boot_server/files/build_boot_system.py": "without the collection's code; it is flushed before, and built again if its name is missing",
    "roles/boot_server/files/build_root.py": "without the collection's code; it is flushed before, and built again if its name is missing",
    "roles/cloud_image/files/build_cloud_image.py": "without the collection's code; it is flushed before, and built again if its name is missing",
    "roles/galera/files/galera_before_start.py": "without the collection's code; done again at the next start of the server, and the folders are flushed",
    "roles/galera/files/galera_report.py": "without the collection's code; it flushes the file before and the folder after it",
    "roles/galera/files/galera_upgraded.py": "without the collection's code; written again at the next start of the server",
    "roles/glance/files/glance_copies.py": "without the collection's code; it flushes the file before and the folder after it",
    "roles/rabbitmq/files/rabbitmq_guard.py": "without the collection's code; it flushes the file before and the folder after it",
    "roles/test_image/files/build_test_image.py": "without the collection's code; it is flushed before, and built again if its name is missing",
}
_OS = frozenset(("link", "rename", "renames", "replace"))
_METHODS = frozenset(("hardlink_to", "rename", "replace"))


def renames(source: str) -> list[int]:
    """Return the lines that give a file another name: a text is replaced with two arguments, a data class with keywords."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of, name = node.func.value.id if isinstance(node.func.value, ast.Name) else "", node.func.attr
        if (of == "os" and name in _OS) or (of == "shutil" and name == "move"):
            found.append(node.lineno)
        elif of not in ("dataclasses", "io_files") and name in _METHODS and len(node.args) == 1 and not node.keywords:
            found.append(node.lineno)
    return found


def files() -> t.Iterator[pathlib.Path]:
    """All Python files that run on a control node or a host."""
    for folder in ("plugins", "roles"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_nothing_else_renames() -> None:
    found = {str(path.relative_to(ROOT)): renames(path.read_text("utf-8")) for path in files()}
    renaming = {path: lines for path, lines in found.items() if lines}
    others = {path: lines for path, lines in renaming.items() if path not in ALLOWED}
    assert not others, f"use rename or write_atomic of _core.io_files: {others}"
    assert set(renaming) == set(ALLOWED), "remove what does not rename any more from the list"


@pytest.mark.parametrize("line", [
    "os.rename(a, b)", "os.replace(a, b)", "os.link(a, b)", "os.renames(a, b)", "shutil.move(a, b)", "path.rename(b)", "path.replace(b)",
    "(folder / name).rename(folder / other)", "path.hardlink_to(b)", "pathlib.Path(a).replace(b)",
])  # fmt: skip
def test_a_rename_is_found(line: str) -> None:
    assert renames(line) == [1]


@pytest.mark.parametrize("line", [
    "text.replace(a, b)", "dataclasses.replace(a)", "now.replace(tzinfo=a)", "rename(a, b, new=True)", "io_files.rename(a, b, new=True)",
])  # fmt: skip
def test_other_calls_are_not_found(line: str) -> None:
    assert renames(line) == []


CODE = """
    import pathlib, sys
    from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
    from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
    top = pathlib.Path(sys.argv[1])
    io_units.keep_code(top / "lib" / "code")
    io_files.write_atomic(top / "new" / "folder" / "text", "text")
    (top / "half").write_text("content")
    io_files.rename(top / "half", top / "whole", new=True)
"""


@pytest.mark.skipif(not shutil.which("xfs_io") or not pathlib.Path("/dev/loop-control").exists(), reason="needs XFS on a loop device")
def test_everything_is_there_after_a_power_loss(tmp_path: pathlib.Path) -> None:
    """A real file system that loses what was not flushed."""

    def run(*argv: str, check: bool = True) -> str:
        return subprocess.run(argv, check=check, capture_output=True, encoding="utf-8").stdout.strip()

    image, top = tmp_path / "image", tmp_path / "mounted"
    top.mkdir()
    run("truncate", "--size=320M", str(image))
    run("mkfs.xfs", "-q", str(image))
    device = run("losetup", "--find", "--show", str(image))
    try:
        run("mount", device, str(top))
        try:
            run(sys.executable, "-c", f"import sys\nsys.path[:0] = {sys.path!r}\n{textwrap.dedent(CODE)}", str(top))
            (top / "not flushed").write_text("x", "utf-8")
            # without a flush of the log
            run("xfs_io", "-x", "-c", "shutdown", str(top))
            run("umount", str(top))
            run("mount", device, str(top))
            left = {str(path.relative_to(top)): path.stat().st_size for path in top.rglob("*") if path.is_file()}
        finally:
            run("umount", str(top))
    finally:
        run("losetup", "--detach", device)
    (code,) = [size for name, size in left.items() if name.startswith("lib/code/")]
    assert code > 10000 and {name: size for name, size in left.items() if not name.startswith("lib/")} == {"new/folder/text": 4, "whole": 7}
