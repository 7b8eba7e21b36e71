# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gates of the repository.

    gates.py --list
    gates.py --suite check           what make check runs
    gates.py --suite test            what make test runs
    gates.py --only units sanity     only these gates
    gates.py --suite torture --resume   without those that passed before, as long as no file has changed

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
import labs
import leftovers
import playbook_tests
import workspace
from engine import ASIDE, BESIDE, Gate, Step, run_all
from labs import with_lab
from record import Record

ROOT, COPY, OUTPUT = workspace.ROOT, workspace.COPY, workspace.OUTPUT
CHECK, TEST, TORTURE = frozenset({"check"}), frozenset({"test"}), frozenset({"torture"})
BOTH = CHECK | TEST
#: Run by name and as part of torture only, because the setup is a complete footprint.
ASKED: frozenset[str] = frozenset()
PYTHON = str(workspace.BIN / "python")
#: Versions that targets may have, oldest first.
TARGET_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
#: For tests that mostly wait; each process has a libvirtd of its own.
TWO = ("--numprocesses=2", "--dist=loadfile")
#: Without the tests that boot bare servers, which take an hour and a half without KVM, and those that install clients from PyPI.
POWER = tuple(f"--ignore=tests/metal/test_{name}.py" for name in ("conformance", "discovery", "install", "ironic"))
#: The scenarios of Molecule in ``make test``. What the others show, other gates of it show too, except for details: torture runs all of them.
STORIES = frozenset(
    {
        "a_cloud_image_becomes_machines",
        "a_virt_node_becomes_an_ordinary_server_again",
        "messages_survive_the_loss_of_a_disk",
        "the_database_comes_back_from_a_backup",
    }
)
#: Checks of the copy use the collection in the copy only.
CHECKED = {"ANSIBLE_COLLECTIONS_PATH": str(workspace.COLLECTIONS)}


def _tool(name: str) -> str:
    return str(workspace.BIN / name)


def _reports(name: str) -> pathlib.Path:
    folder = OUTPUT / "reports" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pytest(name: str, *arguments: str, env: t.Mapping[str, str] | None = None) -> Step:
    reports = _reports(name)
    argv = [PYTHON, "-m", "pytest", f"--junit-xml={reports / 'pytest.xml'}", *arguments]
    search = {"PYTHONPATH": os.pathsep.join([str(workspace.CACHE / "collections"), str(ROOT)])}
    return Step(argv, ROOT, env={**search, **(env or {})}, reports=reports)


def shellcheck() -> t.Iterator[Step]:
    """Run shellcheck; every script is one test."""
    workspace.refresh()
    for name in workspace.shell_scripts():
        yield Step(["shellcheck", "--external-sources", name], COPY)


def yaml_and_ansible() -> t.Iterator[Step]:
    """Run yamllint, and ansible-lint on roles, playbooks, plugins and molecule."""
    workspace.refresh()
    yield Step([_tool("yamllint"), "--strict", "."], COPY)
    argv = [_tool("ansible-lint"), "--offline", "--strict", "--profile", "production"]
    yield Step(argv, COPY, env=CHECKED, expect=[r"Profile 'production' was required, and it passed"])


def _sanity(*arguments: str) -> Step:
    reports = COPY / "tests" / "output" / "junit"
    argv = [_tool("ansible-test"), "sanity", "--venv", "--junit", "--color", "no", *arguments]
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
    yield _pytest("units", "tests/unit", "--numprocesses=auto", "--dist=loadfile")


def quick() -> t.Iterator[Step]:
    """The unit tests with a few random values each; of those that run playbooks, the ones that concern what changed."""
    options = ("--numprocesses=auto", "--dist=loadfile", "--hypothesis-profile=quick")
    yield _pytest("quick", "tests/unit", "-m", "not playbooks", *options)
    if names := playbook_tests.concerned(workspace.changed(os.environ.get("BASE")), ROOT):
        yield _pytest("quick-playbooks", *names, *options)


def changed() -> t.Iterator[Step]:
    """Style of all YAML; ansible-lint, sanity and documentation of what changed, which ``make test`` does with everything."""
    workspace.refresh()
    names = workspace.changed(os.environ.get("BASE"))
    yield Step([_tool("yamllint"), "--strict", "."], COPY)
    ansible = [name for name in names if name.endswith(".yml") and name.startswith(("roles/", "playbooks/", "extensions/", "meta/"))]
    if ansible:
        yield Step([_tool("ansible-lint"), "--offline", "--strict", "--profile", "production", *ansible], COPY, env=CHECKED)
    if sane := [name for name in names if name.endswith((".py", ".sh", ".yml")) and not name.startswith(".")]:
        workspace.place_get_pip()
        argv = [_tool("ansible-test"), "sanity", "--venv", "--color", "no", "--python", workspace.OWN_PYTHON, *sane]
        yield Step(argv, COPY, env={"HOME": str(workspace.HOME)})
    if any(name.startswith(("plugins/", "roles/", "changelogs/")) for name in names):
        yield from docs()


def docs() -> t.Iterator[Step]:
    """Check the documentation of plugins and roles, and the changelog."""
    workspace.refresh()
    yield Step([_tool("antsibull-docs"), "lint-collection-docs", "--plugin-docs", "--skip-rstcheck", "."], COPY, env=CHECKED)
    yield Step([_tool("antsibull-changelog"), "lint"], COPY)


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
    yield Step([_tool("ansible-galaxy"), "collection", "build", "--output-path", str(build)], build / "clone")
    artifacts = sorted(str(path) for path in build.glob("*.tar.gz")) or [str(build / "no-artifact.tar.gz")]
    yield Step([PYTHON, str(ROOT / "tests" / "runner" / "artifact.py"), artifacts[0]], build, expect=[r"^[1-9]\d+ members, 0 refused$"])
    own = workspace.CACHE / "venv-importer" / "bin"
    path = {"PATH": os.pathsep.join([str(own), workspace.search_path()]), "ANSIBLE_COLLECTIONS_PATH": str(build / "none"), "HOME": str(workspace.HOME)}
    path["GALAXY_IMPORTER_CONFIG"] = str(ROOT / "tests" / "runner" / "galaxy-importer.cfg")
    argv = [str(own / "python"), "-m", "galaxy_importer.main", artifacts[0]]
    yield Step(argv, build, env=path, refuse=r"^(WARNING|ERROR|CRITICAL)\b|Traceback")
    place = build / "installed"
    alone = {"ANSIBLE_COLLECTIONS_PATH": str(place)}
    yield Step([_tool("ansible-galaxy"), "collection", "install", "--offline", "--collections-path", str(place), artifacts[0]], build, env=alone)
    example = ROOT / "tests" / "integration" / "targets" / "footprint_plan" / "files" / "cluster.nodes.yml"
    argv = [_tool("ansible-playbook"), "reduced.footprint.plan_placement", "-i", str(example), "-e", "plan_placement_measure=false"]
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
    argv = [_tool("ansible-builder"), "introspect", str(workspace.COLLECTIONS)]
    yield Step(argv, ROOT, expect=[r"lxml.*reduced\.footprint", r"openssh-clients.*reduced\.footprint"])
    for file in sorted((COPY / "awx").glob("execution-environment*.yml")):
        context = workspace.CACHE / "build" / file.stem
        yield Step([_tool("ansible-builder"), "create", "--file", str(file), "--context", str(context)], COPY, expect=[r"Complete!"])


def execution_environment_build() -> t.Iterator[Step]:
    """Build the execution environment that needs no image registry, and show what it contains."""
    yield Step([str(ROOT / "scripts" / "execution-environment")], ROOT, expect=[r"footprint-ee:latest: ansible \[core 2\."])


def integration() -> t.Iterator[Step]:
    """Run every target of tests/integration as one test, with real libvirt."""
    workspace.refresh()
    workspace.place_get_pip()
    targets = sorted(path for path in (COPY / "tests" / "integration" / "targets").glob("*") if (path / "tasks").is_dir() or (path / "runme.sh").is_file())
    for target in targets:
        argv = [_tool("ansible-test"), "integration", "--color", "no", "--allow-destructive", target.name]
        yield Step(argv, COPY, env={"HOME": str(workspace.HOME)})


def _folder(name: str, *arguments: str) -> t.Callable[[], t.Iterator[Step]]:
    """Return the steps of a gate that runs one folder of pytest tests."""

    def steps() -> t.Iterator[Step]:
        yield _pytest(name, f"tests/{name}", *arguments)

    return steps


def canary() -> t.Iterator[Step]:
    """Run the sweep with the ansible-core of the tool chain and with the newest one."""
    yield from cores.alone()
    yield _pytest("canary", "tests/canary", env={"CANARY_NEWEST": str(cores.ALONE / "bin")})


def _cloud() -> t.Iterator[Step]:
    """Run the tests of a cloud. The servers have other roles in each step, so each starts with new ones."""
    single = [(name,) for name in ("cloud_image", "ovn_database", "ovn_chassis", "compute_servers", "volumes")]
    for files in (*single, ("instance", "dashboard", "tempest"), ("control_plane", "control_plane_failures")):
        yield _pytest(f"torture-cloud-{files[0]}", *(f"tests/cloud/test_{file}.py" for file in files))


def _stories(of_controllers: bool, whole: bool = False) -> t.Callable[[], t.Iterator[Step]]:
    """Return the steps of a gate that runs each Molecule scenario as one test: create, converge, idempotence, verify, destroy.

    Scenarios of the control plane use only servers, in a plain inventory.

    :arg whole: also those that are not in ``STORIES``.
    """

    def steps() -> t.Iterator[Step]:
        extensions = ROOT / "extensions"
        for folder in sorted(path.parent for path in extensions.glob("molecule/*/molecule.yml")):
            if not whole and folder.name not in STORIES:
                continue
            plain = folder / "inventory" / "hosts.yml"
            if (plain.is_file() and "controller:" in plain.read_text(encoding="utf-8")) == of_controllers:
                argv = [_tool("molecule"), "test", "--scenario-name", folder.name]
                yield Step(argv, extensions, env={"MOLECULE_EPHEMERAL_DIRECTORY": str(workspace.CACHE / "molecule" / folder.name)})

    return steps


def _long(name: str, title: str, folder: str, *arguments: str, env: t.Mapping[str, str] | None = None) -> Gate:
    """A folder of tests as a part of the torture, with everything in it that takes long."""
    return with_lab(Gate(f"torture-{name}", title, lambda: iter([_pytest(f"torture-{name}", folder, *arguments, env=env)]), TORTURE))


def _matrix(script: str, title: str) -> Gate:
    """A matrix of the migration, on a lab whose server is set up and whose master serves a writer."""
    name = f"torture-{script.replace('_', '-')}"

    def steps() -> t.Iterator[Step]:
        lab = {"ANSIBLE_CONFIG": str(ROOT / "lab" / "ansible.cfg"), "ANSIBLE_INVENTORY": str(labs.state(name) / "inventory")}
        yield Step([labs.COMMAND, "up", "--fresh"], ROOT, env=lab)
        yield Step([labs.COMMAND, "writer", "start"], ROOT, env=lab)
        yield Step([_tool("ansible-playbook"), "reduced.footprint.provision_virt"], ROOT, env=lab)
        more = (["--whole"] + ["--resume"] * bool(os.environ.get("RESUME"))) if script in RESUMABLE else []
        yield Step([PYTHON, str(ROOT / "tests" / "torture" / f"migration_{script}.py"), *more], ROOT, env=lab)

    return with_lab(Gate(name, title, steps, TORTURE))


def _script(path: str, *runs: t.Sequence[str], **env: str) -> t.Callable[[], t.Iterator[Step]]:
    """Return the steps of a matrix that brings up its lab itself: the script once with the arguments of each run."""
    argv = [PYTHON, str(ROOT / "tests" / path)]
    return lambda: (Step([*argv, *arguments, *["--resume"] * bool(os.environ.get("RESUME"))], ROOT, env=env) for arguments in runs or ((),))


def _flows() -> t.Iterator[Step]:
    for number in range(int(os.environ.get("ROUNDS", "3"))):
        yield _pytest(f"torture-e2e-{number + 1}", "tests/e2e", "--whole")


#: Matrices that keep the result of each cell.
RESUMABLE = frozenset({"faults", "options"})
VOTES, CONSISTENCY = "witness/vote_faults.py", "consistency/rounds.py"
HUNDREDS = tuple((topology, "--random=200", "--messages") for topology in ("witness", "three"))
#: Hours, not minutes. Each is a gate, so that a run that was broken off can be resumed with the next one.
LONG = (
    _long("units", "unit tests with random values by the thousand", "tests/unit", env={"HYPOTHESIS_MAX_EXAMPLES": "5000"}),
    _long("modules", "vm_define killed at each step, crowded, cut off", "tests/torture", "--whole"),
    _long("model", "a Galera cluster returns: all states with more faults", "tests/model", "--whole"),
    _long("network", "every network manager, cut off and killed", "tests/network", "--whole"),
    _long("lvm", "VMs on logical volumes", "tests/lvm"),
    _long("metal", "servers through their management controllers", "tests/metal"),
    _long("drift", "the whole drift corpus", "tests/drift", "--whole"),
    _long("move", "a move killed in every phase", "tests/move", "--whole"),
    _long("migrate", "an old master under UEFI, LVM and xfs", "tests/migrate"),
    _long("rehearse", "rehearsals of the migration", "tests/rehearse"),
    _long("source", "a source that loses power in every state", "tests/source", "--whole"),
    _long("add-server", "from two servers to three, killed at each stage", "tests/add_server", "--whole"),
    _long("replace", "controllers and a server are replaced: disk destroyed, server lost, killed on the way", "tests/replace"),
    _long("witness", "two servers and a vote, each of the three lost 7 times", "tests/witness", "--whole"),
    _long("standby", "copies of a VM killed in each phase, power cuts of its server", "tests/standby", "--whole", env={"STANDBY_CUTS": "20"}),
    _long("guide", "the guide for the first footprint, literally, on VMs of a cloud image", "tests/guide"),
    _long("controllers", "every fault of the control plane", "tests/controllers", "--whole"),
    _long("awx", "the whole flow in jobs of AWX, a new container each", "tests/awx", "--whole"),
    _matrix("faults", "every fault in every phase of a migration"),
    _matrix("guard", "a VM whose worker is gone"),
    _matrix("kill", "a migration killed at random"),
    _matrix("options", "every combination of the migration's options"),
    with_lab(Gate("torture-cloud", "a cloud: networks, instances, each failure of three controllers under clients", _cloud, TORTURE)),
    with_lab(Gate("torture-votes", "every fault of two servers and a witness, 3 times", _script(VOTES, ("--rounds", "3")), TORTURE)),
    with_lab(Gate("torture-consistency", "hundreds of faults in pairs and triples under transactions", _script(CONSISTENCY, *HUNDREDS), TORTURE)),
    with_lab(Gate("torture-consistency-13", "the same with Debian 13", _script(CONSISTENCY, *HUNDREDS, LAB_RELEASE="trixie"), TORTURE)),
    with_lab(Gate("torture-stories", "all user stories of the control plane", _stories(True, whole=True), TORTURE)),
    with_lab(Gate("torture-molecule", "all user stories of servers and their virtual machines", _stories(False, whole=True), TORTURE)),
    with_lab(Gate("torture-e2e", "the whole flow, ROUNDS times", _flows, TORTURE)),
    _long("e2e-trixie", "the whole flow with Debian 13 everywhere", "tests/e2e", "--whole", env={"LAB_RELEASE": "trixie"}),
)


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
    Gate("awx", "jobs as AWX runs them: frozen inventory, lost files, flat variables", _folder("awx"), TEST, lane=ASIDE),
    Gate("model", "a Galera cluster returns after faults: all states are explored", _folder("model"), TEST, lane=ASIDE),
    Gate("storage", "volumes and seeds on real libvirt, with real guests and real block devices", _folder("storage", *TWO), TEST),
    Gate("templates", "templates on real libvirt: invalid ones, golden ones, UEFI, screens", _folder("templates"), TEST),
    Gate("drift", "changes made by others on real libvirt are detected and corrected, nothing else is changed", _folder("drift"), TEST),
    Gate("hardening", "vm_define killed, run concurrently, disconnected, with hostile input (partly)", _folder("torture/vm_define"), TEST),
    Gate("canary", "a canary in every secret input is in no output, log, command line or file", canary, TEST),
    Gate("network", "networks changed on servers under QEMU, over the NIC that is changed", _folder("network"), TEST),
    Gate("lvm", "VMs on logical volumes of a server under QEMU with its own kernel", _folder("lvm"), ASKED),
    Gate("metal", "servers and VMs through a Redfish service: power, boot devices, accounts, secrets", _folder("metal", *POWER), TEST),
    Gate("integration", "modules against real libvirt", integration, TEST, lane=ASIDE),
    with_lab(Gate("move", "VMs are moved between two servers, live and copied, with kills", _folder("move"), TEST)),
    with_lab(Gate("source", "a source is quiesced, parked and returned, with failures of every part", _folder("source"), TEST)),
    with_lab(Gate("lab", "the lab is started and removed completely", _folder("lab"), TEST)),
    with_lab(Gate("stories", "user stories of the control plane", _stories(True), TEST)),
    with_lab(Gate("add_server", "a third server is added while a client writes: killed, completed, no row lost", _folder("add_server"), ASKED)),
    with_lab(Gate("replace", "controllers and a server are replaced while a client writes: lost, killed, completed", _folder("replace"), ASKED)),
    with_lab(Gate("controllers", "a control plane on three servers: stopped, killed, cut off, restored", _folder("controllers"), ASKED)),
    with_lab(Gate("witness", "two servers and a vote: each of the three is lost while a client writes", _folder("witness"), ASKED)),
    with_lab(Gate("standby", "a VM is copied to another server and started there after its server was lost", _folder("standby"), ASKED)),
    with_lab(Gate("votes", "every fault of two servers and a witness under clients of the database and of the broker", _script(VOTES), ASKED)),
    with_lab(Gate("consistency", "all that was acknowledged is there after pairs of faults; SEED=ROUND repeats one", _script(CONSISTENCY, ("witness",)), TEST)),
    with_lab(Gate("migrate", "an old master with UEFI, LVM and xfs is migrated into a VM", _folder("migrate"), ASKED)),
    with_lab(Gate("rehearse", "rehearsals of the master's copy: successful, failing, killed, repeated", _folder("rehearse"), ASKED)),
    with_lab(Gate("guide", "the guide for the first footprint, literally, on VMs of a cloud image", _folder("guide"), ASKED)),
    with_lab(Gate("e2e", "the complete flow", _folder("e2e"), TEST, lane=BESIDE)),
    with_lab(Gate("molecule", "user stories of servers and their virtual machines", _stories(False), TEST, lane=BESIDE)),
    *LONG,
)


def main(arguments: t.Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--suite", choices=("check", "test", "torture"), default="test", help="which gates to run")
    parser.add_argument("--only", nargs="+", metavar="GATE", choices=[gate.name for gate in GATES], help="run only these gates")
    parser.add_argument("--resume", action="store_true", help="do not repeat gates and cells of matrices that passed with the same code")
    parser.add_argument("--list", action="store_true", help="list the gates")
    wanted = parser.parse_args(arguments)
    if wanted.list:
        for gate in GATES:
            print(f"{gate.name:19} {gate.title} ({', '.join(sorted(gate.suites)) or 'by name, and in torture'})")
        return 0
    chosen = [gate for gate in GATES if (gate.name in wanted.only if wanted.only else wanted.suite in gate.suites)]
    os.environ.update(workspace.environment(), **({"RESUME": "1"} if wanted.resume else {}))
    with leftovers.run():
        return run_all(chosen, OUTPUT, Record(OUTPUT / "passed.json", workspace.code_state(), wanted.resume))


if __name__ == "__main__":
    sys.exit(main())
