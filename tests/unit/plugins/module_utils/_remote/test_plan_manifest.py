# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import Line, Own, escape, merged, order, parse_line, printable
from ansible_collections.reduced.footprint.plugins.module_utils._remote.plan_manifest import Difference, compare, excluded, matters

NAMES = st.binary(min_size=1, max_size=4).filter(lambda name: b"/" not in name and b"\0" not in name)
PATHS = st.lists(NAMES, max_size=4).map(lambda names: b"/" + b"/".join(names))


def line(path, inode=1, links=1, **fields):
    same = {"mode": "100644", "owner": "0", "group": "0", "size": "3", "time": "5", "device": "-", "flags": "-", "sparse": "-", "attributes": "-"}
    same.update({"content": "c", **fields})
    return Line(path, " ".join(same.values()).encode(), Own(links, 1, inode, 7, False).encode())


def found(source, copy):
    return {each.path: each.what for each in compare(iter(source), iter(copy))}


@given(PATHS)
def test_every_path_survives_being_written(path):
    assert parse_line(line(path).encode()) == line(path)
    assert b"\n" not in escape(path) and b"\t" not in escape(path)
    assert printable(path).isprintable() or any(not char.isprintable() for char in path.decode("utf-8", "ignore"))


def test_a_folder_comes_before_what_is_in_it_and_its_next_neighbour_after():
    assert sorted([b"/a-b", b"/a/z", b"/a", b"/a/b/c", b"/a!"], key=order) == [b"/a", b"/a/b/c", b"/a/z", b"/a!", b"/a-b"]


@given(st.dictionaries(PATHS, st.integers(0, 3)), st.dictionaries(PATHS, st.integers(0, 3)))
def test_changes_make_the_later_manifest_of_the_earlier(before, after):
    def lines(of):
        return [line(path, content=str(of[path])) for path in sorted(of, key=order)]

    changes = [
        (b"+" if path in after else b"-", line(path, content=str(after.get(path))))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    ]
    changes.sort(key=lambda each: order(each[1].path))
    assert list(merged(iter(lines(before)), iter(changes))) == lines(after)
    assert set(found(lines(before), lines(after))) == {each.path for _sign, each in changes}


@pytest.mark.parametrize(
    "field, value",
    [
        ("mode", "104755"),
        ("owner", "7"),
        ("group", "7"),
        ("size", "4"),
        ("time", "6"),
        ("device", "1:3"),
        ("flags", "i"),
        ("attributes", "x"),
        ("content", "d"),
    ],
)
def test_each_field_that_a_copy_lost_is_named(field, value):
    assert found([line(b"/f", **{field: value})], [line(b"/f")]) == {b"/f": (field,)}


def test_what_one_side_lacks_is_named():
    assert found([line(b"/a"), line(b"/b")], [line(b"/b"), line(b"/c")]) == {b"/a": ("missing",), b"/c": ("extra",)}


def test_a_copy_may_have_more_holes_but_not_fewer():
    assert found([line(b"/f")], [line(b"/f", sparse="s")]) == {}
    assert found([line(b"/f", sparse="s")], [line(b"/f")]) == {b"/f": ("sparse",)}


def test_time_of_a_foreign_mount_point_is_not_compared():
    assert found([line(b"/proc", time="-")], [line(b"/proc")]) == {}


@pytest.mark.parametrize(
    "source, copy, wrong",
    [
        ([(1, 2), (1, 2)], [(5, 2), (5, 2)], ()),
        ([(1, 2), (1, 2)], [(5, 1), (6, 1)], (b"/1",)),
        ([(1, 1), (2, 1)], [(5, 2), (5, 2)], (b"/1",)),
        ([(1, 2), (1, 2), (2, 1)], [(5, 3), (5, 3), (5, 3)], (b"/2",)),
        # a name of the file lies where nothing is compared
        ([(1, 3), (1, 3)], [(5, 2), (5, 2)], ()),
    ],
    ids=["same", "torn apart", "put together", "one too many", "one unseen"],
)
def test_names_of_one_file_are_names_of_one_file_on_the_copy(source, copy, wrong):
    def lines(inodes):
        return [line(b"/%d" % number, inode, links) for number, (inode, links) in enumerate(inodes)]

    assert found(lines(source), lines(copy)) == dict.fromkeys(wrong, ("hard link",))


@pytest.mark.parametrize(
    "pattern, left_out, kept",
    [
        ("/proc/*", [b"/proc/1", b"/proc/\n"], [b"/proc", b"/proc/1/fd", b"/srv/proc/1"]),
        ("/var/cache/x", [b"/var/cache/x"], [b"/var/cache/xy"]),
        ("/srv/**/tmp", [b"/srv/a/b/tmp"], [b"/srv/tmp2"]),
        ("/a?c[0-9]", [b"/abc1"], [b"/a/c1", b"/abcd"]),
        ("/a[!b]", [b"/ac"], [b"/ab"]),
        ("/d/***", [b"/d", b"/d/e/f"], [b"/de"]),
        ("/s\\*r", [b"/s*r"], [b"/sir"]),
        ("/dir/", [b"/dir"], [b"/dir2"]),
    ],
)
def test_patterns_mean_what_they_mean_to_rsync(pattern, left_out, kept):
    expression = excluded([pattern], ["held.conf"])
    assert [path for path in [*left_out, *kept] if expression.match(path)] == left_out
    assert expression.match(b"/etc/x.d/held.conf") and not expression.match(b"/etc/held.conf2")
    assert not excluded([]).match(b"/a")


def difference(path, *what):
    return Difference(path, what, None, None)


def test_what_matters():
    assert matters(difference(b"/etc/passwd", "content", "time")) == ("content", "time")
    assert matters(difference(b"/var/log/syslog", "content")) == ()
    assert matters(difference(b"/var/logs", "content")) == ("content",)
    # what looks like it elsewhere is data
    assert matters(difference(b"/srv/backup/var/log/syslog", "content")) == ("content",)
    assert matters(difference(b"/var/lib/dhcp/dhclient.eth0.leases", "content")) == ()
    assert matters(difference(b"/var/lib/dhcp/dhcpd.leases", "content")) == ("content",)
    assert matters(difference(b"/etc/fstab", "content"), [b"/etc/fstab"]) == ()
    assert matters(difference(b"/etc", "time"), [b"/etc/fstab"]) == ()
    assert matters(difference(b"/", "time", "owner"), [b"/etc/fstab"]) == ("owner",)
    assert matters(difference(b"/etc/new", "extra"), [b"/etc/new/file"]) == ()
    assert matters(difference(b"/boot/efi/a", "mode", "time"), (), ["/boot/efi"]) == ()
    assert matters(difference(b"/boot/efi/a", "mode", "content"), (), ["/boot/efi"]) == ("content",)
