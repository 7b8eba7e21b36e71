# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import BIOS, EFI, Filesystem, Partition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import home_of, plan_layout, same_schema, space_problems

MIB = 1024**2
GIB = 1024**3
VM = "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11"
SCHEMA = (Partition("/", "ext4", None), Partition("/srv", "xfs", GIB), Partition(None, "swap", GIB // 4), Partition("/boot/efi", "vfat", 100 * MIB))


def fs(mount, used, inodes=10):
    return Filesystem(mount, "/dev/x", "ext4", used, inodes)


def test_partitions_follow_each_other_and_stay_on_the_disk():
    layout = plan_layout([6 * GIB], SCHEMA, (), VM)
    place = 2 * MIB
    for each in layout.partitions:
        assert each.start == place and each.size % MIB == 0
        place += each.size
    assert place <= 6 * GIB - MIB
    assert [each.number for each in layout.partitions] == [2, 3, 4, 5]


def test_uuids_are_the_same_in_every_run_and_differ_within_one():
    one, two = plan_layout([6 * GIB], SCHEMA, (), VM), plan_layout([8 * GIB], SCHEMA, (), VM)
    assert [each.uuid for each in one.partitions] == [each.uuid for each in two.partitions]
    assert len({each.uuid for each in one.partitions} | {each.partuuid for each in one.partitions}) == 8
    assert len(one.partitions[3].uuid) == 9


def test_parents_are_mounted_before_children():
    schema = (Partition("/srv/data", "ext4", GIB), Partition("/srv", "ext4", GIB), Partition("/", "ext4", None))
    assert [each.mount for each in plan_layout([6 * GIB], schema, (), VM).mounts] == ["/", "/srv", "/srv/data"]


def test_no_schema_is_one_root():
    (root,) = plan_layout([GIB], (), (), VM).partitions
    assert (root.mount, root.fs, root.size) == ("/", "ext4", GIB - 3 * MIB)


def test_a_disk_that_is_too_small_is_refused_with_sizes():
    with pytest.raises(CapacityError, match="need .*the disk has 1 GiB"):
        plan_layout([GIB], SCHEMA, (), VM)


def test_many_small_files_get_inodes():
    (root,) = plan_layout([GIB], (), (fs("/", 1, 100_000),), VM).partitions
    assert root.inodes == 150_000
    assert plan_layout([GIB], (), (fs("/", 1, 1000),), VM).partitions[0].inodes is None


def test_space_is_counted_on_the_partition_that_gets_the_files():
    layout = plan_layout([3 * GIB], (Partition("/", "ext4", None), Partition("/srv", "ext4", GIB)), (), VM)
    assert space_problems(layout, (fs("/", GIB), fs("/srv", GIB // 2), fs("/srv/x", GIB // 8))) == []
    (problem,) = space_problems(layout, (fs("/", GIB), fs("/srv", GIB // 2), fs("/srv/x", GIB // 2)))
    assert problem.startswith("/srv gets 1 GiB but needs")
    (problem,) = space_problems(layout, (fs("/", GIB), fs("/var", GIB)))
    assert problem.startswith("/ gets")


@pytest.mark.parametrize(("mount", "home"), [("/", "/"), ("/srv", "/srv"), ("/srv/x", "/srv"), ("/srvx", "/"), ("/var/lib", "/")])
def test_home_is_the_nearest_mount_above(mount, home):
    assert home_of(mount, ["/", "/srv", None]) == home


@given(st.lists(st.integers(16, 3000), min_size=1, max_size=8), st.integers(100, 40_000))
def test_a_layout_fits_or_is_refused(sizes, disk):
    schema = [Partition(f"/m{number}", "ext4", size * MIB) for number, size in enumerate(sizes)] + [Partition("/", "ext4", None)]
    try:
        layout = plan_layout([disk * MIB], schema, (), VM)
    except CapacityError:
        assert sum(sizes) + 3 + 16 > disk
    else:
        assert layout.partitions[-1].start + layout.partitions[-1].size <= (disk - 1) * MIB
        assert all(each.size >= 16 * MIB for each in layout.partitions)


def on(mount, fstype, size, used=0, disks=("sda",), device="", **more):
    return Filesystem(mount, device or f"/dev/{mount}", fstype, used, 10, size=size, disks=disks, **more)


def shape(schema):
    return [(each.mount, each.fs, each.size and each.size // MIB, each.disk) for each in schema]


def test_the_same_schema_keeps_the_sizes_and_gives_the_rest_to_the_largest():
    systems = [on("/", "ext4", 10 * GIB), on("/boot", "ext2", GIB // 2), on("/var", "xfs", 20 * GIB), on("/boot/efi", "vfat", 512 * MIB)]
    swap = [{"size": 2 * GIB, "disks": ["sda"]}]
    wanted = [("/", "ext4", 10240, 0), ("/boot", "ext4", 512, 0), ("/boot/efi", "vfat", 512, 0), ("/var", "xfs", None, 0), (None, "swap", 2048, 0)]
    assert shape(same_schema(systems, swap, [60 * GIB], EFI)) == wanted
    # BIOS has no use for that partition, its files become a folder
    assert [each[0] for each in shape(same_schema(systems, swap, [60 * GIB], BIOS))] == ["/", "/boot", "/var", None]


def test_a_smaller_disk_makes_partitions_smaller_but_not_below_their_files():
    systems = [on("/", "ext4", 100 * GIB, 6 * GIB), on("/boot", "ext4", GIB), on("/var", "xfs", 400 * GIB, 10 * GIB), on("/srv", "xfs", 50 * GIB, 7 * GIB)]
    schema = same_schema(systems, [{"size": 32 * GIB, "disks": []}], [40 * GIB], BIOS)
    layout = plan_layout([40 * GIB], schema, systems, VM)
    assert space_problems(layout, systems) == []
    sizes = {each.mount: each.size for each in layout.partitions}
    assert sizes["/boot"] == GIB and sizes[None] < 2 * GIB


def test_the_same_schema_is_refused_on_a_disk_that_is_too_small():
    systems = [on("/", "ext4", 100 * GIB, 30 * GIB), on("/var", "ext4", 50 * GIB, 20 * GIB)]
    with pytest.raises(CapacityError, match="the disk has 20 GiB"):
        plan_layout([20 * GIB], same_schema(systems, [], [20 * GIB], BIOS), systems, VM)


def test_disks_of_the_source_map_to_disks_of_the_vm():
    systems = [
        on("/", "ext4", 10 * GIB, disks=("nvme1n1",)),
        on("/boot", "ext4", GIB, disks=("nvme0n1",)),
        on("/srv", "xfs", 30 * GIB, disks=("sda", "sdb")),
        on("/data", "xfs", 30 * GIB, disks=("sdb",)),
        on("/old", "reiserfs", 5 * GIB, disks=()),
    ]
    two = {each.mount: each.disk for each in same_schema(systems, [], [90 * GIB, 50 * GIB], BIOS)}
    assert two == {"/": 0, "/boot": 0, "/srv": 0, "/data": 0, "/old": 0}
    four = same_schema(systems, [], [30 * GIB] * 4, BIOS)
    assert {each.mount: each.disk for each in four} == {"/": 0, "/boot": 0, "/srv": 2, "/data": 3, "/old": 0}
    layout = plan_layout([30 * GIB] * 4, four, (), VM)
    assert [each.index for each in layout.disks] == [0, 2, 3] and len({each.uuid for each in layout.disks}) == 3
    assert [(each.number, each.start) for each in layout.partitions if each.disk == 2] == [(1, MIB)]
    assert next(each.fs for each in layout.partitions if each.mount == "/old") == "ext4"


def test_subvolumes_stay_subvolumes_and_those_not_mounted_become_folders():
    systems = [
        on("/", "btrfs", 20 * GIB, 3 * GIB, device="/dev/sda2", subvolume="@", options="compress=zstd:1"),
        on("/home", "btrfs", 20 * GIB, device="/dev/sda2", subvolume="@home"),
        on("/var/lib/machines", "btrfs", 20 * GIB, device="/dev/sda2", subvolume=None),
        on("/data", "btrfs", 5 * GIB, device="/dev/sdb", subvolume=""),
    ]
    data, root = sorted(same_schema(systems, [], [40 * GIB], BIOS), key=lambda each: each.mount, reverse=True)
    assert root.subvolumes == (("/", "@"), ("/home", "@home")) and root.options == "compress=zstd:1"
    assert data.subvolumes == ()
    layout = plan_layout([40 * GIB], (root, data), systems, VM)
    assert [(each.mount, each.subvolume) for each in layout.mounts] == [("/", "@"), ("/home", "@home"), ("/data", None)]
    assert space_problems(layout, systems) == []


def test_a_source_without_facts_has_no_schema():
    assert same_schema((), [], [GIB], BIOS) == ()


def test_uefi_gets_an_efi_system_partition():
    layout = plan_layout([6 * GIB], (), (), VM, EFI)
    assert [(each.mount, each.fs, each.number) for each in layout.partitions] == [("/boot/efi", "vfat", 2), ("/", "ext4", 3)]
    assert layout.esp is layout.partitions[0]
    given = plan_layout([6 * GIB], (Partition("/", "ext4", None), Partition("/efi", "vfat", GIB)), (), VM, EFI)
    assert given.esp is given.partitions[1] and len(given.partitions) == 2


def test_percent_refers_to_the_available_space():
    schema = (Partition("/", "ext4", None), Partition("/a", "xfs", None, 25.0), Partition("/b", "ext4", None, 100.0, 1))
    layout = plan_layout([10 * GIB, 4 * GIB], schema, (), VM)
    sizes = {each.mount: each.size for each in layout.partitions}
    assert sizes["/a"] == (10 * GIB - 3 * MIB) // 4 // MIB * MIB and sizes["/b"] == 4 * GIB - 2 * MIB


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (Partition("/x", "xfs", 100 * MIB), "/x gets 100 MiB; xfs needs at least 300 MiB"),
        (Partition("/x", "btrfs", 100 * MIB), "btrfs needs at least"),
        (Partition("/x", "ext4", GIB, disk=2), "uses disk 2, but the VM has 1"),
    ],
)
def test_partitions_that_cannot_be_created_are_refused(wanted, message):
    with pytest.raises(CapacityError, match=message):
        plan_layout([6 * GIB], (Partition("/", "ext4", None), wanted), (), VM)


@given(st.lists(st.tuples(st.integers(16, 3000), st.integers(0, 100)), min_size=1, max_size=6), st.integers(500, 60_000), st.sampled_from([BIOS, EFI]))
def test_the_same_schema_is_laid_out_or_refused_and_never_overlaps(parts, disk, firmware):
    systems = [on("/" if not number else f"/m{number}", "ext4", size * MIB, size * MIB * used // 100) for number, (size, used) in enumerate(parts)]
    try:
        layout = plan_layout([disk * MIB], same_schema(systems, [], [disk * MIB], firmware), systems, VM, firmware)
    except CapacityError:
        # at least a part of it has to be used for that
        assert sum(size * used // 100 for size, used in parts) * 2 + 600 * len(parts) > disk
        return
    place = 2 * MIB
    for each in layout.partitions:
        assert each.start == place
        place += each.size
    assert place <= (disk - 1) * MIB
