# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When the guard forms no component although it could: while a run restarts members, and while a witness may be Primary alone."""

from __future__ import annotations

import pathlib
import re
import typing as t

import yaml
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Step

from tests.support.control_node import HERE, ControlNode
from tests.unit.roles.galera.guard_support import APART, CLUSTER, FILES, ISOLATED, LEFT, STARTING, World

ROLES = FILES.parents[1]


def test_while_a_run_restarts_members_it_forms_no_component(guard: t.Any, module: t.Any, world: World) -> None:
    module.LOCK.write_text("{}", "utf-8")
    for world.own, action in [(STARTING, "form"), (APART, "restart"), (ISOLATED, "form"), (APART, "isolate"), (ISOLATED, "connect")]:
        world.step = Step(action, "why")
        guard.turn()
    assert guard.server.done == ["isolate None", "connect"]
    world.own, world.step = STARTING, Step("form", "why")
    guard.turn()
    assert guard.step.action == "wait" and "a run that restarts members" in guard.step.reason
    world.own, world.status, world.step = ISOLATED, LEFT, Step("connect", "why")
    guard.turn()
    assert guard.step.action == "wait" and guard.server.done[-1] == "connect"
    world.own, world.status, world.step = STARTING, {}, Step("form", "why")
    # of an earlier run
    module.RELEASED.write_text('{"process": "4711"}', "utf-8")
    guard.turn()
    assert guard.step.action == "wait"
    module.LOCK.unlink()
    guard.turn()
    assert guard.server.done[-1] == f"bootstrap {CLUSTER}"


def test_a_run_that_was_killed_is_waited_for_ten_minutes_only(guard: t.Any, module: t.Any, world: World) -> None:
    module.LOCK.write_text("{}", "utf-8")
    world.own, world.step = STARTING, Step("form", "why")
    for world.now in (world.now, world.now + 300):
        guard.turn()
    # others do not answer for a moment
    world.step = Step("wait", "why")
    guard.turn()
    world.step = Step("form", "why")
    guard.turn()
    assert guard.step.action == "wait" and not guard.server.done
    for world.now in (world.now + module.DEFERRED, world.now + module.DEFERRED + 10):
        guard.turn()
    assert guard.server.done[-1] == f"bootstrap {CLUSTER}"


def test_a_run_that_has_deployed_the_database_leaves_the_decision_to_the_guards(guard: t.Any, module: t.Any, world: World, tmp_path: pathlib.Path) -> None:
    begin, end = (yaml.safe_load((ROLES / "galera" / "tasks" / name).read_text("utf-8"))[0] for name in ("member.yml", "settled.yml"))
    control = ControlNode(tmp_path / "control")
    given = {"__galera_members": ["metal1"], **HERE}
    world.own, world.step = ISOLATED, Step("form", "why")

    def play(task: dict[str, t.Any], *options: str) -> None:
        code, output = control.play([task], "metal1", *options, __galera_run=str(module.LOCK), __galera_run_released=str(module.RELEASED), **given)
        assert code == 0 and "changed=0" in output, output

    # the role without a run that restarts members
    play(end)
    assert not module.RELEASED.exists()
    module.LOCK.write_text('{"process": "4712"}', "utf-8")
    play(end, "--check")
    guard.turn()
    assert guard.step.action == "wait" and not guard.server.done
    play(end)
    guard.turn()
    assert guard.server.done == ["form"]
    # the same run deploys the database again
    play(begin, "--check")
    assert module.RELEASED.exists()
    play(begin)
    guard.turn()
    assert guard.step.action == "wait" and guard.server.done == ["form"]


def test_a_witness_that_may_be_primary_alone_is_restarted_before_a_component_is_formed(guard: t.Any, world: World) -> None:
    world.own, form = STARTING, Step("form", "why", hold=True)
    for wait, world.step in [(0, form), (7, form), (1, Step("wait", "another one may be in a component")), (1, form), (7, form)]:
        world.now += wait
        guard.turn()
        assert not guard.server.done
    # what the server was meanwhile is unknown
    world.own = None
    guard.turn()
    world.own = STARTING
    for world.now in (world.now + 1, world.now + 7):
        guard.turn()
        assert not guard.server.done
    world.now += 1
    guard.turn()
    assert guard.server.done == ["stop", f"bootstrap {CLUSTER}"]


def test_the_arbitrator_ends_sooner_than_servers_start_again_or_a_component_is_formed(module: t.Any) -> None:
    source = (ROLES / "witness" / "files" / "witness_arbitrator.py").read_text("utf-8")
    alone, pause = (float(t.cast("re.Match[str]", re.search(rf"(?m)^{name} = ([0-9.]+)$", source)).group(1)) for name in ("ALONE", "PAUSE"))
    again = re.search(r"(?m)^RestartSec=([0-9]+)s$", (ROLES / "galera" / "templates" / "mariadb.conf.j2").read_text("utf-8"))
    assert again and alone + pause < float(again.group(1))
    assert alone + pause + module.galera_report.OLD <= module.ALONE
