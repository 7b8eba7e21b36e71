# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pool without space: error for that VM, no partial file is left, the other VMs are done, and with space the next run completes."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import typing as t

import pytest
from harden_host import Host, disks_of, guest

AddRow = t.Callable[[str, str, str], None]
SMALL = "small"


@pytest.fixture(name="small")
def fixture_small(host: Host) -> t.Iterator[pathlib.Path]:
    """Create a second pool of 3 MiB."""
    folder = host.folder / SMALL
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0711", "tmpfs", str(folder)], check=True)
    # libvirtd reads the mounts of its mount namespace at its start
    host.end_daemon(signal.SIGTERM)
    host.start_daemon()
    with host.libvirt() as there:
        pool = there.connection.storagePoolCreateXML(f"<pool type='dir'><name>{SMALL}</name><target><path>{folder}</path></target></pool>", 0)
    (folder / "images").mkdir()
    image = folder / "images" / "fat.img"
    # the pool has space for one copy; no part of the image is sparse
    image.write_bytes(bytes(range(256)) * 4096 * 2)
    try:
        yield folder
    finally:
        with host.libvirt() as there:
            there.connection.storagePoolLookupByName(SMALL).destroy()
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _empty(folder: pathlib.Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["images"]
    assert [path.name for path in (folder / "images").iterdir()] == ["fat.img"]


@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_copy_without_space_is_refused_and_completed_later(host: Host, small: pathlib.Path, add_row: AddRow, form: str) -> None:
    host.image("base")
    wide = guest("wide", disks=[{"image": "fat", "pool": SMALL, "format": form}])
    slim = guest("slim", disks=[{"image": "base", "format": "qcow2"}])
    outcome = host.run(wide, slim)
    assert not outcome.ok and "no room left" in outcome.message, outcome.output
    assert (bool(outcome.vm(0)["error"]), outcome.vm(1)["error"], outcome.vm(1)["state"]) == (True, None, "running"), outcome.output
    _empty(small)
    again = host.run(wide, slim)
    assert not again.ok and again.vm(1)["actions"] == [], again.output
    _empty(small)
    subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
    last = host.done(wide, slim)
    assert last.vm()["state"] == "running" and disks_of((host.domain(last.vm()["uuid"]) or last).config_xml)
    assert not host.done(wide, slim).result["changed"]
    result = "clear error, no partial file, the other VM done; with space the next run completes"
    add_row(f"a pool without space for a {form} copy", "2 runs, 1 with space", result)


def test_new_disk_without_space_leaves_the_running_guest_unchanged(host: Host, small: pathlib.Path, add_row: AddRow) -> None:
    first = host.done(guest("grows")).vm()
    before = host.domain(first["uuid"])
    outcome = host.run(guest("grows", 40, disks=[{"image": "fat", "pool": SMALL}]))
    assert not outcome.ok and "no room left" in outcome.message, outcome.output
    after = host.domain(first["uuid"])
    assert before is not None and after is not None
    assert (after.state, after.config_xml) == (before.state, before.config_xml)
    _empty(small)
    add_row("a running guest's new disk does not fit", "1", "clear error, definition and guest unchanged")
