# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The complete flow on the lab, once, with failures in between.

Chapters run in order on one lab. Each stage is fed a bad input, tried in check mode, killed with kill -9 in the
middle, completed by the next run, and run again without a change.
"""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import ansible_runner
import pytest
from rflab.plays import environment
from support import REPOSITORY, Lab, eventually

pytestmark = pytest.mark.chapter


def test_expert_gate_explains_the_refusal(lab: Lab) -> None:
    for playbook in (
        *("provision_virt", "spawn_vms", "deploy_controllers", "migrate_master", "rollback_master", "site"),
        *("backup_database", "recover_database", "restore_database", "rotate_keys", "remove_virt_node"),
    ):
        # a name that is missing is reported before the gate is asked
        name = ("-e", "remove_virt_node_name=metal1") if playbook == "remove_virt_node" else ()
        lab.fails(playbook, "-e", "expert_mode=false", *name, words=["PERFORMANCE", "ISOLATION", "AVAILABILITY", "expert_mode"])


# Provision


@pytest.mark.parametrize(
    "vms, words",
    [
        ([{"id": "a", "cpu": 1, "ram": -1}], ["vms[0].ram"]),
        ([{"id": "a", "cpu": 1, "ram": 1}, {"id": "a", "cpu": 1, "ram": 1}], ["vms[1].id"]),
        ([{"id": "a", "cpu": 1, "ram": 4096}], ["Did you mean 4096 MiB?"]),
        ([{"id": "a", "cpu": 1, "ram": "4 TiB"}], ["requested 4 TiB", "missing"]),
    ],
    ids=["negative", "duplicate", "in MiB", "too large for the host"],
)
def test_provision_refuses_bad_details(lab: Lab, vms: list[dict[str, object]], words: list[str]) -> None:
    lab.fails("provision_virt", "-e", json.dumps({"virt_host_vms": vms}), words=words)


def test_provision_in_check_mode_changes_nothing(lab: Lab) -> None:
    before = lab.state_of("metal1", "metal2")
    checked = lab.succeeds("provision_virt", "--check", "--diff")
    assert checked.changed > 0
    touched = sorted(lab.state_of("metal1", "metal2") ^ before)
    assert touched == []


def test_provision_killed_is_completed(lab: Lab) -> None:
    lab.killed("provision_virt", kill_at="TASK [reduced.footprint.packages : Update the package lists and install", kill_delay=4)
    lab.killed("provision_virt", kill_at="TASK [reduced.footprint.virt_host : Apply the network change", kill_delay=1)
    # The host must become reachable again automatically, because the new bridge was not confirmed.
    eventually("metal1 answers", lambda: "eno1" in lab.ssh("metal1", "ip", "link"), 90)
    lab.succeeds("provision_virt")
    lab.unchanged("provision_virt")


def test_provision_proves_the_hypervisors(lab: Lab) -> None:
    facts = json.loads(lab.ssh("metal1", "cat", "/etc/ansible/facts.d/reduced_footprint.fact"))
    assert facts["hypervisors"]["qemu"]["usable"]
    assert facts["hypervisors"]["lxc"]["usable"]
    assert not facts["hypervisors"]["kvm"]["usable"]
    assert "/dev/kvm" in facts["hypervisors"]["kvm"]["reason"]


# Spawn


def test_spawn_refuses_an_unknown_image(lab: Lab) -> None:
    vms = [{"id": "stray", "cpu": 1, "ram": 1, "hypervisor": "lxc", "disks": [{"size": "1GiB", "image": "no-such-image"}], "nics": [{"bridge": "br-admin"}]}]
    lab.fails("spawn_vms", "--limit", "metal1", "-e", json.dumps({"virt_guests_vms": vms}), words=["no-such-image"])
    assert "stray" not in lab.ssh("metal1", "virsh", "-c", "lxc:///", "list", "--all", "--name")


def test_spawn_in_check_mode_changes_nothing(lab: Lab) -> None:
    before = lab.state_of("metal1", "metal2")
    checked = lab.succeeds("spawn_vms", "--check", "--diff")
    assert checked.changed > 0
    assert "share the kernel of the host" in checked.output
    touched = sorted(lab.state_of("metal1", "metal2") ^ before)
    assert touched == []


def test_spawn_killed_is_completed(lab: Lab) -> None:
    lab.killed("spawn_vms", kill_at="TASK [reduced.footprint.images : Fetch the base images", kill_delay=0.5)
    lab.killed("spawn_vms", kill_at="TASK [reduced.footprint.virt_guests : Define the virtual machines", kill_delay=1)
    lab.succeeds("spawn_vms")
    lab.unchanged("spawn_vms")


def test_machines_are_hosts_of_the_inventory(lab: Lab) -> None:
    inventory = lab.inventory()
    assert sorted(inventory["controller"]["hosts"]) == ["controller1", "controller2", "controller3"]
    groups = []
    for name in inventory["controller"]["hosts"]:
        variables = inventory["_meta"]["hostvars"][name]
        assert lab.ssh(variables["ansible_host"], "cat", "/etc/machine-id") != lab.ssh(variables["vm_host"], "cat", "/etc/machine-id")
        assert variables["vm_macs"][0] in lab.ssh(variables["ansible_host"], "ip", "link")
        lines = lab.ssh(variables["ansible_host"], "cat", "/proc/1/cgroup").splitlines()
        # the hierarchies of systemd; in a shared group, two systemds remove the groups of each other's units
        groups += [(variables["vm_host"], line) for line in lines if line.startswith("0::") or ":name=systemd:" in line]
    assert len(groups) >= 3 and len(set(groups)) == len(groups)


def test_other_host_key_at_the_address_of_a_machine_is_refused(lab: Lab) -> None:
    machines = lab.inventory()["_meta"]["hostvars"]
    for name in ("controller1", "controller2", "controller3"):
        own = lab.ssh(machines[name]["ansible_host"], "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
        assert own.startswith(machines[name]["vm_host_key"])

    def connect(name: str, address: str) -> int:
        """The exit code of ssh with the options that Ansible has for a machine."""
        options = shlex.split(machines[name]["ansible_ssh_extra_args"])
        argv = ["ssh", "-F", "none", "-i", str(lab.state / "id_ed25519"), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", *options]
        return subprocess.run([*argv, f"root@{address}", "true"], check=False, capture_output=True, timeout=60).returncode

    assert connect("controller1", machines["controller1"]["ansible_host"]) == 0
    assert connect("controller1", machines["controller2"]["ansible_host"]) == 255


QUICKLY = ("--limit", "metal1", "-e", "spawn_vms_wait=false")


def test_outside_change_is_corrected_without_a_restart(lab: Lab) -> None:
    virsh = ("virsh", "-q", "-c", "lxc:///")
    running = lab.ssh("metal1", *virsh, "list")
    wanted = lab.ssh("metal1", *virsh, "dumpxml", "--inactive", "controller2")
    lab.ssh("metal1", *virsh, "define", "/dev/stdin", stdin=wanted.replace("<vcpu placement='static'>1<", "<vcpu placement='static'>7<"))
    assert "NOTE VM controller2: changed outside of this collection (vcpu" in "\n".join(lab.status()["lines"])
    assert "changed outside of this collection; spawn_vms restores it" in (lab.state / "status.html").read_text(encoding="utf-8")
    assert lab.succeeds("spawn_vms", "--check", "--diff", *QUICKLY).recap["metal1"]["changed"] == 1
    assert lab.succeeds("spawn_vms", *QUICKLY).recap["metal1"]["changed"] == 1
    assert "<vcpu placement='static'>1<" in lab.ssh("metal1", *virsh, "dumpxml", "--inactive", "controller2")
    assert lab.ssh("metal1", *virsh, "list") == running
    assert lab.succeeds("spawn_vms", "--check", *QUICKLY).changed == 0


TOY = (
    "<domain type='qemu'><name>{id}</name><title>{about}</title><memory unit='MiB'>{memory_mb}</memory><vcpu>{cpu}</vcpu><os><type>hvm</type></os>"
    "<devices><interface type='bridge'><source bridge='br-admin'/><model type='virtio'/><link state='{plug}'/></interface></devices></domain>"
)


@pytest.mark.whole  # modules are tested with it in tests/integration, too
def test_running_machine_is_changed_and_rolled_back(lab: Lab) -> None:
    def toy(state: str, **details: object) -> int:
        """Run with one tiny machine, alone; how many tasks changed something."""
        vm = dict({"id": "toy", "cpu": 1, "memory_mb": 32, "hypervisor": "qemu", "about": "plugged", "plug": "up"}, **details)
        options = {"virt_guests_vms": [vm], "virt_guests_template": TOY, "virt_guests_state": state, "virt_guests_only": "toy"}
        return lab.succeeds("spawn_vms", *QUICKLY, "-e", json.dumps(options)).recap["metal1"]["changed"]

    def live() -> tuple[bool, bool]:
        """Whether title and link are those of the first definition."""
        document = lab.ssh("metal1", "virsh", "dumpxml", "toy")
        return "<title>plugged</title>" in document, "<link state='up'/>" in document

    assert toy("running") == 1
    number = lab.ssh("metal1", "virsh", "domid", "toy")
    assert live() == (True, True)
    assert toy("running", about="unplugged", plug="down") == 1
    assert live() == (False, False)
    assert toy("rolled_back") == 1
    assert live() == (True, True)
    assert toy("running") == 0
    assert lab.ssh("metal1", "virsh", "domid", "toy") == number
    assert toy("absent") == 1
    assert "toy" not in lab.ssh("metal1", "virsh", "list", "--all", "--name")


# Controllers


def test_deploy_refuses_a_bad_virtual_address(lab: Lab) -> None:
    lab.fails("deploy_controllers", "-e", "load_balancer_virtual_address=10.999.0.20", words=["load_balancer_virtual_address", "10.999.0.20"])


def test_deploy_killed_is_completed(lab: Lab) -> None:
    lab.killed("deploy_controllers", kill_at="TASK [reduced.footprint.galera : Join", kill_delay=3)
    lab.succeeds("deploy_controllers")
    lab.unchanged("deploy_controllers")


def test_load_balancer_serves_the_deployed_services(lab: Lab) -> None:
    ask = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8404/;csv').read().decode())"

    def states() -> dict[str, str]:
        rows = [line.split(",") for line in lab.ssh(lab.address("controller1"), "python3", "-", stdin=ask).splitlines()]
        return {row[0]: row[17] for row in rows if row[1:2] == ["BACKEND"] and row[0] != "stats"}

    # no identity is deployed here, so nothing listens for its clients
    eventually("every service has an active member", lambda: states() == {"mysql": "UP"}, 60)


def test_sql_continues_without_one_controller(lab: Lab) -> None:
    eventually("all members are synced", lambda: len(lab.status()["database_members"]) == 3, 120)
    lab.sql("CREATE TABLE IF NOT EXISTS t (n INT PRIMARY KEY)")
    lab.sql("REPLACE INTO t VALUES (1)")
    holder = lab.status()["virtual_address_holder"]
    server = lab.inventory()["_meta"]["hostvars"][holder]["vm_host"]
    lab.ssh(server, "virsh", "-c", "lxc:///", "destroy", holder)
    eventually("SQL answers without the holder of the virtual address", lambda: lab.sql("SELECT n FROM t ORDER BY n")[0] == (1,), 60)
    lab.sql("REPLACE INTO t VALUES (2)")
    broken = lab.play("status")
    assert broken.rc != 0
    assert re.search(rf"DOWN +(\S+, )*{holder}(, \S+)*: no answer", broken.output), broken.output[-3000:]
    lab.ssh(server, "virsh", "-c", "lxc:///", "start", holder)
    eventually("all members are synced again", lambda: len(lab.status()["database_members"]) == 3, 120)
    assert lab.sql("SELECT n FROM t ORDER BY n") == [(1,), (2,)]


def test_controller_with_a_late_address_takes_over_the_virtual_address(lab: Lab) -> None:
    others = [lab.address(name) for name in ("controller1", "controller2")]
    # after a power loss the controllers start before the master, which serves their DHCP leases
    lab.ssh("laptop", "systemctl", "stop", "dnsmasq")
    try:
        lab.ssh("metal2", "virsh", "-c", "lxc:///", "destroy", "controller3")
        lab.ssh("metal2", "virsh", "-c", "lxc:///", "start", "controller3")
        for other in others:
            lab.ssh(other, "systemctl", "stop", "keepalived")
        time.sleep(10)
    finally:
        lab.ssh("laptop", "systemctl", "start", "dnsmasq")
    eventually("SQL answers through the late controller", lambda: lab.sql("SELECT n FROM t ORDER BY n") == [(1,), (2,)], 90)
    for other in others:
        lab.ssh(other, "systemctl", "start", "keepalived")
    eventually("the control plane is healthy again", lambda: lab.status()["ok"], 120)
    assert lab.status()["virtual_address_holder"] == "controller3"


# The master


def test_migrate_refuses_invalid_input(lab: Lab) -> None:
    lab.fails("migrate_master", "-e", "master_migrate_temporary_address=10.213.0.12/24".replace("10.213.0", lab.net), words=[f"{lab.net}.12"])
    assert lab.writing()


def test_migrate_in_check_mode_changes_nothing(lab: Lab) -> None:
    before = lab.state_of("metal1", "laptop")
    lab.succeeds("migrate_master", "--check", "--diff")
    touched = sorted(lab.state_of("metal1", "laptop") ^ before)
    assert touched == []


def test_failed_rehearsal_does_not_affect_the_source(lab: Lab) -> None:
    checks = [{"type": "tcp", "port": 3306}, {"type": "tcp", "port": 9}]
    limits = {"master_migrate_health_checks": checks, "master_migrate_rehearse_timeout": 90}
    lab.fails("migrate_master", "-e", json.dumps(limits), words=["rehearse", "tcp 9", "the source serves as before"])
    lab.no_key_left()
    assert lab.writing()
    assert "master" not in lab.ssh("metal1", "virsh", "list", "--name", "--state-running")


def test_copy_is_kept_up_to_date_before_the_migration(lab: Lab) -> None:
    ready = lab.play("migrate_master", "-e", "master_migrate_stop_after=rehearse")
    assert ready.rc == 0, ready.output[-4000:]
    for words in ("master: precopy, pass", "predicted downtime", "the copy is ready up to rehearse", "rehearsal: passed"):
        assert words in ready.output, ready.output[-4000:]
    text = lab.ssh("laptop", "cat", "/var/lib/reduced.footprint/source/master.journal")
    assert json.loads(text)["journal"]["facts"]["rehearsal"]["passed"]
    lab.no_key_left()
    lab.fails("migrate_master", "-e", "master_migrate_stop_after=quiesce", words=["stop_after", "is in the pause"])
    assert lab.writing()


def test_failed_health_check_rolls_back_to_the_source(lab: Lab) -> None:
    checks = [{"type": "tcp", "port": 3306}, {"type": "tcp", "port": 9, "rehearse": False}]
    # the copy was rehearsed a moment ago
    limits = {"master_migrate_health_checks": checks, "master_migrate_boot_timeout": 60, "master_migrate_rehearse": False}
    lab.fails("migrate_master", "-e", json.dumps(limits), words=["rolled back"])
    lab.no_key_left()
    eventually("the source serves again", lab.writing, 30)
    assert lab.health()["machine_id"] == lab.ssh("laptop", "cat", "/etc/machine-id").strip()
    domains = lab.ssh("metal1", "virsh", "list", "--name", "--state-running")
    assert "master" not in domains
    assert "master" not in lab.ssh("metal1", "virsh", "list", "--name", "--autostart", "--all")


def test_migrate_killed_is_completed(lab: Lab) -> None:
    lab.killed("migrate_master", kill_at="TASK [reduced.footprint.master_migrate : Move", kill_delay=6)
    lab.ssh("metal1", "systemctl", "kill", "--signal=KILL", "reduced-footprint-migrate-master.service", check=False)
    assert lab.writing(), "a killed copy must not disturb the source"
    moved = lab.succeeds("migrate_master", "-e", json.dumps({"master_migrate_rehearse": False}))
    for words in ("master serves from a VM of metal1", "downtime:", "source and copy found equal"):
        assert words in moved.output, moved.output[-4000:]
    eventually("rows are written again", lab.writing, 30)
    writer = lab.writer()
    assert writer["rows_lost"] == 0, writer
    lab.unchanged("migrate_master")
    # the source is where it stepped aside
    lab.no_key_left(f"{lab.net}.3")
    assert "reduced.footprint-migrate" not in lab.ssh(lab.master, "cat", "/root/.ssh/authorized_keys")


def test_master_runs_as_a_machine_on_metal1(lab: Lab) -> None:
    assert "master" in lab.ssh("metal1", "virsh", "list", "--name", "--state-running")
    assert lab.ssh(lab.master, "systemd-detect-virt").strip() == "qemu"
    assert lab.ssh(lab.master, "hostname").strip() == "laptop"
    assert "enp0s31f6" in lab.ssh(lab.master, "ip", "-o", "link")
    assert lab.ssh(lab.master, "systemctl", "--failed", "--plain", "--no-legend").strip() == ""


def test_all_files_were_copied(lab: Lab) -> None:
    manifest = (pathlib.Path(__file__).parent / "manifest.py").read_text(encoding="utf-8")
    source = subprocess.run([sys.executable, "-", str(lab.state / "laptop" / "root")], input=manifest, capture_output=True, encoding="utf-8", check=True)
    clone = lab.ssh(lab.master, "python3", "-", "/", stdin=manifest)
    there, here = json.loads(source.stdout), json.loads(clone)
    assert len(there) > 10000
    differing = {path: (there.get(path), here.get(path)) for path in there.keys() | here.keys() if there.get(path) != here.get(path)}
    assert not differing, f"{len(differing)} differ, such as {dict(list(differing.items())[:10])}"
    kinds = {kind for facts in there.values() for kind in facts["kinds"]}
    assert kinds >= {"hard link", "xattr", "acl", "capability", "sparse"}, kinds


# Afterwards


def test_awx_job_runs_a_playbook(lab: Lab, tmp_path: pathlib.Path) -> None:
    shutil.copytree(REPOSITORY / "awx" / "project", tmp_path / "project")
    report = tmp_path / "report.json"
    run = ansible_runner.run(
        private_data_dir=str(tmp_path),
        playbook="footprint.yml",
        inventory=str(lab.state / "inventory"),
        extravars={"footprint_playbook": "status", "status_report_file": str(report)},
        envvars={key: value for key, value in environment().items() if key.startswith("ANSIBLE_")}
        | {"PATH": f"{REPOSITORY}/.venv/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        quiet=True,
    )
    assert run.status == "successful", run.stdout.read()[-4000:]
    assert json.loads(report.read_text(encoding="utf-8"))["ok"]


def test_services_recover_after_a_restart_of_a_server(lab: Lab) -> None:
    lab.command("reboot", "metal1")
    eventually("rows are written again", lab.writing, 240)
    eventually("everything stands again", lambda: lab.status()["ok"], 240)
    assert lab.writer()["rows_lost"] == 0
    assert lab.sql("SELECT n FROM t ORDER BY n") == [(1,), (2,)]


def test_second_run_of_the_flow_changes_nothing(lab: Lab) -> None:
    again = lab.succeeds("site")
    assert again.changed == 0, again.changed_tasks()
    steps = re.findall(r"^PLAY \[.*\(step (\d of \d)\)\]", again.output, re.MULTILINE)
    assert list(dict.fromkeys(steps)) == ["1 of 4", "2 of 4", "3 of 4", "4 of 4"]


def test_master_is_rolled_back(lab: Lab) -> None:
    lab.succeeds("rollback_master")
    eventually("the source serves again", lab.writing, 60)
    assert lab.ssh(lab.master, "systemd-detect-virt", check=False).strip() == "systemd-nspawn"
    assert "master" not in lab.ssh("metal1", "virsh", "list", "--name", "--state-running")
    assert "master" not in lab.ssh("metal1", "virsh", "list", "--name", "--autostart", "--all")
    again = lab.succeeds("rollback_master")
    assert again.changed == 0, again.changed_tasks()


def test_what_clients_wrote_to_the_vm_is_not_copied_over(lab: Lab) -> None:
    """Another migration would, after the rollback."""
    disk = lab.ssh("metal1", "stat", "-c", "%Y", "/var/lib/libvirt/images/master-disk0.img")
    lab.fails("migrate_master", words=["Save what you need from that disk, then set discard_vm_data: true"])
    assert lab.ssh("metal1", "stat", "-c", "%Y", "/var/lib/libvirt/images/master-disk0.img") == disk
    assert lab.writing()
