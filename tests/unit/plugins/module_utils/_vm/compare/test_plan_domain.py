# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision about a domain, row by row."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.plan_domain import Actual, Needs, Wanted, find, plan_domain, with_volumes
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_metadata import Ownership

WANTED = Wanted(id="a", name="a", uuid="u", cluster="lab", state="running", autostart=True, protected=False)
OWNED = Ownership("lab", "a", False, "vm_define", "<domain><uuid>u</uuid></domain>")
RUNS = Actual(name="a", uuid="u", state="running", autostart=True, owned=OWNED, active=True)
OFF = RUNS._replace(state="shutdown", active=False)
PAUSED = RUNS._replace(state="paused")
KEPT_CRASH = RUNS._replace(state="crashed")
TRANSIENT = RUNS._replace(persistent=False, autostart=False)
FOREIGN_RUNS = RUNS._replace(owned=None)
BACK = RUNS._replace(owned=OWNED._replace(previous="<domain/>", back=True))
WITH_PREVIOUS = RUNS._replace(owned=OWNED._replace(previous="<domain/>"))
NONE, CONFIG, LIVE, BOTH, STALE = Needs(), Needs(redefine=True), Needs(live=True), Needs(True, True), Needs(waits=True)
WAITS = Needs(redefine=True, waits=True)

CASES: list[tuple[str, dict[str, t.Any], t.Any, Needs, bool, tuple[str, ...], str, bool]] = [
    ("new", {}, None, NONE, False, ("define", "autostart_on", "start"), "running", False),
    ("new, only defined", {"state": "present", "autostart": False}, None, NONE, False, ("define",), "shutdown", False),
    ("new, off", {"state": "shutdown"}, None, NONE, False, ("define", "autostart_on"), "shutdown", False),
    ("done", {}, RUNS, NONE, False, (), "running", False),
    ("a stopped one is not done", {}, OFF, NONE, False, ("start",), "running", False),
    ("a paused one is not done", {}, PAUSED, NONE, False, ("resume",), "running", False),
    ("a suspended one is not done", {}, RUNS._replace(state="suspended"), NONE, False, ("resume",), "running", False),
    ("a paused one is resumed before it is changed", {}, PAUSED, LIVE, False, ("resume", "change_live"), "running", False),
    ("a crashed one is not done", {}, OFF._replace(state="crashed"), NONE, False, ("start",), "running", False),
    ("the remains of a crash, may cycle", {}, KEPT_CRASH, NONE, True, ("power_cycle",), "running", False),
    ("the remains of a crash, only defined", {"state": "present"}, KEPT_CRASH, NONE, False, (), "crashed", False),
    ("the remains of a crash, off", {"state": "shutdown"}, KEPT_CRASH, NONE, False, ("shutdown",), "shutdown", False),
    ("present leaves power alone", {"state": "present"}, RUNS, NONE, False, (), "running", False),
    ("present leaves a paused one paused", {"state": "present"}, PAUSED, NONE, False, (), "paused", False),
    ("present leaves a stopped one stopped", {"state": "present"}, OFF, NONE, False, (), "shutdown", False),
    ("edited and running", {}, RUNS, WAITS, False, ("redefine",), "running", True),
    ("edited and running, may cycle", {}, RUNS, WAITS, True, ("redefine", "power_cycle"), "running", False),
    ("edited, takes effect at once", {}, RUNS, BOTH, True, ("redefine", "change_live"), "running", False),
    ("only what runs differs", {}, RUNS, LIVE, False, ("change_live",), "running", False),
    ("edited and off", {}, OFF, CONFIG, True, ("redefine", "start"), "running", False),
    ("edited, off with its memory saved", {}, OFF, WAITS, False, ("redefine", "start"), "running", True),
    ("edited, off with its memory saved, may cycle", {}, OFF, WAITS, True, ("redefine", "start", "power_cycle"), "running", False),
    ("saved and left off", {"state": "present"}, OFF, WAITS, True, ("redefine",), "shutdown", False),
    ("a restart that was cut short", {"state": "present"}, OFF._replace(restarting=True), NONE, False, ("start",), "running", False),
    ("a restart that was done", {"state": "present"}, RUNS._replace(restarting=True), NONE, False, (), "running", False),
    ("a restart is not wanted any more", {"state": "shutdown"}, OFF._replace(restarting=True), NONE, False, (), "shutdown", False),
    ("the restart is still due", {}, RUNS, STALE, False, (), "running", True),
    ("the restart is made up for", {}, RUNS, STALE, True, ("power_cycle",), "running", False),
    ("protection changes without a restart", {"protected": True}, RUNS, NONE, False, ("update_metadata",), "running", False),
    (
        "a creation that was killed", {}, OFF._replace(owned=OWNED._replace(pending_disks=("/p/a",))),
        NONE, False, ("update_metadata", "start"), "running", False,
    ),
    ("so does that of disks", {"protected_disks": ("p/a",)}, RUNS, NONE, False, ("update_metadata",), "running", False),
    ("autostart off", {"autostart": False}, RUNS, NONE, False, ("autostart_off",), "running", False),
    ("autostart on", {}, RUNS._replace(autostart=False), NONE, False, ("autostart_on",), "running", False),
    ("shutdown", {"state": "shutdown"}, RUNS, NONE, False, ("shutdown",), "shutdown", False),
    ("edited, then off", {"state": "shutdown"}, RUNS, Needs(True, True, True), True, ("redefine", "shutdown"), "shutdown", False),
    ("off already", {"state": "shutdown"}, OFF, NONE, False, (), "shutdown", False),
    ("without a definition", {}, TRANSIENT, NONE, False, ("define", "autostart_on"), "running", False),
    ("taken over", {}, FOREIGN_RUNS, WAITS, False, ("adopt",), "running", True),
    ("absent already", {"state": "absent"}, None, NONE, False, (), "absent", False),
    ("absent", {"state": "absent"}, RUNS, NONE, False, ("shutdown", "undefine"), "absent", False),
    ("absent, was off", {"state": "absent"}, OFF, NONE, False, ("undefine",), "absent", False),
    ("back", {"state": "rolled_back"}, WITH_PREVIOUS, BOTH, False, ("redefine", "change_live"), "running", False),
    ("back, asked again", {"state": "rolled_back"}, BACK, NONE, False, (), "running", False),
    ("back, asked again, half done", {"state": "rolled_back"}, BACK, LIVE, False, ("change_live",), "running", False),
    ("back, autostart is left", {"state": "rolled_back", "autostart": False}, WITH_PREVIOUS, WAITS, False, ("redefine",), "running", True),
    ("back, may cycle", {"state": "rolled_back"}, WITH_PREVIOUS, WAITS, True, ("redefine", "power_cycle"), "running", False),
    ("back, off", {"state": "rolled_back"}, WITH_PREVIOUS._replace(state="shutdown", active=False), CONFIG, False, ("redefine",), "shutdown", False),
]


@pytest.mark.parametrize("changes, actual, needs, cycle, actions, state, restart", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decision(changes: dict[str, t.Any], actual: Actual | None, needs: Needs, cycle: bool, actions: tuple[str, ...], state: str, restart: bool) -> None:
    plan = plan_domain(WANTED._replace(**changes), actual, needs, cycle)
    assert (plan.actions, plan.state, plan.restart_required) == (actions, state, restart)


STAYS: list[tuple[str, dict[str, t.Any], t.Any, str]] = [
    ("protected in the details", {"state": "absent", "protected": True}, OFF, "is protected"),
    ("protected on the host", {"state": "absent"}, OFF._replace(owned=OWNED._replace(protected=True)), "is protected"),
    ("remains of a crash", {}, KEPT_CRASH, "has crashed"),
    ("nothing to go back to", {"state": "rolled_back"}, RUNS, "has no previous definition"),
    ("no domain to roll back", {"state": "rolled_back"}, None, "does not exist"),
]


@pytest.mark.parametrize("changes, actual, message", [case[1:] for case in STAYS], ids=[case[0] for case in STAYS])
def test_left_alone(changes: dict[str, t.Any], actual: Actual | None, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as raised:
        plan_domain(WANTED._replace(**changes), actual)
    assert raised.value.hint


OTHER = RUNS._replace(uuid="other")
ADOPTED = OTHER._replace(owned=OWNED._replace(adopted=True, applied="<uuid>other</uuid>"))
FOUND: list[tuple[str, dict[str, t.Any], list[Actual], bool, Actual | None]] = [
    ("ours", {}, [OTHER._replace(name="b"), RUNS], False, RUNS),
    ("no domain", {}, [], True, None),
    ("taken over once, by its mark", {}, [ADOPTED], False, ADOPTED),
    ("a copy bears the mark and is none", {"name": "x"}, [OTHER._replace(name="a-clone")], False, None),
    ("of its name, to be taken over", {"uuid": "w"}, [FOREIGN_RUNS], True, FOREIGN_RUNS),
    ("of its UUID, to be taken over", {}, [FOREIGN_RUNS], True, FOREIGN_RUNS),
    ("absent, the details name the id alone", {"state": "absent", "uuid": "w", "name": "x"}, [RUNS], False, RUNS),
]


@pytest.mark.parametrize("changes, there, adopt, found", [case[1:] for case in FOUND], ids=[case[0] for case in FOUND])
def test_whose_it_is(changes: dict[str, t.Any], there: list[Actual], adopt: bool, found: Actual | None) -> None:
    assert find(WANTED._replace(**changes), there, adopt) is found


FOREIGN: list[tuple[str, dict[str, t.Any], Actual, bool, str]] = [
    ("same name, unmanaged", {}, RUNS._replace(uuid="other", owned=None), False, "which is not managed by this collection. Adopt it with adopt: true"),
    ("same name, a copy of a managed one", {}, OTHER, False, "is the VM 'a' of the cluster 'lab'"),
    ("same UUID, unmanaged", {}, FOREIGN_RUNS, False, "is not managed by this collection"),
    ("same UUID, another cluster", {}, RUNS._replace(owned=OWNED._replace(cluster="x")), True, "belongs to the cluster 'x'"),
    ("same UUID, another name", {}, RUNS._replace(name="b"), False, "exists under the name 'b'"),
    ("an instance with its name", {}, RUNS._replace(uuid="other", owned=None, instance="instance web"), True, "is the instance web of the cloud"),
    ("an instance with its UUID", {}, FOREIGN_RUNS._replace(name="b", instance="instance web"), True, "which only Nova may change"),
    ("adopted by UUID, another name", {}, FOREIGN_RUNS._replace(name="b"), True, "exists under the name 'b'"),
    ("the details give another UUID", {"uuid": "w"}, RUNS, False, "exists with the UUID u, wanted is w"),
    ("absent, unmanaged", {"state": "absent"}, FOREIGN_RUNS, True, "is not managed by this collection"),
    ("absent, unmanaged by name", {"state": "absent", "uuid": "w"}, FOREIGN_RUNS, True, "which is not managed by this collection"),
]


@pytest.mark.parametrize("changes, there, adopt, message", [case[1:] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_domain_of_another_owner_is_refused(changes: dict[str, t.Any], there: Actual, adopt: bool, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as raised:
        find(WANTED._replace(**changes), [there], adopt)
    assert raised.value.hint


ORDERS = [
    (("define", "autostart_on", "start"), ["define", "volume", "autostart_on", "start"]),
    (("redefine", "change_live"), ["volume", "redefine", "change_live"]),
    ((), ["volume"]),
    (("shutdown",), ["volume", "shutdown"]),
    (("shutdown", "undefine"), ["shutdown", "volume", "undefine"]),
    (("undefine",), ["volume", "undefine"]),
]


@pytest.mark.parametrize("actions, order", ORDERS)
def test_the_place_of_volumes(actions: tuple[str, ...], order: list[str]) -> None:
    assert with_volumes(actions, ["volume"]) == order
