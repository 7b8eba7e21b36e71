# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of the texts goes into a snapshot: the ends of long ones, and no secret."""

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import plan_archive
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.model_piece import Piece

KEY = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("sizes", "total", "most"),
    [([], 10, 0), ([3, 4], 10, 4), ([3, 4], 7, 4), ([1, 20, 30], 31, 15), ([10, 10], 10, 5), ([1, 2, 100], 50, 47), ([5, 5, 5], 2, 0)],
)
def test_only_the_longest_texts_are_shortened(sizes: list[int], total: int, most: int) -> None:
    assert plan_archive.level(sizes, total) == most
    assert sum(min(size, most) for size in sizes) <= total


def test_the_end_of_a_long_text_is_kept_in_whole_lines() -> None:
    short, long = plan_archive.fit([Piece("a", "short\n"), Piece("b", "".join(f"line {number:02d}\n" for number in range(50)), lost=7)], 60)
    assert short == Piece("a", "short\n")
    assert long.text.splitlines() == [f"line {number}" for number in range(44, 50)] and long.lost == 7 + 44 * 8
    assert plan_archive.last("ä" * 10, 5) == ("", 20)


def test_the_rest_of_a_private_key_is_left_out() -> None:
    rest = KEY.format("A" * 70)[40:]
    (piece,) = plan_archive.fit([Piece("a", f"{rest}after\n" + "x" * 20)], 60)
    assert piece.text == "\nafter\n" + "x" * 20
    assert plan_archive.without_key_rest(f"before\n{KEY.format('A')}") == f"before\n{KEY.format('A')}"


def test_secrets_of_the_configuration_are_masked_in_all_texts() -> None:
    configuration = Piece("c", "# password = example\n[database]\npassword = hunter22x\n", "/etc/nova/nova.conf")
    record = Piece("r", json.dumps({"name": "web", "token": {"value": "t0ken-of-web"}}), "/var/lib/x/job.json")
    log = Piece("l", "hunter22x t0ken-of-web cookie-value an example\n\x1b[31mred\n", "/var/log/x.log", error="x hunter22x")
    known = plan_archive.known_secrets([configuration, record]) | plan_archive.secret_lines(["cookie-value\n"])
    found = plan_archive.protect([configuration, record, log], known, 10_000)
    assert found[2] == log._replace(text="******** ******** ******** an example\n[31mred\n", error="x ********")
    assert "hunter22x" not in found[0].text and "[database]" in found[0].text
    assert json.loads(found[1].text) == {"name": "web", "token": {"value": "********"}}


def test_a_record_that_is_incomplete_is_left_out() -> None:
    # the name of its secret may be in the part that is missing
    (piece,) = plan_archive.protect([Piece("r", '"value": "hunter22x"}', "/var/lib/x/job.json")], [], 1000)
    assert piece == Piece("r", "", "/var/lib/x/job.json", error="is not a complete JSON document")


def test_lines_of_a_secret_are_secrets() -> None:
    assert plan_archive.secret_lines([f"{KEY.format('A' * 64)}short\n"]) == {f"{KEY.format('A' * 64)}short", "A" * 64}


def test_all_texts_together_have_the_size_also_after_masking() -> None:
    pieces = [Piece(str(number), "pw: x\n" * 200) for number in range(5)]
    found = plan_archive.protect(pieces, [], 3000)
    assert sum(len(piece.text) for piece in found) <= 3000 and all(piece.lost and piece.text for piece in found)
    assert [entry["omitted_bytes"] for entry in plan_archive.index(found)] == [piece.lost for piece in found]
