# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decision about a domain, row by row (F5, X5, X6)."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._plan.domain import Actual, Wanted, check_ownership, plan_domain
from ansible_collections.reduced.footprint.plugins.module_utils._xml.metadata import Ownership

WANTED = Wanted(id="a", name="a", uuid="u", cluster="lab", document="doc", state="running", autostart=True, protected=False)
OWNED = Ownership("lab", "a", False, "vm_define", "doc")
RUNS = Actual(name="a", uuid="u", state="running", autostart=True, owned=OWNED, live_applied="doc")
OFF = dataclasses.replace(RUNS, state="shutdown", live_applied=None)
PAUSED = dataclasses.replace(RUNS, state="paused")
OLD = dataclasses.replace(OWNED, applied="old")
RUNS_OLD = dataclasses.replace(RUNS, owned=OLD, live_applied="old")
RUNS_STALE = dataclasses.replace(RUNS, live_applied="old")

CASES: list[tuple[str, dict[str, t.Any], t.Any, bool, tuple[str, ...], str, bool]] = [
    ("new", {}, None, False, ("define", "autostart_on", "start"), "running", False),
    ("new, only defined", {"state": "present", "autostart": False}, None, False, ("define",), "shutdown", False),
    ("new, off", {"state": "shutdown"}, None, False, ("define", "autostart_on"), "shutdown", False),
    ("done", {}, RUNS, False, (), "running", False),
    ("a stopped one is not done", {}, OFF, False, ("start",), "running", False),
    ("a paused one is not done", {}, PAUSED, False, ("resume",), "running", False),
    ("a crashed one is not done", {}, dataclasses.replace(OFF, state="crashed"), False, ("start",), "running", False),
    ("present leaves power alone", {"state": "present"}, RUNS, False, (), "running", False),
    ("present leaves a stopped one stopped", {"state": "present"}, OFF, False, (), "shutdown", False),
    ("edited and running", {}, RUNS_OLD, False, ("redefine",), "running", True),
    ("edited and running, may cycle", {}, RUNS_OLD, True, ("redefine", "power_cycle"), "running", False),
    ("edited and off", {}, dataclasses.replace(OFF, owned=OLD), True, ("redefine", "start"), "running", False),
    ("the restart is still due", {}, RUNS_STALE, False, (), "running", True),
    ("the restart is made up for", {}, RUNS_STALE, True, ("power_cycle",), "running", False),
    ("protection changes without a restart", {"protected": True}, RUNS, False, ("update_metadata",), "running", False),
    ("autostart off", {"autostart": False}, RUNS, False, ("autostart_off",), "running", False),
    ("autostart on", {}, dataclasses.replace(RUNS, autostart=False), False, ("autostart_on",), "running", False),
    ("shutdown", {"state": "shutdown"}, RUNS, False, ("shutdown",), "shutdown", False),
    ("edited, then off", {"state": "shutdown"}, RUNS_OLD, True, ("redefine", "shutdown"), "shutdown", False),
    ("off already", {"state": "shutdown"}, OFF, False, (), "shutdown", False),
    ("absent already", {"state": "absent"}, None, False, (), "absent", False),
    ("absent", {"state": "absent"}, RUNS, False, ("shutdown", "undefine"), "absent", False),
    ("absent, was off", {"state": "absent"}, OFF, False, ("undefine",), "absent", False),
]


@pytest.mark.parametrize("changes, actual, cycle, actions, state, restart", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decision(changes: dict[str, t.Any], actual: Actual | None, cycle: bool, actions: tuple[str, ...], state: str, restart: bool) -> None:
    plan = plan_domain(dataclasses.replace(WANTED, **changes), actual, cycle)
    assert (plan.actions, plan.state, plan.restart_required) == (actions, state, restart)


@pytest.mark.parametrize("wanted, noted", [(True, False), (False, True)])
def test_a_protected_vm_stays(wanted: bool, noted: bool) -> None:
    actual = dataclasses.replace(OFF, owned=dataclasses.replace(OWNED, protected=noted))
    with pytest.raises(RefusedError, match="is protected"):
        plan_domain(dataclasses.replace(WANTED, state="absent", protected=wanted), actual)


FOREIGN = [
    ("same name, not ours", None, dataclasses.replace(RUNS, uuid="other", owned=None), "which is not ours"),
    ("same name, another VM of ours", None, dataclasses.replace(RUNS, uuid="other"), "is the VM 'a' of the cluster 'lab'"),
    ("same UUID, not ours", dataclasses.replace(RUNS, owned=None), None, "does not say that it is ours"),
    ("same UUID, another cluster", dataclasses.replace(RUNS, owned=dataclasses.replace(OWNED, cluster="x")), None, "belongs to the cluster 'x'"),
    ("same UUID, another name", dataclasses.replace(RUNS, name="b"), None, "exists under the name 'b'"),
]


@pytest.mark.parametrize("same_uuid, same_name, message", [case[1:] for case in FOREIGN], ids=[case[0] for case in FOREIGN])
def test_what_is_not_ours_is_refused(same_uuid: Actual | None, same_name: Actual | None, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        check_ownership(WANTED, same_uuid, same_name)


def test_ours_passes() -> None:
    check_ownership(WANTED, RUNS, RUNS)
    check_ownership(WANTED, None, None)
