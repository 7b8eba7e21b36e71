# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, Filesystem, Partition, parse_schema
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout, same_schema
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_raw_devices import (
    RULES,
    found,
    raw_notes,
    raw_problems,
    raw_rules,
    resolved,
    why_left,
)

MIB, GIB = 1024**2, 1024**3
VM = "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11"
UUID = "0fc63daf-0000-4772-8e79-3d69d8477de4"
VOLUME = {
    "path": "/dev/mapper/vg0-ora", "links": ["/dev/dm-3", "/dev/mapper/vg0-ora", "/dev/vg0/ora"], "size": 2 * GIB, "disks": ["nvme1n1"], "content": "",
    "usage": "", "whole": False, "open": True, "owner": 1001, "group": 1002, "mode": 0o600,
}  # fmt: skip
PARTITION = {
    "path": f"/dev/disk/by-partuuid/{UUID}", "links": ["/dev/disk/by-partlabel/raw-one", f"/dev/disk/by-partuuid/{UUID}", "/dev/sda5"],
    "size": 100 * MIB + 512, "disks": ["sda"], "content": "", "usage": "", "whole": False, "open": False, "partuuid": UUID.upper(), "label": "raw-one",
}  # fmt: skip
SOURCE = {"blocks": [VOLUME, PARTITION]}
ROOT = (Filesystem("/", "/dev/sda1", "ext4", GIB, 1000, size=10 * GIB, disks=("sda",)),)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (VOLUME, None),
        (PARTITION, None),
        ({**PARTITION, "content": "ceph_bluestore", "usage": "other"}, None),
        ({**PARTITION, "table": "dos"}, None),
        ({**PARTITION, "kind": "21686148-6449-6e6f-744e-656564454649"}, ""),
        ({**PARTITION, "kind": "0x5"}, ""),
        ({**PARTITION, "content": "ext4", "usage": "filesystem"}, "contains ext4 that is not in use"),
        ({**PARTITION, "content": "LVM2_member", "usage": "raid"}, "contains LVM2_member that is not in use"),
        ({**PARTITION, "content": "crypto_LUKS", "usage": "crypto"}, "contains crypto_LUKS that is not in use"),
        ({**PARTITION, "content": "swap", "usage": "other"}, "is swap that is not in use"),
        ({**PARTITION, "whole": True}, "is a whole disk with unknown content that no program has open"),
        ({**PARTITION, "whole": True, "open": True}, None),
        ({**PARTITION, "whole": True, "table": "gpt"}, ""),
        ({**PARTITION, "whole": True, "removable": True}, ""),
        ({**VOLUME, "loop": True}, ""),
    ],
)
def test_unknown_content_is_copied_and_known_content_is_noted(block, why):
    assert why_left(block) == why


def test_the_same_schema_keeps_size_and_disk_of_raw_devices():
    sizes = [12 * GIB, 3 * GIB]
    layout = plan_layout(sizes, same_schema(ROOT, [{"size": GIB // 4, "disks": ["sda"]}], sizes, "bios", found(SOURCE)), ROOT, VM)
    assert [(each.disk, each.mount, each.fs, each.size) for each in layout.partitions] == [
        (0, "/", "ext4", 12 * GIB - 3 * MIB - GIB // 4 - 101 * MIB),
        (0, None, "swap", GIB // 4),
        (0, None, "raw", 101 * MIB),
        (1, None, "raw", 2 * GIB),
    ]
    assert [each.path for _partition, each in layout.raws] == [PARTITION["path"], VOLUME["path"]]
    assert layout.partitions[2].partuuid == UUID
    assert DiskLayout.from_dict(json.loads(json.dumps(layout.as_dict()))) == layout


def test_file_systems_shrink_instead_of_raw_devices():
    sizes = [5 * GIB]
    layout = plan_layout(sizes, same_schema(ROOT, [], sizes, "bios", found(SOURCE)), ROOT, VM)
    assert [each.size for _partition, each in layout.raws] == [2 * GIB, 100 * MIB + 512]
    assert [partition.size for partition, _raw in layout.raws] == [2 * GIB, 101 * MIB]
    with pytest.raises(CapacityError, match="The partitions need"):
        plan_layout([2 * GIB], same_schema(ROOT, [], [2 * GIB], "bios", found(SOURCE)), ROOT, VM)


def test_a_raw_device_alone_on_its_disk_keeps_its_size():
    sizes = [12 * GIB, 4 * GIB]
    schema = same_schema(ROOT, [], sizes, "bios", found({"blocks": [VOLUME]}))
    assert schema[1].size == 2 * GIB and schema[1].disk == 1


def test_a_custom_schema_accepts_any_name_of_a_raw_device():
    schema = resolved(parse_schema([{"mount": "/"}, {"raw": "/dev/vg0/ora"}, {"raw": "/dev/sda5", "size": "1GiB"}]), SOURCE)
    layout = plan_layout([12 * GIB], schema, ROOT, VM)
    assert [(partition.size, raw.path) for partition, raw in layout.raws] == [(2 * GIB, VOLUME["path"]), (GIB, PARTITION["path"])]
    assert raw_problems(layout, SOURCE) == []


def test_unknown_names_and_insufficient_sizes_are_reported():
    schema = resolved(parse_schema([{"mount": "/"}, {"raw": "/dev/sdz1"}, {"raw": "/dev/vg0/ora", "size": "1GiB"}]), SOURCE)
    unknown, small = raw_problems(plan_layout([12 * GIB], schema, ROOT, VM), SOURCE)
    assert unknown.startswith("/dev/sdz1 does not exist on the source") and VOLUME["path"] in unknown
    assert small == "/dev/mapper/vg0-ora has 2 GiB on the source, but its partition in the VM only 1 GiB."


def test_a_schema_without_facts_is_still_a_schema():
    assert resolved(parse_schema([{"mount": "/"}, {"raw": "/dev/vg0/ora"}]), {})[1].size == MIB


def test_notes_list_copied_and_skipped_devices():
    left = {**PARTITION, "path": "/dev/sda7", "links": [], "content": "xfs", "usage": "filesystem"}
    source = {"blocks": [VOLUME, PARTITION, left, {**PARTITION, "kind": "0x5"}]}
    assert raw_notes((), "rsync_dd", source) == [
        "/dev/mapper/vg0-ora (2 GiB, a program has it open) is copied block by block.",
        f"{PARTITION['path']} (100 MiB) is copied block by block.",
        "/dev/sda7 (100 MiB) contains xfs that is not in use; it is not copied. If it is needed, mount it before, or name it in disk_schema as raw.",
    ]
    assert raw_notes((), "rsync", source)[0].endswith("contains no file system and is not copied; to copy it, set sync: rsync_dd.")
    named, other, _left = raw_notes(parse_schema([{"mount": "/"}, {"raw": "/dev/vg0/ora"}]), "rsync_dd", source)
    assert named.endswith("is copied block by block.") and "add {raw:" in other


def test_udev_rules_restore_names_and_owners():
    sizes = [12 * GIB, 3 * GIB]
    layout = plan_layout(sizes, same_schema(ROOT, [], sizes, "bios", found(SOURCE)), ROOT, VM)
    text = raw_rules(layout)[RULES]
    one, two = text.splitlines()[1:]
    assert one == (
        f'SUBSYSTEM=="block", ENV{{ID_PART_ENTRY_UUID}}=="{UUID}", SYMLINK+="disk/by-partlabel/raw-one sda5", OWNER="0", GROUP="6", MODE="0660"'
    )
    assert 'SYMLINK+="mapper/vg0-ora vg0/ora", OWNER="1001", GROUP="1002", MODE="0600"' in two and layout.partitions[2].partuuid in two
    assert raw_rules(Layout()) == {}


def test_names_with_a_meaning_for_udev_are_left_out():
    odd = {**VOLUME, "links": ['/dev/vg0/a"b', "/dev/vg0/$x", "/dev/vda5", "/dev/dm-3"], "path": "/dev/mapper/odd name"}
    layout = plan_layout([12 * GIB], resolved((Partition("/", "ext4", None), *same(odd)), {"blocks": [odd]}), ROOT, VM)
    assert "SYMLINK" not in raw_rules(layout)[RULES]


def same(block):
    (raw,) = found({"blocks": [block]})
    return [Partition(None, "raw", raw.size, raw=raw)]


class Layout:
    raws = ()
