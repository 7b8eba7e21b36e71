# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words that the collection and its tests do not use, in names, messages, comments and documentation."""

from __future__ import annotations

import pytest

from tests.support.wording import EXCLUDED, FOLDERS, ROOT, findings, tracked


def test_collection_uses_no_unwanted_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}: write {instead}"
        for path in tracked(FOLDERS)
        for number, word, instead in findings(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("pattern", EXCLUDED)
def test_excluded_files_exist(pattern: str) -> None:
    assert list(ROOT.glob(pattern))


@pytest.mark.parametrize(
    "text",
    ["Nobody answers.", "'x' is no address.", "it goes on with the next", "x.told", "def was_told_before", "ailments: []", "the VM stands on metal1"],
)
def test_planted_words_are_found(text: str) -> None:
    assert list(findings(f"first line\n{text}"))[0][0] == 2


@pytest.mark.parametrize("text", ["The source is no longer running.", "sfdisk --no-tell-kernel", "recommended", "standalone", "it is no longer in use"])
def test_plain_words_are_not_found(text: str) -> None:
    assert list(findings(text)) == []
