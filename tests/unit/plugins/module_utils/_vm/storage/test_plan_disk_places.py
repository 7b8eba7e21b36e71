# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which places in a pool can be the disk of a VM."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage, plan_disk_places

POOLS = {"/srv": "outer", "/srv/guests": "inner"}


@pytest.mark.parametrize(
    "one, other, expected",
    [
        ("/pool/a", "/pool/a", True),
        ("/pool/a", "/pool", True),
        ("/pool", "/pool/a", True),
        ("/pool/a", "/", True),
        ("/pool/a", "/pool/ab", False),
        ("/pool/ab", "/pool/a", False),
    ],
)
def test_containment_counts_in_both_directions(one: str, other: str, expected: bool) -> None:
    assert model_storage.overlap(one, other) is expected


@pytest.mark.parametrize(
    "path, reason",
    [
        ("/srv/images", "it is the folder of the base images of the storage pool outer"),
        ("/srv/guests/images", "it is the folder of the base images of the storage pool inner"),
        ("/srv/guests", "it is or contains the folder of the storage pool inner"),
        ("/srv", "it is or contains the folder of the storage pool outer"),
        ("/", "it is or contains the folder of the storage pool outer"),
        ("/srv/web", None),
        ("/srv/images2", None),
        ("/srv/guests/web", None),
    ],
)
def test_a_place_that_belongs_to_a_pool(path: str, reason: str | None) -> None:
    assert plan_disk_places.reserved_because(path, POOLS) == reason
    if reason is None:
        plan_disk_places.check_folder(path, POOLS, "vms[0].disks[0]")
    else:
        with pytest.raises(RefusedError, match=reason) as raised:
            plan_disk_places.check_folder(path, POOLS, "vms[0].disks[0]")
        assert raised.value.path == "vms[0].disks[0].name"


def test_the_name_of_the_image_folder_is_reserved_where_it_is_one() -> None:
    plan_disk_places.check_name(model_storage.Pool("vg0", "logical", "/dev/vg0"), "images", "d")
    plan_disk_places.check_name(model_storage.Pool("default", "dir", "/pool"), "image", "d")
    for kind in ("dir", "fs", "netfs"):
        with pytest.raises(RefusedError, match="'images' is the folder of the base images"):
            plan_disk_places.check_name(model_storage.Pool("default", kind, "/pool"), "images", "d")
