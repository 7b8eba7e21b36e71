# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prove on two servers with KVM: the test guest, machines under BIOS and UEFI, a live move, a rehearsal of the migration.

    tests/kvm/run INVENTORY [--addresses A,B,C] [--output FOLDER] [--keep] [--emulation]

INVENTORY is a complete inventory, as docs/first-footprint.md describes it, with at least two servers with the role virt. The machines of the
proof are called kvmproof-*; they are removed at the end. --emulation runs the proof on servers without KVM.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t

import kvm_report
from kvm_report import FAILED, PASSED, Step

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CLUSTER = "kvmproof"
BIOS, UEFI, COPY = "kvmproof-bios", "kvmproof-uefi", "kvmproof-master"
# what makes a machine the source of a migration: rsync, and a service to stop
SERVICE = "kvmproof"
_UNIT = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
SOURCE = {
    "package_update": True,
    "packages": ["rsync"],
    "write_files": [{"path": f"/etc/systemd/system/{SERVICE}.service", "content": _UNIT}],
    "runcmd": [["systemctl", "enable", "--now", SERVICE]],
}
_END = 3000


class ProofError(Exception):
    """An error for the user."""


class Servers(t.NamedTuple):
    """The two servers, and three free addresses: those of the machines, and one for the source of the migration."""

    first: str
    second: str
    addresses: tuple[str, str, str]
    bridge: str
    image: str


def choose(inventory: t.Mapping[str, t.Any], addresses: str | None) -> Servers:
    """Return the servers of an inventory (``ansible-inventory --list``).

    :raises ProofError: something is missing in the inventory.
    """
    names = [str(name) for name in inventory.get("virt", {}).get("hosts", ())]
    if len(names) < 2:
        raise ProofError(f"the inventory has {len(names)} servers with the role virt, two are required")
    variables = inventory.get("_meta", {}).get("hostvars", {}).get(names[0], {})
    given = addresses.split(",") if addresses else list(variables.get("kvm_proof_addresses") or ())
    try:
        parsed = [str(ipaddress.IPv4Address(str(one).strip())) for one in given]
    except ValueError as error:
        raise ProofError(f"kvm_proof_addresses: {error}") from error
    if len(set(parsed)) != 3:
        raise ProofError("three free addresses of the admin network are required: --addresses A,B,C, or kvm_proof_addresses in the inventory")
    images = variables.get("virt_guests_images") or ()
    if not images:
        raise ProofError("virt_guests_images of the inventory contains no image; add a cloud image as in docs/first-footprint.md")
    if not variables.get("virt_guests_authorized_keys"):
        raise ProofError("virt_guests_authorized_keys of the inventory is empty; add your public key as in docs/first-footprint.md")
    bridges = variables.get("virt_host_bridges") or ()
    bridge = str(variables.get("kvm_proof_bridge") or (bridges[0]["name"] if bridges else "br-admin"))
    return Servers(names[0], names[1], (parsed[0], parsed[1], parsed[2]), bridge, str(images[0]["name"]))


def machines(servers: Servers, network: t.Mapping[str, t.Any], hypervisor: str, where: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return an inventory file with the machines of the proof.

    :arg network: ``prefix`` and ``gateway`` of the admin network.
    :arg where: machine → its server.
    """

    def machine(name: str, address: str, **more: t.Any) -> dict[str, t.Any]:
        card: dict[str, t.Any] = {"match": {"name": "en*"}, "addresses": [f"{address}/{network['prefix']}"]}
        if network.get("gateway"):
            card.update(routes=[{"to": "0.0.0.0/0", "via": network["gateway"]}], nameservers={"addresses": list(network.get("dns") or [network["gateway"]])})
        return {
            "id": name, "cpu": 2, "ram": 1, "hypervisor": hypervisor, "roles": ["kvmproof"], "nics": [{"bridge": servers.bridge}], "autostart": False,
            "disks": [{"size": "6 GiB", "image": servers.image, "format": "qcow2"}], "address": address, "boot": ["hd"],
            "network_config": {"version": 2, "ethernets": {"admin": card}}, **more,
        }  # fmt: skip

    listed = [
        machine(BIOS, servers.addresses[0], user_data=SOURCE),
        machine(UEFI, servers.addresses[1], boot_firmware="efi"),
    ]
    entries = {name: {"roles": ["virt"], "vms": [vm for vm in listed if where[vm["id"]] == name]} for name in (servers.first, servers.second)}
    return {"plugin": "reduced.footprint.nodes", "cluster": CLUSTER, "address_sources": ["fixed"], "servers": entries}


def migration(servers: Servers) -> dict[str, t.Any]:
    """Return the variables of the rehearsal: the moved machine is the source, the first server the destination."""
    return {
        "master_migrate_source": BIOS,
        "master_migrate_destination": servers.first,
        "master_migrate_name": COPY,
        "master_migrate_cluster": CLUSTER,
        "master_migrate_admin_address": servers.addresses[0],
        "master_migrate_temporary_address": servers.addresses[2],
        "master_migrate_services": [SERVICE],
        "master_migrate_bridge": servers.bridge,
        "master_migrate_ram": 1,
        "master_migrate_disk_size": "8GiB",
        "master_migrate_health_checks": [{"type": "tcp", "port": 22}],
        "master_migrate_stop_after": "rehearse",
    }


class Proof:
    """A run of the proof: its folder, its steps, and what is known so far."""

    def __init__(self, inventory: str, servers: Servers, work: pathlib.Path, emulation: bool = False, echo: t.Callable[[str], None] = print) -> None:
        self.inventory = inventory
        self.servers = servers
        self.work = work
        self.hypervisor = "qemu" if emulation else "kvm"
        self.echo = echo
        self.steps: list[Step] = []
        self.results = work / "results"
        self.results.mkdir(parents=True, exist_ok=True)

    def play(self, playbook: str, *arguments: str, **variables: t.Any) -> None:
        """Run a playbook with both inventories.

        :raises ProofError: it failed, with the end of its output.
        """
        own = self.work / "proof.nodes.yml"
        sources = ["-i", self.inventory, *(["-i", str(own)] if own.exists() else [])]
        names = f"{self.servers.first},{self.servers.second},{BIOS},{UEFI},localhost"
        given = {"proof_results": str(self.results), "proof_hypervisor": self.hypervisor, **variables}
        argv = [_tool("ansible-playbook"), *sources, "--limit", names, playbook, "-e", json.dumps(given), *arguments]
        log = self.work / f"{len(self.steps):02d}-{pathlib.Path(playbook).stem.rpartition('.')[2]}.log"
        with log.open("a", encoding="utf-8") as stream:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=environment(), check=False)
        if done.returncode:
            raise ProofError(log.read_text(encoding="utf-8", errors="replace")[-_END:])

    def result(self, name: str) -> dict[str, t.Any]:
        """Return what the tasks of a play have written."""
        found = {}
        for path in sorted(self.results.glob(f"{name}-*.json")):
            found[path.stem[len(name) + 1 :]] = json.loads(path.read_text(encoding="utf-8"))
        return found

    def place(self, where: t.Mapping[str, str]) -> None:
        """Write the inventory file with the machines."""
        network = self.result("look")[self.servers.first]["network"]
        content = machines(self.servers, network, self.hypervisor, where)
        (self.work / "proof.nodes.yml").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def step(self, name: str, title: str, work: t.Callable[[], dict[str, t.Any]], always: bool = False) -> None:
        """Run one step; after a failure only those that always run."""
        step = Step(name, title)
        self.steps.append(step)
        if not always and any(one.state == FAILED for one in self.steps):
            return
        self.echo(f"{title} ...")
        began = time.monotonic()
        try:
            step.facts = work()
            step.state = PASSED
        except (ProofError, OSError, KeyError, ValueError) as error:
            step.state, step.error = FAILED, str(error) or repr(error)
        step.seconds = round(time.monotonic() - began, 1)
        self.echo(f"{title}: {step.state}, {step.seconds} s")

    def all(self, keep: bool = False) -> None:
        """Run all steps."""
        self.step("provision", "provision both servers", self._provision)
        self.step("kvm", "prove KVM with a test guest", self._kvm)
        self.step("machines", "start a machine under BIOS and one under UEFI", lambda: self._machines({BIOS: self.servers.first, UEFI: self.servers.first}))
        self.step("live", "move a running machine to the other server", self._move)
        self.step("rehearse", "rehearse a migration", self._rehearse)
        if not keep:
            self.step("cleanup", "remove the machines", self._cleanup, always=True)

    def _provision(self) -> dict[str, t.Any]:
        self.play("reduced.footprint.provision_virt")
        self.play(str(HERE / "look.yml"))
        return {name: found["host"] for name, found in self.result("look").items()}

    def _kvm(self) -> dict[str, t.Any]:
        proofs = {name: found["hypervisors"].get(self.hypervisor) or {} for name, found in self.result("look").items()}
        for name, proof in proofs.items():
            if not proof.get("usable"):
                raise ProofError(f"{name}: {self.hypervisor} is not usable: {proof.get('reason', 'it was not tested')}")
        return {name: {"reason": proof.get("reason"), "seconds": proof.get("seconds")} for name, proof in proofs.items()}

    def _machines(self, where: t.Mapping[str, str]) -> dict[str, t.Any]:
        self.place(where)
        self.play(str(HERE / "machines.yml"))
        found = self.result("machine")
        for name, one in found.items():
            if one["virtualization"] != self.hypervisor:
                raise ProofError(f"{name} runs under {one['virtualization']}, not under {self.hypervisor}")
        if sorted(found) != [BIOS, UEFI]:
            raise ProofError(f"only {', '.join(found) or 'no machine'} answered")
        return found

    def _move(self) -> dict[str, t.Any]:
        # the machine of the rehearsal: its copy has to come from another server
        arguments = {"move_vm_id": BIOS, "move_vm_cluster": CLUSTER, "move_vm_source": self.servers.first, "move_vm_destination": self.servers.second}
        self.play(str(HERE / "move.yml"), **arguments)
        moved = self.result("move")[BIOS]
        self.play("reduced.footprint.move_vm", **arguments, move_vm_state="confirmed")
        self.place({BIOS: self.servers.second, UEFI: self.servers.first})
        if moved["method"] != "live":
            raise ProofError(f"the machine was not moved live: {'; '.join(moved['live_blockers'])}")
        return moved

    def _rehearse(self) -> dict[str, t.Any]:
        self.play("reduced.footprint.migrate_master", **migration(self.servers), master_migrate_hypervisor=self.hypervisor)
        self.play(str(HERE / "rehearsed.yml"), proof_name=COPY, proof_server=self.servers.first)
        found = self.result("rehearsal")[COPY]
        if not (found.get("rehearsal") or {}).get("passed"):
            raise ProofError(f"the rehearsal did not pass: {found.get('reason')}")
        return found

    def _cleanup(self) -> dict[str, t.Any]:
        self.play(str(HERE / "cleanup.yml"), proof_cluster=CLUSTER, proof_names=[BIOS, UEFI, COPY])
        return {}


def environment() -> dict[str, str]:
    """Return the environment of Ansible: the installed collection, or this checkout."""
    own = dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="true")
    checkout = ROOT / ".cache" / "collections"
    if checkout.is_dir():
        own.setdefault("ANSIBLE_COLLECTIONS_PATH", str(checkout))
    return own


def _tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(ROOT / ".venv" / "bin"))
    if not found:
        raise ProofError(f"{name} is not installed; activate the virtual environment with ansible-core")
    return found


def read_inventory(path: str) -> dict[str, t.Any]:
    """Return an inventory as ``ansible-inventory`` lists it.

    :raises ProofError: it cannot be read.
    """
    done = subprocess.run([_tool("ansible-inventory"), "-i", path, "--list"], env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProofError(f"cannot read the inventory {path}: {done.stderr.strip()[-_END:]}")
    return json.loads(done.stdout, object_hook=lambda one: one.get("__ansible_unsafe", one))


def about(emulation: bool) -> dict[str, t.Any]:
    """Return when and with what the proof was run."""
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    core = subprocess.run([_tool("ansible-playbook"), "--version"], capture_output=True, text=True, check=False)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "collection": commit.stdout.strip() or "unknown",
        "ansible": (core.stdout.splitlines() or ["unknown"])[0],
        "emulation": emulation,
    }


def main(arguments: t.Sequence[str] | None = None) -> int:
    """Run the proof; 0 if all passed, 1 if a step failed, 2 if it could not start."""
    parser = argparse.ArgumentParser(prog="tests/kvm/run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("inventory", help="file or folder, with two servers of the role virt")
    parser.add_argument("--addresses", help="three free addresses of the admin network, separated by commas (default: kvm_proof_addresses of the inventory)")
    parser.add_argument("--output", default=".", help="folder for the report (default: the current one)")
    parser.add_argument("--keep", action="store_true", help="leave the machines as they are at the end")
    parser.add_argument("--emulation", action="store_true", help="try the proof without KVM; the report states it")
    wanted = parser.parse_args(arguments)
    try:
        servers = choose(read_inventory(wanted.inventory), wanted.addresses)
        facts = about(wanted.emulation)
    except ProofError as error:
        print(f"tests/kvm/run: {error}", file=sys.stderr)
        return 2
    work = pathlib.Path(tempfile.mkdtemp(prefix="kvm-proof-"))
    proof = Proof(os.path.abspath(wanted.inventory), servers, work, wanted.emulation)
    try:
        proof.all(wanted.keep)
    finally:
        names = {servers.first: "server1", servers.second: "server2"}
        report = kvm_report.build(proof.steps, facts, names)
        stamp = facts["date"].replace(":", "").replace("-", "")
        paths = kvm_report.save(report, pathlib.Path(wanted.output), stamp)
        print(f"logs: {work}\nreport: {paths[0]} and {paths[1]}\n{'passed' if report['ok'] else 'FAILED'}")
    return 0 if report["ok"] else 1
