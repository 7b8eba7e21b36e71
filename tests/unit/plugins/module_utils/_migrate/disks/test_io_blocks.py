# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Blocks brought between two files by the real program; only what makes a file a device and counts its writes is made up."""

from __future__ import annotations

import hashlib
import os
import pathlib
import random
import sys

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks

# the agent; a file is its device, and a file beside it says what the kernel counted
AGENT = """
import json, pathlib, sys, types
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks as blocks
blocks.stat = types.SimpleNamespace(S_ISBLK=lambda mode: True)
counter = pathlib.Path({counter!r})
blocks.written = lambda device: json.loads(counter.read_text()) if counter.exists() else None
blocks.send(sys.stdout.buffer, sys.stdin.buffer, "boot 1")
"""
SIZE = 20 * io_blocks.BLOCK + 5000


class Pair:
    """A source's device, its copy on a larger partition, and how one becomes the other."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.source, self.copy, self.counter = folder / "source", folder / "copy", folder / "counter"
        data = random.Random(7).randbytes(SIZE)
        self.source.write_bytes(data[: 6 * io_blocks.BLOCK] + bytes(6 * io_blocks.BLOCK) + data[12 * io_blocks.BLOCK :])
        self.copy.touch()
        os.truncate(self.copy, SIZE + 100_000)
        agent = folder / "agent.py"
        agent.write_text(AGENT.format(counter=str(self.counter)))
        self.argv = [sys.executable, str(agent)]
        self.target = io_blocks.Target(str(self.copy), SIZE, folder / "list")

    def write(self, where: int, data: bytes) -> None:
        """Change the source."""
        with open(self.source, "r+b") as stream:
            stream.seek(where)
            stream.write(data)

    def fetch(self, **more):
        """One look."""
        given = {"device": str(self.source), "nice": True, **{key: more.pop(key) for key in ("counter", "boot_id") if key in more}}
        return io_blocks.fetch(self.argv, given, self.target, **more)

    def equal(self) -> bool:
        """Whether the copy holds the source."""
        return self.copy.read_bytes()[:SIZE] == self.source.read_bytes()


@pytest.fixture(name="pair")
def fixture_pair(tmp_path: pathlib.Path) -> Pair:
    return Pair(tmp_path)


def test_the_first_pass_copies_all_but_holes(pair):
    calls = []
    brought = pair.fetch(progress=lambda read, came: calls.append((read, came)))
    assert pair.equal() and brought.read == SIZE
    assert brought.changed == 15 and brought.bytes == 14 * io_blocks.BLOCK + 5000
    assert calls[0] == (0, io_blocks.BLOCK) or calls[0] == (0, 0)
    assert brought.root == hashlib.sha256(bytes(io_blocks.Target(str(pair.copy), SIZE, pathlib.Path("/nonexistent")).hashes())).hexdigest()


def test_later_passes_copy_changed_blocks_only(pair):
    pair.fetch()
    pair.write(3 * io_blocks.BLOCK + 17, b"other")
    pair.write(SIZE - 1, b"!")
    pair.write(io_blocks.BLOCK, bytes(io_blocks.BLOCK))
    brought = pair.fetch()
    assert pair.equal() and brought.changed == 3 and brought.bytes == io_blocks.BLOCK + 5000
    again = pair.fetch()
    assert (again.changed, again.bytes, again.read) == (0, 0, SIZE)


def test_a_device_without_writes_is_not_read_again(pair):
    pair.counter.write_text("[8, 0]")
    first = pair.fetch()
    second = pair.fetch(counter=first.counter, boot_id=first.boot_id)
    assert (second.read, second.changed, second.root) == (0, 0, first.root)
    pair.write(0, b"other")
    pair.counter.write_text("[9, 0]")
    third = pair.fetch(counter=first.counter, boot_id=first.boot_id)
    assert third.read == SIZE and third.changed == 1 and pair.equal()


def test_counters_of_another_boot_or_a_lost_list_are_ignored(pair):
    pair.counter.write_text("[8, 0]")
    first = pair.fetch()
    assert pair.fetch(counter=first.counter, boot_id="boot 0").read == SIZE
    pair.target.forget()
    assert pair.fetch(counter=first.counter, boot_id=first.boot_id).read == SIZE
    pair.counter.unlink()
    assert pair.fetch(counter=None, boot_id=first.boot_id).read == SIZE


def test_blocks_of_the_copy_are_not_transferred_again_without_its_list(pair):
    pair.fetch()
    pair.target.forget()
    assert pair.fetch().changed == 0 and pair.target.stored.exists()


def test_a_copy_changed_by_another_process_is_found_and_fixed_by_the_next_pass(pair):
    pair.fetch()
    # the list still says what it was; so the next look finds the change on the source alone, and not this
    with open(pair.copy, "r+b") as stream:
        stream.write(b"spoilt")
    pair.target.forget()
    assert pair.fetch().changed == 1 and pair.equal()


def test_a_list_of_another_copy_is_not_used(pair):
    pair.fetch()
    hashes = pair.target.hashes()
    hashes[0:32] = hashes[32:64]
    pair.target.keep(bytes(hashes))
    assert pair.fetch().changed == 1 and pair.equal()


def test_a_disk_that_loses_writes_is_an_error(pair, monkeypatch):
    monkeypatch.setattr(io_blocks, "_read_at", lambda fd, index, size: b"else")
    with pytest.raises(BackendError, match="differs after it was written to the copy"):
        pair.fetch()
    assert not pair.target.stored.exists()


def test_a_killed_pass_leaves_no_invalid_list(pair, monkeypatch):
    pair.fetch()
    pair.write(0, b"other")

    def killed(fd, data, where):
        raise KeyboardInterrupt

    monkeypatch.setattr(io_blocks.os, "pwrite", killed)
    with pytest.raises(KeyboardInterrupt):
        pair.fetch()
    monkeypatch.undo()
    assert not pair.target.stored.exists()
    assert pair.fetch().changed == 1 and pair.equal()


def test_a_device_of_another_size_is_refused(pair):
    pair.source.write_bytes(b"x" * (SIZE + 512))
    with pytest.raises(BackendError, match="when the disks were laid out"):
        pair.fetch()


def test_a_partition_that_is_too_small_is_refused(pair):
    os.truncate(pair.copy, SIZE - 1)
    with pytest.raises(BackendError, match="is smaller than"):
        pair.fetch()


def test_a_lost_connection_is_reported_with_its_error_output(pair):
    pair.argv = [sys.executable, "-c", "import sys; sys.exit('no route to it')"]
    with pytest.raises(CommandError, match="no route to it"):
        pair.fetch()
    pair.argv = [sys.executable, "-c", "import sys; sys.stdin.buffer.read(); print('{\"size\": %d, \"counter\": null, \"boot_id\": \"\"}')" % SIZE]
    with pytest.raises(CommandError, match="unexpected end of data"):
        pair.fetch()


def test_a_bandwidth_limit_slows_the_copy(pair, monkeypatch):
    slept = []
    monkeypatch.setattr(io_blocks.time, "sleep", slept.append)
    pair.fetch(limit=1024)
    assert 3.0 < max(slept) < 4.0


def test_write_counters_are_read_if_the_kernel_counts(tmp_path, monkeypatch):
    place = tmp_path / "devices" / "sda" / "sda5"
    place.mkdir(parents=True)
    (tmp_path / "by").mkdir()
    node = tmp_path / "node"
    node.touch()
    number = os.stat(node).st_rdev
    (tmp_path / "by" / f"{os.major(number)}:{os.minor(number)}").symlink_to(place)
    monkeypatch.setattr(io_blocks, "SYS", tmp_path / "by")
    (place / "partition").write_text("5")
    (place / "stat").write_text("1 2 3 4 50 6 70 8 9 10 11 120 13 140 15 16 17\n")
    assert io_blocks.written(str(node)) is None
    (place.parent / "queue").mkdir()
    (place.parent / "queue" / "iostats").write_text("1\n")
    assert io_blocks.written(str(node)) == [70, 140]
    (place.parent / "queue" / "iostats").write_text("0\n")
    assert io_blocks.written(str(node)) is None
