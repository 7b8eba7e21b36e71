# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The supported versions of ansible-core: each in a virtual environment of its own, with the collection as it is published.

The virtual environments are kept in the cache. The tool chain itself has the version that belongs to the Python of this machine.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import typing as t

import workspace
from engine import Step

#: Version → the Pythons on which it runs on a control node, the preferred one first.
CORES: t.Mapping[str, tuple[str, ...]] = {"2.19": ("3.11", "3.12", "3.13"), "2.20": ("3.13", "3.12", "3.14"), "2.21": ("3.13", "3.12", "3.14")}
NEWEST = list(CORES)[-1]
CACHE = workspace.CACHE / "cores"
#: Not used by the gates of the versions, which may create theirs at the same time.
ALONE = CACHE / "alone"
#: What the unit tests of control node plugins need.
_LIBRARIES = ("hypothesis>=6.100,<7", "lxml", "pytest>=8,<9", "pytest-xdist>=3.6,<4", "PyYAML>=6,<7")
#: Tests of what runs on the control node: plugins, playbooks, messages about slips.
_UNITS = ("tests/unit/plugins/action", "tests/unit/plugins/filter", "tests/unit/plugins/lookup", "tests/unit/plugins/module_utils/_topology")
_UNITS += ("tests/unit/test_playbooks.py", "tests/unit/test_slips.py")
_MISSING = "ansible-core {0} needs Python {1}, and none is on this machine. Install one, for example with pyenv, or run on Debian 13."


def python_for(core: str, search: str | None = None) -> str | None:
    """Return the path of a Python for this version, ``None`` if there is none on this machine."""
    found = (shutil.which(f"python{version}", path=search or workspace.search_path()) for version in CORES[core])
    return next((path for path in found if path), None)


def newest() -> str:
    """Return the newest version for which there is a Python on this machine."""
    return next((core for core in reversed(CORES) if python_for(core)), "2.19")


def build(folder: pathlib.Path) -> t.Iterator[Step]:
    """Build the artifact from a fresh clone."""
    shutil.rmtree(folder, ignore_errors=True)
    workspace.clone(folder / "clone")
    yield Step([str(workspace.BIN / "ansible-galaxy"), "collection", "build", "--output-path", str(folder)], folder / "clone")


def steps(core: str, artifact: pathlib.Path, *, sanity: bool) -> t.Iterator[Step]:
    """Test with one version of ansible-core.

    :arg artifact: folder with the built collection.
    :arg sanity: also run the tests of ansible-test that depend on the version.
    """
    python = python_for(core)
    if python is None:
        yield Step([sys.executable, "-c", f"raise SystemExit({_MISSING.format(core, ' or '.join(CORES[core]))!r})"], workspace.ROOT)
        return
    home = CACHE / core
    own = home / "venv"
    yield from _environment(core, python, own)
    tool = own / "bin"
    place = home / "collections"
    shutil.rmtree(place, ignore_errors=True)
    alone = {"ANSIBLE_COLLECTIONS_PATH": str(place), "PATH": os.pathsep.join([str(tool), workspace.search_path()]), "HOME": str(home)}
    name = next((str(path) for path in sorted(artifact.glob("*.tar.gz"))), str(artifact / "none.tar.gz"))
    yield Step([str(tool / "ansible-galaxy"), "collection", "install", "--offline", "--collections-path", str(place), name], artifact, env=alone)
    playbooks = [f"reduced.footprint.{path.stem}" for path in sorted((workspace.ROOT / "playbooks").glob("*.yml"))]
    example = workspace.ROOT / "tests" / "integration" / "targets" / "footprint_plan" / "files" / "cluster.nodes.yml"
    play = [str(tool / "ansible-playbook"), "-i", str(example)]
    old = r"^\[DEPRECATION WARNING\]|Traceback"
    yield Step([*play, "--syntax-check", *playbooks], home, env=alone, expect=[r"^playbook: .*site\.yml"], refuse=old)
    plan = [*play, "reduced.footprint.plan_placement", "-e", "plan_placement_measure=false"]
    yield Step(plan, home, env=alone, expect=[r"failed=0"], refuse=rf"^\[WARNING\]|{old}")
    search = {"PYTHONPATH": os.pathsep.join([str(workspace.CACHE / "collections"), str(workspace.ROOT)])}
    reports = workspace.OUTPUT / "reports" / f"cores-{core}"
    reports.mkdir(parents=True, exist_ok=True)
    units = [str(tool / "python"), "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses=auto", "--hypothesis-profile=quick"]
    units += [f"--junit-xml={reports / 'pytest.xml'}", *_UNITS]
    yield Step(units, workspace.ROOT, env={**search, "PATH": alone["PATH"]}, reports=reports)
    if sanity:
        # the tests that depend on the version of ansible-core; each imports what runs on targets with this Python
        workspace.place_get_pip(own, home)
        argv = [str(tool / "ansible-test"), "sanity", "--venv", "--color", "no", "--python", "default", "--test", "validate-modules", "--test", "import"]
        yield Step(argv, workspace.refresh(), env={"HOME": str(home), "PATH": alone["PATH"]})


def alone() -> t.Iterator[Step]:
    """Create an environment with the newest version and without the tools of unit tests."""
    yield from _environment(newest(), python_for(newest()) or sys.executable, ALONE, ("lxml", "PyYAML>=6,<7"))


def _environment(core: str, python: str, own: pathlib.Path, libraries: t.Sequence[str] = _LIBRARIES) -> t.Iterator[Step]:
    """Create the virtual environment, if it is not there or has another Python or other packages."""
    release = int(core.partition(".")[2])
    wanted = [f"ansible-core>={core},<2.{release + 1}", *libraries]
    stamp = own / "packages"
    text = "\n".join([python, *wanted]) + "\n"
    if stamp.is_file() and stamp.read_text("utf-8") == text:
        return
    yield Step([python, "-m", "venv", "--clear", str(own)], workspace.ROOT)
    yield Step([str(own / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries", "5", *wanted], workspace.ROOT)
    if (own / "bin" / "ansible-playbook").exists():
        stamp.write_text(text, "utf-8")
