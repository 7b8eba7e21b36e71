# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Places of scalars, against what a real parser reads."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_yaml_scan import scalars

NETPLAN = """\
# the admin network
network:
  version: 2
  wifis:
    wlan0:
      access-points:
        "my home": {password: "a, b} c", mode: infrastructure}
        other:
          auth:
            key-management: psk
            password: plain # comment
  ethernets: {eno1: {match: {macaddress: "02:ab:00:00:00:02"}, addresses: [192.0.2.2/24, "2001:db8::2/64"],
    macaddress: 02:ab:00:00:00:09}}
  tunnels:
    wg0:
      addresses:
      - 192.0.2.7/24
      -   192.0.2.8/24
      peers:
      - keys: {public: x, shared: 'it''s'}
        endpoint: host:51820
      key: |
        line one
          line two

        line three
  folded: >-
    a
    b
  long: one
    two
    three
  "quoted key": "first
    second"
"""


def leaves(value, keys=()):
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from leaves(entry, (*keys, key))
    elif isinstance(value, list):
        for entry in value:
            yield from leaves(entry, keys)
    elif value not in ("", None):
        yield keys, value


def read(text):
    found = []
    for keys, start, end in scalars(text):
        indented = text[start:end]
        parsed = yaml.load(" " * 20 + indented if indented[:1] not in "|>" else indented + "\n", Loader=yaml.BaseLoader)
        found.append((keys, parsed.rstrip("\n") if isinstance(parsed, str) else parsed))
    return found


def test_every_scalar_of_a_netplan_is_found():
    expected = [(keys, value.rstrip("\n")) for keys, value in leaves(yaml.load(NETPLAN, Loader=yaml.BaseLoader))]
    assert read(NETPLAN) == expected


@pytest.mark.parametrize(
    "text", ["", "\n", "x", "{", "[a, {b: ", "a: {b: 'c", "- - - x", ":", "a:\n\tb", "? x\n: y", "'a", "a: |", "a: |\n", "&a *b !c", "a: b: c"]
)
def test_text_that_is_not_yaml_raises_no_error(text):
    assert all(0 <= start <= end <= len(text) for unused, start, end in scalars(text))


KEYS = st.from_regex(r"[a-z][a-z_-]{0,3}[a-z]", fullmatch=True).filter(lambda key: key not in ("no", "on", "off", "yes", "null", "true", "false"))
VALUES = st.one_of(st.text("ab1 ,:{}[]#'\"\n|>-", min_size=1, max_size=12), st.integers().map(str))
DATA = st.dictionaries(
    KEYS, st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8), min_size=1, max_size=3
)


@given(DATA, st.sampled_from([True, False, None]), st.integers(2, 6))
def test_scalars_of_a_yaml_library_are_found(data, flow, indent):
    text = yaml.safe_dump(data, default_flow_style=flow, indent=indent, width=40, sort_keys=False)
    found = list(scalars(text))
    assert [keys for keys, unused, unused in found] == [keys for keys, unused in leaves(data)]
    changed = text
    for unused, start, end in reversed(found):
        changed = changed[:start] + "x" + changed[end:]
    assert list(leaves(yaml.load(changed, Loader=yaml.BaseLoader))) == [(keys, "x") for keys, unused in leaves(data)]
