# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_yaml_scan import scalars

NETPLAN = """\
wlan0: {"my home": {password: "a, b} c"}, other: ['it''s', plain]} # comment
key: |
  line one

    line two

folded: >-
  a
  b
long: one
  two
---
end: &mark x
again: *mark
"""


def test_every_scalar_of_every_document_is_found_once():
    assert [(keys, NETPLAN[start:end]) for keys, start, end in scalars(NETPLAN)] == [
        (("wlan0", "my home", "password"), '"a, b} c"'),
        (("wlan0", "other"), "'it''s'"),
        (("wlan0", "other"), "plain"),
        (("key",), "|\n  line one\n\n    line two"),
        (("folded",), ">-\n  a\n  b"),
        (("long",), "one\n  two"),
        (("end",), "&mark x"),
    ]


@pytest.mark.parametrize("text", ["{", "[a, {b: ", "a: {b: 'c", "a:\n\tb", "'a", "&a *b !c", "a: b: c", "\0", "[" * 5000])
def test_text_that_is_not_yaml_is_refused(text):
    with pytest.raises(ValueError, match="not valid YAML"):
        scalars(text)


def test_a_text_that_contains_itself_ends():
    assert scalars("a: &x [*x, b]\n") == [(("a",), 11, 12)]
