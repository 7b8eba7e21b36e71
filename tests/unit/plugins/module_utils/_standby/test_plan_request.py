# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs of a server that are copied, as the filter ``vm_standbys`` returns them."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.reduced.footprint.plugins.filter.vm_standbys import vm_standbys

ROLES = {"metal1": ["virt"], "metal2": ["virt"], "laptop": ["witness"]}
DISKS = [{"size": "10GiB"}, {"size": "1GiB"}]


def test_vm_standbys() -> None:
    vms = [{"id": "a", "disks": DISKS, "standby": {"server": "metal2", "interval": 60}}, {"id": "b", "disks": DISKS}]
    known = {"interval": 60, "copies": 2, "automatic": False}
    entry = {"id": "a", "name": "a", "server": "metal2", **known, "path": "metal1.vms[0].standby", "needed_bytes": 22 << 30}
    assert vm_standbys(vms, "metal1", ROLES) == [entry]
    assert vm_standbys("", "metal1", ROLES) == [] == vm_standbys([], "metal1", ROLES)


@pytest.mark.parametrize(
    ("server", "message"),
    [("metal1", r"metal1.standby_extra\[0\].standby: metal1 is the server of the VM itself"), ("laptop", "role virt"), ("metal9", "not a server")],
)
def test_errors_name_the_value(server: str, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        vm_standbys([{"id": "a", "disks": DISKS, "standby": server}], "metal1", ROLES, name="standby_extra")


def test_a_vm_whose_units_would_be_those_of_the_guard() -> None:
    with pytest.raises(AnsibleFilterError, match=r"metal1.vms\[0\].id: a VM with the ID guard cannot have a standby"):
        vm_standbys([{"id": "guard", "disks": DISKS, "standby": "metal2"}], "metal1", ROLES)
