# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole flow on a lab, in jobs of AWX: each in a new container of the execution environment, with the inventory as it was at the start.

The inventory is read once, before any VM exists. Run with --whole; needs podman.
"""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import shutil
import subprocess
import typing as t

import pytest
import yaml
from awx_job import BIN, ROOT, Awx, Job
from rflab.settings import current

pytestmark = [pytest.mark.whole, pytest.mark.chapter]

LOGS = ROOT / "tests" / "output" / "awx"
IMAGE = "localhost/footprint-ee:latest"
PASSWORD = "open sesame"  # noqa: S105
YES = {"expert_mode": "true"}
#: Defaults of the surveys that the lab needs otherwise.
FLOW: dict[str, dict[str, t.Any]] = {
    "provision_virt": {},
    "spawn_vms": {"virt_guests_state": "running", "virt_guests_only": "", "spawn_vms_wait": "true", "virt_guests_shutdown_timeout": 120},
    "deploy_controllers": {"deploy_controllers_components": ["galera", "load_balancer"], "deploy_controllers_with_dependencies": "false"},
    "migrate_master": {"master_migrate_stop_after": "", "master_migrate_rehearse": "false"},
}
REMOVAL = {"name": "metal2", "confirm": "", "remove_vms": "false", "erase": "none"}
DISCOVERY = {f"discover_servers_{key}": "" for key in ("names", "restart", "boot_server")} | {"discover_servers_again": "false"}
MAINTENANCE = {"maintain_virt_node_restart_elsewhere": "false", "maintain_virt_node_accept_outage": "false"}
REPLACEMENT = {
    **{f"replace_controller_{key}": "" for key in ("server", "confirm")},
    **{f"replace_controller_{key}": "false" for key in ("stop", "remove_disks")},
}
INSTALLATION = {f"install_server_{key}": "" for key in ("names", "restart", "erase", "boot_server")}
SERVER = {f"replace_server_{key}": "" for key in ("confirm", "bmc", "recreate")}
DESTRUCTION = {"confirm": "", "erase": "none", **dict.fromkeys(("keep_protected", "remove_master", "leave_instances", "force"), "false")}
#: Jobs that are refused on this lab: playbook, answers to its survey, words of the message.
REFUSALS: tuple[tuple[str, dict[str, t.Any], str], ...] = (
    ("restore_database", {"galera_restore_file": "/footprint/backups/none", "galera_restore_confirm": "other"}, "Name the backup file"),
    ("remove_virt_node", {f"remove_virt_node_{key}": value for key, value in REMOVAL.items()}, "confirm"),
    ("move_vm", {"move_vm_id": "missing-vm", "move_vm_source": "metal1", "move_vm_destination": "metal2", "move_vm_state": "moved"}, "missing-vm"),
    ("rotate_keys", {}, "keystone"),
    ("deploy_monitoring", {}, "No host monitors"),
    ("cloud_bootstrap", {}, "The playbook deploy_controllers creates it"),
    ("verify_cloud", {"verify_cloud_external_network": "", "verify_cloud_image": ""}, "The playbook deploy_controllers creates it"),
    ("provision_compute", {}, "The cloud requires Debian 13"),
    ("export_kolla", {"export_kolla_environment": "/footprint/none", "export_kolla_directory": "/footprint/kolla"}, "export_kolla_environment"),
    ("export_metal", {"export_metal_directory": "/footprint/export"}, "no host can be exported"),
    ("discover_servers", {"discover_servers_directory": "/footprint/discovered", **DISCOVERY}, "no server has a management controller"),
    ("maintain_virt_node", {"maintain_virt_node_servers": "metal9", **MAINTENANCE}, "metal9 is not a virt host"),
    ("remove_controller", {"remove_controller_name": "metal2", "remove_controller_confirm": "", "remove_controller_lost": "false"}, "neither a controller"),
    ("replace_controller", {"replace_controller_name": "controller9", **REPLACEMENT}, "Did you mean controller"),
    ("install_server", {"install_server_directory": "/footprint/discovered", **INSTALLATION}, "no server has the key install"),
    ("replace_server", {"replace_server_name": "metal9", **SERVER}, "metal9 is not a virt host"),
    ("build_image", {"build_image_kind": "cloud", "build_image_host": "metal9", "build_image_directory": "/footprint/images"}, "Did you mean metal"),
    ("start_standby", {"start_standby_id": "controller1", "start_standby_server": "metal2", "start_standby_confirm": ""}, "no verified copy"),
    ("migrate_server", {"migrate_server_hosts": "metal9", "migrate_server_confirm": "", "master_migrate_stop_after": ""}, "Did you mean metal"),
    ("destroy_environment", {f"destroy_environment_{key}": value for key, value in DESTRUCTION.items()}, "destroy_environment_remove_master: "),
)


def lab(*arguments: str) -> str:
    """A command of ``lab/lab``."""
    done = subprocess.run([str(ROOT / "lab" / "lab"), *arguments], stdout=subprocess.PIPE, encoding="utf-8", check=False)
    assert done.returncode == 0, f"lab {' '.join(arguments)}: {done.stdout}"
    return done.stdout


class Site:
    """The lab as a project in AWX, and the directory that is mounted into its jobs."""

    def __init__(self, folder: pathlib.Path) -> None:
        podman = ("podman", *os.environ.get("PODMAN_OPTIONS", "").split())
        self.state = current().state
        self.awx = Awx(folder, IMAGE, (self.state / "id_ed25519").read_text("utf-8"), podman)
        self.mounted = folder / "mounted"
        self.mounted.mkdir(mode=0o700)
        self.awx.mounts = {self.mounted: "/footprint"}
        self.inventory = self.awx.project / "inventory"
        shutil.copytree(self.state / "inventory", self.inventory, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
        shutil.copy(self.state / "known_hosts", self.inventory / "known_hosts.txt")
        self.nodes = yaml.safe_load((self.inventory / "nodes.yml").read_text("utf-8"))
        self.variables = yaml.safe_load((self.inventory / "group_vars" / "all.yml").read_text("utf-8"))
        # the key is a credential; nothing refers to the directory of the inventory, which is another one in each job
        del self.variables["ansible_ssh_private_key_file"]
        del self.variables["expert_mode"]
        options = "-o UserKnownHostsFile=/runner/project/inventory/known_hosts.txt -o StrictHostKeyChecking=yes"
        self.variables["ansible_ssh_common_args"] = options
        self.variables["galera_users"][0]["password"] = secrets.token_hex(16)
        self.variables["galera_backup_directory"] = "/footprint/backups"

    def settings(self, known_hosts: str | None, **variables: t.Any) -> None:
        """Change the project and update the inventory: the way in which secrets survive."""
        nodes = {**self.nodes, **({"known_hosts": known_hosts} if known_hosts else {})}
        (self.inventory / "nodes.yml").write_text(yaml.safe_dump(nodes), "utf-8")
        (self.inventory / "group_vars" / "all.yml").write_text(yaml.safe_dump({**self.variables, **variables}), "utf-8")
        self.awx.update_inventory()

    def job(self, playbook: str, **answers: t.Any) -> Job:
        """Run a job and keep its output."""
        done = self.awx.job(playbook, **{**YES, **answers})
        LOGS.mkdir(parents=True, exist_ok=True)
        number = len(list(LOGS.glob("*.log")))
        (LOGS / f"{number:02d}-{playbook}.log").write_text(f"{done.text}\n--\n{done.output}", "utf-8")
        return done

    def succeeds(self, playbook: str, **answers: t.Any) -> Job:
        """Run a job that has to succeed."""
        done = self.job(playbook, **{**FLOW.get(playbook, {}), **answers})
        assert done.rc == 0, done.text[-6000:]
        return done

    def twice(self, playbook: str, **answers: t.Any) -> Job:
        """Run a job, and then once more, which changes nothing."""
        first = self.succeeds(playbook, **answers)
        again = self.succeeds(playbook, **answers)
        assert again.recap("changed") == 0, again.changed
        return first


@pytest.fixture(scope="module", name="site")
def fixture_site(tmp_path_factory: pytest.TempPathFactory, reuse_lab: bool, keep_lab: bool) -> t.Iterator[Site]:
    """The execution environment, and a fresh lab; both as they are if the lab is reused."""
    shutil.rmtree(LOGS, ignore_errors=True)
    if not reuse_lab:
        subprocess.run([str(ROOT / "scripts" / "execution-environment"), IMAGE], check=True)
        lab("down")
        lab("up")
        lab("writer", "start")
    yield Site(tmp_path_factory.mktemp("awx"))
    if not (reuse_lab or keep_lab):
        lab("down")


def test_provision(site: Site) -> None:
    site.settings(None)
    site.twice("provision_virt")


def test_spawn_does_not_lose_the_host_keys(site: Site) -> None:
    done = site.job("spawn_vms", **FLOW["spawn_vms"])
    assert done.rc != 0
    assert "what a job of AWX generates is lost when the job ends" in done.text
    assert "controller" not in lab("ssh", "metal1", "virsh", "-c", "lxc:///", "list", "--all", "--name")


def test_spawn_finds_the_addresses_of_its_machines(site: Site) -> None:
    site.settings("/footprint/known_hosts.txt", footprint_secrets="/footprint/secrets", footprint_secrets_generate=True)
    (site.mounted / "secrets").mkdir(mode=0o700)
    machines = [variables for variables in site.awx.inventory["_meta"]["hostvars"].values() if "vm_uuid" in variables]
    assert len(machines) == 3
    assert not any("ansible_host" in variables for variables in machines)
    site.twice("spawn_vms")


def test_deploy_in_a_job_that_knows_no_address(site: Site) -> None:
    hosts = site.awx.inventory["_meta"]["hostvars"]
    assert not any("ansible_host" in hosts[name] for name in site.awx.inventory["controller"]["hosts"])
    site.twice("deploy_controllers")


@pytest.mark.parametrize("playbook", ["deploy_controllers", "spawn_vms"])
def test_a_directory_without_the_secrets_in_use_is_refused(site: Site, playbook: str) -> None:
    kept = site.mounted.rename(site.mounted.with_name("kept"))
    (site.mounted / "secrets").mkdir(parents=True)
    try:
        done = site.job(playbook, **FLOW[playbook])
    finally:
        shutil.rmtree(site.mounted)
        kept.rename(site.mounted)
    assert done.rc != 0
    assert "deployed with the secrets of another directory" in done.text


def test_migration_shows_its_progress_in_events(site: Site) -> None:
    done = site.twice("migrate_master")
    lines = [event for event in done.events if "precopy" in str(event.get("stdout", ""))]
    assert lines, done.text[-3000:]
    # not all at once at the end
    started = [event["counter"] for event in done.events if event["event"] == "playbook_on_task_start" and "Move the" in event["event_data"]["name"]]
    ended = [event["counter"] for event in done.events if event["event"] == "playbook_on_stats"]
    assert started and started[-1] < lines[0]["counter"] < ended[-1]
    report = json.loads(lab("writer", "report", f"{current().net}.2"))
    assert report["rows_lost"] == 0, report


@pytest.mark.parametrize(
    "playbook, answers",
    [
        ("status", {"status_timeout": 90}),
        ("doctor", {"doctor_timeout": 90, "doctor_fix": "false"}),
        ("plan_placement", {"plan_placement_profile": "", "plan_placement_measure": "true"}),
        ("config_dump", {"config_dump_format": "json", "config_dump_origins": "true"}),
        ("diagnostic_snapshot", {"diagnostic_snapshot_directory": "/tmp", "diagnostic_snapshot_hours": 1}),
        ("add_server", {"add_server_servers": "", "write_probe": "false"}),
        ("recover_database", {"galera_force_bootstrap": ""}),
        ("site", {"master_migrate_rehearse": "false"}),
    ],
)
def test_a_playbook_that_changes_nothing_here(site: Site, playbook: str, answers: dict[str, t.Any]) -> None:
    done = site.succeeds(playbook, **answers)
    assert done.recap("changed") == 0, done.changed


def test_a_rolling_restart(site: Site) -> None:
    done = site.succeeds("rolling_restart", rolling_restart_action="restart", rolling_restart_components=["galera"], rolling_restart_accept_outage="false")
    assert "3 of 3 done" in done.text


def test_a_backup_survives_the_job(site: Site) -> None:
    lost = site.job("backup_database", galera_backup_member="")
    assert lost.rc != 0
    assert "the backup would be lost" in lost.text
    (site.mounted / "backups").mkdir()
    site.succeeds("backup_database", galera_backup_member="")
    assert len(list((site.mounted / "backups").glob("*.json"))) == 1


def test_secrets_in_the_project_are_encrypted_and_read(site: Site) -> None:
    kept = site.inventory / ".secrets" / site.nodes["cluster"]
    shutil.copytree(site.mounted / "secrets", kept)
    shutil.copy(site.mounted / "known_hosts.txt", kept)
    files = [str(path) for path in kept.rglob("*") if path.is_file() and path.name != "known_hosts.txt"]
    (site.awx.folder / "password").write_text(PASSWORD, "utf-8")
    subprocess.run([str(BIN / "ansible-vault"), "encrypt", "--vault-password-file", str(site.awx.folder / "password"), *files], check=True)
    site.awx.mounts = {}
    site.awx.vault_password = PASSWORD
    site.settings(None, footprint_secrets="{{ footprint_known_hosts | dirname }}")
    for playbook in ("spawn_vms", "deploy_controllers", "status"):
        done = site.succeeds(playbook)
        assert done.recap("changed") == 0, done.changed


@pytest.mark.parametrize("playbook", ["rollback_master", "retire_source"])
def test_the_master_goes_back_or_stays(site: Site, playbook: str) -> None:
    done = site.job(playbook)
    if playbook == "rollback_master":
        assert done.rc == 0, done.text[-3000:]
        assert site.succeeds(playbook).recap("changed") == 0
    else:
        assert done.rc != 0  # it serves again


def test_refusal_of_a_playbook_fails_the_job(site: Site) -> None:
    # all of them, also if one is wrong
    unexpected = {}
    for playbook, answers, words in REFUSALS:
        done = site.job(playbook, **answers)
        if done.rc == 0 or words not in done.text:
            unexpected[playbook] = f"exit code {done.rc}: {done.text[-2000:]}"
    assert not unexpected, "\n".join(f"{playbook}: {text}" for playbook, text in unexpected.items())
