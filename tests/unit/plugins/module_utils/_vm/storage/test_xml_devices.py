# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disks of a document: by path, by pool and volume, and the file systems of containers."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import xml_devices

DOCUMENT = xml_domain.parse(
    """<domain><devices>
    <disk type='file'><driver type='qcow2'/><source file='/pool/a'/><target dev='vda'/></disk>
    <disk type='block'><source dev='/dev/vg/b'/><target dev='vdb'/></disk>
    <disk type='volume'><driver type='raw'/><source pool='p' volume='c'/><target dev='vdc'/></disk>
    <disk type='volume'><source pool='p' volume='d'/><target dev='vdd'/></disk>
    <disk type='network'><source protocol='rbd' name='x/y'/><target dev='vde'/></disk>
    <disk type='file' device='cdrom'><target dev='sda'/></disk>
    <filesystem type='mount'><source dir='/pool/root'/><target dir='/'/></filesystem>
    <interface type='bridge'><source bridge='br0'/><target dev='vnet0'/></interface>
    </devices></domain>"""
)


def test_where_each_disk_is() -> None:
    assert xml_devices.placed_disks(DOCUMENT) == {
        "vda": ("/pool/a", None, None),
        "vdb": ("/dev/vg/b", None, None),
        "vdc": (None, "p", "c"),
        "vdd": (None, "p", "d"),
        "vde": (None, None, None),
        "/": ("/pool/root", None, None),
    }


def test_files_and_their_formats() -> None:
    live = xml_domain.parse(
        """<domain><devices><disk type='file'><driver type='qcow2'/><source file='/pool/a'/><target dev='vda'/>
        <backingStore type='file'><format type='raw'/><source file='/pool/b'/><backingStore/></backingStore></disk>
        <disk type='file'><driver type='raw'/><source file='/pool/c'/><target dev='vdb'/></disk></devices></domain>"""
    )
    assert xml_devices.needed_files(live) == {"/pool/a": "qcow2", "/pool/b": "raw", "/pool/c": "raw"}


def test_disks_given_by_pool_and_volume() -> None:
    assert xml_devices.pool_disks(DOCUMENT) == {("p", "c"): "raw", ("p", "d"): None}
