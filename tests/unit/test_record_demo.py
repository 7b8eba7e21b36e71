# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of the demo contains lines of the recording, in their order, and nothing that a terminal interprets."""

from __future__ import annotations

import typing as t
from xml.etree import ElementTree

from tests.support.program import load


def _script() -> t.Any:
    return load("scripts/record-demo")


demo = _script()
RECORDING = """\
Script started on 2026-11-23 21:00:00+00:00 [TERM="dumb"]
\x1b[1m=== Start the lab: two simulated servers and a laptop as the master\x1b[0m\r
waiting 1 s\rwaiting 2 s\rready\r
=== Run the whole flow: provision, spawn, controllers, master\r

PLAY [Provision the virt hosts (step 1 of 4)] **********************************\r

TASK [Gather facts] ************************************************************\r
ok: [metal1]\r
PLAY [Move the master into a virtual machine (step 4 of 4)] ********************\r
    master: precopy, pass 1, 98 %, 121.63 MiB, 471.85MB/s, predicted downtime 1 min 41 s\r
    master: precopy, pass 2, <&> 0 B\r
    master: precopy, pass 3\r
    master serves from a VM of metal1\r
PLAY RECAP *********************************************************************\r
metal1                     : ok=19   changed=3    unreachable=0    failed=0    skipped=5    rescued=0    ignored=0   \r

=== Run the flow again: nothing may change\r
PLAY [Provision the virt hosts (step 1 of 4)] **********************************\r
metal1                     : ok=19   changed=0    unreachable=0    failed=0    skipped=5    rescued=0    ignored=0   \r
+---------+--------+\r
| servers | 2 of 2 |\r
+---------+--------+\r
Script done on 2026-11-23 21:06:00+00:00 [COMMAND_EXIT_CODE="0"]
"""


def test_terminal_control_and_the_lines_of_script_are_removed() -> None:
    lines = demo.read(RECORDING)
    assert lines[:2] == ["=== Start the lab: two simulated servers and a laptop as the master", "ready"]
    assert not any(ord(character) < 32 for line in lines for character in line)
    assert not any(line.startswith("Script ") for line in lines)


def test_an_excerpt_has_lines_of_the_recording_and_counts_the_others() -> None:
    lines = demo.read(RECORDING)
    rows = demo.excerpt(lines, most_progress=2)
    kept = [line for line, kind in rows if kind != "omitted"]
    assert all(any(whole.startswith(line) for whole in lines) for line in kept)
    assert [line for line, kind in rows if kind == "omitted"] == ["… 1 line", "… 2 lines", "… 1 line", "… 1 line", "… 1 line"]
    # every line that is not empty is shown or counted
    assert len(kept) + sum(int(line.split()[1]) for line, kind in rows if kind == "omitted") == sum(1 for line in lines if line)
    # the plays of the second run are not repeated, its totals are
    assert sum(kind == "play" for _line, kind in rows) == 2
    assert sum(": ok=" in line for line in kept) == 2


def test_the_picture_is_well_formed_and_needs_nothing_else() -> None:
    text = demo.draw([*demo.excerpt(demo.read(RECORDING)), ("x" * 500, "text")])
    root = ElementTree.fromstring(text)
    shown = [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "    master: precopy, pass 2, <&> 0 B" in shown
    assert max(len(line) for line in shown) == demo.COLUMNS
    assert not any(word in text.replace("http://www.w3.org/2000/svg", "") for word in ("http", "href", "url(", "<script", "<image"))
