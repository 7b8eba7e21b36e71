# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof on servers with KVM, as far as it can be tested without them: its inventory, its order, its report."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "kvm"))

import kvm_proof  # noqa: E402
import kvm_report  # noqa: E402
from kvm_proof import BIOS, COPY, UEFI  # noqa: E402

from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory  # noqa: E402

VARIABLES = {
    "virt_guests_images": [{"name": "debian-12"}],
    "virt_guests_authorized_keys": ["ssh-ed25519 AAAA"],
    "virt_host_bridges": [{"name": "br-lan", "port": "eno1"}],
    "kvm_proof_addresses": ["192.0.2.31", "192.0.2.32", "192.0.2.33"],
}
INVENTORY = {"virt": {"hosts": ["a", "b", "c"]}, "_meta": {"hostvars": {"a": VARIABLES}}}
SERVERS = kvm_proof.Servers("a", "b", ("192.0.2.31", "192.0.2.32", "192.0.2.33"), "br-lan", "debian-12")
NETWORK = {"prefix": "24", "gateway": "192.0.2.1"}


def test_servers_come_from_the_inventory() -> None:
    assert kvm_proof.choose(INVENTORY, None) == SERVERS
    assert kvm_proof.choose(INVENTORY, "192.0.2.41, 192.0.2.42,192.0.2.43").addresses == ("192.0.2.41", "192.0.2.42", "192.0.2.43")


@pytest.mark.parametrize(
    ("change", "addresses", "message"),
    [
        ({}, "192.0.2.41", "three free addresses"),
        ({}, "192.0.2.41,192.0.2.41,192.0.2.42", "three free addresses"),
        ({}, "192.0.2.41,x,192.0.2.42", "kvm_proof_addresses: .*x"),
        ({"kvm_proof_addresses": None}, None, "three free addresses"),
        ({"virt_guests_images": []}, None, "virt_guests_images"),
        ({"virt_guests_authorized_keys": []}, None, "virt_guests_authorized_keys"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, t.Any], addresses: str | None, message: str) -> None:
    inventory = {**INVENTORY, "_meta": {"hostvars": {"a": {**VARIABLES, **change}}}}
    with pytest.raises(kvm_proof.ProofError, match=message):
        kvm_proof.choose(inventory, addresses)


def test_one_server_is_not_enough() -> None:
    with pytest.raises(kvm_proof.ProofError, match="1 servers with the role virt, two are required"):
        kvm_proof.choose({"virt": {"hosts": ["a"]}}, None)


def test_the_machines_are_valid_details() -> None:
    content = json.loads(json.dumps(kvm_proof.machines(SERVERS, NETWORK, "kvm", {BIOS: "b", UEFI: "a"})))
    servers = run_inventory.parse_servers(content["servers"])
    plan = run_inventory.parse(content["cluster"], servers)
    found = {machine.vm.name: machine for machine in plan.machines}
    assert {name: (one.server.name, one.vm.address, one.vm.boot_firmware) for name, one in found.items()} == {
        BIOS: ("b", "192.0.2.31", None), UEFI: ("a", "192.0.2.32", "efi"),
    }  # fmt: skip
    assert all(one.vm.hypervisor == "kvm" and one.vm.autostart is False for one in found.values())


def test_the_rehearsal_uses_variables_that_exist() -> None:
    options = yaml.safe_load((ROOT / "roles/master_migrate/meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
    own = kvm_proof.migration(SERVERS)
    assert set(own) - set(options) <= {"master_migrate_source", "master_migrate_destination"}
    assert (own["master_migrate_source"], own["master_migrate_destination"], own["master_migrate_name"]) == (BIOS, "a", COPY)


class Played(kvm_proof.Proof):
    """A proof without servers: each play writes what its tasks would."""

    def __init__(self, work: pathlib.Path, fails: str = "", kvm: bool = True, method: str = "live", passed: bool = True, emulation: bool = False) -> None:
        super().__init__("inventory", SERVERS, work, emulation, echo=lambda text: None)
        self.fails, self.kvm, self.method, self.passed = fails, kvm, method, passed
        self.plays: list[str] = []

    def play(self, playbook: str, *arguments: str, **variables: t.Any) -> None:
        name = pathlib.Path(playbook).stem.removeprefix("reduced.footprint.").removeprefix("reduced.") if "/" in playbook else playbook.rpartition(".")[2]
        self.plays.append(name)
        if name == self.fails:
            raise kvm_proof.ProofError("fatal: [a]: 192.0.2.31 is unreachable")
        if name == "look":
            proof = {"usable": self.kvm, "reason": "a guest ran in 64-bit long mode", "seconds": 1.5}
            for server in ("a", "b"):
                self._keep(f"look-{server}", {"host": {"cpu": "x"}, "network": NETWORK, "hypervisors": {"kvm": proof, "qemu": {**proof, "usable": True}}})
        elif name == "machines":
            for machine in (BIOS, UEFI):
                self._keep(f"machine-{machine}", {"virtualization": self.hypervisor})
        elif name == "move":
            self._keep(f"move-{BIOS}", {"method": self.method, "live_blockers": ["another CPU"], "downtime_seconds": 0.2})
        elif name == "rehearsed":
            self._keep(f"rehearsal-{COPY}", {"rehearsal": {"passed": self.passed}, "reason": "tcp 22: refused"})

    def _keep(self, name: str, value: dict[str, t.Any]) -> None:
        (self.results / f"{name}.json").write_text(json.dumps(value))


def test_all_steps_pass(tmp_path: pathlib.Path) -> None:
    proof = Played(tmp_path)
    proof.all()
    assert [(step.name, step.state) for step in proof.steps] == [
        (name, "passed") for name in ("provision", "kvm", "machines", "live", "rehearse", "cleanup")
    ]
    assert proof.plays == ["provision_virt", "look", "machines", "move", "move_vm", "migrate_master", "rehearsed", "cleanup"]
    # after the move the inventory has the machine on the other server
    servers = json.loads((tmp_path / "proof.nodes.yml").read_text())["servers"]
    assert [vm["id"] for vm in servers["b"]["vms"]] == [BIOS]


@pytest.mark.parametrize(
    ("broken", "failed", "message"),
    [
        ({"kvm": False}, "kvm", "a: kvm is not usable: a guest ran"),
        ({"fails": "machines"}, "machines", "unreachable"),
        ({"method": "copy"}, "live", "not moved live: another CPU"),
        ({"passed": False}, "rehearse", "tcp 22: refused"),
        ({"fails": "cleanup"}, "cleanup", "unreachable"),
    ],
)
def test_a_failure_ends_the_proof_and_the_machines_are_removed(broken: dict[str, t.Any], failed: str, message: str, tmp_path: pathlib.Path) -> None:
    proof = Played(tmp_path, **broken)
    proof.all()
    states = {step.name: step.state for step in proof.steps}
    assert [name for name, state in states.items() if state == "failed"] == [failed]
    assert message in next(step.error or "" for step in proof.steps if step.name == failed)
    after = list(states)[list(states).index(failed) + 1 :]
    assert all(states[name] == ("passed" if name == "cleanup" else "not run") for name in after)
    assert "cleanup" in proof.plays and not kvm_report.build(proof.steps, {}, {})["ok"]


def test_emulation_is_stated(tmp_path: pathlib.Path) -> None:
    proof = Played(tmp_path, kvm=False, emulation=True)
    proof.all()
    report = kvm_report.build(proof.steps, {"emulation": True}, {})
    assert report["ok"] and "proves nothing about KVM" in kvm_report.markdown(report)


def test_the_report_names_no_server(tmp_path: pathlib.Path) -> None:
    steps = [
        kvm_report.Step("one", "First step", "passed", 1.5, {"metal1": {"cpu": "x", "usable": True}, "none": None}),
        kvm_report.Step("two", "Second step", "failed", 0.1, {}, "fatal: [metal1]: 192.0.2.31 52:54:00:aa:bb:cc metal10 ```"),
    ]
    report = kvm_report.build(steps, {"date": "2026-01-02T03:04:05Z", "ansible": "2.19.14"}, {"metal1": "server1", "metal10": "server2"})
    paths = kvm_report.save(report, tmp_path / "out", "stamp")
    for path in paths:
        text = path.read_text()
        assert "metal1" not in text and "192.0.2" not in text and "52:54" not in text
        assert "server1" in text and "server2" in text and "2.19.14" in text
    assert json.loads(paths[0].read_text()) == report and report["schema"] == 1 and not report["ok"]
    page = paths[1].read_text()
    assert page.startswith("# KVM proof: FAILED") and "| First step | passed | 1.5 |" in page and "usable yes" in page


def test_an_inventory_that_cannot_be_read_is_an_error(tmp_path: pathlib.Path) -> None:
    done = subprocess.run([str(ROOT / "tests/kvm/run"), str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tests/kvm/run: ") and "Traceback" not in done.stderr
