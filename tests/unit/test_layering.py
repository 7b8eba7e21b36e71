# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may import whom, read from the source itself.

``modules, action, inventory → _run → {_plan, _backend} → {_xml, _model}``

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
LAYERS = ("_run", "_plan", "_backend", "_xml", "_model")

#: Layer → layers of ours it may import. ``_model`` holds the error tree, so everybody sees it.
MAY_IMPORT = {
    "modules": {"_run", "_model"},
    "action": {"_run", "_model"},
    "inventory": {"_run", "_model"},
    "filter": {"_run", "_plan", "_xml", "_model", "plugin_utils"},
    "lookup": {"_run", "_plan", "_xml", "_model", "plugin_utils"},
    "plugin_utils": {"_run", "_plan", "_xml", "_model", "plugin_utils"},
    "doc_fragments": set(),
    "_run": {"_run", "_plan", "_backend", "_xml", "_model"},
    "_plan": {"_plan", "_xml", "_model"},
    "_backend": {"_backend", "_xml", "_model"},
    "_xml": {"_xml", "_model"},
    "_model": {"_model"},
}
#: The outside world: one door.
ONLY_BACKEND = {"libvirt", "libvirt_qemu", "subprocess", "socket", "pexpect", "paramiko", "fcntl"}
#: Layers without input and output, and what they may use beside the standard library.
PURE = {"_model": set(), "_plan": set(), "_xml": {"lxml", "jinja2", "markupsafe"}}
IMPURE_MODULES = {"shutil", "tempfile", "glob", "urllib.request", "http", "multiprocessing", "select", "ssl"}
IMPURE_CALLS = {"open", "os.open", "os.listdir", "os.remove", "os.unlink", "os.rename", "os.replace", "os.mkdir", "os.makedirs", "time.sleep"}
COMMAND_CALLS = {"os.system", "os.popen", "os.execv", "os.execvp", "os.execve", "os.spawnv", "os.fork", "os.posix_spawn"}
MODULE_EXITS = {"exit_json", "fail_json"}
MAX_LINES = 400


def layer_of(path: pathlib.PurePosixPath) -> str | None:
    """The layer of a file, e.g. ``plugins/module_utils/_plan/x.py`` → ``_plan``; ``None`` outside plugins/."""
    if not path.parts or path.parts[0] != "plugins":
        return None
    return path.parts[2] if path.parts[1] == "module_utils" else path.parts[1]


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


def violations(source: str, path: str) -> list[str]:
    """What a file does that its layer must not, as ``path:line: text``."""
    where = pathlib.PurePosixPath(path)
    layer = layer_of(where)
    if layer is None:
        return []
    tree = ast.parse(source)
    found: list[str] = []

    def bad(line: int, text: str) -> None:
        found.append(f"{path}:{line}: {text}")

    if layer not in MAY_IMPORT:
        bad(1, f"nobody knows the layer {layer}")
        return found
    for line, name in imported(tree, where):
        if is_a(name, ONLY_BACKEND) and layer != "_backend":
            bad(line, f"only _backend may import {name.split('.')[0]}")
        if is_a(name, [PACKAGE]):
            rest = name[len(PACKAGE) + 1:].split(".")
            target = rest[1] if rest[0] == "module_utils" and len(rest) > 1 else rest[0]
            if target not in MAY_IMPORT[layer]:
                bad(line, f"{layer} must not import {target}")
        if layer in LAYERS and is_a(name, ["ansible.module_utils.basic"]):
            bad(line, f"{layer} must never see AnsibleModule")
        if layer in PURE:
            top = name.split(".")[0]
            if top == "ansible":
                bad(line, f"{layer} must not import ansible")
            elif is_a(name, IMPURE_MODULES):
                bad(line, f"{layer} does no input or output, so no {top}")
            elif top not in sys.stdlib_module_names | PURE[layer] | {"ansible_collections"}:
                bad(line, f"{layer} must not need {top}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            call = dotted(node.func)
            if call in COMMAND_CALLS and layer != "_backend":
                bad(node.lineno, f"only _backend runs commands: {call}")
            if layer in PURE and call in IMPURE_CALLS:
                bad(node.lineno, f"{layer} does no input or output: {call}")
        if isinstance(node, ast.Attribute) and node.attr in MODULE_EXITS and layer != "modules":
            bad(node.lineno, f"only modules call {node.attr}")
    return found


MODEL, PLAN, XML = (f"plugins/module_utils/{layer}/x.py" for layer in ("_model", "_plan", "_xml"))
BACKEND, RUN, MODULE = "plugins/module_utils/_backend/x.py", "plugins/module_utils/_run/x.py", "plugins/modules/x.py"


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (MODEL, f"from {PACKAGE}.module_utils._plan.status import x"),
        (MODEL, "from .._plan import status"),
        (MODEL, "import yaml"),
        (MODEL, "open('/etc/passwd')"),
        (PLAN, f"import {PACKAGE}.module_utils._backend.command"),
        (PLAN, "import ansible.module_utils.basic"),
        (PLAN, "import tempfile"),
        (PLAN, "def f():\n    import subprocess"),
        (XML, f"from {PACKAGE}.module_utils._plan import domain"),
        (XML, "try:\n    import libvirt\nexcept ImportError:\n    libvirt = None"),
        (BACKEND, f"from {PACKAGE}.module_utils._plan.status import x"),
        (BACKEND, f"from {PACKAGE}.module_utils._run.define import x"),
        (BACKEND, "from ansible.module_utils.basic import AnsibleModule"),
        (BACKEND, "def f(module):\n    module.fail_json(msg='x')"),
        (RUN, "import libvirt"),
        (RUN, "import subprocess"),
        (RUN, "from socket import socket"),
        (RUN, "import importlib\nimportlib.import_module('libvirt')"),
        (RUN, "import os\nos.system('true')"),
        (RUN, "def f(module):\n    return module.exit_json"),
        (MODULE, f"from {PACKAGE}.module_utils._backend.command import run"),
        (MODULE, f"from {PACKAGE}.module_utils._plan.status import x"),
        (MODULE, "import libvirt"),
        ("plugins/inventory/x.py", "import socket"),
        ("plugins/action/x.py", f"from {PACKAGE}.module_utils import _backend"),
        ("plugins/filter/x.py", f"from {PACKAGE}.module_utils._backend.command import run"),
        ("plugins/module_utils/_other/x.py", ""),
    ],
)
def test_a_violation_is_found(path: str, source: str) -> None:
    assert violations(source, path)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (MODEL, f"import dataclasses\nfrom {PACKAGE}.module_utils._model.errors import InputError"),
        (PLAN, f"from {PACKAGE}.module_utils._model.errors import InputError"),
        (XML, "try:\n    from lxml import etree\nexcept ImportError:\n    etree = None"),
        (BACKEND, "import libvirt, socket, subprocess"),
        (RUN, f"from {PACKAGE}.module_utils._backend import command\nfrom {PACKAGE}.module_utils._plan import status"),
        (MODULE, f"from ansible.module_utils.basic import AnsibleModule\nfrom {PACKAGE}.module_utils._run.define import x\nAnsibleModule.exit_json"),
        ("lab/x.py", "import libvirt"),
    ],
)
def test_what_is_allowed_is_not_refused(path: str, source: str) -> None:
    assert not violations(source, path)


def test_the_tree_keeps_to_its_layers() -> None:
    files = sorted((ROOT / "plugins").rglob("*.py"))
    assert files
    found = [text for file in files for text in violations(file.read_text("utf-8"), file.relative_to(ROOT).as_posix())]
    assert not found, "\n".join(found)


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
