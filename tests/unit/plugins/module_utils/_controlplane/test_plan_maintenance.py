# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The decisions about the maintenance of a server."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.filter.controlplane_decision import maintain_virt_node
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_maintenance
from tests.support.controlplane import galera, look

KNOWN = ["metal1", "metal2", "metal3"]
NAMES = ["c1", "c2", "c3"]
PLACES = dict(zip(NAMES, KNOWN))
MEMBERS = {"galera": NAMES, "load_balancer": NAMES}


def vm(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "id": name, "state": "running", "hypervisor": "qemu", "moved": None, "instance": None, **more}


def looks(down: t.Sequence[str] = ()) -> dict[str, t.Any]:
    up = [name for name in NAMES if name not in down]
    return {name: look(name == up[0], galera=galera(size=len(up))) if name in up else {} for name in NAMES}


def planned(server: str = "metal1", vms: t.Sequence[t.Any] = (vm("c1"),), found: t.Any = None, places: t.Any = None, **more: t.Any) -> dict[str, t.Any]:
    return maintain_virt_node(found or looks(), KNOWN, server=server, vms=vms, places=places or PLACES, **{"environments": {"": MEMBERS}, **more})


def journal(**values: t.Any) -> str:
    steps = [{"name": "c1", "action": "stop", "destination": ""}]
    return json.dumps({"schema": 1, "server": "metal1", "stage": "emptying", "steps": steps, "done": [], **values})


def test_a_member_whose_peers_serve_is_shut_down() -> None:
    found = planned(vms=[vm("c1"), vm("off", state="shutdown"), vm("old", moved="metal2")])
    assert (found["ok"], found["why"], found["members"]) == (True, [], ["c1"])
    assert found["steps"] == [{"name": "c1", "action": "stop", "destination": "", "id": "", "cluster": ""}]
    assert found["journal"] == {"schema": 1, "server": "metal1", "stage": "emptying", "steps": found["steps"], "done": [], "instances": {}}


def test_the_last_member_of_a_majority_is_refused() -> None:
    # two of three controllers are on one server
    places = {"c1": "metal1", "c2": "metal1", "c3": "metal2"}
    found = planned(vms=[vm("c1"), vm("c2")], places=places)
    assert not found["ok"]
    assert found["why"] == [
        "without metal1 (c1, c2) galera would have 1 of 3 members left and needs 2. Move a member to another server first, or accept the interruption with "
        "-e maintain_virt_node_accept_outage=true"
    ]
    assert planned(vms=[vm("c1"), vm("c2")], places=places, accept_outage=True)["ok"]
    assert planned(server="metal2", vms=[vm("c3")], places=places)["ok"]


def test_a_member_that_the_inventory_lists_elsewhere_counts_where_it_runs() -> None:
    # c1 was moved from metal1 to metal2, or replaced there, and the inventory is not edited yet
    found = planned(server="metal2", vms=[vm("c1"), vm("c2")])
    assert found["members"] == ["c1", "c2"] and "without metal2 (c1, c2) galera would have 1 of 3 members left" in found["why"][0]
    # where it was, its old copy counts for nothing, and what is off is lost to no one
    left = planned(server="metal1", vms=[vm("c1", state="shutdown", moved="metal2"), vm("c3", state="shutdown")])
    assert (left["ok"], left["members"]) == (True, [])
    # one that is still in its VM details and arrives here is not lost twice
    assert planned(server="metal1", vms=[vm("c1", state="shutdown", moved="metal1")])["members"] == ["c1"]
    # an interrupted run has stopped it
    kept = journal(server="metal2", steps=[{"name": "c1", "action": "stop", "destination": ""}])
    assert planned(server="metal2", vms=[vm("c1", state="shutdown"), vm("c2")], journal=kept, accept_outage=True)["members"] == ["c1", "c2"]


def test_each_environment_with_members_on_the_server_keeps_its_majority() -> None:
    # red has one member on each server, blue has two of its three on the first one
    blue = {"b1": "metal1", "b2": "metal1", "b3": "metal2"}
    found = {**looks(), **{name: look(name == "b1") for name in blue}}
    given = {"environments": {"blue": {"galera": list(blue), "load_balancer": list(blue)}, "red": MEMBERS}, "found": found, "places": {**PLACES, **blue}}
    vms = [vm("c1"), vm("b1"), vm("b2")]
    refused = planned(vms=vms, **given)
    assert refused["why"] == [
        "without metal1 (b1, b2) blue: galera would have 1 of 3 members left and needs 2. Move a member to another server first, or accept the interruption "
        "with -e maintain_virt_node_accept_outage=true"
    ]
    assert refused["members"] == ["b1", "b2", "c1"]
    allowed = planned(server="metal2", vms=[vm("c2"), vm("b3")], **given)
    assert (allowed["ok"], allowed["members"]) == (True, ["b3", "c2"]), allowed["why"]
    # an unhealthy one elsewhere, of any environment
    given["found"] = {**found, "b3": {}}
    assert "blue: galera on b3: does not answer" in planned(server="metal3", vms=[vm("c3")], **given)["why"]


def test_no_server_is_emptied_while_a_member_elsewhere_is_down() -> None:
    found = planned(found=looks(down=["c3"]))
    assert not found["ok"] and "galera on c3: does not answer" in found["why"]
    assert any(text.startswith("without metal1 (c1) galera would have 1 of 3") for text in found["why"])


def test_a_member_that_an_interrupted_run_stopped_does_not_stop_the_next_run() -> None:
    assert not planned(vms=[vm("c1", state="shutdown")], found=looks(down=["c1"]))["ok"]
    found = planned(vms=[vm("c1", state="shutdown")], found=looks(down=["c1"]), journal=journal(stage="restarted"))
    # the VM is still started again, although it does not run now
    assert (found["ok"], found["begun"], found["stage"], [step["name"] for step in found["steps"]]) == (True, True, "restarted", ["c1"]), found["why"]
    assert found["lines"][0] == "metal1: continues, restarted"
    # another member is down as well
    assert not planned(vms=[], found=looks(down=["c1", "c2"]), journal=journal())["ok"]


def test_what_was_stopped_is_started_again_although_another_member_failed_meanwhile() -> None:
    # it may be down because those of this server are
    found = planned(vms=[vm("c1", state="shutdown")], found=looks(down=["c1", "c2"]), journal=journal(stage="restarted"))
    assert (found["ok"], [step["name"] for step in found["steps"]]) == (True, ["c1"]), found["why"]


def test_what_runs_since_an_interrupted_run_is_stopped_too() -> None:
    vms = [vm("c1", state="shutdown"), vm("new"), vm("web", moved="metal2")]
    found = planned(vms=vms, found=looks(down=["c1"]), journal=journal())
    assert (found["ok"], [step["name"] for step in found["steps"]]) == (True, ["c1", "new"]), found["why"]
    assert found["journal"]["steps"] == found["steps"]
    found = planned(vms=[*vms, vm("instance-1", instance={"name": "x"})], found=looks(down=["c1"]), journal=journal())
    assert not found["ok"] and found["why"][0].startswith("instance-1 is an instance of a cloud")
    # only the way back is left: they are not stopped any more
    assert [step["name"] for step in planned(vms=vms, found=looks(down=["c1"]), journal=journal(stage="restarted"))["steps"]] == ["c1"]


RECORD = {"disable": True, "steps": [{"id": "u1", "name": "web", "action": "migrate", "stop": False, "destination": "metal2"}]}


def test_instances_that_leave_the_server_are_no_reason_against_it() -> None:
    vms = [vm("c1"), vm("instance-1", instance={"name": "web"}, uuid="u1")]
    found = planned(vms=vms, instances={"record": RECORD, "lines": ["instance web is migrated"], "failed": False})
    assert found["ok"] and found["journal"]["instances"] == RECORD and [step["name"] for step in found["steps"]] == ["c1"], found["why"]
    assert found["lines"][1] == "  instance web is migrated"
    # one that Nova has not named
    found = planned(vms=[*vms, vm("instance-2", instance={"name": "lost"}, uuid="u2")], instances={"record": RECORD})
    assert found["why"] == ["instance-2 is an instance of a cloud, but not one that Nova has on metal1 and this playbook migrates: migrate or delete it first"]


@pytest.mark.parametrize("result", [{"failed": False, "msg": "cannot list the instances of metal1: HTTP 503."}, {"failed": False, "exception": "killed"}])
def test_instances_of_which_nothing_is_known_are_a_reason_against_it(result: dict[str, t.Any]) -> None:
    found = planned(vms=[vm("c1")], instances=result)
    assert found["why"] == [f"its instances: {result.get('msg', 'no result.')[:-1]}"]
    assert planned(vms=[vm("c1")], instances={"skipped": True, "changed": False})["ok"]


def test_the_instances_of_an_interrupted_run_are_kept() -> None:
    for stage, given, kept in (("emptying", {"skipped": True}, RECORD), ("restarted", {"record": {"disable": False, "steps": []}}, RECORD)):
        found = planned(vms=[], found=looks(down=["c1"]), journal=journal(stage=stage, instances=RECORD), instances=given)
        assert found["ok"] and found["journal"]["instances"] == kept, found["why"]
    assert maintain_virt_node({}, KNOWN, journal=journal(instances=RECORD))["instances"] == {"metal1": RECORD}
    # those of another server are not mixed with its own
    assert planned(server="metal2", vms=[], journal=journal(instances=RECORD))["journal"]["instances"] == {}


def test_a_vm_is_moved_by_its_id_and_cluster() -> None:
    web = vm("lab-web", id="web", cluster="lab")
    found = planned(vms=[web], destinations={"web": "metal2"})
    assert found["steps"] == [{"name": "lab-web", "action": "move", "destination": "metal2", "id": "web", "cluster": "lab"}]
    found = planned(vms=[web, vm("blue-web", id="web", cluster="blue")], destinations={"web": "metal2"})
    assert not found["ok"] and found["why"][0].startswith("several VMs of metal1 have the id web in different clusters")
    found = planned(vms=[vm("alien", id=None)], destinations={"alien": "metal2"})
    assert not found["ok"] and found["why"][0].startswith("alien is not managed by this collection")


def test_the_vm_that_runs_the_playbook_is_not_shut_down() -> None:
    # no run would start it, the other VMs and the server again
    master = vm("master", macs=["52:54:00:AA:00:01"])
    found = planned(vms=[vm("c1", macs=["52:54:00:aa:00:02"]), master], control_macs=["52:54:00:aa:00:01"])
    assert not found["ok"] and len(found["why"]) == 1
    assert found["why"][0].startswith("master runs this playbook, which would end with its shutdown. Run it on another machine, or move it")
    assert planned(vms=[master], control_macs=["52:54:00:aa:00:01"], destinations={"master": "metal2"})["ok"]
    assert planned(vms=[master], control_macs=["02:00:00:00:00:01"])["ok"]


def test_a_server_that_may_be_off() -> None:
    assert maintain_virt_node({}, KNOWN, journal=journal(stage="restarting"))["switched_off"] == "metal1"
    assert maintain_virt_node({}, KNOWN, journal=journal())["switched_off"] == ""
    # it is emptied and restarted once more, since the restart may not have happened
    assert planned(found=looks(down=["c1"]), journal=journal(stage="restarting"))["stage"] == "restarting"


@pytest.mark.parametrize("details", [[[{"id": "web"}], "[]"], [[{"id": "web"}, "x"]]])
def test_destinations_of_details_that_are_not_parsed(details: t.Any) -> None:
    assert "error" not in maintain_virt_node({}, KNOWN, destinations={"wbe": "metal2"}, details=details)


@pytest.mark.parametrize(
    ("machine", "options", "result"),
    [
        (vm("web"), {}, "stop"),
        (vm("web"), {"destinations": {"web": "metal2"}}, "move"),
        (vm("web", hypervisor="lxc"), {"destinations": {"web": "metal2"}, "restart_elsewhere": True}, "move"),
        (vm("web", hypervisor="lxc"), {"destinations": {"web": "metal2"}}, "Restart it on metal2 with -e maintain_virt_node_restart_elsewhere=true"),
        (vm("web"), {"destinations": {"web": "metal1"}}, "maintain_virt_node_destinations.web: metal1 is the server that is maintained"),
        (vm("instance-1", instance={"name": "x"}), {}, "instance-1 is an instance of a cloud"),
    ],
)
def test_what_happens_to_a_vm(machine: dict[str, t.Any], options: dict[str, t.Any], result: str) -> None:
    found = planned(vms=[machine], **options)
    if result in ("stop", "move"):
        assert found["ok"] and [step["action"] for step in found["steps"]] == [result]
    else:
        assert not found["ok"] and result in found["why"][0] and not found["steps"]


@pytest.mark.parametrize(
    ("asked", "kept", "servers"),
    [
        ("", "", KNOWN),
        ("metal3, metal1", "", ["metal3", "metal1"]),
        (["metal2", "metal2"], "", ["metal2"]),
        ("", journal(server="metal2", done=["metal1"]), ["metal2", "metal3"]),
        ("", journal(server="metal3"), ["metal3", "metal1", "metal2"]),
        ("", journal(server="", done=KNOWN), []),
    ],
)
def test_the_unfinished_server_comes_first(asked: t.Any, kept: str, servers: list[str]) -> None:
    done, server = (json.loads(kept)["done"], json.loads(kept)["server"]) if kept else ([], "")
    instances = {server: {}} if server else {}
    assert maintain_virt_node({}, KNOWN, asked, journal=kept) == {"servers": servers, "done": done, "switched_off": "", "instances": instances}


@pytest.mark.parametrize(
    ("asked", "options", "words"),
    [
        ("metal1,metl2", {}, "maintain_virt_node_servers[1]: metl2 is not a virt host. Use some of metal1, metal2, metal3."),
        ("", {"destinations": {"web": "metal9"}}, "maintain_virt_node_destinations.web: 'metal9' is not a virt host."),
        (
            "",
            {"destinations": {"wbe": "metal2"}, "details": [[], [{"id": "web", "name": "lab-web"}]], "names": ["c1"]},
            "maintain_virt_node_destinations.wbe: no virt host has this VM in its VM details. Use some of c1, lab-web, web.",
        ),
        ("metal2", {"journal": journal()}, "the maintenance of metal1 is unfinished (emptying). Finish it with -e maintain_virt_node_servers=metal1"),
        ("", {"journal": journal(schema=99)}, "has the schema 99"),
    ],
)
def test_a_request_that_is_refused(asked: str, options: dict[str, t.Any], words: str) -> None:
    assert words in maintain_virt_node({}, KNOWN, asked, **options)["error"]


def test_a_journal_that_is_damaged() -> None:
    error = maintain_virt_node({}, KNOWN, journal="{")["error"]
    assert error.startswith("cannot parse the journal: ") and error.endswith(". Remove the file set by maintain_virt_node_journal.")


def test_servers_without_a_control_plane() -> None:
    found = maintain_virt_node({}, KNOWN, server="metal1", vms=[vm("web")])
    assert found["ok"] and found["members"] == []


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"msg": "it is full."}, "it is full."),
        ({}, "failed"),
        ({"msg": "One or more items failed", "results": [{"item": {"name": "web"}, "failed": True, "msg": "is on."}, {"item": {"name": "db"}}]}, "web: is on."),
        ({"results": [{"item": "on", "failed": True}, {"item": "soft", "failed": True, "msg": "no answer"}]}, "on: failed soft: no answer"),
        ({"results": [{"ansible_loop_var": "step", "step": {"name": "web"}, "failed": True, "msg": "is on."}]}, "web: is on."),
    ],
)
def test_a_failed_loop_names_its_items(result: dict[str, t.Any], text: str) -> None:
    assert plan_maintenance.failure(result) == text
