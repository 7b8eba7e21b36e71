# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tests run which module: a table in docs/evidence.md.

A module counts as tested by a file that names the module, or a playbook or role that uses it, and by the unit tests of what it imports.
"""

from __future__ import annotations

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
_IMPORT = re.compile(r"^ *from ansible_collections\.reduced\.footprint\.plugins\.module_utils\.([\w.]+) import", re.MULTILINE)
#: Folders of tests on real parts, as a person calls them.
REAL = ("integration", "storage", "templates", "drift", "torture", "canary", "network", "lvm", "metal", "move", "source", "add_server", "replace",
        "controllers", "witness", "cloud", "standby", "migrate", "rehearse", "e2e")  # fmt: skip


def _text(folder: pathlib.Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".yml", ".sh", ".j2") and path.is_file())


def _users(name: str) -> set[str]:
    """Names of playbooks and roles whose files name something, and of playbooks that run those."""
    found = {path.stem for path in (ROOT / "playbooks").glob("*.yml") if re.search(rf"\b{name}\b", path.read_text("utf-8"))}
    found |= {path.name for path in (ROOT / "roles").iterdir() if path.is_dir() and f"reduced.footprint.{name}:" in _text(path / "tasks")}
    tasks = {path: path.read_text("utf-8") for path in (ROOT / "playbooks" / "tasks").glob("*.yml")}
    files = {path.name for path, text in tasks.items() if f"reduced.footprint.{name}:" in text}
    for _depth in tasks:
        files |= {path.name for path, text in tasks.items() if any(file in text for file in files)}
    found |= {path.stem for path in (ROOT / "playbooks").glob("*.yml") if any(f"tasks/{file}" in path.read_text("utf-8") for file in files)}
    roles = {role for role in found if (ROOT / "roles" / role).is_dir()}
    return found | {path.stem for path in (ROOT / "playbooks").glob("*.yml") if any(f"reduced.footprint.{role}" in path.read_text("utf-8") for role in roles)}


def _units(name: str) -> list[str]:
    """The folders of unit tests that mirror what a module imports directly."""
    text = "".join(path.read_text("utf-8") for path in (ROOT / "plugins").glob(f"*/{name}.py"))
    folders = []
    for where in _IMPORT.findall(text):
        path = ROOT / "plugins" / "module_utils" / where.replace(".", "/")
        folder = path if path.is_dir() else path.parent
        tests = ROOT / "tests" / "unit" / folder.relative_to(ROOT)
        if "_core" not in folder.parts and tests.is_dir() and any(tests.glob("test_*.py")):
            folders.append(folder.relative_to(ROOT / "plugins" / "module_utils").as_posix())
    return sorted(set(folders))


def table() -> str:
    """The table, one row for each module."""
    texts = {name: _text(ROOT / "tests" / name) for name in REAL if (ROOT / "tests" / name).is_dir()}
    texts["molecule"] = _text(ROOT / "extensions" / "molecule")
    rows = ["| module | unit tests | tests on real parts |", "|---|---|---|"]
    for path in sorted((ROOT / "plugins" / "modules").glob("[a-z]*.py")):
        names = {f"modules.{path.stem}", f"modules/{path.stem}", f"reduced.footprint.{path.stem}"}
        # "init" alone is also a name in other programs
        names |= {f"\"{user}\"" for user in _users(path.stem) if user != "init"}
        names |= {f"reduced.footprint.{user}" for user in _users(path.stem)}
        real = [name for name, text in texts.items() if any(re.search(rf"{re.escape(each)}(?![\w])", text) for each in names)]
        rows.append(f"| `{path.stem}` | {', '.join(f'`{each}`' for each in _units(path.stem))} | {', '.join(real)} |")
    return "\n".join(rows) + "\n"
