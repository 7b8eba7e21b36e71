# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No code of a migration joins a path to the folder where the copy is mounted: only ``Tree`` finds files there.

Read from the source: names and results that hold a path inside of the copy must not be part of a larger path, and
functions that follow links are not available in the code that works on the copy.
"""

from __future__ import annotations

import ast
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins import module_utils

MIGRATE = pathlib.Path(module_utils.__path__[0]) / "_migrate"
# what returns a path on this host of a file of the copy, and what the mounted copy is called
GIVES = {"place", "make_folder", "mounted", "mount"}
NAMES = {"root", "_top", "tree"}
JOINS = {
    "join", "Path", "glob", "walk", "scandir", "listdir", "open", "copy", "copyfile", "copytree", "rmtree", "read_text", "write_atomic", "islink", "exists",
}  # fmt: skip
FORBIDDEN_IMPORTS = {"glob", "shutil"}
WORKS_ON_COPY = ("copy/*.py", "disks/io_image.py")


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _inside(node: ast.AST, names: t.Container[str]) -> bool:
    """Whether an expression is a path of the copy."""
    if isinstance(node, ast.Call):
        wraps = _name(node.func) in ("str", "fsencode", "fspath") and node.args
        return _inside(node.args[0], names) if wraps else isinstance(node.func, ast.Attribute) and node.func.attr in GIVES
    return _name(node) in names


def joins(source: str) -> list[int]:
    """The lines that join a path to one of the copy."""
    found = []
    for function in [each for each in ast.walk(ast.parse(source)) if isinstance(each, (ast.FunctionDef, ast.Module))]:
        names = set(NAMES)

        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and _inside(node.value, names):
                names |= {_name(target) for target in node.targets}
        for node in ast.walk(function):
            parts: t.Sequence[ast.AST] = ()
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
                parts = (node.left, node.right)
            elif isinstance(node, ast.JoinedStr):
                parts = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
            elif isinstance(node, ast.Call) and _name(node.func) in JOINS:
                parts = () if isinstance(node.func, ast.Attribute) and _name(node.func.value) == "tree" else node.args
            found += [node.lineno for each in parts if _inside(each, names)]
    return sorted(set(found))


@pytest.mark.parametrize(
    "line",
    [
        'root / "etc"', 'self.root / "etc" / name', 'str(root) + "/etc"', 'f"{root}/etc"', 'os.path.join(root, "etc")', "glob.glob(str(root))",
        "open(tree.place(path))", 'self._top / "etc"', 'pathlib.Path(tree.make_folder("/srv"), "x")', 'disk.mount() / "etc"',
        'os.fsencode(tree.place("/")) + path', "shutil.copytree(a, root)",
    ],
)  # fmt: skip
def test_a_joined_path_is_found(line):
    assert joins(f"def f(root):\n    return {line}\n") == [2]
    assert joins(f"def f(root):\n    root = context.disk().mount()\n    place = {line}\n") == [3]


def test_the_result_of_a_tree_is_followed_through_a_name():
    assert joins('def f(tree):\n    there = tree.place("/")\n    return f"{there}/etc"\n') == [3]


@pytest.mark.parametrize(
    "line",
    ['work / "root"', 'run(["sync", tree.place("/")])', 'tree.read("/etc")', 'f"root={root.uuid}"', "tree.glob(pattern)", "os.path.ismount(self._top)"],
)
def test_other_lines_are_allowed(line):
    assert joins(f"def f(root):\n    return {line}\n") == []


def test_no_path_is_joined_to_the_copy():
    found = {str(path.relative_to(MIGRATE)): joins(path.read_text()) for path in sorted(MIGRATE.rglob("*.py"))}
    assert len(found) > 50 and {name: lines for name, lines in found.items() if lines} == {}


def test_the_code_on_the_copy_has_no_functions_that_follow_links():
    paths = [path for pattern in WORKS_ON_COPY for path in MIGRATE.glob(pattern)]
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import)]
    assert len(paths) > 10 and not {alias.name for node in nodes for alias in node.names} & FORBIDDEN_IMPORTS
