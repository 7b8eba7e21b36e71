# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which servers move into VMs, in which order, what they need and what became of them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import plan_servers
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_servers import Server, Site

NODE = {"capacity": {"memory_left_mib": 8192}, "pools": {"default": {"available_bytes": 200 << 30}, "small": {"available_bytes": None}}}
NUMBERS = {"db1": 10, "web1": 20, "web2": 30}


def server(name: str, /, node: str = "metal1", after: t.Sequence[str] = (), standby: str = "", **options: t.Any) -> Server:
    """A server with its own addresses."""
    number = NUMBERS[name]
    given = {
        "name": name, "admin_address": f"192.0.2.{number}", "temporary_address": f"192.0.2.{number + 1}", "cpu": 2, "ram": 2, "hypervisor": "auto",
        "bridge": "br-admin", "disk_size": "40GiB", "vm_extra": {}, "cluster": "blue", "pool": "default", "stop_after": "", **options,
    }  # fmt: skip
    return Server(name, node, after, standby, given)


def migration(name: str, state: str, *phases: str, number: int | None = None, **more: t.Any) -> dict[str, t.Any]:
    """A migration as ``master_migrate_info`` returns it."""
    where = {"address": f"192.0.2.{number or NUMBERS[name]}", "temporary_address": "192.0.2.99"}
    return {"name": name, "state": state, "phase": [*phases, "x"][0], "phases": dict.fromkeys(phases, {}), "source": where, "host": "metal1", **more}


def site(*found: dict[str, t.Any], **more: t.Any) -> Site:
    """Two virt hosts; the first one has these migrations."""
    nodes = {"metal1": NODE, "metal2": NODE, **more.pop("nodes", {})}
    return Site(nodes, {"metal1": list(found), "metal2": [], **more}, {"db1", "web1", "web2", "metal1", "metal2"})


def moved(plan: t.Any) -> list[str]:
    return [step["server"] for step in plan.steps]


@pytest.mark.parametrize(
    ("after", "order"),
    [
        ({}, ["web1", "web2", "db1"]),
        ({"web1": ["db1"]}, ["web2", "db1", "web1"]),
        ({"web1": ["web2", "db1"], "web2": ["db1"]}, ["db1", "web2", "web1"]),
        # of another run
        ({"web1": ["metal1"]}, ["web1", "web2", "db1"]),
    ],
)
def test_servers_move_in_the_order_of_the_list_and_of_their_dependencies(after: dict[str, list[str]], order: list[str]) -> None:
    servers = [server(name, after=after.get(name, ())) for name in ("web1", "web2", "db1")]
    plan = plan_servers.plan(servers, site(), ["web1", "web2", "db1"])
    assert not plan.problems and moved(plan) == order and [step["number"] for step in plan.steps] == [0, 1, 2]


def test_servers_that_wait_for_each_other_are_refused() -> None:
    servers = [server("web1", after=["db1"]), server("db1", after=["web1"]), server("web2")]
    with pytest.raises(InputError, match="migrate_server_after: db1, web1 wait for each other"):
        plan_servers.ordered(servers)
    assert "migrate_server_after" in str(plan_servers.plan(servers, site(), None).problems[0])


@pytest.mark.parametrize(
    ("confirm", "stop_after", "steps", "problem"),
    [
        ([], "", [], ""),
        (["web1", "db1"], "", ["db1", "web1"], ""),
        (["db1"], "", [], "migrate_server_confirm: db1 are not all servers that would move. Use db1,web1."),
        # neither a rehearsal nor check mode pauses a server
        ([], "rehearse", ["db1", "web1"], ""),
        (None, "", ["db1", "web1"], ""),
    ],
)
def test_the_pauses_are_confirmed_by_name(confirm: list[str] | None, stop_after: str, steps: list[str], problem: str) -> None:
    plan = plan_servers.plan([server("db1", stop_after=stop_after), server("web1", stop_after=stop_after)], site(), confirm)
    assert moved(plan) == steps or problem
    assert [str(each) for each in plan.problems] == ([problem] if problem else [])
    assert ("nothing is changed without -e migrate_server_confirm=db1,web1" in "\n".join(plan.lines)) == (not steps and not problem)


def test_servers_that_have_moved_are_left() -> None:
    # the first one under the name of the master, which migrate_master gives it
    done = [migration("master", "done", "quiesce", number=10), migration("web1", "retired", "quiesce")]
    plan = plan_servers.plan([server("db1"), server("web1"), server("web2")], site(*done), ["db1", "web1", "web2"])
    assert moved(plan) == ["web2"] and not plan.problems
    assert plan.lines[:2] == ["db1 has moved: master serves from a VM of metal1", "web1 has moved: web1 serves from a VM of metal1; its source is shut down"]
    assert not plan_servers.plan([server("web1")], site(*done), []).lines[1:]


def test_the_plan_compares_what_is_needed_with_what_is_free() -> None:
    rehearsed = migration("db1", "stopped", "prepare", "rehearse", predicted_downtime_seconds=38.2)
    failed = migration("web1", "failed", "preflight", reason="no rsync")
    two_disks = {"disks": [{"size": "10GiB"}, {"size": "5GiB"}]}
    plan = plan_servers.plan([server("db1", ram="1536 MiB"), server("web1", vm_extra=two_disks)], site(rehearsed, failed), None)
    assert plan.lines == [
        "db1 to a VM of metal1: 1.5 GiB memory, 40 GiB disk, pause predicted 38.2 s",
        "web1 to a VM of metal1: 2 GiB memory, 15 GiB disk, not rehearsed, pause not predicted; last time: no rsync",
        # the disk of the copy exists
        "metal1: memory 3.5 GiB needed, 8 GiB free, pool default 15 GiB needed, 200 GiB free",
    ]
    assert not plan.problems


@pytest.mark.parametrize(
    ("options", "short"),
    [
        ({"ram": 5}, "memory 10 GiB needed, 8 GiB free, pool default 80 GiB needed, 200 GiB free"),
        ({"disk_size": "110GiB"}, "memory 4 GiB needed, 8 GiB free, pool default 220 GiB needed, 200 GiB free"),
        ({"ram": 4, "disk_size": "100GiB"}, ""),
        # the module asks the host again
        ({"pool": "small"}, ""),
    ],
)
def test_servers_that_do_not_fit_together_are_refused_before_the_first_one(options: dict[str, t.Any], short: str) -> None:
    plan = plan_servers.plan([server("db1", **options), server("web1", **options)], site(), ["db1", "web1"])
    problems = [str(each) for each in plan.problems]
    assert problems == ([f"metal1 has too little for the servers that move there: {short}. Move fewer, or to another virt host."] if short else [])
    # on two of them they fit
    apart = plan_servers.plan([server("db1", **options), server("web1", node="metal2", **options)], site(), ["db1", "web1"])
    assert not apart.problems and [step["node"] for step in apart.steps] == ["metal1", "metal2"]


@pytest.mark.parametrize(
    ("first", "found", "problem"),
    [
        ({"node": "metal9"}, site(), "db1.master_migrate_destination: 'metal9' is not a virt host of this run. Use one of metal1, metal2."),
        ({}, site(metal1=None), "metal1 did not answer, so db1 cannot move there."),
        ({}, site(nodes={"metal1": {}}), "metal1 did not answer, so db1 cannot move there."),
        ({"after": ["bd1"]}, site(), "db1.migrate_server_after: 'bd1' is not a host of the inventory."),
        ({"standby": "metal3"}, site(), "db1.migrate_server_standby: 'metal3' is not a host of the inventory."),
        ({"temporary_address": ""}, site(), "db1.master_migrate_temporary_address: "),
        ({"admin_address": "db1.example.com"}, site(), "db1.master_migrate_admin_address: "),
        ({"ram": "much"}, site(), "db1.vm[0].ram: "),
        ({"name": "web1"}, site(), "web1.master_migrate_name: web1 is also db1.master_migrate_name."),
        ({"admin_address": "192.0.2.20"}, site(), "web1.master_migrate_admin_address: 192.0.2.20 is also db1.master_migrate_admin_address."),
        ({"temporary_address": "192.0.2.20"}, site(), "web1.master_migrate_admin_address: 192.0.2.20 is also db1.master_migrate_temporary_address."),
        ({"node": "metal2"}, site(migration("db1", "interrupted", "quiesce")), "the migration of db1 has begun on metal1."),
        ({}, site(migration("db1", "stopped", "rehearse", number=77)), "db1 on metal1 is the migration of the machine with the address 192.0.2.77."),
    ],
)
def test_what_is_refused_before_the_first_pause(first: dict[str, t.Any], found: Site, problem: str) -> None:
    options = {"node": "metal1", **first}
    plan = plan_servers.plan([server("db1", **options), server("web1", node="metal2")], found, ["db1", "web1"])
    assert problem in "\n".join(map(str, plan.problems))
    assert plan.as_result()["failed"] and not plan.as_result()["steps"]


NIGHT, MORNING = "2026-12-24T02:00:00+01:00", "2026-12-24T05:00:00Z"


@pytest.mark.parametrize(
    ("first", "second", "more", "problem"),
    [
        (NIGHT, MORNING, {}, ""),
        ("", MORNING, {}, ""),
        (NIGHT, NIGHT, {}, "web1.master_migrate_cutover_at: web1 moves after db1, whose pause begins at 2026-12-24T01:00:00Z. Set a later time."),
        (MORNING, NIGHT, {}, "web1 moves after db1, whose pause begins at 2026-12-24T05:00:00Z"),
        # it would pause at once
        (NIGHT, "", {}, "web1 moves after db1"),
        # a rehearsal pauses nothing
        (NIGHT, "", {"stop_after": "rehearse"}, ""),
        ("tonight", MORNING, {}, "db1.master_migrate_cutover_at: 'tonight' is not a time with time zone."),
    ],
)
def test_the_times_of_pauses_keep_the_order(first: str, second: str, more: dict[str, str], problem: str) -> None:
    servers = [server("web1", after=["db1"], cutover_at=second, **more), server("db1", cutover_at=first, **more)]
    plan = plan_servers.plan(servers, site(), ["db1", "web1"])
    assert problem in "\n".join(map(str, plan.problems)) and bool(plan.problems) == bool(problem)


def test_what_is_a_part_of_the_footprint_does_not_move_in_this_way() -> None:
    (problem,) = plan_servers.plan([server("web2")._replace(kind="a virt host"), server("db1")], site(), None).problems
    assert str(problem) == "migrate_server_hosts: web2 is a virt host, which does not move into a VM. Remove it there."
    # one that has moved is a VM
    assert not plan_servers.plan([server("web2")._replace(kind="a VM of metal1")], site(migration("web2", "done", "quiesce")), None).problems


def test_another_virt_host_that_does_not_answer_is_named() -> None:
    plan = plan_servers.plan([server("db1")], site(metal2=None), ["db1"])
    assert plan.lines[-1] == "metal2 did not answer: whether a server was moved there is unknown" and moved(plan) == ["db1"]


def test_a_migration_that_is_rolled_back_elsewhere_is_no_reason_against_another_host() -> None:
    back = migration("db1", "rolled_back", "quiesce")
    assert moved(plan_servers.plan([server("db1", node="metal2")], site(back), ["db1"])) == ["db1"]


def test_the_report_names_what_has_moved_what_has_failed_and_what_was_not_begun() -> None:
    done = migration("db1", "done", "quiesce", downtime_seconds=41.0, predicted_downtime_seconds=38.0)
    failed = migration("web1", "rolled_back", "quiesce")
    servers = [server("web1"), server("db1", standby="metal2"), server("web2", after=["web1"])]
    lines, missing = plan_servers.report(servers, site(done, failed).migrations, {"web1": "The migration web1 failed: too slow."})
    assert lines == [
        "web1: The migration web1 failed: too slow.",
        "db1: db1 serves from a VM of metal1",
        "db1: downtime: 41 s, predicted 38 s",
        "db1: source: waits at 192.0.2.99; rollback_master returns db1 to it, retire_source shuts it down",
        "db1: add to standby_extra of metal1, then run spawn_vms: {id: db1, disks: [{size: 40 GiB}], standby: metal2}",
        "web2: not begun",
    ]
    assert missing == ["web1", "web2"]


def test_check_mode_names_what_was_not_checked() -> None:
    servers = [server("db1"), server("web1"), server("web2")]
    lines, missing = plan_servers.report(servers, site(migration("db1", "retired", "quiesce")).migrations, {}, ["web1"])
    assert lines[1:] == ["web1: no problem was found", "web2: not checked"] and missing == ["web2"]


@pytest.mark.parametrize(
    ("state", "stop_after", "failed", "good"),
    [
        ("stopped", "rehearse", False, True),
        ("stopped", "", False, False),
        ("running", "", False, True),
        ("running", "", True, False),
        ("failed", "", False, False),
    ],
)
def test_a_rehearsal_and_a_migration_that_is_not_waited_for_are_no_failures(state: str, stop_after: str, failed: bool, good: bool) -> None:
    found = site(migration("db1", state, "rehearse")).migrations
    _lines, missing = plan_servers.report([server("db1", stop_after=stop_after)], found, {"db1": "still running"} if failed else {})
    assert missing == ([] if good else ["db1"])
