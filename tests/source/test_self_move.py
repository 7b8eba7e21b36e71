# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook runs on the master that it migrates, and rolls the migration back from the resulting VM."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import typing as t

import pytest
import yaml
from address_watch import AddressWatch
from source_machine import SERVICES
from support import REPOSITORY, Lab, eventually

pytestmark = pytest.mark.whole

HOME = pathlib.PurePosixPath("/opt/move")
JOURNAL = "/var/lib/reduced.footprint/migrations/master/journal.json"
# what ansible-playbook needs beside Python itself
DISTRIBUTIONS = ("ansible-core", "jinja2", "markupsafe", "pyyaml", "packaging", "resolvelib", "cryptography", "cffi")
LIBRARIES = ("ansible", "jinja2", "markupsafe", "yaml", "_yaml", "packaging", "resolvelib", "cryptography", "cffi", "_cffi_backend", "pycparser", "ply")


def settle(lab: Lab) -> None:
    """Install Ansible, the collection, an inventory and a key on the master, as an operator would."""
    root = lab.state / "laptop" / "root"
    home = root / HOME.relative_to("/")
    shutil.rmtree(home, ignore_errors=True)
    library, collection = home / "lib", home / "collections" / "ansible_collections" / "reduced" / "footprint"
    library.mkdir(parents=True)
    collection.mkdir(parents=True)
    for name in LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            path = pathlib.Path(spec.origin)
            package = path.name == "__init__.py"
            (shutil.copytree if package else shutil.copy)(path.parent if package else path, library / (name if package else path.name))
    for found in importlib.metadata.distributions():
        folder = pathlib.Path(str(found._path))  # pylint: disable=protected-access
        if found.metadata["Name"].lower() in DISTRIBUTIONS and folder.is_dir() and not (library / folder.name).exists():
            shutil.copytree(folder, library / folder.name)
    for name in ("plugins", "roles", "playbooks", "meta", "galaxy.yml"):
        path = REPOSITORY / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, collection / name)
    shutil.copy(lab.settings.key, home / "key")
    (home / "key").chmod(0o600)
    reach = "-o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o IdentitiesOnly=yes -o ConnectTimeout=5"
    given = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(HOME / "key"),
        "ansible_ssh_common_args": f"{reach} -o ServerAliveInterval=2 -o ServerAliveCountMax=3",
        "ansible_python_interpreter": "/usr/bin/python3",
        "expert_mode": True,
        "master_migrate_source": "laptop",
        "master_migrate_destination": "metal1",
        "master_migrate_admin_address": lab.master,
        "master_migrate_temporary_address": f"{lab.net}.3",
        "master_migrate_services": list(SERVICES),
        "master_migrate_hypervisor": "qemu",
        "master_migrate_disk_size": "6GiB",
        "master_migrate_rehearse": False,
        "master_migrate_health_checks": [{"type": "tcp", "port": 3306}, {"type": "http", "url": f"http://{lab.master}:8080/health"}],
    }
    hosts = {"metal1": {"ansible_host": f"{lab.net}.11"}, "laptop": {"ansible_host": lab.master, "ansible_connection": "local"}}
    groups = {"virt": {"hosts": {"metal1": {}}}, "master": {"hosts": {"laptop": {}}}}
    (home / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": groups, "vars": given}}), encoding="utf-8")


def argv(playbook: str, *more: str) -> list[str]:
    """Run a playbook on the master."""
    environment = [f"PYTHONPATH={HOME}/lib", f"ANSIBLE_COLLECTIONS_PATH={HOME}/collections", "HOME=/root", "LC_ALL=C.UTF-8", "ANSIBLE_NOCOLOR=1"]
    return [
        "/usr/bin/env",
        *environment,
        "/usr/bin/python3",
        "-m",
        "ansible",
        "playbook",
        "-i",
        f"{HOME}/inventory.yml",
        f"reduced.footprint.{playbook}",
        *more,
    ]


def journal(lab: Lab) -> dict[str, t.Any]:
    """Return the journal of the migration on the virt host."""
    text = lab.ssh("metal1", "cat", JOURNAL, check=False)
    return json.loads(text) if text.strip() else {"state": "none"}


def ended(lab: Lab, *states: str) -> bool:
    """Whether the migration ended in one of these states; another final state raises an error immediately."""
    found = journal(lab)
    if found["state"] in ("failed", "rolled_back", "done") and found["state"] not in states:
        log = lab.ssh("metal1", "tail", "-n", "15", JOURNAL.replace("journal.json", "log"), check=False)
        raise RuntimeError(f"{found['state']}: {found['reason']}\n{log}")
    return found["state"] in states


def start_detached(lab: Lab, playbook: str, *more: str) -> None:
    """Start a playbook on the current master, independently of the ssh session."""
    log = f"{HOME}/{playbook}.log"
    unit = ["systemd-run", "--quiet", "--collect", f"--unit=move-{playbook.replace('_', '-')}", f"--property=StandardOutput=file:{log}"]
    lab.ssh(lab.master, *unit, f"--property=StandardError=file:{log}", *argv(playbook, *more))


def test_master_migrates_itself_and_rolls_back(lab: Lab) -> None:
    lab.succeeds("provision_virt", "--limit", "metal1")
    settle(lab)
    lab.command("writer", "start")
    with AddressWatch(lab.settings.bridge, lab.master) as watch:
        start_detached(lab, "migrate_master")
        eventually("the migration is done", lambda: ended(lab, "done"), 600)
        assert lab.ssh(lab.master, "systemd-detect-virt").strip() == "qemu"
        eventually("rows are written again", lab.writing, 30)
        assert lab.writer()["rows_lost"] == 0

        # looking in afterwards, from the VM: the same command says that all is done
        again = subprocess.run(
            [str(REPOSITORY / "lab" / "lab"), "ssh", lab.master, *argv("migrate_master")], capture_output=True, encoding="utf-8", check=False, timeout=300
        )
        assert again.returncode == 0, again.stdout + again.stderr
        assert re.search(r"metal1\s+: ok=\d+\s+changed=0\s", again.stdout), again.stdout

        # the source is another machine now, so it is reached by ssh
        start_detached(lab, "rollback_master", "-e", "ansible_connection=ssh")
        eventually("the migration is rolled back", lambda: journal(lab)["state"] == "rolled_back", 180)
        eventually("the source serves", lambda: lab.ssh(lab.master, "systemd-detect-virt", check=False).strip() == "systemd-nspawn" and lab.writing(), 60)
    report = watch.report()
    assert report["seconds_two"] == 0, report
    assert "master" not in lab.ssh("metal1", "virsh", "list", "--name", "--state-running")
