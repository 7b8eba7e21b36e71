# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unit tests that run ``ansible-playbook``: each run takes half a second or more, so ``make check`` runs only those that use what has changed.

What a test uses is read from its text: the playbooks, task files, roles, modules and plugins that it names, what these name in turn, and what is
imported. A role is one thing. Modules are not followed: in these tests they only answer, and what they import has tests of its own.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import typing as t

FOLDER = "tests/unit/"
#: In the text of a test file that runs it.
_CALLS = (" ControlNode\n", "import ansible_playbook\n")
#: A playbook that contains others leads to nearly everything. A test uses what is this far away, and farther only if no test is nearer.
NEAR = 2
_COLLECTION = "ansible_collections.reduced.footprint."
_OF_COLLECTION = re.compile(r"(import_playbook: )?\breduced\.footprint\.(\w+)")
#: A file of a role, or one beside a playbook or a task file.
_FILE = re.compile(r"[\w./-]*\w\.(?:yml|j2|html|py|sh)\b")


def runs_playbooks(path: pathlib.Path) -> bool:
    """Whether the tests of a file run ``ansible-playbook``."""
    text = path.read_text("utf-8")
    return any(call in text for call in _CALLS)


class Uses:
    """What files use: paths below the root, of roles the folder.

    :arg root: the repository.
    """

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self._used: dict[str, set[str]] = {}
        #: Name → the things of that name in the collection.
        self._names: dict[str, set[str]] = {}
        kinds = ("playbooks/*.yml", "playbooks/tasks/*.yml", "plugins/modules/*.py", "plugins/action/*.py", "plugins/filter/*.py", "plugins/lookup/*.py")
        for path in [*(path for kind in kinds for path in root.glob(kind)), *root.glob("roles/*")]:
            self._names.setdefault(path.stem, set()).add(self.thing(str(path.relative_to(root))))

    @staticmethod
    def thing(name: str) -> str:
        """The role of a file of a role; the file itself otherwise. An argument specification is part of its playbook."""
        parts = name.split("/")
        if parts[0] == "roles":
            return f"roles/{parts[1]}"
        return name.replace("playbooks/argument_specs/", "playbooks/")

    def of(self, thing: str) -> set[str]:
        """What a thing uses directly."""
        if thing not in self._used:
            self._used[thing] = self._read(thing) - {thing}
        return self._used[thing]

    def _read(self, thing: str) -> set[str]:
        path = self._root / thing
        if path.is_dir():
            texts = [file.read_text("utf-8") for file in path.rglob("*") if file.suffix in (".yml", ".j2")]
            return {found for text in texts for found in self._named(text)}
        if not path.is_file() or thing.startswith("plugins/modules/"):
            return set()
        text = path.read_text("utf-8")
        found = self._named(text, everything=thing.startswith("tests/")) | self._files(text)
        if path.suffix == ".py":
            tree = ast.parse(text)
            found |= self._imports(tree, thing)
            if thing.startswith("tests/"):
                found |= self._strings(tree) | self._names.get(path.stem.removeprefix("test_"), set())
        return found

    def _named(self, text: str, everything: bool = False) -> set[str]:
        """Things with their whole name.

        :arg everything: also playbooks that are only mentioned, as messages of tasks do.
        """
        found = set()
        for imported, name in _OF_COLLECTION.findall(text):
            found |= {thing for thing in self._names.get(name, ()) if imported or everything or not thing.startswith("playbooks/")}
        return found

    def _files(self, text: str) -> set[str]:
        """Files of playbooks, roles and support of tests, by their path or by their name."""
        found = set()
        for name in _FILE.findall(text):
            for folder in ("", "playbooks/", "playbooks/tasks/", "playbooks/templates/", "tests/support/"):
                if (folder + name).startswith(("playbooks/", "roles/", "tests/support/")) and (self._root / folder / name).is_file():
                    found.add(self.thing(folder + name))
        return found

    def _imports(self, tree: ast.Module, thing: str) -> set[str]:
        """The files that Python imports: of the collection, and support of tests."""
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                package = thing.removesuffix(".py").split("/")[: -node.level] if node.level else []
                module = ".".join([*package, *([node.module] if node.module else [])])
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        paths = {f"{name.removeprefix(_COLLECTION).replace('.', '/')}.py" for name in names}
        return {path for path in paths if path.startswith(("plugins/", "tests/", "lab/")) and (self._root / path).is_file()}

    def _strings(self, tree: ast.Module) -> set[str]:
        """Things of which a text of a test is the name, the beginning (of an answer of a module), or a part of the path."""
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 100:
                for word in {node.value.partition(" ")[0], *node.value.split("/")}:
                    found |= self._names.get(word.removesuffix(".yml"), set())
        return found

    def distances(self, test: str) -> dict[str, int]:
        """Everything that a test uses → how far away it is, starting with itself."""
        found: dict[str, int] = {}
        near = {test}
        while near:
            distance = max(found.values(), default=-1) + 1
            found |= dict.fromkeys(near, distance)
            near = {used for thing in near for used in self.of(thing)} - set(found)
        return found


@functools.cache
def _distances(root: pathlib.Path) -> dict[str, dict[str, int]]:
    """Tests that run playbooks → what they use → how far away it is."""
    uses = Uses(root)
    tests = [str(path.relative_to(root)) for path in sorted((root / FOLDER).rglob("test_*.py")) if runs_playbooks(path)]
    return {test: uses.distances(test) for test in tests}


def concerned(changed: t.Sequence[str], root: pathlib.Path) -> list[str]:
    """The test files that run playbooks, and were changed or use a file that was.

    :arg changed: paths below ``root``.
    """
    found: set[str] = set()
    for thing in {Uses.thing(name) for name in changed}:
        near = {test: its[thing] for test, its in _distances(root).items() if thing in its}
        found |= {test for test, distance in near.items() if distance <= max(NEAR, min(near.values()))}
    return sorted(found)
