# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision about a volume that is not there, row by row."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import plan_volumes_missing
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import DiskSource, Pool
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes_missing import History

POOL = Pool("default", "dir", "/pool")
HERE = "/pool/a-disk0.img"
ELSEWHERE = "/other/a-disk0.img"
NEVER = History()
HAD = History(had=frozenset([HERE]), places={"vda": HERE})
OPEN = History(frozenset([HERE]), frozenset([HERE]), {"vda": HERE})
OPEN_ONLY = History(open=frozenset([HERE]))
PENDING = History(places={"vda": HERE})
MOVED = History(had=frozenset([ELSEWHERE]), places={"vda": ELSEWHERE})
RENAMED = History(had=frozenset(["/pool/old.img"]), places={"vda": "/pool/old.img"})
TWIN = History(had=frozenset(["/pool/a-disk0.qcow2"]), places={"vda": "/pool/a-disk0.qcow2"})

# what, history, recreate, protected, words of the error (none: it may be created), words that are not in it
CASES: list[tuple[str, History, bool, bool, tuple[str, ...], tuple[str, ...]]] = [
    ("new", NEVER, False, False, (), ()),
    ("new, protected", NEVER, False, True, (), ()),
    ("defined, but not created yet", PENDING, False, True, (), ()),
    ("the VM had it", HAD, False, False, ("d: the volume a-disk0.img of the pool default", HERE, "Restore", "recreate_disks: [a-disk0.img]"), ()),
    ("the caller lets it be created", HAD, True, False, (), ()),
    ("protected", HAD, False, True, ("Restore", "recreate_disks does not apply"), ("recreate_disks: [",)),
    ("protected, and the caller asks for it", HAD, True, True, ("Restore", "recreate_disks does not apply"), ("recreate_disks: [",)),
    ("the running guest has it open", OPEN, False, False, ("still has it open", "virsh suspend a", HERE), ("recreate_disks",)),
    ("the running guest has it open, and the caller asks for it", OPEN, True, False, ("still has it open",), ("recreate_disks",)),
    ("only the running guest names it", OPEN_ONLY, True, False, ("still has it open",), ()),
    ("it is in another pool", MOVED, False, False, ("d.pool", ELSEWHERE, HERE, "recreate_disks: [a-disk0.img]"), ()),
    ("it is in another pool, protected", MOVED, True, True, ("d.pool", ELSEWHERE), ("recreate_disks: [",)),
    ("it is in another pool, and the caller asks for a new one", MOVED, True, False, (), ()),
    ("a disk of another name is another disk", RENAMED, False, False, (), ()),
    ("the VM had it in the other format", TWIN, False, False, ("a-disk0.qcow2", "is missing"), ()),
]


@pytest.mark.parametrize("history, recreate, protected, words, others", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decision(history: History, recreate: bool, protected: bool, words: tuple[str, ...], others: tuple[str, ...]) -> None:
    disk = parse_vms([{"id": "a", "hypervisor": "qemu", "disks": [{"size": 1}]}], cluster="lab")[0].disks[0]

    def decide() -> None:
        options: dict[str, t.Any] = {"path": "d", "recreate": recreate, "protected": protected, "twin": "/pool/a-disk0.qcow2"}
        plan_volumes_missing.refuse_missing("a", disk, POOL, DiskSource("file", HERE, "default"), history, **options)

    if not words:
        decide()
        return
    with pytest.raises(RefusedError) as raised:
        decide()
    text = str(raised.value)
    assert [word for word in words if word not in text] == [], text
    assert [word for word in others if word in text] == [], text


def test_the_folder_of_a_container_has_its_own_way_out() -> None:
    disk = parse_vms([{"id": "box", "hypervisor": "lxc", "disks": [{"image": "root"}]}], cluster="lab")[0].disks[0]
    source = DiskSource("dir", "/pool/box-disk0", "default")
    history = History(open=frozenset(["/pool/box-disk0"]))
    with pytest.raises(RefusedError, match="virsh -c lxc:///system domid box"):
        plan_volumes_missing.refuse_missing("box", disk, POOL, source, history, path="d", recreate=True, protected=False)
