# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A disk of a source with a raw volume is detected, laid out and copied between block devices of this machine's kernel."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks, run_block_agent, run_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import Filesystem, Partition, RawDevice
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout, same_schema
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_raw_devices import found
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_blocks as source_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

GIB, MIB = 1024**3, 1024**2
SOURCE_VM, COPY_VM = "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11", "0d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a12"
ROOT = (Filesystem("/", "/dev/x", "ext4", 1, 1, size=300 * MIB),)


def disks(folder: pathlib.Path, partitions: t.Sequence[Partition], vm: str) -> DiskImage:
    """Create a disk of 1 GiB with these partitions."""
    folder.mkdir()
    path = folder / "disk.raw"
    path.touch()
    os.truncate(path, GIB)
    image = DiskImage([str(path)], plan_layout([GIB], partitions, (), vm), folder / "work")
    image.write_table()
    image.make_filesystems()
    return image


@pytest.fixture(name="source")
def fixture_source(tmp_path: pathlib.Path) -> t.Iterator[DiskImage]:
    """The disk of the source: root, unused swap, and a raw partition of a database."""
    image = disks(
        tmp_path / "source",
        (Partition("/", "ext4", 300 * MIB), Partition(None, "swap", 64 * MIB), Partition(None, "raw", 40 * MIB, raw=RawDevice("/dev/x", label="database"))),
        SOURCE_VM,
    )
    image.attach()
    yield image
    image.release()


def of_source(source: DiskImage) -> dict[str, dict[str, t.Any]]:
    """Return the facts of the partitions of the source, by device node."""
    nodes = {source.node(each) for each in source.layout.partitions}
    return {node: each for each in source_blocks.blocks() for node in nodes & set(each["links"])}


def write(node: str, where: int, data: bytes) -> None:
    """Write to the device as a database does: data reach the disk before the call returns."""
    fd = os.open(node, os.O_WRONLY)
    os.pwrite(fd, data, where)
    os.fsync(fd)
    os.close(fd)


def test_partitions_are_detected_by_their_content(source: DiskImage) -> None:
    root, swap, raw = source.layout.partitions
    seen = of_source(source)
    assert {node: each["content"] for node, each in seen.items()} == {source.node(root): "ext4", source.node(swap): "swap", source.node(raw): ""}
    facts = seen[source.node(raw)]
    assert (facts["size"], facts["label"], facts["partuuid"], facts["open"], facts["whole"]) == (40 * MIB, "database", raw.partuuid, False, False)
    source.mount()
    with open(source.node(raw), "rb"):
        seen = of_source(source)
    assert source.node(root) not in seen and seen[source.node(raw)]["open"]
    assert [each.path for each in found({"blocks": list(seen.values())})] == [facts["path"]]


@pytest.fixture(name="context")
def fixture_context(source: DiskImage, tmp_path: pathlib.Path) -> t.Iterator[t.Any]:
    """The context of the worker, with disks laid out as on the source; this machine is the source."""
    (raw,) = found({"blocks": [each for node, each in of_source(source).items() if not each["content"]]})
    copy = disks(tmp_path / "copy", same_schema(ROOT, [], [GIB], "bios", [raw]), COPY_VM)
    store = tmp_path / "store"
    store.mkdir()
    said: list[str] = []
    journal = Journal("master")
    journal.facts["vm"] = {"disks": list(copy.images)}
    program = [sys.executable, "-m", run_block_agent.MODULE, "master"]
    yield types.SimpleNamespace(
        layout=lambda: copy.layout,
        disk=lambda: copy,
        journal=journal,
        store=types.SimpleNamespace(directory=store),
        spec=types.SimpleNamespace(bandwidth_limit=0),
        source=types.SimpleNamespace(program=lambda module: program),
        log=said.append,
        said=said,
    )
    copy.release()


def content(node: str, size: int = 40 * MIB) -> bytes:
    """Return the content of a device."""
    with open(node, "rb") as stream:
        return stream.read(size)


def test_volume_is_copied_updated_and_verified(source: DiskImage, context: t.Any) -> None:
    old = source.node(source.layout.partitions[2])
    ((partition, raw),) = context.layout().raws
    write(old, 3 * MIB, os.urandom(2 * MIB))
    progress: list[tuple[int, int]] = []
    assert run_blocks.bring_all(context, "live", lambda seen, came: progress.append((seen, came))) == (2 * MIB, 40 * MIB)
    assert content(context.disk().node(partition)) == content(old) and progress
    # nothing was written, so nothing is read
    assert run_blocks.bring_all(context, "live", lambda seen, came: None) == (0, 40 * MIB)
    assert context.said[-1].endswith("not written to since the last read")
    # a byte more: one block
    write(old, 10 * MIB + 5, b"x")
    assert run_blocks.bring_all(context, "final", lambda seen, came: None)[0] == io_blocks.BLOCK
    run_blocks.verify(context)
    assert content(context.disk().node(partition)) == content(old)
    assert context.journal.facts["blocks"][raw.path]["sha256"]
    json.dumps(context.journal.facts)


def test_write_after_the_last_copy_is_found_by_the_verification(source: DiskImage, context: t.Any) -> None:
    old = source.node(source.layout.partitions[2])
    ((partition, _raw),) = context.layout().raws
    run_blocks.bring_all(context, "final", lambda seen, came: None)
    write(old, 0, b"late")
    run_blocks.verify(context)
    assert content(context.disk().node(partition))[:4] == b"late" and "1 blocks copied again" in context.said[-1]


def test_continued_writing_aborts_the_pause(source: DiskImage, context: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    old = source.node(source.layout.partitions[2])
    fetch = io_blocks.fetch

    def restless(*arguments: t.Any, **more: t.Any) -> io_blocks.Fetched:
        write(old, 0, os.urandom(16))
        return fetch(*arguments, **more)

    monkeypatch.setattr(io_blocks, "fetch", restless)
    with pytest.raises(BackendError, match="differs between source and copy after the services were stopped.*services"):
        run_blocks.verify(context)


def test_recreated_disks_are_copied_again(source: DiskImage, context: t.Any) -> None:
    write(source.node(source.layout.partitions[2]), 0, b"data")
    run_blocks.bring_all(context, "live", lambda seen, came: None)
    run_blocks.forget(context)
    ((partition, _raw),) = context.layout().raws
    write(context.disk().node(partition), 0, b"gone")
    assert run_blocks.bring_all(context, "live", lambda seen, came: None)[0] == io_blocks.BLOCK
    assert content(context.disk().node(partition))[:4] == b"data"
