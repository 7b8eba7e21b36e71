# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision about a volume, row by row."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._model.size import GIB
from ansible_collections.reduced.footprint.plugins.module_utils._model.storage import Image, Pool
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._plan.volumes import plan_volume

FILES = Pool("default", "dir", "/pool")
BLOCKS = Pool("vg0", "logical", "/dev/vg0")
QCOW2 = Image("deb", "/pool/images/deb.qcow2", "qcow2", 2 * GIB)
TAR = Image("root", "/pool/images/root.tar", "tar", 0)


def disk(hypervisor: str = "qemu", **details: t.Any) -> t.Any:
    """The only disk of a VM."""
    return parse_vms([{"id": "a", "hypervisor": hypervisor, "disks": [details]}], cluster="lab")[0].disks[0]


CASES = [
    ("empty", disk(size=1), FILES, None, "empty", GIB),
    ("empty in a volume group", disk(size=1), BLOCKS, None, "empty", GIB),
    ("copy, as large as the image", disk(image="deb"), FILES, QCOW2, "copy", 2 * GIB),
    ("copy, grown", disk(image="deb", size=5), FILES, QCOW2, "copy", 5 * GIB),
    ("a layer", disk(image="deb", size=5, format="qcow2", backing=True), FILES, QCOW2, "backing", 5 * GIB),
    ("a root", disk("lxc", image="root", size=4), FILES, TAR, "unpack", 0),
]


@pytest.mark.parametrize("wanted, pool, image, how, size", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decision(wanted: t.Any, pool: Pool, image: Image | None, how: str, size: int) -> None:
    plan = plan_volume(wanted, pool, False, image, "d")
    assert (plan.how, plan.size, plan.creates) == (how, size, True)


@pytest.mark.parametrize("wanted, pool, image", [case[1:4] for case in CASES], ids=[case[0] for case in CASES])
def test_what_exists_is_never_written_over(wanted: t.Any, pool: Pool, image: Image | None) -> None:
    assert not plan_volume(wanted, pool, True, image, "d").creates


REFUSED = [
    ("smaller than its image", disk(image="deb", size=1), FILES, QCOW2, "d.size: 1 GiB is less than the 2 GiB of the base image deb"),
    ("a container without image", disk("lxc"), FILES, None, "d.image: is missing"),
    ("a container in a volume group", disk("lxc", image="root"), BLOCKS, TAR, "d.pool: the pool vg0 is of type logical"),
    ("a container from a disk image", disk("lxc", image="deb"), FILES, QCOW2, "d.image: /pool/images/deb.qcow2 is qcow2"),
    ("a machine from a tar", disk(image="root"), FILES, TAR, "d.image: /pool/images/root.tar is tar"),
    ("qcow2 in a volume group", disk(size=1, format="qcow2"), BLOCKS, None, "d.format: the pool vg0 is of type logical"),
]


@pytest.mark.parametrize("wanted, pool, image, message", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_does_not_go_together_is_refused(wanted: t.Any, pool: Pool, image: Image | None, message: str) -> None:
    with pytest.raises(InputError) as raised:
        plan_volume(wanted, pool, False, image, "d")
    assert str(raised.value).startswith(message)
    assert raised.value.mend


def test_the_diff_line_says_where_from() -> None:
    plan = plan_volume(disk(image="deb", size=5), FILES, False, QCOW2, "d")
    assert (plan.action, plan.describe()) == ("create_volume default/a-disk0.img", "default/a-disk0.img, raw, 5 GiB, from deb")
