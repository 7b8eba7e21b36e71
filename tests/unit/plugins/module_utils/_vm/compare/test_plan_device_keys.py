# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of edited lists: what is certain, what is not, and what most likely was meant."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.plan_device_keys import Entry, alike, find_ambiguity, likely


def listed(text: str) -> list[Entry]:
    """A list in short: ``A`` is an entry without name that looks like A, ``x=A`` one with the name x, ``!1=A`` one that gives key 1 itself."""
    found = []
    for position, word in enumerate(text.split()):
        name, equals, looks = word.rpartition("=")
        key = name.lstrip("!") if equals else str(position)
        found.append(Entry(key, None if equals else position, tuple(looks), fixed=word.startswith("!"), path=f"nics[{position}]"))
    return found


def doubt(applied: str, wanted: str) -> tuple[str, str] | None:
    """Path of the wanted entry and key of the applied one."""
    found = find_ambiguity(listed(applied), listed(wanted))
    return found and (found.wanted.path, found.applied.key)


@pytest.mark.parametrize(
    ("applied", "wanted"),
    [
        ("A B C", "A B C"),
        ("A B C", "A B C D"),
        ("A", "A A"),
        ("A B C", "A B"),
        ("A B C", "A"),
        ("A B A", "A B"),
        ("A A", ""),
        ("", "A A"),
        ("A B", "A D"),
        ("A B", "D E"),
        ("A A", "B A"),
        ("A A", "B B"),
        ("A B", "D B C"),
        # with a name nothing is left to guess
        ("x=A y=B z=C", "y=B z=C"),
        ("x=A y=A z=A", "y=A z=A"),
        ("x=A y=B", "z=D y=B"),
        ("x=A y=B", "y=B x=A"),
        ("x=A", "x=B"),
        ("A B x=C", "A B"),
        ("A x=B", "A x=B C"),
        # the way out
        ("A B C", "1=B 2=C"),
        ("A A A", "!0=A !2=A"),
        ("A B", "!9=A B"),
        ("x=A", "!x=A"),
    ],
)
def test_what_is_certain(applied: str, wanted: str) -> None:
    assert doubt(applied, wanted) is None


@pytest.mark.parametrize(
    ("applied", "wanted", "found"),
    [
        ("A B C", "B C", ("nics[0]", "1")),
        ("A B C", "A C", ("nics[1]", "2")),
        ("A B", "B", ("nics[0]", "1")),
        # any of them may have gone
        ("A A A", "A A", ("nics[1]", "2")),
        ("A B B", "A B", ("nics[1]", "2")),
        # inserted, moved, one removed and another appended
        ("A B", "D A B", ("nics[2]", "1")),
        ("A B", "B A", ("nics[0]", "1")),
        ("A B C", "B C D", ("nics[0]", "1")),
        ("A A", "B A A", ("nics[2]", "0")),
        # removed and changed at once
        ("A B C", "D E", ("nics[0]", "2")),
        ("A B C", "A D", ("nics[1]", "2")),
        # a name came or went
        ("A B", "x=A B", ("nics[0]", "0")),
        ("A B", "x=D B", ("nics[0]", "0")),
        ("x=A", "A", ("nics[0]", "x")),
        ("x=A B", "B", ("nics[0]", "x")),
        ("x=A", "D", ("nics[0]", "x")),
    ],
)
def test_what_is_not_certain(applied: str, wanted: str, found: tuple[str, str]) -> None:
    assert doubt(applied, wanted) == found


def test_a_name_for_what_cannot_be_the_old_one() -> None:
    assert find_ambiguity(listed("A"), listed("x=B"), alike_only) is None
    assert find_ambiguity(listed("A"), listed("x=A"), alike_only) is not None


def alike_only(mine: Entry, old: Entry) -> bool:
    return alike(mine.attributes, old.attributes)


def test_a_template_that_changed_with_the_list() -> None:
    applied = [Entry(str(number), number, (f"old {name}",), (name,)) for number, name in enumerate("AB")]
    assert find_ambiguity(applied, [Entry(str(number), number, (f"new {name}",), (name,)) for number, name in enumerate("AB")]) is None
    assert find_ambiguity(applied, [Entry(str(number), number, (f"new {name}",), (name,)) for number, name in enumerate("DAB")]) is not None


def test_what_is_not_known_says_nothing() -> None:
    applied = [Entry("0", 0, ("raw", 16)), Entry("1", 1, ("raw", None))]
    assert find_ambiguity(applied, [Entry("0", 0, ("raw", None)), Entry("1", 1, (None, 5))]) is None
    # what is missing could be the second as well as the first
    assert find_ambiguity(applied, [Entry("0", 0, ("raw", 16))]) is not None


@pytest.mark.parametrize(
    ("applied", "wanted", "pairs"),
    [
        ("A B C", "B C", [("nics[0]", "1"), ("nics[1]", "2")]),
        ("A B C", "A C", [("nics[0]", "0"), ("nics[1]", "2")]),
        ("A B", "D A B", [("nics[1]", "0"), ("nics[2]", "1")]),
        ("A B", "x=A B", [("nics[0]", "0"), ("nics[1]", "1")]),
        ("A B x=C", "B x=C", [("nics[0]", "1")]),
        ("A B C", "!1=B C", [("nics[1]", "2")]),
        ("A B C", "D E", []),
    ],
)
def test_what_most_likely_was_meant(applied: str, wanted: str, pairs: list[tuple[str, str]]) -> None:
    assert [(mine.path, old.key) for mine, old in likely(listed(applied), listed(wanted))] == pairs
