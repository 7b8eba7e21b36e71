# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units, journals and VMs that are read."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import plan_sources

LISTED = """\
mariadb.service loaded active running MariaDB
footprint-galera-guard.timer loaded active waiting x
garbd@blue.service loaded active running x
cron.service loaded active running x

user@0.service loaded active running x
"""


def test_units_of_a_footprint_and_their_journals() -> None:
    names = plan_sources.units(LISTED)
    assert names == ["mariadb.service", "footprint-galera-guard.timer", "garbd@blue.service"]
    found = {command.name: command.argv for command in plan_sources.journals(names, 6)}
    assert list(found) == ["kernel", "errors", *names]
    assert found["mariadb.service"][-1] == "--unit=mariadb.service" and all("--since=-6h" in argv for argv in found.values())


def test_each_vm_is_described_by_a_connection_that_shows_no_passwords() -> None:
    found = plan_sources.vm_commands("lxc:///system", ["web"])
    assert all(command.argv[:4] == ("virsh", "-r", "-c", "lxc:///system") for command in found)
    assert [command.name for command in found][-2:] == ["lxc/web/dominfo", "lxc/web/dumpxml"]
    assert "--security-info" not in str(found)
    assert len(plan_sources.vm_commands("lxc:///system", ["x"] * 1000)) == len(plan_sources.VM_COMMANDS) + 2 * plan_sources.MOST_VMS


def test_no_command_shows_the_arguments_of_processes() -> None:
    (processes,) = (command for command in plan_sources.COMMANDS["system"] if command.argv[0] == "ps")
    assert not {"args", "cmd", "command"} & set(processes.argv[2].split(","))
