# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a member speaks, and by which steps a cluster comes to speak something else."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_tls import STAGES, speaks_both, tls_stage, tls_steps, tls_wanted

# who hears whom; plain text alone and TLS alone do not
HEARS = {("off", "on"): False, ("on", "off"): False}


@pytest.mark.parametrize(
    ("options", "stage"),
    [
        ("", "off"),
        ("gcache.size = 128M; pc.recovery = true; ", "off"),
        ("socket.ssl = NO; socket.dynamic = yes", "off"),
        ("a = b; socket.ssl = YES; socket.ssl_key = /k", "on"),
        ("socket.dynamic = no; socket.ssl = yes", "on"),
        ("socket.dynamic = yes; socket.ssl = YES; x = 1", "both"),
        ("socket.ssl=true;socket.dynamic=true", "both"),
    ],
)
def test_stage(options, stage):
    assert tls_stage(options) == stage


@pytest.mark.parametrize(
    ("live", "wanted", "steps"),
    [
        ([], True, ("on",)),
        ([None, None], True, ("on",)),
        (["off", "off", "off"], False, ("off",)),
        (["on", "on"], True, ("on",)),
        (["off", "off", "off"], True, ("both", "on")),
        (["off", "both", None], True, ("both", "on")),
        (["both", "on"], True, ("on",)),
        (["on", "on", "on"], False, ("both", "off")),
        (["both", "off"], False, ("off",)),
    ],
)
def test_steps(live, wanted, steps):
    assert tls_steps(live, wanted) == steps


def spoken(live, written):
    return {"tls": live, "tls_written": written}


@pytest.mark.parametrize(
    ("what", "asked", "looks", "wanted"),
    [
        ("new", None, [spoken(None, None)] * 3, True),
        ("new, one does not answer", None, [spoken(None, None), None, {}], True),
        ("new, on plain text", False, [spoken(None, None)], False),
        ("lives in plain text", None, [spoken("off", "off")] * 3, False),
        ("a new member of one that lives in plain text", None, [spoken(None, None), spoken("off", "off")], False),
        ("a member of one that lives in plain text was given TLS", None, [spoken(None, "on"), spoken("off", "off")], False),
        ("stopped, in plain text", None, [spoken(None, "off"), spoken(None, "off")], False),
        ("stopped, with TLS", None, [spoken(None, "on"), None], True),
        ("lives with TLS", None, [spoken("on", "on"), spoken(None, None)], True),
        ("killed on the way to both", None, [spoken("off", "both"), spoken("both", "both")], False),
        ("killed on the way to TLS alone", None, [spoken("both", "on"), spoken("on", "on")], True),
        ("lives in plain text, TLS is asked for", True, [spoken("off", "off")], True),
        ("lives with TLS, plain text is asked for", False, [spoken("on", "on")], False),
    ],
)
def test_new_clusters_speak_tls_and_others_keep_what_they_speak(what, asked, looks, wanted):
    assert tls_wanted(asked, looks) is wanted, what


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("live", [live for live in itertools.product(STAGES, repeat=3) if not {"on", "off"} <= set(live)])
def test_nobody_is_ever_cut_off(live, wanted):
    members = list(live)
    for step in tls_steps(live, wanted):
        for place in range(len(members)):
            members[place] = step
            assert all(HEARS.get((one, other), True) for one, other in itertools.combinations(members, 2)), members
    assert set(members) == {"on" if wanted else "off"}


@pytest.mark.parametrize(
    ("version", "able"),
    [
        ("26.4.23(r9d36a)", True),
        ("26.4.8(r1)", True),
        ("26.4.7(r1)", False),
        ("25.3.37(r1)", False),
        ("4.8", True),
        ("4.7(x)", False),
        ("", False),
        ("new", False),
    ],
)
def test_who_speaks_both(version, able):
    assert speaks_both(version) is able
