# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is written down of a pool's mount point, and what is made of it when nothing is mounted there."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_pool_mounts import PoolMounts

ROOT = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
SRV = "40 22 8:17 / /srv/vm\\040s rw shared:2 - xfs /dev/sdb1 rw\n"
INNER = "41 40 8:18 / /srv/vm\\040s/fast rw - ext4 /dev/sdc1 rw\n"
DEMAND = "39 22 0:40 / /srv/vm\\040s rw - autofs systemd-1 rw\n"
POOL = "/srv/vm s/pool"


class Host:
    """A host whose mounts can be changed."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.state, self.table = folder / "state" / "mounts.json", folder / "mountinfo"
        self.mount()

    def mount(self, *lines: str) -> PoolMounts:
        """A run on this host after a start with these mounts."""
        self.table.write_text(ROOT + "".join(lines), "utf-8")
        return PoolMounts(self.state, str(self.table))


@pytest.fixture(name="host")
def fixture_host(tmp_path: pathlib.Path) -> Host:
    return Host(tmp_path)


def test_the_mount_point_of_a_path(host: Host) -> None:
    assert host.mount().point(POOL) is None
    assert host.mount(SRV).point(POOL) == "/srv/vm s"
    assert host.mount(SRV).point("/srv/vm sx") is None
    assert host.mount(SRV, INNER).point("/srv/vm s/fast/pool") == "/srv/vm s/fast"
    # what would be mounted on demand is not mounted, until it is
    assert host.mount(DEMAND).point(POOL) is None
    assert host.mount(DEMAND, SRV).point(POOL) == "/srv/vm s"


def test_a_pool_that_was_on_a_mount_point_is_refused_without(host: Host) -> None:
    host.mount(SRV).remember(POOL)
    host.mount(SRV).check("fast", POOL, "vms[0].disks[0].pool")
    for where in ("pool", "vms[0].disks[0].pool"):
        with pytest.raises(RefusedError) as raised:
            host.mount().check("fast", POOL, where)
        assert raised.value.path == where
        for word in ("fast", POOL, "/srv/vm s, which is not mounted", "Mount it", "mounted: false"):
            assert word in str(raised.value)
    # what does not see the mount does not forget it
    host.mount().remember(POOL)
    assert host.mount().missing(POOL) == "/srv/vm s"
    host.mount(SRV).check("fast", POOL + "/", "pool")


def test_the_root_file_system_is_no_mount_point_of_a_pool(host: Host) -> None:
    host.mount().remember(POOL)
    assert not host.state.exists()
    host.mount().check("fast", POOL, "pool")


def test_a_deeper_mount_point_takes_the_place_of_the_one_above(host: Host) -> None:
    path = "/srv/vm s/fast/pool"
    host.mount(SRV).remember(path)
    host.mount(SRV, INNER).remember(path)
    assert host.mount(SRV).missing(path) == "/srv/vm s/fast"


def test_what_the_operator_says_counts(host: Host) -> None:
    host.mount(SRV).remember(POOL)
    host.mount().declare(POOL, False)
    host.mount().check("fast", POOL, "pool")
    # also after it was seen on a mount point again
    host.mount(SRV).remember(POOL)
    assert host.mount(SRV).recorded(POOL) is None
    host.mount(SRV).declare(POOL, True)
    assert host.mount().missing(POOL) == "/srv/vm s"


def test_nothing_is_written_twice(host: Host) -> None:
    host.mount(SRV).remember(POOL)
    before = host.state.stat().st_ino
    host.mount(SRV).remember(POOL)
    host.mount(SRV).declare(POOL, True)
    assert host.state.stat().st_ino == before


@pytest.mark.parametrize("text", ["{", "[]", '{"/srv/vm s/pool": 7}'])
def test_a_damaged_record(host: Host, text: str) -> None:
    host.state.parent.mkdir()
    host.state.write_text(text, "utf-8")
    if text in ("{", "[]"):
        with pytest.raises(BackendError, match="is damaged"):
            host.mount().missing(POOL)
    else:
        assert host.mount().missing(POOL) is None
