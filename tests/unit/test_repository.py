# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Conventions of the repository: documentation, roles, names, links.

Each convention is a function that takes the root of a tree and returns what is
wrong in it, so that it can be shown to find a planted fault.
"""

from __future__ import annotations

import ast
import pathlib
import re
import runpy
import subprocess
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FQCN = "reduced.footprint"
DOCUMENTED = ("modules", "inventory", "filter", "action", "lookup", "callback")
#: Hosts an address in the repository may name; other names may come from a private network.
HOSTS = (
    "gnu.org", "spdx.org", "ansible.com", "redhat.com", "github.com", "libvirt.org", "debian.org", "ubuntu.com", "rabbitmq.com", "qemu.org", "python.org",
    "mariadb.com", "mariadb.org", "galeracluster.com", "haproxy.org", "keepalived.org", "openstack.org", "opensource.org", "w3.org",
    "semver.org", "keepachangelog.com", "readthedocs.io", "pytest.org", "ietf.org", "rfc-editor.org", "kernel.org", "freedesktop.org", "fsf.org",
    "reduced.footprint", "example.com", "example.org", "example.net", "localhost",
)
#: Paths of private checkouts and scratch files, and numbers of a tracker.
# Written in two halves, because this file is checked as well.
FORBIDDEN = [re.compile(one + other) for one, other in (
    (r"(?<![\w.}])/wor", r"k/\w"), (r"(?<![\w.}])/hom", r"e/\w+/"), (r"(?<![\w.}])/User", r"s/\w+/"), (r"/tmp/", r"rf\b"), (r"\b[Ii]ssue", r"s? #?\d+\b"),
    # numbers of requirements belong into design documents
    (r"\(([CFKNSTUX]\d{1,2}(-[A-Z]?\d{1,2})?(, )?)", r"+\)"),
)]


def tracked(root: pathlib.Path) -> list[pathlib.Path]:
    """Files git knows or would know; in a tree without git, all of them."""
    try:
        argv = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(argv, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
        if (root / ".git").exists():
            return [root / name for name in listed if name and (root / name).is_file()]
    except (OSError, subprocess.CalledProcessError):
        pass
    return [path for path in root.rglob("*") if path.is_file()]


def constants(file: pathlib.Path) -> dict[str, str]:
    """The text constants at the top of a plugin: DOCUMENTATION, EXAMPLES, RETURN."""
    found = {}
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = str(node.value.value)
    return found


def fragments(root: pathlib.Path, names: t.Any) -> dict[str, t.Any]:
    """Attributes that documentation fragments of this collection add."""
    found: dict[str, t.Any] = {}
    for name in [names] if isinstance(names, str) else names or []:
        file, _dot, block = name.removeprefix(FQCN + ".").partition(".")
        path = root / "plugins" / "doc_fragments" / f"{file}.py"
        if path.is_file():
            text = getattr(runpy.run_path(str(path))["ModuleDocFragment"], block.upper() or "DOCUMENTATION")
            found.update(yaml.safe_load(text).get("attributes") or {})
    return found


def undocumented_plugins(root: pathlib.Path) -> list[str]:
    """Plugins whose documentation, examples or return values are missing or no YAML."""
    found = []
    for kind in DOCUMENTED:
        for file in sorted((root / "plugins" / kind).glob("[!_]*.py")):
            if kind == "action":
                continue  # documented by the module of the same name
            texts, name = constants(file), f"plugins/{kind}/{file.stem}"
            for wanted in ("DOCUMENTATION", "EXAMPLES", *(("RETURN",) if kind in ("modules", "filter") else ())):
                try:
                    value = next(iter(yaml.safe_load_all(texts.get(wanted, ""))), None)
                except yaml.YAMLError as error:
                    found.append(f"{name}: {wanted} is not valid YAML: {error}")
                    continue
                if not value:
                    found.append(f"{name}: no {wanted}")
                elif wanted == "EXAMPLES" and f"{FQCN}.{file.stem}" not in texts[wanted]:
                    found.append(f"{name}: EXAMPLES never use {FQCN}.{file.stem}")
    return found


def modules_without_attributes(root: pathlib.Path) -> list[str]:
    """Modules that do not say how they do in check mode, diff mode and on which platform."""
    found = []
    for file in sorted((root / "plugins" / "modules").glob("[!_]*.py")):
        text = yaml.safe_load(constants(file).get("DOCUMENTATION", "")) or {}
        attributes = {**fragments(root, text.get("extends_documentation_fragment")), **(text.get("attributes") or {})}
        missing = {"check_mode", "diff_mode", "platform"} - set(attributes)
        if missing:
            found.append(f"plugins/modules/{file.name}: attributes lack {', '.join(sorted(missing))}")
    return found


def thick_modules(root: pathlib.Path) -> list[str]:
    """Modules whose code is more than parameters in, use case, result out."""
    found = []
    for file in sorted((root / "plugins" / "modules").glob("[!_]*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno > 60:
                found.append(f"plugins/modules/{file.name}: {node.name}() is long; move it into a use case")
    return found


def careless_roles(root: pathlib.Path) -> list[str]:
    """Roles without specification or README, or with variables that are not their own."""
    found = []
    for role in sorted(path for path in (root / "roles").glob("*") if path.is_dir()):
        name = role.name
        specs_file = role / "meta" / "argument_specs.yml"
        readme = (role / "README.md").read_text("utf-8") if (role / "README.md").is_file() else ""
        if not (role / "meta" / "main.yml").is_file():
            found.append(f"roles/{name}: no meta/main.yml")
        if "hosts:" not in readme or f"{FQCN}.{name}" not in readme:
            found.append(f"roles/{name}: README.md shows no play with {FQCN}.{name}")
        if not specs_file.is_file():
            found.append(f"roles/{name}: no meta/argument_specs.yml")
            continue
        specs = (yaml.safe_load(specs_file.read_text("utf-8")) or {}).get("argument_specs", {})
        options: dict[str, t.Any] = {}
        for entry in specs.values():
            options.update(entry.get("options") or {})
        defaults_file = role / "defaults" / "main.yml"
        defaults = (yaml.safe_load(defaults_file.read_text("utf-8")) if defaults_file.is_file() else {}) or {}
        shared = {"vms", "expert_mode", "node_roles", "footprint_cluster"}  # words of the inventory, the same for all
        for variable in sorted({*options, *defaults} - shared):
            if not variable.startswith((f"{name}_", f"__{name}_")):
                found.append(f"roles/{name}: {variable} does not begin with {name}_")
        for variable, value in sorted(defaults.items()):
            if variable.startswith("__"):
                continue
            if variable not in options:
                found.append(f"roles/{name}: {variable} is not in argument_specs.yml")
            elif "{{" in str(value):
                continue  # follows another variable; the specification names what comes out
            elif "default" in options[variable] and options[variable]["default"] != value:
                found.append(f"roles/{name}: {variable} has another default in argument_specs.yml")
    return found


def slips(root: pathlib.Path) -> list[str]:
    """List paths, numbers and addresses of a private machine, which do not belong to the project."""
    found = []
    for file in tracked(root):
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        name = file.relative_to(root).as_posix()
        for number, line in enumerate(text.splitlines(), 1):
            if any(pattern.search(line) for pattern in FORBIDDEN):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
            for host in re.findall(r"\bhttps?://(?:[^\s/@]*@)?([A-Za-z0-9.-]+\.[A-Za-z]{2,})", line):
                if not any(host == known or host.endswith(f".{known}") for known in HOSTS):
                    found.append(f"{name}:{number}: unknown host {host}")
    return found


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors of the headings of a Markdown page, as GitHub names them."""
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title) for title in re.findall(r"^#+ (.*)$", prose, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(root: pathlib.Path) -> list[str]:
    """Relative links and pictures in Markdown that lead nowhere."""
    found = []
    for file in tracked(root):
        if file.suffix == ".md":
            prose = re.sub(r"```.*?```", "", file.read_text("utf-8"), flags=re.DOTALL)
            for target in re.findall(r"\]\(([^)\s]+)\)", prose):
                place, _hash, heading = target.partition("#")
                there = file.parent / place if place else file
                if ":" not in place and (not there.exists() or heading and heading not in anchors(there)):
                    found.append(f"{file.relative_to(root)}: {target}")
    return found


def unmatched_unit_tests(root: pathlib.Path) -> list[str]:
    """List folders of unit tests without a folder of plugins."""
    mirror = root / "tests" / "unit" / "plugins"
    folders = {file.parent.relative_to(mirror) for file in mirror.rglob("test_*.py")}
    return [f"tests/unit/plugins/{folder}" for folder in sorted(folders) if not (root / "plugins" / folder).is_dir()]


CONVENTIONS = [undocumented_plugins, modules_without_attributes, thick_modules, careless_roles, slips, dead_links, unmatched_unit_tests]


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda function: function.__name__)
def test_the_repository_keeps(convention: t.Callable[[pathlib.Path], list[str]]) -> None:
    found = convention(ROOT)
    assert not found, f"{convention.__doc__}\n" + "\n".join(found)


GOOD_MODULE = (
    'DOCUMENTATION = """\nmodule: x\nattributes: {check_mode: {}, diff_mode: {}, platform: {}}\n"""\n'
    'EXAMPLES = """\n- reduced.footprint.x:\n    a: 1\n"""\nRETURN = """\na: {type: str}\n"""\n'
)
GOOD_ROLE = {
    "roles/x/meta/main.yml": "galaxy_info: {}\n",
    "roles/x/meta/argument_specs.yml": "argument_specs: {main: {options: {x_a: {type: int, default: 1}}}}\n",
    "roles/x/defaults/main.yml": "x_a: 1\n__x_b: 2\n",
    "roles/x/README.md": "## Play\n\n```yaml\n- hosts: all\n  roles: [reduced.footprint.x]\n```\n",
}


def plant(root: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return root


def test_a_careful_tree_passes(tmp_path: pathlib.Path) -> None:
    plant(tmp_path, {**GOOD_ROLE, "plugins/modules/x.py": GOOD_MODULE, "docs/a.md": "[role](../roles/x/README.md#play)\n"})
    assert [convention(tmp_path) for convention in CONVENTIONS] == [[]] * len(CONVENTIONS)


@pytest.mark.parametrize(
    ("convention", "files"),
    [
        (undocumented_plugins, {"plugins/modules/x.py": GOOD_MODULE.replace("EXAMPLES", "OTHER")}),
        (undocumented_plugins, {"plugins/modules/x.py": GOOD_MODULE.replace("reduced.footprint.x:", "x:")}),
        (undocumented_plugins, {"plugins/modules/x.py": GOOD_MODULE.replace("RETURN", "OTHER")}),
        (undocumented_plugins, {"plugins/modules/x.py": GOOD_MODULE.replace("a: {type: str}", "a: [")}),
        (undocumented_plugins, {"plugins/filter/x.py": "pass\n"}),
        (modules_without_attributes, {"plugins/modules/x.py": GOOD_MODULE.replace("platform", "other")}),
        (thick_modules, {"plugins/modules/x.py": "def main():\n" + "    print()\n" * 70}),
        (careless_roles, {**GOOD_ROLE, "roles/x/README.md": "see defaults\n"}),
        (careless_roles, {**GOOD_ROLE, "roles/x/defaults/main.yml": "x_a: 2\n"}),
        (careless_roles, {**GOOD_ROLE, "roles/x/defaults/main.yml": "x_a: 1\nx_c: 2\n"}),
        (careless_roles, {**GOOD_ROLE, "roles/x/defaults/main.yml": "x_a: 1\nother: 2\n"}),
        (careless_roles, {"roles/x/meta/main.yml": "---\n", "roles/x/README.md": GOOD_ROLE["roles/x/README.md"]}),
        (slips, {"docs/a.md": "see /wor" + "k/somewhere\n"}),
        (slips, {"docs/a.md": "closes issu" + "e #12\n"}),
        (slips, {"docs/a.md": "made for two servers (F" + "3, X1-X4).\n"}),
        (slips, {"docs/a.md": "http:/" + "/registry.corp.internal/simple\n"}),
        (dead_links, {"docs/a.md": "[x](b.md)\n"}),
        (unmatched_unit_tests, {"tests/unit/plugins/module_utils/_none/test_x.py": "\n"}),
    ],
)
def test_a_planted_fault_is_found(convention: t.Callable[[pathlib.Path], list[str]], files: dict[str, str], tmp_path: pathlib.Path) -> None:
    assert convention(plant(tmp_path, files))


def test_listeners_can_be_compared_with_a_running_control_plane() -> None:
    # tests/controllers/test_security.py reads these rows
    text = (ROOT / "docs/security.md").read_text("utf-8").partition("## Listeners")[2].partition("## Allow-lists")[0]
    ports = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")][2:]
    assert len(ports) > 15 and [port for port in ports if not re.fullmatch(r"[0-9]+(-[0-9]+)?|vrrp", port)] == []
