# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gates of ``make torture``: hours together, each a piece that can be run alone, recorded and reused.

A folder of tests is cut into its files, which are prepared to run alone; matrices, which keep each cell, and random rounds are not cut.
"""

from __future__ import annotations

import os
import typing as t

import labs
from engine import Gate, Step
from evidence import folders
from labs import with_lab
from steps import PYTHON, ROOT, pytest, scenarios, script, stories, tool

TORTURE = frozenset({"torture"})
#: Matrices that keep the result of each cell.
RESUMABLE = frozenset({"faults", "options"})
VOTES, CONSISTENCY = "witness/vote_faults.py", "consistency/rounds.py"
#: Servers have other roles in each of these groups of files, so each group starts with new ones.
CLOUD = (
    *((name,) for name in ("cloud_image", "ovn_database", "ovn_chassis", "compute_servers", "restore", "volumes", "local_volumes", "patch_day")),
    ("instance", "dashboard", "tempest"),
    ("control_plane", "control_plane_failures"),
)


def _one(name: str, title: str, *arguments: str, env: t.Mapping[str, str] | None = None) -> Gate:
    name = f"torture-{name}"
    tests = arguments[0].split("/")
    used = folders(tests[1]) if tests[1] != "unit" else ("tests",)
    return with_lab(Gate(name, title, lambda: iter([pytest(name, *arguments, env=env)]), TORTURE, inputs=used))


def _long(name: str, title: str, folder: str, *arguments: str, env: t.Mapping[str, str] | None = None) -> list[Gate]:
    """A folder of tests as parts of the torture, one for each file, with everything in it that takes long."""
    files = sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    if len(files) == 1:
        return [_one(name, title, f"tests/{folder}", *arguments, env=env)]
    return [_one(f"{name}-{path.stem.removeprefix('test_').replace('_', '-')}", title, str(path.relative_to(ROOT)), *arguments, env=env) for path in files]


def _matrix(script: str, title: str) -> Gate:
    """A matrix of the migration, on a lab whose server is set up and whose master serves a writer."""
    name = f"torture-{script.replace('_', '-')}"

    def steps() -> t.Iterator[Step]:
        lab = {"ANSIBLE_CONFIG": str(ROOT / "lab" / "ansible.cfg"), "ANSIBLE_INVENTORY": str(labs.state(name) / "inventory")}
        yield Step([labs.COMMAND, "up", "--fresh"], ROOT, env=lab)
        yield Step([labs.COMMAND, "writer", "start"], ROOT, env=lab)
        yield Step([tool("ansible-playbook"), "reduced.footprint.provision_virt"], ROOT, env=lab)
        more = (["--whole"] + ["--resume"] * bool(os.environ.get("RESUME"))) if script in RESUMABLE else []
        yield Step([PYTHON, str(ROOT / "tests" / "torture" / f"migration_{script}.py"), *more], ROOT, env=lab)

    return with_lab(Gate(name, title, steps, TORTURE, inputs=("tests/torture",)))


def _stories(name: str, title: str, of_controllers: bool) -> list[Gate]:
    used = ("extensions", *folders("e2e"))
    found = scenarios(of_controllers)
    return [with_lab(Gate(f"torture-{name}-{each.replace('_', '-')}", title, stories([each]), TORTURE, inputs=used)) for each in found]


def _rounds(name: str, title: str, path: str, *arguments: str, **env: str) -> Gate:
    return with_lab(Gate(f"torture-{name}", title, script(path, arguments, **env), TORTURE, inputs=folders(path.partition("/")[0])))


#: Random pairs and triples of faults with messages, 200 for each topology and release, in parts of less than half an hour.
PARTS, PART = 8, 25


def _consistency(topology: str, title: str, release: str = "", **env: str) -> t.Iterator[Gate]:
    for part in range(PARTS):
        seeds = map(str, range(PART * part + 1, PART * (part + 1) + 1))
        yield _rounds(f"consistency-{release}{topology}-{part + 1}", title, CONSISTENCY, topology, *seeds, "--messages", **env)


LONG = (
    _one("units", "unit tests with random values by the thousand", "tests/unit", env={"HYPOTHESIS_MAX_EXAMPLES": "5000"}),
    *_long("modules", "vm_define killed at each step, crowded, cut off", "torture", "--whole"),
    *_long("model", "a Galera cluster returns, and one server runs a VM: more faults and states", "model", "--whole"),
    *_long("network", "every network manager, cut off and killed", "network", "--whole"),
    *_long("lvm", "VMs on logical volumes", "lvm"),
    *_long("metal", "servers through their management controllers", "metal"),
    *_long("drift", "the whole drift corpus", "drift", "--whole"),
    *_long("move", "a move killed in every phase", "move", "--whole"),
    *_long("migrate", "an old master under UEFI, LVM and xfs", "migrate"),
    *_long("rehearse", "rehearsals of the migration", "rehearse"),
    *_long("source", "a source that loses power in every state", "source", "--whole"),
    *_long("add-server", "from two servers to three, killed at each stage", "add_server", "--whole"),
    *_long("replace", "controllers and a server are replaced: disk destroyed, server lost, killed on the way", "replace"),
    *_long("witness", "two servers and a vote, each of the three lost 7 times", "witness", "--whole"),
    *_long("standby", "copies of a VM killed in each phase, power cuts of its server", "standby", "--whole", env={"STANDBY_CUTS": "20"}),
    *_long("guide", "the guide for the first footprint, literally, on VMs of a cloud image", "guide"),
    *_long("controllers", "every fault of the control plane", "controllers", "--whole"),
    *_long("awx", "the whole flow in jobs of AWX, a new container each", "awx", "--whole"),
    *_long("picture", "a cloud in VMs on two servers: the demo, then every loss, a power cycle, patch day, growth", "picture", "--whole"),
    _matrix("faults", "every fault in every phase of a migration"),
    _matrix("guard", "a VM whose worker is gone"),
    _matrix("kill", "a migration killed at random"),
    _matrix("options", "every combination of the migration's options"),
    *(
        _one(f"cloud-{files[0].replace('_', '-')}", "a cloud: networks, instances, failures", *(f"tests/cloud/test_{file}.py" for file in files))
        for files in CLOUD
    ),
    _rounds("votes", "every fault of two servers and a witness, 3 times", VOTES, "--rounds", "3"),
    *(gate for each in ("witness", "three") for gate in _consistency(each, "25 rounds of faults under transactions and messages")),
    *(gate for each in ("witness", "three") for gate in _consistency(each, "the same with Debian 13", "13-", LAB_RELEASE="trixie")),
    *_stories("stories", "a user story of the control plane", True),
    *_stories("molecule", "a user story of servers and their virtual machines", False),
    *(_one(f"e2e-{number + 1}", "the whole flow, ROUNDS times", "tests/e2e", "--whole") for number in range(int(os.environ.get("ROUNDS", "3")))),
    _one("e2e-trixie", "the whole flow with Debian 13 everywhere", "tests/e2e", "--whole", env={"LAB_RELEASE": "trixie"}),
)
