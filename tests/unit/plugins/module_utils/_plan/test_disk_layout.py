# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._model.disk import Filesystem, Partition
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._plan.disk_layout import home_of, plan_layout, space_problems

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


def test_a_disk_too_small_is_told_with_numbers():
    with pytest.raises(CapacityError, match="need .*the disk has 1 GiB"):
        plan_layout([GIB], SCHEMA, (), VM)


def test_many_small_files_get_inodes():
    (root,) = plan_layout([GIB], (), (fs("/", 1, 100_000),), VM).partitions
    assert root.inodes == 150_000
    assert plan_layout([GIB], (), (fs("/", 1, 1000),), VM).partitions[0].inodes is None


def test_space_is_counted_where_the_files_come_to_lie():
    layout = plan_layout([3 * GIB], (Partition("/", "ext4", None), Partition("/srv", "ext4", GIB)), (), VM)
    assert space_problems(layout, (fs("/", GIB), fs("/srv", GIB // 2), fs("/srv/x", GIB // 8))) == []
    (problem,) = space_problems(layout, (fs("/", GIB), fs("/srv", GIB // 2), fs("/srv/x", GIB // 2)))
    assert problem.startswith("/srv gets 1 GiB and needs")
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
