# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guide for the first footprint, literally: its files and its commands, on virtual machines of a cloud image.

The tests are the chapters of the guide and run in order.
"""

from __future__ import annotations

import re
import shutil
import time

import guide
import pytest
from reader import Reader

pytestmark = pytest.mark.chapter
CONTROLLERS = {"controller1": 21, "controller2": 22, "controller3": 23}
REPEATED = ("provision_virt", "spawn_vms", "deploy_controllers", "migrate_master")


def run_chapter(reader: Reader, number: int) -> None:
    """Run the commands of the chapter with this number."""
    mine = [block for block in reader.blocks if block.heading.startswith(f"{number}. ")]
    found = guide.commands(mine)
    assert found, f"chapter {number} has no command"
    for command in found:
        output = reader.run(command)
        assert "[ERROR]" not in output, output[-3000:]


@pytest.mark.parametrize("number", [1, 2, 4, 5])
def test_chapter(reader: Reader, number: int) -> None:
    run_chapter(reader, number)


def test_virtual_machines_are_reached_with_the_readers_key(reader: Reader) -> None:
    nodes = reader.home / "inventory/nodes.yml"
    assert "delete this line after step 5" in nodes.read_text()
    nodes.write_text(re.sub(r"(?m)^ +(# for the plan,|node_capacity:) .*\n", "", nodes.read_text()))
    run_chapter(reader, 6)
    hosts = reader.inventory()
    for name, number in CONTROLLERS.items():
        assert hosts[name]["ansible_host"] == f"{reader.settings.net}.{number}"
        assert "StrictHostKeyChecking=yes" in hosts[name]["ansible_ssh_extra_args"] and hosts[name]["vm_host_key"]
    sizes = [int(number) for number in re.findall(r"(?m)^(\d+)$", reader.on("controller", "findmnt --noheadings --bytes --output SIZE --target /"))]
    assert len(sizes) == 3 and all(size > 11 << 30 for size in sizes), sizes
    keys = reader.on("controller", "cat /root/.ssh/authorized_keys")
    assert keys.count((reader.home / ".ssh/id_ed25519.pub").read_text().strip()) == 3 and keys.count("ssh-ed25519") == 3


def test_without_a_source_of_leases_the_same_addresses_are_found(reader: Reader) -> None:
    shutil.copytree(reader.home / "inventory", reader.home / "searched", ignore=shutil.ignore_patterns(".secrets"))
    nodes = reader.home / "searched/nodes.yml"
    text = re.sub(r", address: [^}]+", "", nodes.read_text())
    nodes.write_text(text + next(one for one in guide.alternatives(reader.blocks, "Addresses by DHCP") if "discover_network" in one))
    hosts = reader.inventory("searched")
    assert {name: hosts[name]["ansible_host"] for name in CONTROLLERS} == {name: f"{reader.settings.net}.{number}" for name, number in CONTROLLERS.items()}
    assert {hosts[name]["vm_address_source"] for name in CONTROLLERS} == {"arp"}


def test_the_controllers_are_deployed(reader: Reader) -> None:
    run_chapter(reader, 7)
    reader.note_memory("after step 7")


def test_the_master_is_migrated(reader: Reader) -> None:
    run_chapter(reader, 8)
    time.sleep(5)
    assert '"rows_lost": 0' in reader.lab("writer", "report", f"{reader.settings.net}.2")
    reader.note_memory("after step 8")


@pytest.mark.parametrize("name", REPEATED)
def test_a_second_run_changes_nothing(reader: Reader, name: str) -> None:
    output = reader.run(f"ansible-playbook -i inventory reduced.footprint.{name}")
    assert reader.changed(output) == 0, output[-4000:]
