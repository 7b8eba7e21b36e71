# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may import whom, read from the source itself.

Code lies in a folder for each subject, and the prefix of a file's name is its kind:
``plugins/module_utils/SUBJECT[/TOPIC]/KIND_NAME.py``. A subject imports only itself and those before it in
``SUBJECTS``, a kind only those that ``MAY_IMPORT`` gives it, in its own subject and in others.

The rules are first shown to catch made-up violations, then applied to the tree.
"""

from __future__ import annotations

import ast
import pathlib
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "ansible_collections.reduced.footprint.plugins"
UTILS = f"{PACKAGE}.module_utils"
#: In the order in which they build upon each other.
SUBJECTS = (
    "_core",
    "_certificate",
    "_remote",
    "_vm",
    "_power",
    "_host",
    "_network",
    "_inventory",
    "_placement",
    "_metal",
    "_move",
    "_service",
    "_standby",
    "_migrate",
    "_keys",
    "_loadbalancer",
    "_galera",
    "_rabbitmq",
    "_keystone",
    "_ovn",
    "_topology",
    "_cloud",
    "_controlplane",
    "_diagnostic",
    "_monitoring",
)
KINDS = ("model", "xml", "plan", "io", "run")
_DECIDES = {"run", "plan", "xml", "model", "plugin_utils"}

#: Kind → kinds it may import. ``model`` contains the error tree, so every kind may import it.
MAY_IMPORT: t.Mapping[str, t.AbstractSet[str]] = {
    "modules": {"run", "model"},
    "action": _DECIDES,
    "inventory": {"run", "model"},
    "filter": _DECIDES,
    "lookup": _DECIDES,
    "plugin_utils": _DECIDES,
    "doc_fragments": set(),
    "callback": set(),
    "run": {"run", "plan", "io", "xml", "model"},
    "plan": {"plan", "xml", "model"},
    "io": {"io", "xml", "model"},
    "xml": {"xml", "model"},
    "model": {"model"},
}
#: The outside world: one door.
ONLY_IO = {"libvirt", "libvirt_qemu", "subprocess", "socket", "pexpect", "paramiko", "fcntl"}
#: Kinds without input and output, and what they may use beside the standard library.
PURE: t.Mapping[str, t.AbstractSet[str]] = {"model": {"yaml"}, "plan": set(), "xml": {"lxml", "jinja2", "markupsafe"}}
IMPURE_MODULES = {"shutil", "tempfile", "glob", "urllib.request", "http", "multiprocessing", "select", "ssl"}
IMPURE_CALLS = {"open", "os.open", "os.listdir", "os.remove", "os.unlink", "os.rename", "os.replace", "os.mkdir", "os.makedirs", "time.sleep"}
COMMAND_CALLS = {"os.system", "os.popen", "os.execv", "os.execvp", "os.execve", "os.spawnv", "os.fork", "os.posix_spawn"}
MODULE_EXITS = {"exit_json", "fail_json"}
#: Ends modules.
MODULE_END = pathlib.PurePosixPath("plugins/module_utils/_core/run_module.py")
MAX_LINES = 400


class Place(t.NamedTuple):
    """Where a file belongs: its kind (outside ``module_utils`` the type of plugin), and its subject."""

    kind: str
    subject: str | None = None


def place_of(path: pathlib.PurePosixPath) -> Place | None:
    """The place of a file; ``None`` outside plugins/ and of a package's ``__init__``.

    :raises ValueError: a file of ``module_utils`` whose name or folder has no known subject or kind.
    """
    if not path.parts or path.parts[0] != "plugins" or path.name == "__init__.py":
        return None
    if path.parts[1] != "module_utils":
        return Place(path.parts[1])
    folders, kind = path.parts[2:-1], path.stem.partition("_")[0]
    if not 1 <= len(folders) <= 2 or folders[0] not in SUBJECTS or kind not in KINDS or not path.stem.partition("_")[2]:
        raise ValueError(f"{path}: name it SUBJECT/KIND_NAME.py or SUBJECT/TOPIC/KIND_NAME.py; kinds are {', '.join(KINDS)}")
    return Place(kind, folders[0])


def imported(tree: ast.AST, path: pathlib.PurePosixPath) -> t.Iterator[tuple[int, str]]:
    """Line and full dotted name of all that is imported, wherever in the file, relative and dynamic imports resolved."""
    here = [*PACKAGE.split("."), *path.parts[1:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            stem = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                yield node.lineno, f"{stem}.{alias.name}"
        elif isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in ("import_module", "__import__"):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant):
                    yield node.lineno, str(argument.value)


def dotted(node: ast.AST) -> str:
    """``os.path.join`` of the expression of that name, empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        stem = dotted(node.value)
        return f"{stem}.{node.attr}" if stem else ""
    return ""


def is_a(name: str, modules: t.Iterable[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def target_of(name: str) -> Place:
    """The place of what is imported by its dotted name below ``PACKAGE``."""
    parts = name[len(PACKAGE) + 1:].split(".")
    if parts[0] != "module_utils":
        return Place(parts[0])
    kind = next((part.partition("_")[0] for part in parts[2:] if part.partition("_")[0] in KINDS and "_" in part), "a whole folder")
    return Place(kind, parts[1] if len(parts) > 1 else None)


def violations(source: str, path: str) -> list[str]:
    """What a file does that its place must not, as ``path:line: text``."""
    where = pathlib.PurePosixPath(path)
    try:
        place = place_of(where)
    except ValueError as error:
        return [str(error)]
    if place is None:
        return []
    tree = ast.parse(source)
    found: list[str] = []

    def bad(line: int, text: str) -> None:
        found.append(f"{path}:{line}: {text}")

    if place.kind not in MAY_IMPORT:
        return [f"{path}:1: {place.kind} is not a known type of plugin"]
    for line, name in imported(tree, where):
        if is_a(name, ONLY_IO) and place.kind != "io":
            bad(line, f"only io may import {name.split('.')[0]}")
        if is_a(name, [PACKAGE]):
            target = target_of(name)
            if target.kind not in MAY_IMPORT[place.kind]:
                bad(line, f"{place.kind} must not import {target.kind}")
            if place.subject and target.subject and SUBJECTS.index(target.subject) > SUBJECTS.index(place.subject):
                bad(line, f"{place.subject} comes before {target.subject}, so it must not import it")
        if place.kind in KINDS and is_a(name, ["ansible.module_utils.basic"]):
            bad(line, f"{place.kind} must never see AnsibleModule")
        if place.kind in PURE:
            top = name.split(".")[0]
            if top == "ansible":
                bad(line, f"{place.kind} must not import ansible")
            elif is_a(name, IMPURE_MODULES):
                bad(line, f"{place.kind} does no input or output, so no {top}")
            elif top not in sys.stdlib_module_names | PURE[place.kind] | {"ansible_collections"}:
                bad(line, f"{place.kind} must not need {top}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            call = dotted(node.func)
            if call in COMMAND_CALLS and place.kind != "io":
                bad(node.lineno, f"only io runs commands: {call}")
            if place.kind in PURE and call in IMPURE_CALLS:
                bad(node.lineno, f"{place.kind} does no input or output: {call}")
        if isinstance(node, ast.Attribute) and node.attr in MODULE_EXITS and place.kind != "modules" and where != MODULE_END:
            bad(node.lineno, f"only modules call {node.attr}")
    return found


def circles(sources: t.Mapping[str, str]) -> list[tuple[str, ...]]:
    """Modules that need each other at run time: what only a type checker imports does not count.

    :arg sources: dotted name → source.
    """
    edges: dict[str, set[str]] = {}
    for name, source in sources.items():
        tree = ast.parse(source)
        hints = {id(each) for node in ast.walk(tree) if isinstance(node, ast.If) and dotted(node.test).endswith("TYPE_CHECKING") for each in ast.walk(node)}
        edges[name] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and id(node) not in hints:
                edges[name] |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)} & set(sources)
    # what nothing left imports, and what imports nothing left, is in no circle
    while True:
        leaves = {name for name, targets in edges.items() if not targets or not any(name in others for others in edges.values())}
        if not leaves:
            return [(name, *sorted(targets)) for name, targets in sorted(edges.items())]
        edges = {name: targets - leaves for name, targets in edges.items() if name not in leaves}


MODEL, XML, PLAN, IO, RUN = (f"plugins/module_utils/_vm/{kind}_x.py" for kind in KINDS)
MODULE = "plugins/modules/x.py"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (MODEL, f"from {UTILS}._vm.plan_status import x"),
        (MODEL, "from . import plan_status"),
        (MODEL, "import lxml"),
        (MODEL, "open('/etc/passwd')"),
        (PLAN, f"import {UTILS}._core.io_command"),
        (PLAN, "import ansible.module_utils.basic"),
        (PLAN, "import tempfile"),
        (PLAN, "def f():\n    import subprocess"),
        (XML, f"from {UTILS}._vm import plan_domain"),
        (XML, "try:\n    import libvirt\nexcept ImportError:\n    libvirt = None"),
        (IO, f"from {UTILS}._vm.compare.plan_status import x"),
        (IO, f"from {UTILS}._vm.apply.run_define import x"),
        (IO, "from ansible.module_utils.basic import AnsibleModule"),
        (IO, "def f(module):\n    module.fail_json(msg='x')"),
        (RUN, "import libvirt"),
        (RUN, "import subprocess"),
        (RUN, "from socket import socket"),
        (RUN, "import importlib\nimportlib.import_module('libvirt')"),
        (RUN, "import os\nos.system('true')"),
        (RUN, "def f(module):\n    return module.exit_json"),
        (RUN, f"from {UTILS}._host.node.model_node import x"),
        (RUN, f"from {UTILS} import _vm"),
        ("plugins/module_utils/_core/io_x.py", f"from {UTILS}._remote import io_rsync"),
        (MODULE, f"from {UTILS}._core.io_command import run"),
        (MODULE, f"from {UTILS}._controlplane.plan_status import x"),
        (MODULE, "import libvirt"),
        ("plugins/inventory/x.py", "import socket"),
        ("plugins/action/x.py", f"from {UTILS}._core import io_command"),
        ("plugins/filter/x.py", f"from {UTILS}._core.io_command import run"),
        ("plugins/module_utils/_other/run_x.py", ""),
        ("plugins/module_utils/_vm/x.py", ""),
        ("plugins/module_utils/_vm/helper_x.py", ""),
        ("plugins/module_utils/_vm/one/two/run_x.py", ""),
        ("plugins/module_utils/run_x.py", ""),
        ("plugins/test/x.py", ""),
    ],
)
def test_a_violation_is_found(path: str, source: str) -> None:
    assert violations(source, path)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (MODEL, f"import dataclasses\nfrom {UTILS}._core.model_errors import InputError"),
        (PLAN, f"from {UTILS}._core.model_errors import InputError"),
        (XML, "try:\n    from lxml import etree\nexcept ImportError:\n    etree = None"),
        (IO, "import libvirt, socket, subprocess"),
        (RUN, f"from {UTILS}._core import io_command\nfrom {UTILS}._vm.compare import plan_domain"),
        (MODULE, f"from ansible.module_utils.basic import AnsibleModule\nfrom {UTILS}._vm.apply.run_define import x\nAnsibleModule.exit_json"),
        ("lab/x.py", "import libvirt"),
        ("plugins/module_utils/_vm/apply/__init__.py", ""),
    ],
)
def test_what_is_allowed_is_not_refused(path: str, source: str) -> None:
    assert not violations(source, path)


def test_a_circle_is_found() -> None:
    first = "import typing as t\nif t.TYPE_CHECKING:\n    from p import a\nfrom p.b import x"
    assert circles({"p.a": first, "p.b": "def f():\n    from p import a"}) == [("p.a", "p.b"), ("p.b", "p.a")]
    assert not circles({"p.a": first, "p.b": "import os", "p.c": "from p.a import y"})


def _sources() -> dict[str, str]:
    return {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in sorted((ROOT / "plugins").rglob("*.py"))}


def test_the_tree_keeps_to_its_layers() -> None:
    files = _sources()
    assert files
    found = [text for path, source in files.items() for text in violations(source, path)]
    assert not found, "\n".join(found)


def test_the_tree_has_no_circles() -> None:
    found = circles({f"{PACKAGE}." + path[len("plugins/"):-3].replace("/", "."): source for path, source in _sources().items()})
    assert not found, "\n".join(" -> ".join(each) for each in found)


def too_long(root: pathlib.Path) -> list[str]:
    """Files a person cannot read in one sitting."""
    found = []
    for top in ("plugins", "roles", "lab", "tests"):
        for file in sorted((root / top).rglob("*")):
            parts = file.relative_to(root).parts
            if not file.is_file() or "__pycache__" in parts or parts[:2] == ("tests", "output"):
                continue
            lines = file.read_bytes().count(b"\n")
            if lines > MAX_LINES:
                found.append(f"{'/'.join(parts)}: {lines} lines, {MAX_LINES} at most")
    return found


def test_a_long_file_is_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "roles" / "x").mkdir(parents=True)
    (tmp_path / "roles" / "x" / "long.yml").write_text("-\n" * (MAX_LINES + 1))
    (tmp_path / "roles" / "x" / "short.yml").write_text("-\n" * MAX_LINES)
    assert too_long(tmp_path) == [f"roles/x/long.yml: {MAX_LINES + 1} lines, {MAX_LINES} at most"]


def test_no_file_is_too_long() -> None:
    found = too_long(ROOT)
    assert not found, "\n".join(found)
