# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two old machines move into VMs of one virt host in one run: the one that another needs first, each with its own variables."""

from __future__ import annotations

import datetime
import json
import subprocess
import typing as t

import pytest
from rflab.plays import PlayRun, play
from rflab.settings import Lab
from source import LOGS, ROOT

NAMES = ("laptop", "laptop2")


@pytest.fixture(name="inventory")
def fixture_inventory(lab: Lab) -> None:
    """Add the second machine to the inventory of the lab, which has the variables of the first one for all hosts."""
    address = lab.machine("laptop2").address
    second = {
        "ansible_host": address, "master_migrate_admin_address": address, "master_migrate_temporary_address": f"{lab.net}.5", "master_migrate_cpu": 1,
        "master_migrate_health_checks": [{"type": "tcp", "port": 3306}, {"type": "http", "url": f"http://{address}:8080/health"}],
    }  # fmt: skip
    first = {"migrate_server_after": ["laptop2"]}
    hosts = {"all": {"hosts": {"laptop": first, "laptop2": second}}}
    (lab.state / "inventory" / "zz-old.yml").write_text(json.dumps(hosts), encoding="utf-8")


def moved(log: str, **given: t.Any) -> PlayRun:
    """Run the playbook, without a rehearsal: others rehearse."""
    extra = {"migrate_server_hosts": list(NAMES), "master_migrate_rehearse": False, **given}
    return play("reduced.footprint.migrate_server", "-e", json.dumps(extra), "-e", "master_migrate_lease_timeout=600", log=LOGS / f"servers-{log}.log")


def kinds(lab: Lab) -> list[str]:
    """What answers at the address of each machine: a container of the lab, or a VM."""
    commands = [[str(ROOT / "lab" / "lab"), "ssh", lab.machine(name).address, "systemd-detect-virt"] for name in NAMES]
    return [subprocess.run(argv, capture_output=True, encoding="utf-8", check=False).stdout.strip() for argv in commands]


@pytest.mark.usefixtures("inventory")
def test_two_servers_move_in_one_run(lab: Lab) -> None:
    plan = moved("1-plan")
    assert plan.rc == 0 and plan.changed == 0, plan.output[-6000:]
    assert "nothing is changed without -e migrate_server_confirm=laptop2,laptop" in plan.output
    confirm = {"migrate_server_confirm": ["laptop2", "laptop"]}

    # the first one is refused: the second one is not begun
    refused = moved("2-refused", master_migrate_services=["no-such-unit"], **confirm)
    assert refused.rc != 0 and "laptop: not begun" in refused.output and "no-such-unit" in refused.output, refused.output[-6000:]
    assert kinds(lab) == ["systemd-nspawn", "systemd-nspawn"]

    # the copy is ready, and waits for its time
    alone = {"migrate_server_hosts": ["laptop2"], "migrate_server_confirm": ["laptop2"]}
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    then = now + datetime.timedelta(days=5)
    waits = moved("3-waits", master_migrate_cutover_at=then.isoformat(), **alone)
    until = then.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert waits.rc == 0 and f"laptop2: the copy is kept up to date; the source serves until {until}" in waits.output, waits.output[-6000:]
    assert kinds(lab) == ["systemd-nspawn", "systemd-nspawn"]
    # another time replaces it: the pause would begin at once, but would be too long
    long = moved("4-long", master_migrate_cutover_at=now.isoformat(), master_migrate_max_pause=1, **alone)
    assert long.rc != 0 and "longer than max_pause (1 s)" in long.output and "the source serves as before" in long.output, long.output[-6000:]
    assert kinds(lab) == ["systemd-nspawn", "systemd-nspawn"]

    done = moved("5-move", **confirm)
    assert done.rc == 0, done.output[-8000:]
    assert kinds(lab) == ["qemu", "qemu"]
    first, second = (done.output.index(f"    {name} serves from a VM of metal1") for name in ("laptop2", "laptop"))
    assert first < second and f"laptop2: source: waits at {lab.net}.5" in done.output

    again = moved("6-again", **confirm)
    assert again.rc == 0 and again.changed == 0 and "laptop has moved: laptop serves from a VM of metal1" in again.output, again.output[-6000:]
