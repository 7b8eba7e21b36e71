# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gates of the repository.

    gates.py --list
    gates.py --suite check           what make check runs
    gates.py --suite test            what make test runs
    gates.py --only units sanity     only these gates; torture-move means all gates whose names begin so
    gates.py --suite torture --resume   without those that passed before with the same inputs
    gates.py --evidence              also record what passes in tests/evidence.json, from a clean checkout

Gates of ``--suite test`` that took minutes are reused from this record if their inputs and the class of the machine are the same. Then one long gate
runs, the one whose inputs changed most since it was recorded, if it ends in time. EVIDENCE=GATE chooses another one, EVIDENCE=none reuses
nothing and adds nothing.

After a failure the other gates still run. Gates of the lanes ``beside`` and ``aside`` run in parallel to the others and are shown when
they end; all others run in the order of the list. The last line is the total count; the exit code is zero only if nothing failed. Logs
and JUnit reports are kept in tests/output.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import sys
import typing as t

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "support")]

import cores
import evidence
import evidence_pages
import leftovers
import playbook_tests
import workspace
from engine import ASIDE, BESIDE, Extra, Gate, Step, run_all
from labs import with_lab
from long_gates import CONSISTENCY, LONG, TORTURE, VOTES
from steps import PYTHON, STORIES, folder, pytest, scenarios, script, stories, tool

ROOT, COPY, OUTPUT = workspace.ROOT, workspace.COPY, workspace.OUTPUT
CHECK, TEST = frozenset({"check"}), frozenset({"test"})
BOTH = CHECK | TEST
#: Run by name and as part of torture only, because the setup is a complete footprint.
ASKED: frozenset[str] = frozenset()
#: Versions that targets may have, oldest first.
TARGET_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
#: For tests that mostly wait; each process has a libvirtd of its own.
TWO = ("--numprocesses=2", "--dist=loadfile")
#: Without the tests that boot bare servers, which take an hour and a half without KVM, and those that install clients from PyPI.
POWER = tuple(f"--ignore=tests/metal/test_{name}.py" for name in ("conformance", "discovery", "install", "ironic"))
#: What user stories depend on besides the product.
FLOW = ("extensions", *evidence.folders("e2e"))
#: Checks of the copy use the collection in the copy only.
CHECKED = {"ANSIBLE_COLLECTIONS_PATH": str(workspace.COLLECTIONS)}


def shellcheck() -> t.Iterator[Step]:
    """Run shellcheck; every script is one test."""
    workspace.refresh()
    for name in workspace.shell_scripts():
        yield Step(["shellcheck", "--external-sources", name], COPY)


def yaml_and_ansible() -> t.Iterator[Step]:
    """Run yamllint, and ansible-lint on roles, playbooks, plugins and molecule."""
    workspace.refresh()
    yield Step([tool("yamllint"), "--strict", "."], COPY)
    argv = [tool("ansible-lint"), "--offline", "--strict", "--profile", "production"]
    yield Step(argv, COPY, env=CHECKED, expect=[r"Profile 'production' was required, and it passed"])


def _sanity(*arguments: str) -> Step:
    reports = COPY / "tests" / "output" / "junit"
    argv = [tool("ansible-test"), "sanity", "--venv", "--junit", "--color", "no", *arguments]
    # ansible-test's integration tests write their reports to the same folder, possibly at the same time
    return Step(argv, COPY, env={"HOME": str(workspace.HOME)}, reports=reports, report_names="ansible-test-sanity-*.xml")


def sanity() -> t.Iterator[Step]:
    """Run ansible-test sanity without an ignore file; compile and import what targets run with their oldest and newest Python that is here."""
    workspace.refresh()
    workspace.place_get_pip()
    # "default" would still compile and import on every Python
    yield _sanity("--python", workspace.OWN_PYTHON)
    for version in workspace.edges(TARGET_PYTHONS):
        yield _sanity("--python", version, "--test", "compile", "--test", "import")


def sanity_everywhere() -> t.Iterator[Step]:
    """Run ansible-test sanity without an ignore file, on every Python of this machine."""
    workspace.refresh()
    workspace.place_get_pip()
    yield _sanity()


def units() -> t.Iterator[Step]:
    """Run all unit tests."""
    yield pytest("units", "tests/unit", "--numprocesses=auto", "--dist=loadfile")


def quick() -> t.Iterator[Step]:
    """The unit tests with a few random values each; of those that run playbooks, the ones that concern what changed."""
    options = ("--numprocesses=auto", "--dist=loadfile", "--hypothesis-profile=quick")
    yield pytest("quick", "tests/unit", "-m", "not playbooks", *options)
    if names := playbook_tests.concerned(workspace.changed(os.environ.get("BASE")), ROOT):
        yield pytest("quick-playbooks", *names, *options)


def changed() -> t.Iterator[Step]:
    """Style of all YAML; ansible-lint, sanity and documentation of what changed, which ``make test`` does with everything."""
    workspace.refresh()
    names = workspace.changed(os.environ.get("BASE"))
    yield Step([tool("yamllint"), "--strict", "."], COPY)
    ansible = [name for name in names if name.endswith(".yml") and name.startswith(("roles/", "playbooks/", "extensions/", "meta/"))]
    if ansible:
        yield Step([tool("ansible-lint"), "--offline", "--strict", "--profile", "production", *ansible], COPY, env=CHECKED)
    if sane := [name for name in names if name.endswith((".py", ".sh", ".yml")) and not name.startswith(".")]:
        workspace.place_get_pip()
        argv = [tool("ansible-test"), "sanity", "--venv", "--color", "no", "--python", workspace.OWN_PYTHON, *sane]
        yield Step(argv, COPY, env={"HOME": str(workspace.HOME)})
    if any(name.startswith(("plugins/", "roles/", "changelogs/")) for name in names):
        yield from docs()


def docs() -> t.Iterator[Step]:
    """Check the documentation of plugins and roles, and the changelog."""
    workspace.refresh()
    yield Step([tool("antsibull-docs"), "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", "."], COPY, env=CHECKED)
    yield Step([tool("antsibull-changelog"), "lint"], COPY)


def site() -> t.Iterator[Step]:
    """Build the documentation site, with warnings as errors and without network."""
    workspace.refresh()
    offline = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    argv = [PYTHON, str(COPY / "docs" / "docsite" / "build.py"), str(workspace.CACHE / "site")]
    yield Step(argv, COPY, env={**CHECKED, **offline}, expect=[r"^\d+ pages, "], refuse=r"\bWARNING\b|Traceback")


def artifact() -> t.Iterator[Step]:
    """Build the artifact from a fresh clone, import it as Galaxy does, install it into an empty folder and run it from there."""
    build = workspace.CACHE / "build"
    shutil.rmtree(build, ignore_errors=True)
    workspace.clone(build / "clone")
    yield Step([tool("ansible-galaxy"), "collection", "build", "--output-path", str(build)], build / "clone")
    artifacts = sorted(str(path) for path in build.glob("*.tar.gz")) or [str(build / "no-artifact.tar.gz")]
    yield Step([PYTHON, str(ROOT / "tests" / "runner" / "artifact.py"), artifacts[0]], build, expect=[r"^[1-9]\d+ members, 0 refused$"])
    own = workspace.CACHE / "venv-importer" / "bin"
    path = {"PATH": os.pathsep.join([str(own), workspace.search_path()]), "ANSIBLE_COLLECTIONS_PATH": str(build / "none"), "HOME": str(workspace.HOME)}
    path["GALAXY_IMPORTER_CONFIG"] = str(ROOT / "tests" / "runner" / "galaxy-importer.cfg")
    argv = [str(own / "python"), "-m", "galaxy_importer.main", artifacts[0]]
    yield Step(argv, build, env=path, refuse=r"^(WARNING|ERROR|CRITICAL)\b|Traceback")
    place = build / "installed"
    alone = {"ANSIBLE_COLLECTIONS_PATH": str(place)}
    yield Step([tool("ansible-galaxy"), "collection", "install", "--offline", "--collections-path", str(place), artifacts[0]], build, env=alone)
    example = ROOT / "tests" / "integration" / "targets" / "footprint_plan" / "files" / "cluster.nodes.yml"
    argv = [tool("ansible-playbook"), "reduced.footprint.plan_placement", "-i", str(example), "-e", "plan_placement_measure=false"]
    yield Step(argv, place, env=alone, expect=[r"failed=0"], refuse=r"^\[WARNING\]")


def newest_core() -> t.Iterator[Step]:
    """Test with the newest ansible-core for which there is a Python, as it is published."""
    yield from cores.build(workspace.CACHE / "build-cores")
    yield from cores.steps(cores.newest(), workspace.CACHE / "build-cores", sanity=False)


def all_cores() -> t.Iterator[Step]:
    """Test with every supported ansible-core, with the tests of ansible-test that depend on it."""
    yield from cores.build(workspace.CACHE / "build-cores")
    for core in cores.CORES:
        yield from cores.steps(core, workspace.CACHE / "build-cores", sanity=True)


def execution_environment() -> t.Iterator[Step]:
    """Check the definitions of execution environments for AWX, and that ansible-builder finds the collection's requirements."""
    workspace.refresh()
    argv = [tool("ansible-builder"), "introspect", str(workspace.COLLECTIONS)]
    yield Step(argv, ROOT, expect=[r"lxml.*reduced\.footprint", r"openssh-clients.*reduced\.footprint"])
    for file in sorted((COPY / "awx").glob("execution-environment*.yml")):
        context = workspace.CACHE / "build" / file.stem
        yield Step([tool("ansible-builder"), "create", "--file", str(file), "--context", str(context)], COPY, expect=[r"Complete!"])


def execution_environment_build() -> t.Iterator[Step]:
    """Build the execution environment that needs no image registry, and show what it contains."""
    yield Step([str(ROOT / "scripts" / "execution-environment")], ROOT, expect=[r"footprint-ee:latest: ansible \[core 2\."])


def integration() -> t.Iterator[Step]:
    """Run every target of tests/integration as one test, with real libvirt."""
    workspace.refresh()
    workspace.place_get_pip()
    targets = sorted(path for path in (COPY / "tests" / "integration" / "targets").glob("*") if (path / "tasks").is_dir() or (path / "runme.sh").is_file())
    for target in targets:
        argv = [tool("ansible-test"), "integration", "--color", "no", "--allow-destructive", target.name]
        yield Step(argv, COPY, env={"HOME": str(workspace.HOME)})


def canary() -> t.Iterator[Step]:
    """Run the sweep with the ansible-core of the tool chain and with the newest one."""
    yield from cores.alone()
    yield pytest("canary", "tests/canary", env={"CANARY_NEWEST": str(cores.ALONE / "bin")})


GATES = (
    Gate("quick", "unit tests with a few random values each, layers and conventions", quick, CHECK),
    Gate("changed", "static checks of what changed since BASE", changed, CHECK, lane=BESIDE),
    Gate("units", "unit tests, layers and conventions", units, TEST),
    Gate("shellcheck", "shell scripts", shellcheck, BOTH, lane=ASIDE),
    Gate("lint", "yamllint and ansible-lint, profile production", yaml_and_ansible, TEST, lane=ASIDE),
    Gate("sanity", "ansible-test sanity without an ignore file", sanity, TEST, lane=ASIDE),
    Gate("sanity-all", "ansible-test sanity on every Python of this machine", sanity_everywhere, TORTURE),
    Gate("docs", "documentation and changelog", docs, TEST, lane=ASIDE),
    Gate("site", "the documentation site is built without warning or network", site, TEST, lane=ASIDE),
    Gate("artifact", "build from a fresh clone, galaxy-importer, install and run", artifact, TEST, lane=ASIDE),
    Gate("cores", "the newest ansible-core: plugins, every playbook, a run of the artifact", newest_core, TEST, lane=ASIDE),
    Gate("torture-cores", "ansible-core 2.19, 2.20 and 2.21: plugins, every playbook, a run of the artifact, sanity", all_cores, TORTURE),
    Gate("ee", "execution environments: definitions and requirements", execution_environment, TEST, lane=ASIDE),
    Gate("ee-build", "the execution environment on Debian is built", execution_environment_build, TORTURE),
    Gate("awx", "jobs as AWX runs them: frozen inventory, lost files, flat variables", folder("awx"), TEST, lane=ASIDE),
    Gate("model", "a Galera cluster returns, and one server runs a VM, after faults: states are explored", folder("model"), TEST, lane=ASIDE),
    Gate("storage", "volumes and seeds on real libvirt, with real guests and real block devices", folder("storage", *TWO), TEST),
    Gate("templates", "templates on real libvirt: invalid ones, golden ones, UEFI, screens", folder("templates"), TEST),
    Gate("drift", "changes made by others on real libvirt are detected and corrected, nothing else is changed", folder("drift"), TEST),
    Gate(
        "hardening",
        "vm_define killed, run concurrently, disconnected, with hostile input (partly)",
        folder("torture/vm_define"),
        TEST,
        inputs=evidence.folders("torture"),
    ),
    Gate("canary", "a canary in every secret input is in no output, log, command line or file", canary, TEST),
    Gate("network", "networks changed on servers under QEMU, over the NIC that is changed", folder("network"), TEST),
    Gate("lvm", "VMs on logical volumes of a server under QEMU with its own kernel", folder("lvm"), ASKED),
    Gate("metal", "servers and VMs through a Redfish service: power, boot devices, accounts, secrets", folder("metal", *POWER), TEST),
    Gate("integration", "modules against real libvirt", integration, TEST, lane=ASIDE),
    with_lab(Gate("move", "VMs are moved between two servers, live and copied, with kills", folder("move"), TEST)),
    with_lab(Gate("source", "a source is quiesced, parked and returned, with failures of every part", folder("source"), TEST)),
    with_lab(Gate("lab", "the lab is started and removed completely", folder("lab"), TEST)),
    with_lab(Gate("stories", "user stories of the control plane", stories(sorted(STORIES & set(scenarios(True)))), TEST, inputs=FLOW)),
    with_lab(Gate("add_server", "a third server is added while a client writes: killed, completed, no row lost", folder("add_server"), ASKED)),
    with_lab(Gate("replace", "controllers and a server are replaced while a client writes: lost, killed, completed", folder("replace"), ASKED)),
    with_lab(Gate("controllers", "a control plane on three servers: stopped, killed, cut off, restored", folder("controllers"), ASKED)),
    with_lab(Gate("witness", "two servers and a vote: each of the three is lost while a client writes", folder("witness"), ASKED)),
    with_lab(Gate("standby", "a VM is copied to another server and started there after its server was lost", folder("standby"), ASKED)),
    with_lab(
        Gate(
            "votes",
            "every fault of two servers and a witness under clients of the database and of the broker",
            script(VOTES),
            ASKED,
            inputs=evidence.folders("witness"),
        )
    ),
    with_lab(Gate("consistency", "all that was acknowledged is there after pairs of faults; SEED=ROUND repeats one", script(CONSISTENCY, ("witness",)), TEST)),
    with_lab(Gate("migrate", "an old master with UEFI, LVM and xfs is migrated into a VM", folder("migrate"), ASKED)),
    with_lab(Gate("rehearse", "rehearsals of the master's copy: successful, failing, killed, repeated", folder("rehearse"), ASKED)),
    with_lab(Gate("guide", "the guide for the first footprint, literally, on VMs of a cloud image", folder("guide"), ASKED)),
    with_lab(Gate("picture", "a cloud's controller in a VM of its compute server, beside an instance", folder("picture"), TEST)),
    with_lab(Gate("e2e", "the complete flow", folder("e2e"), TEST, lane=BESIDE)),
    with_lab(
        Gate("molecule", "user stories of servers and their virtual machines", stories(sorted(STORIES & set(scenarios(False)))), TEST, lane=BESIDE, inputs=FLOW)
    ),
    *LONG,
)


#: Gates that the pages list: all but parts of others.
SHOWN = tuple(gate for gate in GATES if gate.suites & (TEST | TORTURE))


def _chosen(names: t.Sequence[str]) -> list[Gate]:
    """Return the gates with these names, or whose names begin with one of them and a hyphen.

    :raises ValueError: a name fits no gate.
    """
    found = [[gate for gate in GATES if gate.name == name] or [gate for gate in GATES if gate.name.startswith(f"{name}-")] for name in names]
    if not all(found):
        raise ValueError(f"no gate is named {names[found.index([])]}; --list shows them")
    wanted = {gate.name for gates in found for gate in gates}
    return [gate for gate in GATES if gate.name in wanted]


def main(arguments: t.Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", choices=("check", "test", "torture"), default="test", help="which gates to run")
    parser.add_argument("--only", nargs="+", metavar="GATE", help="run only these gates")
    parser.add_argument("--resume", action="store_true", help="do not repeat gates and cells of matrices that passed with the same inputs")
    parser.add_argument("--evidence", action="store_true", help="record what passes in tests/evidence.json, and update the pages that show it")
    parser.add_argument("--pages", action="store_true", help="only update these pages")
    parser.add_argument("--list", action="store_true", help="list the gates")
    wanted = parser.parse_args(arguments)
    if wanted.pages:
        evidence_pages.write(SHOWN)
        return 0
    if wanted.list:
        for gate in GATES:
            print(f"{gate.name:19} {gate.title} ({', '.join(sorted(gate.suites)) or 'by name, and in torture'})")
        return 0
    extra = os.environ.get("EVIDENCE", "")
    routine = wanted.suite == "test" and not wanted.only
    try:
        chosen = _chosen(wanted.only) if wanted.only else [gate for gate in GATES if wanted.suite in gate.suites]
        named = _chosen([extra]) if routine and extra not in ("", "none") else []
    except ValueError as error:
        parser.error(str(error))
    os.environ.update(workspace.environment(), **({"RESUME": "1"} if wanted.resume else {}))
    listed = SHOWN if routine or wanted.suite == "torture" and not wanted.only else ()
    kept = evidence.Evidence(OUTPUT / "passed.json", gates=listed, resume=wanted.resume, reuse=routine and extra != "none", write=wanted.evidence)
    longer = None
    if named:
        longer = Extra(lambda _elapsed: named[0])
    elif routine and not extra:
        longer = Extra(lambda elapsed: kept.stalest(LONG, elapsed), evidence.LIMIT)
    with leftovers.run():
        code = run_all(chosen, OUTPUT, kept, longer)
    if kept.written:
        evidence_pages.write(SHOWN)
    return code


if __name__ == "__main__":
    sys.exit(main())
