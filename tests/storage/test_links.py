# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nothing is written through a symbolic link in a pool; an image that is only read may be one."""

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look
from storage_host import MIB, StorageHost

A: dict[str, t.Any] = {"id": "a", "disks": [{"size": "8 MiB"}]}
NEXT: dict[str, t.Any] = {"id": "b", "disks": [{"size": "4 MiB"}]}


@pytest.fixture(name="outside")
def fixture_outside(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file that is none of a VM's."""
    path = tmp_path / "precious.img"
    path.write_bytes(b"precious" * (MIB // 2))
    return path


def refused(host: StorageHost, vm: t.Mapping[str, t.Any], **options: t.Any) -> str:
    """Why a VM is refused, in check mode and for real; the other one is done."""
    errors = []
    for check in (True, False):
        result = host.call(vm, NEXT, check=check, **options)
        assert (result.vms[0].actions, result.vms[1].error) == ([], None)
        errors.append(result.vms[0].error)
    assert errors[0] == errors[1] and errors[0] is not None
    return errors[0]


@pytest.mark.parametrize("running", [False, True])
def test_the_target_of_a_link_is_not_grown(host: StorageHost, outside: pathlib.Path, running: bool) -> None:
    before = outside.read_bytes()
    if running:
        host.one({"id": "a", "disks": [{"size": "4 MiB"}]})
        (host.folder / "a-disk0.img").unlink()
    os.symlink(outside, host.folder / "a-disk0.img")
    assert f"{host.folder}/a-disk0.img is a symbolic link to {outside}" in refused(host, A)
    assert outside.read_bytes() == before


def test_a_link_that_leads_nowhere(host: StorageHost, tmp_path: pathlib.Path) -> None:
    os.symlink(tmp_path / "nothing", host.folder / "a-disk0.img")
    assert f"is a symbolic link to {tmp_path}/nothing" in refused(host, A)
    assert not (tmp_path / "nothing").exists()


def test_the_root_of_a_container(host: StorageHost, tmp_path: pathlib.Path) -> None:
    host.root_image()
    (tmp_path / "root").mkdir()
    os.symlink(tmp_path / "root", host.folder / "box-disk0")
    box = {"id": "box", "disks": [{"image": "root"}], "user_data": {"hostname": "box"}}
    error = host.call(box, kind="lxc").vms[0].error
    assert f"box-disk0 is a symbolic link to {tmp_path}/root" in (error or "")
    assert list((tmp_path / "root").iterdir()) == []


def test_a_seed(host: StorageHost, outside: pathlib.Path) -> None:
    os.symlink(outside, host.folder / "a-seed.iso")
    before = outside.read_bytes()
    assert f"a-seed.iso is a symbolic link to {outside}" in refused(host, {"id": "a", "user_data": {"hostname": "a"}})
    assert outside.read_bytes() == before and (host.folder / "a-seed.iso").is_symlink()


@pytest.mark.parametrize("wipe", [False, True])
def test_removal_leaves_link_and_target(host: StorageHost, outside: pathlib.Path, wipe: bool) -> None:
    before = outside.read_bytes()
    os.symlink(outside, host.folder / "a-disk0.img")
    result = host.call(A, state="absent", remove_disks=True, wipe=wipe)
    assert [warning for warning in result.warnings if f"a-disk0.img is kept: it is a symbolic link to {outside}" in warning]
    assert outside.read_bytes() == before and (host.folder / "a-disk0.img").is_symlink()


def test_a_move_does_not_take_a_link_for_the_disk(host: StorageHost, outside: pathlib.Path) -> None:
    host.one({"id": "a", "disks": [{"size": "4 MiB"}]}, state="present")
    (host.folder / "a-disk0.img").unlink()
    os.symlink(outside, host.folder / "a-disk0.img")
    found = io_look.describe(host.uris["qemu"], host.domain("a").UUIDString())
    assert f"{host.folder}/a-disk0.img is a symbolic link to {outside}" in found["unfit"]


def test_a_base_image_may_be_a_link(host: StorageHost, tmp_path: pathlib.Path) -> None:
    image = host.image("tiny.qcow2")
    os.rename(image, tmp_path / "elsewhere.qcow2")
    os.symlink(tmp_path / "elsewhere.qcow2", image)
    host.one({"id": "a", "disks": [{"image": "tiny"}]})
