# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a domain document does with the files of its host."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.xml_disk_uses import DiskUse, disk_uses

CASES = [
    ("<disk type='file'><source file='/a'/><target dev='vda'/></disk>", DiskUse("vda", "/a")),
    ("<disk type='block'><driver type='raw'/><source dev='/dev/x'/><target dev='vda'/></disk>", DiskUse("vda", "/dev/x", form="raw")),
    ("<disk type='file' device='cdrom'><source file='/a'/><target dev='sda'/></disk>", DiskUse("sda", "/a", writes=False)),
    ("<disk type='file'><source file='/a'/><target dev='vda'/><readonly/></disk>", DiskUse("vda", "/a", writes=False)),
    ("<disk type='file'><source file='/a'/><target dev='vda'/><transient/></disk>", DiskUse("vda", "/a", writes=False)),
    ("<disk type='file'><source file='/a'/><target dev='vda'/><shareable/></disk>", DiskUse("vda", "/a", shareable=True)),
    ("<disk type='file' device='cdrom'><target dev='sda'/></disk>", None),
    ("<disk type='volume'><source pool='p' volume='v'/><target dev='vda'/></disk>", DiskUse("vda", None, "p", "v")),
    (
        "<disk type='network'><source protocol='rbd' name='p/v'><host name='m2' port='1'/><host name='m1'/></source><target dev='vda'/></disk>",
        DiskUse("vda", None, remote="rbd:p/v@m1:,m2:1"),
    ),
    (
        "<disk type='file'><source file='/a'/><backingStore type='file'><source file='/b'/><backingStore type='file'><source file='/c'/></backingStore>"
        "</backingStore><target dev='vda'/></disk>",
        DiskUse("vda", "/a", layers=("/b", "/c")),
    ),
    ("<filesystem type='mount'><source dir='/a'/><target dir='/'/></filesystem>", DiskUse("/", "/a", folder=True, root=True)),
    ("<filesystem type='mount'><source dir='/a'/><target dir='/srv'/><readonly/></filesystem>", DiskUse("/srv", "/a", writes=False, folder=True)),
    ("<filesystem type='file'><source file='/a'/><target dir='/'/></filesystem>", DiskUse("/", "/a", root=True)),
    ("<filesystem type='ram'><source usage='1'/><target dir='/tmp'/></filesystem>", None),
]


@pytest.mark.parametrize("device, expected", CASES)
def test_one_device(device: str, expected: DiskUse | None) -> None:
    document = parse(f"<domain><devices>{device}</devices></domain>")
    assert disk_uses(document) == ([expected] if expected is not None else [])


def test_the_target_of_a_copy_that_runs_is_written_to() -> None:
    disk = "<disk type='file'><source file='/a'/><mirror type='file' file='/b'><source file='/b'/></mirror><target dev='vda'/></disk>"
    assert [use.path for use in disk_uses(parse(f"<domain><devices>{disk}</devices></domain>"))] == ["/b", "/a"]
