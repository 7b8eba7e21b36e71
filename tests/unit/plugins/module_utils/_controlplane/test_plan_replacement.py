# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decisions about the replacement of a controller."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.filter.controlplane_decision import replace_controller
from tests.support.controlplane import galera, look, rabbitmq, unit

SERVERS = ["metal1", "metal2", "metal3"]
NAMES = ["c1", "c2", "c3"]
PLACES: dict[str, str] = dict(zip(NAMES, SERVERS))
MEMBERS = {"galera": NAMES, "rabbitmq": NAMES, "load_balancer": NAMES, "witness": []}
NOW = "20261125T190000Z"
BEFORE = "20261124T190000Z"


def looks(down: t.Sequence[str] = ("c1",)) -> dict[str, t.Any]:
    up = [name for name in NAMES if name not in down]
    return {name: look(name == up[-1], galera=galera(size=len(up)), rabbitmq=rabbitmq(up)) if name in up else {} for name in NAMES}


def server(*vms: str, records: t.Sequence[t.Any] = ()) -> dict[str, t.Any]:
    return {"vms": [{"id": vm, "name": vm, "state": "running", "moved": None} for vm in vms], "replacements": list(records)}


def record(state: str = "completed", at: str = BEFORE, source: str = "metal1", to: str = "metal1") -> dict[str, t.Any]:
    return {"id": "c1", "cluster": "lab", "uuid": "u", "at": at, "source": source, "to": to, "state": state, "disks": []}


def found(**changed: t.Any) -> dict[str, t.Any]:
    return {**{name: server(vm) for vm, name in PLACES.items()}, **changed}


def planned(
    given: t.Any = None,
    seen: t.Any = None,
    name: str = "c1",
    answering: t.Sequence[str] = (),
    members: t.Any = None,
    places: t.Any = None,
    looked: t.Any = None,
    **request: t.Any,
) -> dict[str, t.Any]:
    looked = looks() if looked is None else looked
    return replace_controller({"name": name, **request}, members or MEMBERS, places or PLACES, SERVERS, looked, seen or given or found(), answering, NOW)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"name": ""}, "replace_controller_name: is required. Use one of c1, c2, c3."),
        ({"name": "controller1"}, "replace_controller_name: controller1 is not a controller."),
        ({"name": "cc1"}, "replace_controller_name: cc1 is not a controller. Did you mean c1?"),
        ({"name": "w"}, "replace_controller_name: w is a witness. Take its vote away with remove_controller"),
        ({"name": "c2", "server": "metal4"}, "replace_controller_server: metal4 is not a virt host. Did you mean metal3?"),
        ({"name": "c3"}, "replace_controller_name: c3 is a server, not a VM. Install it again"),
    ],
)
def test_a_request_that_is_invalid_is_refused_before_any_host_is_contacted(request_: t.Any, words: str) -> None:
    result = replace_controller(request_, {**MEMBERS, "witness": ["w"]}, {**PLACES, "c3": ""}, SERVERS)
    assert not result["ok"] and result["why"][0].startswith(words), result["why"]


def test_a_valid_request_is_accepted() -> None:
    assert replace_controller({"name": "c1", "server": "metal2"}, MEMBERS, PLACES, SERVERS)["ok"]


def test_a_lost_disk_is_replaced_on_the_same_server() -> None:
    result = planned()
    assert (result["why"], result["action"], result["source"], result["destination"]) == ([], "replace", "metal1", "metal1")
    assert (result["at"], result["retire"], result["peer"], result["absent"]) == (NOW, ["metal1"], "c2", "")
    assert result["lines"][0] == "c1 is created again on metal1"


def test_a_controller_that_answers_is_not_replaced_without_a_word() -> None:
    alive = looks(down=())
    for options in ({"looked": alive}, {"answering": ["c1"]}):
        result = planned(**options)
        assert result["why"] == ["replace_controller_name: c1 is alive, it answers. If it is to be shut down and replaced, set replace_controller_stop=true"]
    assert planned(looked=alive, stop=True)["ok"]


def test_the_others_must_keep_a_quorum() -> None:
    result = planned(looked=looks(down=("c1", "c2")))
    assert not result["ok"]
    assert result["why"][0].startswith("without c1 galera has 1 of 3 members and needs 2: c2: does not answer. Repair them first;")
    # a backup is older than the data of c3
    assert "docs/replace-server.md" in result["why"][0] and "restore_database" not in result["why"][0]
    # a single controller: its data is not anywhere else
    alone = {"galera": ["c1"], "witness": []}
    result = planned(members=alone, looked={"c1": look(True, galera=galera(size=1))}, stop=True)
    assert "without c1 galera has 0 of 1 members and needs 1: there is no other member" in result["why"][0]
    assert "restore_database" in result["why"][0]


def test_a_sick_member_elsewhere_is_repaired_first() -> None:
    four = {"galera": [*NAMES, "c4"], "witness": []}
    looked = {**looks(), "c4": look(galera=galera(ready=False)), "c5": look()}
    result = planned(members={"galera": [*four["galera"], "c5"], "witness": []}, looked=looked, places={**PLACES, "c4": "metal2", "c5": "metal3"})
    assert len(result["why"]) == 1 and result["why"][0].startswith("galera on c4: ") and result["why"][0].endswith("Repair it first")


def test_two_controllers_and_a_witness_can_lose_one() -> None:
    members = {"galera": ["c1", "c2"], "witness": ["w"]}
    witness = {"services": {"witness": {"units": {"garbd@lab.service": unit()}, "facts": {"connected": ["192.0.2.12:4567"]}}}}
    looked = {"c1": {}, "c2": look(True, galera=galera(size=2)), "w": witness}
    result = planned(members=members, looked=looked, places={"c1": "metal1", "c2": "metal2"})
    assert result["ok"], result["why"]


def test_another_server_takes_the_controller_over() -> None:
    result = planned(server="metal2")
    assert (result["why"], result["source"], result["destination"], result["retire"]) == ([], "metal1", "metal2", ["metal2", "metal1"])


def test_a_server_that_does_not_answer_must_be_confirmed_to_be_off() -> None:
    lost = found(metal1={})
    result = planned(lost)
    assert result["why"] == ["replace_controller_server: metal1 does not answer. Name another server with replace_controller_server, or repair it"]
    result = planned(lost, server="metal2")
    assert len(result["why"]) == 1 and result["why"][0].endswith("Make sure that it is off, then set replace_controller_confirm=metal1")
    assert "'metal3' is not the server whose loss must be confirmed" in planned(lost, server="metal2", confirm="metal3")["why"][0]
    result = planned(lost, server="metal2", confirm="metal1", answering=["metal1"])
    assert result["why"] == ["replace_controller_confirm: metal1 is not off: its ssh port answers. Power it off, or make it reachable for Ansible"]
    result = planned(lost, server="metal2", confirm="metal1")
    assert (result["why"], result["retire"], result["absent"]) == ([], ["metal2"], "metal1")
    assert "metal1 does not answer: when it is back" in result["lines"][-1]
    assert planned(found(metal2={}), server="metal2")["why"] == ["replace_controller_server: metal2 does not answer. Use another one, or repair it"]


def test_a_controller_that_is_defined_twice_is_refused() -> None:
    assert "is defined on metal1 and metal3" in planned(found(metal3=server("c3", "c1")))["why"][0]
    # an old copy that was noted as moved is none
    moved = found(metal3={"vms": [{"id": "c1", "name": "c1", "moved": "metal1"}], "replacements": []})
    assert planned(moved)["ok"]


def test_an_interrupted_run_continues_with_the_same_time() -> None:
    # the old VM is being taken away
    result = planned(found(metal1=server("c1", records=[record("retiring")])))
    assert (result["why"], result["at"], result["retire"], result["peer"]) == ([], BEFORE, ["metal1"], "c2")
    assert "which an interrupted run began" in result["lines"][0]
    # it is gone
    result = planned(found(metal1=server(records=[record("retired")])))
    assert (result["retire"], result["peer"]) == ([], "c2")
    # the new one exists, answers, and may be a member already: it is neither taken away nor forgotten
    result = planned(found(metal1=server("c1", records=[record("retired")])), looked=looks(down=()))
    assert (result["why"], result["action"], result["retire"], result["peer"]) == ([], "replace", [], "")
    result = planned(found(metal1=server("c1", records=[record("retired")])), server="metal3")
    assert result["why"] == ["replace_controller_server: the replacement on metal1 is unfinished. Finish it with replace_controller_server=metal1"]


def test_a_second_run_does_nothing() -> None:
    done = found(metal1=server("c1", records=[record()]))
    result = planned(done, looked=looks(down=()), stop=True)
    assert (result["why"], result["action"], result["retire"]) == ([], "none", [])
    again = planned(done, looked=looks(down=()), stop=True, again=True)
    assert (again["action"], again["at"], again["retire"]) == ("replace", NOW, ["metal1"])
    # the next loss is another replacement
    result = planned(done)
    assert (result["action"], result["at"], result["retire"]) == ("replace", NOW, ["metal1"])


def test_the_old_vm_of_a_server_that_is_back_is_taken_away() -> None:
    own = record(to="metal2")
    gone = found(metal1={}, metal2=server("c2", "c1", records=[own]))
    result = planned(gone, looked=looks(down=()), server="metal2", confirm="metal1")
    assert (result["why"], result["action"], result["absent"]) == ([], "none", "metal1")
    # also if both run, so that the new one cannot be healthy
    for seen in (looks(down=()), looks()):
        result = planned(found(metal1=server("c1"), metal2=server("c2", "c1", records=[own])), looked=seen, server="metal2", confirm="metal1")
        assert (result["why"], result["action"], result["retire"], result["at"]) == ([], "clean", ["metal1"], BEFORE)
    cleaned = found(metal1=server(records=[record("retired", to="metal2")]), metal2=server("c2", "c1", records=[own]))
    assert planned(cleaned, looked=looks(down=()), server="metal2")["action"] == "none"


def test_an_older_unfinished_replacement_on_a_server_that_is_back_does_not_count() -> None:
    there = found(metal1=server(records=[record("retired")]), metal2=server("c2", "c1", records=[record(at=NOW, to="metal2")]))
    assert planned(there, looked=looks(down=()), server="metal2")["action"] == "clean"


def test_a_vm_with_another_id_than_its_name_is_found() -> None:
    vm = {"id": 7, "name": "c1", "state": "shutdown", "moved": None}
    seen = found(metal1={"vms": [vm], "replacements": []})
    assert planned(seen, id="7")["retire"] == ["metal1"]
    # a person has renamed it, or it was replaced before
    assert planned(found(metal1={"vms": [{**vm, "name": "old"}], "replacements": []}), id="7")["lines"][1] == "  its old VM is taken away on metal1"
    done = {**record(source="metal3", to="metal1"), "id": "7"}
    plan = planned(found(metal1={"vms": [vm], "replacements": [done]}, metal3={"vms": [vm], "replacements": []}), looked=looks(()), id="7")
    assert (plan["action"], plan["retire"]) == ("clean", ["metal3"])


def test_a_server_to_which_the_vm_was_moved_is_confirmed_by_name() -> None:
    # the inventory is not edited yet
    noted = {"vms": [{"id": "c1", "name": "c1", "state": "shutdown", "moved": "metal2"}], "replacements": []}
    seen = found(metal1=noted, metal2={})
    assert planned(seen)["why"] == ["replace_controller_server: metal2 does not answer. Name another server with replace_controller_server, or repair it"]
    result = planned(seen, server="metal1")
    assert len(result["why"]) == 1 and result["why"][0].endswith("Make sure that it is off, then set replace_controller_confirm=metal2")
    result = planned(seen, server="metal1", confirm="metal2")
    assert (result["why"], result["source"], result["absent"], result["retire"]) == ([], "metal2", "metal2", ["metal1"])
    # one that answers without the VM has lost it
    assert planned(found(metal1=noted))["ok"]


def test_where_no_server_has_the_vm_each_that_does_not_answer_is_confirmed_by_name() -> None:
    seen = found(metal1=server(), metal2={})
    result = planned(seen)
    assert len(result["why"]) == 1 and "metal2 does not answer. If it still runs c1" in result["why"][0]
    assert "its ssh port answers" in planned(seen, confirm="metal2", answering=["metal2"])["why"][0]
    result = planned(seen, confirm="metal2")
    assert result["ok"] and result["lines"][-1] == "  metal2 does not answer: if it has c1 as well, take it away there before it starts"
    both = found(metal1={}, metal2={})
    assert [line[-13:] for line in planned(both, server="metal3", confirm="metal1")["why"]] == ["metal1,metal2"]
    assert planned(both, server="metal3", confirm="metal1,metal2")["ok"]
    # it is where it should be
    assert planned(found(metal2={}))["ok"]


def test_an_interrupted_run_does_not_continue_while_the_lost_server_is_on_again() -> None:
    seen = found(metal1={}, metal3=server("c3", records=[record("retired", to="metal3")]))
    assert "metal1 is not off: its ssh port answers" in planned(seen, server="metal3", confirm="metal1", answering=["metal1"])["why"][0]
    assert planned(seen, server="metal3")["why"][0].endswith("then set replace_controller_confirm=metal1")
    assert planned(seen, server="metal3", confirm="metal1")["ok"]
    # defined, but not started
    off = server("c3", "c1", records=[record("retired", to="metal3")])
    off["vms"][1]["state"] = "shutdown"
    assert not planned(found(metal1={}, metal3=off), server="metal3", answering=["metal1"])["ok"]
    # it runs: the services are to be deployed on it
    runs = found(metal1={}, metal3=server("c3", "c1", records=[record("retired", to="metal3")]))
    assert planned(runs, server="metal3", answering=["metal1"])["ok"]
