# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""spawn_vms on a server that was installed again does not replace the copies of its lost VMs by those of empty disks."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

COPY = {"id": "20261126T100000Z", "source": "metal2", "copied": "2026-11-26T10:00:00Z", "verified": "2026-11-26T10:00:09Z"}
HERE = {"id": "notes", "name": "notes", "state": "running", "moved": None}
VM = {"id": "notes", "ram": 1, "hypervisor": "qemu", "disks": [{"size": "1 GiB", "format": "qcow2"}], "standby": "metal1"}


@pytest.mark.parametrize(
    ("here", "copies", "variables", "refused"),
    [
        # installed again, with and without libvirt
        ({"vms": []}, [COPY], {}, True),
        ({"failed": True, "msg": "cannot connect to libvirt"}, [COPY], {}, True),
        # it was started on its standby, and its server is back
        ({"vms": [{**HERE, "state": "shutdown", "moved": "metal1"}]}, [COPY], {}, False),
        ({"vms": []}, [], {}, False),
        ({"vms": []}, [COPY], {"virt_guests_state": "absent"}, False),
        ({"vms": []}, [COPY], {"virt_guests_only": "web, notes"}, True),
        ({"vms": []}, [COPY], {"vms": [], "standby_extra": [VM]}, False),
    ],
)
def test_a_vm_with_copies_is_not_created_again(tmp_path: pathlib.Path, here: t.Any, copies: t.Any, variables: t.Any, refused: bool) -> None:
    control = ControlNode(tmp_path, "virt_node_info", "vm_standby_info", "vm_info")
    control.answers = {
        "virt_node_info metal1": {"node": {}},
        "vm_standby_info metal1": {"standbys": [{"id": "notes", "part": "standby", "used_bytes": 1, "copies": copies}]},
        "vm_info metal2": here,
    }
    play = yaml.safe_load((ROOT / "playbooks/spawn_vms.yml").read_text("utf-8"))[0]
    (task,) = [task for task in play["pre_tasks"] if task["name"] == "Check the standbys"]
    values = {"virt_guests_state": "running", "virt_guests_only": [], "footprint_cluster": "lab", "vms": [VM], **variables}
    code, output = control.play([task], **values)
    assert (code != 0) is refused, output
    if refused:
        assert "vms[0].standby: notes is not on metal2, but metal1 has a copy of 2026-11-26T10:00:00Z. It would be created" in " ".join(output.split())
