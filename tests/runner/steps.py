# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands that several gates run."""

from __future__ import annotations

import os
import pathlib
import typing as t

import workspace
from engine import Step

ROOT, OUTPUT = workspace.ROOT, workspace.OUTPUT
EXTENSIONS = ROOT / "extensions"
PYTHON = str(workspace.BIN / "python")
#: The scenarios of Molecule in ``make test``. What the others show, other gates of it show too, except for details: torture runs all of them.
STORIES = frozenset(
    {
        "a_cloud_image_becomes_machines",
        "a_virt_node_becomes_an_ordinary_server_again",
        "messages_survive_the_loss_of_a_disk",
        "the_database_comes_back_from_a_backup",
    }
)


def tool(name: str) -> str:
    return str(workspace.BIN / name)


def reports(name: str) -> pathlib.Path:
    folder = OUTPUT / "reports" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pytest(name: str, *arguments: str, env: t.Mapping[str, str] | None = None) -> Step:
    results = reports(name)
    argv = [PYTHON, "-m", "pytest", f"--junit-xml={results / 'pytest.xml'}", *arguments]
    search = {"PYTHONPATH": os.pathsep.join([str(workspace.CACHE / "collections"), str(ROOT)])}
    return Step(argv, ROOT, env={**search, **(env or {})}, reports=results)


def folder(name: str, *arguments: str) -> t.Callable[[], t.Iterator[Step]]:
    """Return the steps of a gate that runs one folder of pytest tests."""

    def steps() -> t.Iterator[Step]:
        yield pytest(name, f"tests/{name}", *arguments)

    return steps


def script(path: str, *runs: t.Sequence[str], **env: str) -> t.Callable[[], t.Iterator[Step]]:
    """Return the steps of a matrix that brings up its lab itself: the script once with the arguments of each run."""
    argv = [PYTHON, str(ROOT / "tests" / path)]
    return lambda: (Step([*argv, *arguments, *["--resume"] * bool(os.environ.get("RESUME"))], ROOT, env=env) for arguments in runs or ((),))


def scenarios(of_controllers: bool) -> list[str]:
    """Return the scenarios of Molecule that use only servers, in a plain inventory, as those of the control plane do; or all others."""
    found = []
    for path in sorted(EXTENSIONS.glob("molecule/*/molecule.yml")):
        plain = path.parent / "inventory" / "hosts.yml"
        if (plain.is_file() and "controller:" in plain.read_text(encoding="utf-8")) == of_controllers:
            found.append(path.parent.name)
    return found


def stories(names: t.Iterable[str]) -> t.Callable[[], t.Iterator[Step]]:
    """Return the steps of a gate that runs each Molecule scenario as one test: create, converge, idempotence, verify, destroy."""

    def steps() -> t.Iterator[Step]:
        for name in names:
            env = {"MOLECULE_EPHEMERAL_DIRECTORY": str(workspace.CACHE / "molecule" / name)}
            yield Step([tool("molecule"), "test", "--scenario-name", name], EXTENSIONS, env=env)

    return steps
