# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision about a volume, row by row."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import Image, Origin, Pool, Volume
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import check_room, image_changed, kept_because, plan_volume

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
    plan = plan_volume(wanted, pool, None, image, "d")
    assert (plan.how, plan.size, plan.creates) == (how, size, True)


REFUSED = [
    ("smaller than its image", disk(image="deb", size=1), FILES, QCOW2, "d.size: 1 GiB is less than the 2 GiB of the base image deb"),
    ("a container without image", disk("lxc"), FILES, None, "d.image: is required"),
    ("a container in a volume group", disk("lxc", image="root"), BLOCKS, TAR, "d.pool: the pool vg0 is of type logical"),
    ("a container from a disk image", disk("lxc", image="deb"), FILES, QCOW2, "d.image: /pool/images/deb.qcow2 is qcow2"),
    ("a machine from a tar", disk(image="root"), FILES, TAR, "d.image: /pool/images/root.tar is tar"),
    ("qcow2 in a volume group", disk(size=1, format="qcow2"), BLOCKS, None, "d.format: the pool vg0 is of type logical"),
]


@pytest.mark.parametrize("wanted, pool, image, message", [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_does_not_go_together_is_refused(wanted: t.Any, pool: Pool, image: Image | None, message: str) -> None:
    with pytest.raises(InputError) as raised:
        plan_volume(wanted, pool, None, image, "d")
    assert str(raised.value).startswith(message)
    assert raised.value.hint


def test_the_diff_line_says_where_from() -> None:
    plan = plan_volume(disk(image="deb", size=5), FILES, None, QCOW2, "d")
    assert (plan.action, plan.describe()) == ("create_volume default/a-disk0.img", "default/a-disk0.img, raw, 5 GiB, from deb")


def volume(form: str = "raw", capacity: int | None = 2 * GIB, **facts: t.Any) -> Volume:
    """A volume as it was found."""
    return Volume("/pool/a", "dir" if form == "dir" else "file", form, capacity, 0, **facts)


OTHER = Origin("suse", "/pool/images/suse.raw", 1, 1)
EXISTING = [
    ("as it is", disk(size=2), FILES, volume(), "keep", 2 * GIB, None),
    ("no size asked for", disk(image="deb"), FILES, volume(), "keep", 2 * GIB, None),
    ("a size that ends within a sector", disk(size="2147483600 B"), FILES, volume(), "keep", 2 * GIB, None),
    ("larger", disk(size=3), FILES, volume(), "grow", 3 * GIB, None),
    ("a larger layer", disk(size=3, format="qcow2", image="deb", backing=True), FILES, volume("qcow2", backing="/i"), "grow", 3 * GIB, None),
    ("rounded up by a volume group", disk(size="2000 MiB"), BLOCKS, volume(), "keep", 2 * GIB, None),
    ("a folder of any size", disk("lxc", size=1, image="root"), FILES, volume("dir", None), "keep", 0, None),
    ("another image", disk(image="deb"), FILES, volume(origin=OTHER), "keep", 2 * GIB, "was created from the image suse and is kept"),
    ("a layer after all", disk(image="deb", format="qcow2", backing=True), FILES, volume("qcow2"), "keep", 2 * GIB, "is not a layer over an image"),
    ("a copy after all", disk(image="deb", format="qcow2"), FILES, volume("qcow2", backing="/i"), "keep", 2 * GIB, "remains a layer over /i"),
]


@pytest.mark.parametrize("wanted, pool, found, how, size, notice", [case[1:] for case in EXISTING], ids=[case[0] for case in EXISTING])
def test_a_volume_that_exists(wanted: t.Any, pool: Pool, found: Volume, how: str, size: int, notice: str | None) -> None:
    plan = plan_volume(wanted, pool, found, None, "d")
    assert (plan.how, plan.size, plan.creates) == (how, size, False)
    assert [notice in each for each in plan.notices] == ([True] if notice else [])


NEVER = [
    ("shrink", disk(size=1), FILES, volume(), "d.size: the volume /pool/a has 2 GiB, wanted is 1 GiB; shrinking"),
    ("shrink by a little", disk(size="2047 MiB"), FILES, volume(), "d.size: the volume /pool/a has 2147483648 B, wanted is 2146435072 B"),
    ("shrink in a volume group", disk(size=1), BLOCKS, volume(), "d.size: the volume /pool/a has 2 GiB"),
    ("another format", disk(size=2, format="qcow2", name="a"), FILES, volume(), "d.format: the volume /pool/a exists and is raw, wanted is qcow2"),
]


@pytest.mark.parametrize("wanted, pool, found, message", [case[1:] for case in NEVER], ids=[case[0] for case in NEVER])
def test_what_a_volume_never_becomes(wanted: t.Any, pool: Pool, found: Volume, message: str) -> None:
    with pytest.raises(RefusedError) as raised:
        plan_volume(wanted, pool, found, None, "d")
    assert str(raised.value).startswith(message)
    assert raised.value.hint


def test_growing_says_from_where_to_where() -> None:
    plan = plan_volume(disk(size=3), FILES, volume(), None, "d")
    assert plan.action == "grow_volume default/a-disk0.img"
    assert (plan.describe_found(), plan.describe()) == ("default/a-disk0.img, raw, 2 GiB", "default/a-disk0.img, raw, 3 GiB")


@pytest.mark.parametrize("origin, now, wrong", [(OTHER, (1, 1), None), (None, (5, 5), None), (OTHER, (2, 1), "has changed"), (OTHER, None, "is missing")])
def test_the_image_behind_a_layer(origin: Origin | None, now: tuple[int, int] | None, wrong: str | None) -> None:
    said = image_changed(origin, now)
    assert said is None if wrong is None else said is not None and said.startswith(wrong)


def test_what_stays_when_its_vm_goes() -> None:
    assert kept_because("/pool/a", "/pool", False, []) is None
    assert kept_because("/pool/a", "/pool", True, []) == "it is protected"
    assert kept_because("/pool/images/a", "/pool", False, []) == "it is a base image"
    assert kept_because("/pool/a", "/pool", False, ["x", "y"]) == "x, y need it"
    pools = {"/pool": "default", "/pool/more": "more"}
    assert kept_because("/pool/a", "/pool", False, [], pools) is None
    assert kept_because("/pool/images", "/pool", False, [], pools) == "it is the folder of the base images of the storage pool default"
    assert kept_because("/pool/more", "/pool", False, [], pools) == "it is or contains the folder of the storage pool more"


def test_disks_that_fit_and_disks_that_do_not() -> None:
    check_room(BLOCKS, 5, 5, "vms[0]")
    with pytest.raises(RefusedError, match=r"need 3 GiB more in the pool vg0, which has 1 GiB left") as raised:
        check_room(BLOCKS, 3 * GIB, GIB, "vms[0]")
    assert raised.value.path == "vms[0].disks" and raised.value.hint
    # others took it meanwhile
    with pytest.raises(RefusedError, match="has 0 B left"):
        check_room(BLOCKS, 1, -5, "vms[0]")
