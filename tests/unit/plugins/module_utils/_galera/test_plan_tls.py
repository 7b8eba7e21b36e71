# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TLS stage of a member, and the steps by which a cluster changes it."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_tls import STAGES, speaks_both, tls_changing, tls_stage, tls_steps, tls_wanted

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


def using(live, written):
    return {"tls": live, "tls_written": written}


@pytest.mark.parametrize(
    ("what", "asked", "looks", "wanted"),
    [
        ("new", None, [using(None, None)] * 3, True),
        ("new, one does not answer", None, [using(None, None), None, {}], True),
        ("new, on plain text", False, [using(None, None)], False),
        ("runs in plain text", None, [using("off", "off")] * 3, False),
        ("a new member of one that runs in plain text", None, [using(None, None), using("off", "off")], False),
        ("a member of one that runs in plain text was given TLS", None, [using(None, "on"), using("off", "off")], False),
        ("stopped, in plain text", None, [using(None, "off"), using(None, "off")], False),
        ("stopped, with TLS", None, [using(None, "on"), None], True),
        ("runs with TLS", None, [using("on", "on"), using(None, None)], True),
        ("killed on the way to both", None, [using("off", "both"), using("both", "both")], False),
        ("killed on the way to TLS alone", None, [using("both", "on"), using("on", "on")], True),
        ("runs in plain text, TLS is asked for", True, [using("off", "off")], True),
        ("runs with TLS, plain text is asked for", False, [using("on", "on")], False),
    ],
)
def test_tls_wanted_is_true_for_new_clusters_and_unchanged_for_others(what, asked, looks, wanted):
    assert tls_wanted(asked, looks) is wanted, what


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("live", [live for live in itertools.product(STAGES, repeat=3) if not {"on", "off"} <= set(live)])
def test_tls_steps_never_disconnect_a_member(live, wanted):
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
def test_speaks_both_by_version(version, able):
    assert speaks_both(version) is able


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("witness", ["off", "on"])
@pytest.mark.parametrize("live", itertools.product([None, *STAGES], repeat=2))
def test_a_witness_is_let_in_only_if_it_hears_all_members_until_the_end(wanted, witness, live):
    """A witness with one setting, and members that are restarted one by one: the interrupted stage, then the wanted one."""
    goal = "on" if wanted else "off"
    if not tls_changing(live, wanted):
        assert set(live) <= {None, goal}
        return
    ways = itertools.chain(*([live, (step, live[1]), (step, step)] for step in tls_steps(live, wanted)))
    deaf = [pair for pair in ways for stage in pair if stage and not HEARS.get((witness, stage), True)]
    assert deaf or witness == goal
