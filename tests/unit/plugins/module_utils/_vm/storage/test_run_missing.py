# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of disks that may be created again, against the disks of the VMs of a call."""

from __future__ import annotations

import dataclasses
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_missing

VMS = [
    {"id": "a", "hypervisor": "qemu", "disks": [{"size": 1}, {"size": 1, "name": "data", "pool": "fast"}]},
    {"id": "b", "hypervisor": "qemu", "disks": [{"size": 1, "name": "data"}]},
]


@pytest.mark.parametrize(
    "names, message",
    [
        ([], None),
        (["a-disk0.img", "default/data", "fast/data"], None),
        (["a-disk0.img", "a-disk1.img"], r"recreate_disks\[1\].*Did you mean a-disk0.img\?"),
        (["data"], r"recreate_disks\[0\].*default/data, fast/data.*POOL/NAME"),
        (["slow/data"], r"recreate_disks\[0\]"),
    ],
)
def test_names(names: list[str], message: str | None) -> None:
    works: t.Any = [types.SimpleNamespace(vm=vm, steps=types.SimpleNamespace(disks=vm.disks)) for vm in parse_vms(VMS, cluster="lab")]
    if message is None:
        run_missing.check_names("recreate_disks", names, works, "default")
        return
    with pytest.raises(InputError, match=message):
        run_missing.check_names("recreate_disks", names, works, "default")


def test_a_disk_goes_by_the_name_it_was_created_with() -> None:
    vms = parse_vms(VMS, cluster="lab")
    kept = [dataclasses.replace(vms[0].disks[0], name="a-disk7.img")]
    works: t.Any = [types.SimpleNamespace(vm=vms[0], steps=types.SimpleNamespace(disks=kept))]
    run_missing.check_names("recreate_disks", ["a-disk7.img"], works, "default")
    with pytest.raises(InputError, match="Did you mean a-disk7.img"):
        run_missing.check_names("recreate_disks", ["a-disk0.img"], works, "default")
    # the disks of a refused VM are unknown, and nothing is done for it
    works.append(types.SimpleNamespace(vm=vms[1], steps=None))
    run_missing.check_names("recreate_disks", ["b-disk9.img"], works, "default")
