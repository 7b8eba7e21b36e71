# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest, io_manifest_wire, io_rsync
from ansible_collections.reduced.footprint.plugins.module_utils._remote.plan_manifest import compare, excluded

ROOT = pathlib.Path(__file__).resolve().parents[5]
NOTHING = excluded([])
OLD = 1_000_000_000_000_000_000


def take(folder: pathlib.Path, out: pathlib.Path, settled: bool = True, **more):
    header = io_manifest.new_header(out, (lambda: None) if settled else None)
    if settled:
        # what was written just now counts as old, or every file of a test would be young
        header = header._replace(settled_ns=header.settled_ns * 2)
    taken = io_manifest.take(os.fsencode(folder), out, NOTHING, header, **more)
    return taken, {each.path: each for each in io_manifest.read(out)}


@pytest.fixture(name="tree")
def fixture_tree(tmp_path: pathlib.Path):
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    for number in range(3):
        (tree / "d" / f"f{number}").write_text(f"content {number}")
    return tree


def test_what_did_not_change_is_not_read_again(tree, tmp_path):
    out = tmp_path / "m"
    first, before = take(tree, out)
    assert (first.files, first.read, first.bytes) == (5, 5, 27)
    (tree / "d" / "f1").write_text("Content 1")
    again, after = take(tree, out)
    assert (again.read, again.bytes) == (1, 9)
    assert [path for path in before if before[path] != after[path]] == [b"/d/f1"]


@pytest.mark.parametrize("change", ["xattr", "mode", "owner", "link"])
def test_a_change_that_leaves_content_and_time_is_seen(tree, tmp_path, change):
    out, path = tmp_path / "m", tree / "d" / "f1"
    _taken, before = take(tree, out)
    if change == "xattr":
        os.setxattr(path, "user.x", b"1")
    elif change == "mode":
        path.chmod(0o600)
    elif change == "owner":
        os.chown(path, 1, 1)
    else:
        os.link(path, tree / "other")
    _taken, after = take(tree, out)
    assert before[b"/d/f1"] != after[b"/d/f1"]


def test_what_may_still_be_written_to_unseen_is_read_again(tree, tmp_path):
    out = tmp_path / "m"
    header = io_manifest.new_header(out, lambda: None)
    taken = io_manifest.take(os.fsencode(tree), out, NOTHING, header)
    # all of it is younger than the grain of a clock
    again, _lines = take(tree, out, settled=False)
    assert taken.bytes == again.bytes == 27


def test_a_manifest_that_was_cut_off_counts_for_nothing(tree, tmp_path):
    out = tmp_path / "m"
    take(tree, out)
    for size in (0, 10, out.stat().st_size - 3):
        content = out.read_bytes()
        out.write_bytes(content[:size])
        assert io_manifest.read_header(out) is None and list(io_manifest.read(out)) == []
        assert take(tree, out)[0].bytes == 27


def test_zeros_and_holes_are_the_same_and_a_hole_costs_nothing(tmp_path):
    sizes = (1 << 20, (3 << 20) + 5, 5 << 20)
    for name, hollow in (("a", True), ("b", False)):
        (tmp_path / name).mkdir()
        for size in sizes:
            with open(tmp_path / name / str(size), "wb") as stream:
                if hollow:
                    stream.truncate(size)
                else:
                    stream.write(bytes(size))
                stream.seek(size // 2)
                stream.write(b"x")
    for name in ("a", "b"):
        os.utime(tmp_path / name, ns=(OLD, OLD))
        for size in sizes:
            os.utime(tmp_path / name / str(size), ns=(OLD, OLD))
    hollow, _lines = take(tmp_path / "a", tmp_path / "ma")
    full, _lines = take(tmp_path / "b", tmp_path / "mb")
    assert hollow.bytes <= 3 << 20 < full.bytes
    assert {each.what for each in compare(io_manifest.read(tmp_path / "ma"), io_manifest.read(tmp_path / "mb"))} <= {("sparse",)}
    with open(tmp_path / "b" / str(sizes[1]), "r+b") as stream:
        stream.seek(2 << 20)
        stream.write(b"y")
    take(tmp_path / "b", tmp_path / "mb")
    assert any("content" in each.what for each in compare(io_manifest.read(tmp_path / "ma"), io_manifest.read(tmp_path / "mb")))


def test_a_tera_byte_of_nothing_is_read_at_once(tmp_path):
    (tmp_path / "t").mkdir()
    with open(tmp_path / "t" / "lastlog", "wb") as stream:
        stream.truncate(1 << 40)
        stream.seek(1 << 39)
        stream.write(b"here")
    taken, _lines = take(tmp_path / "t", tmp_path / "m")
    assert taken.bytes <= 1 << 20


def planted(tmp_path: pathlib.Path) -> pathlib.Path:
    found = importlib.util.spec_from_file_location("corpus", ROOT / "tests" / "torture" / "corpus.py")
    assert found and found.loader
    corpus = importlib.util.module_from_spec(found)
    found.loader.exec_module(corpus)
    corpus.plant(str(tmp_path / "source"))
    return tmp_path / "source"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes and gives files away")
def test_everything_a_file_has_comes_over_and_what_a_copy_lost_is_named(tmp_path: pathlib.Path):
    source, copy = planted(tmp_path), tmp_path / "copy"
    io_rsync.transfer(["rsync", *io_rsync.FLAGS, f"{source}/", f"{copy}/"])
    take(source, tmp_path / "ms")

    def differing():
        take(copy, tmp_path / "mc", settled=False)
        return {each.path: each.what for each in compare(io_manifest.read(tmp_path / "ms"), io_manifest.read(tmp_path / "mc"))}

    assert differing() == {}
    os.removexattr(copy / "capability", "security.capability")
    assert "attributes" in differing().pop(b"/capability")
    os.unlink(copy / "hard-link-2")
    (copy / "hard-link-2").write_bytes((copy / "hard-link-1").read_bytes())
    os.unlink(copy / "fifo")
    os.chown(copy / "owner", 0, 0)
    (copy / "more").write_text("x")
    found = differing()
    assert "hard link" in found[b"/hard-link-2"] and found[b"/fifo"] == ("missing",) and "owner" in found[b"/owner"] and found[b"/more"] == ("extra",)


def test_the_wire_carries_only_what_changed(tree, tmp_path):
    program = (
        "import json,re,sys,pathlib; from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest_wire as w;"
        " given=json.load(sys.stdin);"
        " w.send(sys.stdout.buffer, pathlib.Path(given['stored']), re.compile(rb'(?!)'), have=given['have'], mounts=set(), settle=given['settle'],"
        " root=given['root'].encode())"
    )
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    given = {"stored": str(theirs), "settle": False, "root": str(tree)}

    def fetch():
        return io_manifest_wire.fetch([sys.executable, "-c", program], given, ours)

    assert fetch().files == 5
    for change in ((tree / "d" / "f0").unlink, (tree / "d" / "a\nb").touch, lambda: None, ours.unlink):
        change()
        fetch()
        assert list(io_manifest.read(ours)) == list(io_manifest.read(theirs))
        assert io_manifest.read_header(ours) == io_manifest.read_header(theirs)


def test_interrupted_transfer_is_an_error_and_keeps_the_earlier_manifest(tree, tmp_path):
    ours = tmp_path / "ours"
    take(tree, ours)
    before = ours.read_bytes()
    broken = "import sys; sys.stdin.read(); print('reduced.footprint manifest 1 abc 5'); print('base -'); sys.stderr.write('cut off'); sys.exit(255)"
    with pytest.raises(BackendError, match="cut off"):
        io_manifest_wire.fetch([sys.executable, "-c", broken], {}, ours)
    assert ours.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours", "tree"]
