# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role standby: copies of lost VMs are not replaced by those of empty disks, and the end of copies is completed after a kill."""

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


def test_the_server_of_the_vm_is_the_last_one_that_forgets_its_copies(tmp_path: pathlib.Path) -> None:
    control = ControlNode(tmp_path, "vm_standby_info", "vm_standby", "one_time_key")
    entry = {"id": "notes", "part": "source", "cluster": "lab", "standby": "metal1"}
    control.answers = {
        "vm_standby_info metal2": {"standbys": [entry]},
        "one_time_key metal1": {"changed": True},
        # a run that ends here is repeated
        "vm_standby metal1": {"failed": True, "msg": "the copies of notes are in use by another process"},
        "vm_standby metal2": {"changed": True},
    }
    task = {"ansible.builtin.include_role": {"name": "reduced.footprint.standby"}}
    code, output = control.play([task], vms=[], footprint_cluster="lab")
    assert code != 0 and [call["host"] for call in control.calls("vm_standby")] == ["metal1"], output
    # a standby that is down does not prevent it
    control.answers["one_time_key metal1"] = control.answers["vm_standby metal1"] = {"unreachable": True, "msg": "down"}
    code, output = control.play([task], vms=[], footprint_cluster="lab")
    assert code == 0 and [call["host"] for call in control.calls("vm_standby")] == ["metal1", "metal2"], output
