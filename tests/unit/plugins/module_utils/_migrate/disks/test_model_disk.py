# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, Partition, parse_schema
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout

GIB = 1024**3
ROOT = {"mount": "/"}


@pytest.mark.parametrize("value", [None, []])
def test_an_empty_schema_means_as_on_the_source(value):
    assert parse_schema(value) == ()


def test_sizes_are_absolute_a_part_or_the_rest():
    schema = [{"mount": "/", "size": "20GiB"}, {"mount": "/var/", "fs": "xfs", "size": "30%"}, {"fs": "swap", "size": 2, "disk": None}]
    assert parse_schema([*schema, {"mount": "/srv", "fs": "btrfs", "size": "rest", "disk": "1"}]) == (
        Partition("/", "ext4", 20 * GIB),
        Partition("/var", "xfs", None, 30.0),
        Partition(None, "swap", 2 * GIB),
        Partition("/srv", "btrfs", None, None, 1),
    )
    assert parse_schema([{**ROOT}, {"mount": "/boot/efi", "size": "300MiB"}])[1].fs == "vfat"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([3], r"disk_schema\[0\]: is not a mapping"),
        ([{**ROOT, "sise": 3}], r"disk_schema\[0\].sise: is not a known key. Did you mean size\?"),
        ([{**ROOT, "fs": "zfs"}], r"disk_schema\[0\]\.fs: 'zfs' is not supported"),
        ([{**ROOT, "fs": "vfat"}], "vfat is not supported for /"),
        ([{"mount": "/boot/efi", "fs": "ext4"}, ROOT], "not supported for the EFI system partition"),
        ([{"mount": "srv"}], "is not a valid absolute path"),
        ([{"mount": "/srv/../etc"}], "is not a valid absolute path"),
        ([{"fs": "swap", "mount": "/x"}], "is not supported for swap"),
        ([{"mount": "/srv"}], "disk_schema: contains no partition for /"),
        ([ROOT, {"mount": "/"}], "contains a mount point twice"),
        ([ROOT, {"mount": "/a"}], "assigns the rest of disk 0 to more than one"),
        ([{**ROOT, "size": "60%"}, {"mount": "/a", "size": "60%"}], "more than 100%"),
        ([{**ROOT, "size": "0%"}], "not a valid percentage"),
        ([{**ROOT, "size": "101%"}], "not a valid percentage"),
        ([{**ROOT, "size": "8MiB"}], "smaller than 16 MiB"),
        ([{**ROOT, "size": -1}], "negative"),
        ([{**ROOT, "disk": 1}], "another disk than disk 0"),
        ([{**ROOT, "disk": "one"}], "is not a valid disk number"),
        ([{**ROOT, "disk": True}], "is not a valid disk number"),
        ([ROOT, {"mount": "/boot/efi", "size": 1, "disk": 1}], "another disk than disk 0"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_path(schema, message):
    with pytest.raises(InputError, match=message):
        parse_schema(schema)


def test_the_root_may_be_on_another_disk_if_boot_is_on_the_first():
    assert parse_schema([{"mount": "/boot", "size": 1}, {**ROOT, "disk": 1}])[1].disk == 1


def test_a_layout_survives_the_journal():
    wanted = (Partition("/", "btrfs", None, options="compress=zstd", subvolumes=(("/", "@"), ("/home", "@home"))), Partition("/srv", "xfs", GIB, disk=1))
    layout = plan_layout([8 * GIB, 4 * GIB], wanted, (), "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11", "efi")
    assert DiskLayout.from_dict(json.loads(json.dumps(layout.as_dict()))) == layout


def test_a_raw_device_is_named_by_its_path():
    found = parse_schema([ROOT, {"raw": "/dev/disk/by-partlabel/data"}, {"raw": "/dev/vg0/x", "size": "3GiB", "disk": 1}])
    assert [(each.fs, each.mount, each.size, each.disk, each.raw.path) for each in found[1:]] == [
        ("raw", None, None, 0, "/dev/disk/by-partlabel/data"),
        ("raw", None, 3 * GIB, 1, "/dev/vg0/x"),
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([ROOT, {"raw": "/dev/x", "fs": "ext4"}], r"disk_schema\[1\]\.fs: is not supported together with raw"),
        ([ROOT, {"raw": "/dev/x", "mount": "/x"}], r"disk_schema\[1\]\.mount: is not supported together with raw"),
        ([ROOT, {"raw": "sda5"}], r"disk_schema\[1\]\.raw: 'sda5' is not a valid device path"),
        ([ROOT, {"raw": "/dev/../etc/shadow"}], "is not a valid device path"),
        ([ROOT, {"raw": "/dev/x"}, {"raw": "/dev/x"}], "contains a block device twice"),
        ([ROOT, {"fs": "raw", "size": 1}], "'raw' is not supported"),
    ],
)
def test_an_invalid_device_is_refused(schema, message):
    with pytest.raises(InputError, match=message):
        parse_schema(schema)
