# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decisions about the replacement of a server."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.filter.controlplane_decision import replace_server
from tests.support.controlplane import galera, look, rabbitmq, unit

OLD, NEW, OTHER, THIRD = ("1" * 32, "2" * 32, "3" * 32, "4" * 32)
NAMES = ["c1", "c2", "c3"]
SERVERS = {"metal1": "192.0.2.11", "metal2": "192.0.2.12", "metal3": "192.0.2.13"}
PLACES = {"c1": "metal1", "c2": "metal2", "c3": "metal3"}
MEMBERS = {"galera": NAMES, "rabbitmq": NAMES, "load_balancer": NAMES, "witness": []}
BEFORE, NOW = "20261124T190000Z", "20261126T110000Z"
DISK = {"size": "1 GiB"}
VMS = [
    {"id": "c2", "ram": 1, "disks": [DISK]},
    {"id": "notes", "ram": 1, "hypervisor": "qemu", "disks": [{**DISK, "format": "qcow2"}], "standby": "metal1"},
    {"id": "web", "ram": 1, "disks": [DISK]},
    {"id": "probe", "ram": 1},
]


def looks(down: t.Sequence[str] = ("c2",)) -> dict[str, t.Any]:
    up = [name for name in NAMES if name not in down]
    return {name: look(name == up[-1], galera=galera(size=len(up)), rabbitmq=rabbitmq(up)) if name in up else {} for name in NAMES}


def record(machine_id: str = OLD, state: str = "known", at: str = BEFORE, name: str = "metal2", old: t.Sequence[t.Any] = (), **more: t.Any) -> dict[str, t.Any]:
    machine = {"machine_id": machine_id, "product_uuid": "", "address": SERVERS.get(name, "")}
    return {"name": name, **machine, "at": at, "state": state, "old": list(old), "proof": "", **more}


def copies(vm: str = "notes", source: str = "metal2", state: str = "receiving", verified: bool = True) -> dict[str, t.Any]:
    made = [{"id": "20261126T100000Z", "source": source, "copied": "2026-11-26T10:00:00Z", "verified": "2026-11-26T10:00:09Z"}] if verified else []
    return {"id": vm, "part": "standby", "state": state, "phase": "running" if state == "started" else None, "copies": made}


def server(here: str, *vms: str, records: t.Sequence[t.Any] = (), standbys: t.Sequence[t.Any] = ()) -> dict[str, t.Any]:
    listed = [{"id": vm, "name": vm, "state": "running", "moved": None} for vm in vms]
    return {"vms": listed, "standbys": list(standbys), "identity": {"here": {"machine_id": here, "product_uuid": "", "address": ""}, "records": list(records)}}


def found(here: str = NEW, mine: t.Any = None, **changed: t.Any) -> dict[str, t.Any]:
    mine = record() if mine is None else mine
    known = [mine] if mine else []
    defaults = {
        "metal1": server(OTHER, "c1", records=known, standbys=[copies()]),
        "metal2": server(here),
        "metal3": server(THIRD, "c3", records=known),
    }
    return {**defaults, **changed}


def known(**changed: t.Any) -> dict[str, t.Any]:
    values = {"places": PLACES, "servers": SERVERS, "hosts": [*SERVERS, *NAMES, "metal2-old"], "vms": VMS, "extra": [], "cluster": "lab", "master": ""}
    return {"environments": {"": changed.pop("members", MEMBERS)}, **values, **changed}


def planned(seen: t.Any = None, looked: t.Any = None, inventory: t.Any = None, **request: t.Any) -> dict[str, t.Any]:
    more = {key: request.pop(key) for key in ("answering", "power", "power_uuid") if key in request}
    wanted = {"name": "metal2", "confirm": "metal2", **request}
    return replace_server(wanted, inventory or known(), looks() if looked is None else looked, found() if seen is None else seen, now=NOW, **more)


def ways(result: t.Mapping[str, t.Any]) -> dict[str, str]:
    return {way["id"]: way["way"] for way in result["ways"]}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"name": ""}, "replace_server_name: is required. Use one of metal1, metal2, metal3."),
        ({"name": "metal4"}, "replace_server_name: metal4 is not a virt host. Did you mean metal3?"),
        ({"name": "server"}, "replace_server_name: server is not a virt host."),
        ({"name": "metal1,metal2"}, "replace_server_name: 'metal1,metal2' names several servers. Replace one server at a time."),
        ({"name": "metal1 metal2"}, "replace_server_name: 'metal1 metal2' names several servers."),
        ({"name": ["metal1", "metal2"]}, "replace_server_name: \"['metal1', 'metal2']\" names several servers."),
        ({"name": "w"}, "replace_server_name: w is a witness. It keeps no data: run remove_controller"),
        ({"name": "c2"}, "replace_server_name: c2 is a VM, not a server. Use replace_controller."),
        ({"name": "{{ x }}"}, "replace_server_name: '{{ x }}' names several servers."),
        ({"name": "../metal2"}, "replace_server_name: ../metal2 is not a virt host."),
        ({"name": "metal2\n"}, ""),
        ({"name": "metal2", "bmc": "metal9"}, "replace_server_bmc: 'metal9' is not a host of the inventory."),
        ({"name": "metal2", "recreate": ["wbe"]}, "replace_server_recreate: 'wbe' is not a VM of metal2. Did you mean web?"),
        ({"name": "metal2", "recreate": ["c1"]}, "replace_server_recreate: c1 is a controller. Omit it"),
        ({"name": "metal2", "recreate": ["c2"]}, "replace_server_recreate: c2 is a controller."),
        ({"name": "metal2", "recreate": ["web"]}, ""),
    ],
)
def test_names_are_checked_before_any_host_is_contacted(request_: t.Any, words: str) -> None:
    result = replace_server(request_, known(members={**MEMBERS, "witness": ["w"]}))
    assert result["ok"] is not words.strip().startswith("replace"), result["why"]
    assert words in (result["why"] or [""])[0]


def test_a_server_that_is_a_controller_itself_is_installed_again() -> None:
    result = replace_server({"name": "metal2"}, known(members={"galera": ["c1", "metal2", "c3"], "witness": []}, places={**PLACES, "metal2": ""}))
    assert result["why"] == [
        "replace_server_name: the controller of metal2 is the server itself, not a VM. Install it again, run provision_virt, then deploy_controllers."
    ]


def test_invalid_vm_details_are_named() -> None:
    result = planned(inventory=known(vms=[{"id": "a", "ram": -1}]))
    assert not result["ok"] and result["why"][0].startswith("metal2.vms[0].ram: ")


def test_a_new_machine_takes_over() -> None:
    result = planned()
    assert (result["why"], result["action"], result["at"], result["proof"]) == ([], "replace", NOW, "person metal2")
    assert ways(result) == {"c2": "controller", "notes": "standby", "web": "lost", "probe": "recreate"}
    assert result["lines"] == [
        f"metal2: the machine {NEW} takes over from the machine {OLD}",
        "  it becomes a virt host",
        "  c2 is created again, and gets its data from its peers",
        "  notes is started on metal1 from its copy of 2026-11-26T10:00:00Z, then moved to metal2",
        "  web is LOST, and not created: it has no standby. Restore it from a backup, or create it with empty disks: replace_server_recreate",
        "  probe is created again: it has no disk",
    ]
    assert (result["machine"]["machine_id"], result["name"]) == (NEW, "metal2")
    assert result["gone"] == ["web"]
    # only the fields of a copy that the start needs
    assert [(way["server"], way["copy"]) for way in result["ways"] if way["way"] == "standby"] == [("metal1", "20261126T100000Z")]


def test_the_same_machine_is_not_replaced() -> None:
    result = planned(found(here=OLD), confirm="")
    assert (result["ok"], result["action"], result["ways"]) == (True, "none", [])
    assert result["lines"][0] == f"metal2 is the machine {OLD}, as recorded at {BEFORE}: nothing to replace"
    assert "remove_virt_node" in result["lines"][1]
    # after a completed replacement
    done = record(NEW, at=NOW, old=[{"machine_id": OLD, "product_uuid": "", "address": "192.0.2.12"}])
    result = planned(found(mine=done), confirm="")
    assert result["ok"] and result["action"] == "none" and f"which took over from {OLD} at {NOW}" in result["lines"][0]


def test_a_machine_that_does_not_answer_is_not_used() -> None:
    result = planned(found(metal2={}))
    assert result["why"][0].startswith("replace_server_name: metal2 does not answer at 192.0.2.12. Install the new machine")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confirm": ""}, f"replace_server_confirm: If the earlier machine ({OLD}, last at 192.0.2.12) still runs"),
        ({"confirm": "metal3"}, "replace_server_confirm: 'metal3' is not the server whose loss must be confirmed."),
        ({"confirm": "METAL2"}, "replace_server_confirm: 'METAL2' is not the server"),
        ({"bmc": "metal2-old", "power": "on"}, "replace_server_bmc: the management controller of metal2-old reports on, not off."),
        ({"bmc": "metal2-old", "power": ""}, "replace_server_bmc: the management controller of metal2-old reports nothing, not off."),
        ({"bmc": "metal2-old", "power": "it does not answer"}, "reports it does not answer, not off"),
        ({"answering": ["192.0.2.99"]}, "the earlier machine of metal2 is not off: 192.0.2.99 answers. As long as the inventory points to it, empty it"),
    ],
)
def test_nothing_begins_without_a_proof(options: t.Any, words: str) -> None:
    result = planned(**options)
    assert not result["ok"] and len(result["why"]) == 1 and words in result["why"][0], result["why"]


def test_the_management_controller_is_a_proof() -> None:
    result = planned(confirm="", bmc="metal2-old", power="off")
    assert (result["ok"], result["proof"]) == (True, "bmc metal2-old")
    # it is asked once for a proof; a person does not overrule it
    assert not planned(bmc="metal2-old", power="on")["ok"]


UUID, OTHER_UUID = "4c4c4544-0042-3510-8052-b4c04f565231", "4c4c4544-0042-3510-8052-000000000001"
WRONG = f"manages the machine with the UUID {OTHER_UUID}, but the earlier machine of metal2 had {UUID}."


@pytest.mark.parametrize(
    ("recorded", "mine", "reported", "words"),
    [(UUID, OTHER_UUID, UUID, ""), (UUID, OTHER_UUID, "", ""), ("", OTHER_UUID, UUID, ""), (UUID, UUID, UUID, ""), (UUID, UUID, OTHER_UUID, WRONG),
     (UUID, OTHER_UUID, OTHER_UUID, WRONG), ("", UUID, UUID, "the management controller of metal2-old is that of the new machine.")],
)  # fmt: skip
@pytest.mark.parametrize("begun", [False, True])
def test_the_management_controller_of_another_machine_is_no_proof(recorded: str, mine: str, reported: str, words: str, begun: bool) -> None:
    old = {"machine_id": OLD, "product_uuid": recorded, "address": ""}
    seen = found(mine=record(NEW, "replacing", NOW, proof="person metal2", product_uuid=mine, old=[old]) if begun else record(product_uuid=recorded))
    seen["metal2"]["identity"]["here"]["product_uuid"] = mine
    result = planned(seen, confirm="", bmc="metal2-old", power="off", power_uuid=reported)
    assert result["ok"] == (not words) and words in " ".join(result["why"]), result["why"]


def test_only_addresses_that_no_host_has_now_are_those_of_earlier_machines() -> None:
    assert planned()["addresses"] == []
    moved = record(address="192.0.2.99", old=[{"machine_id": THIRD, "product_uuid": "", "address": "192.0.2.98"}])
    assert planned(found(mine=moved))["addresses"] == ["192.0.2.99", "192.0.2.98"]


def test_an_interrupted_run_is_continued_without_another_proof() -> None:
    begun = record(NEW, "replacing", NOW, proof="person metal2", old=[{"machine_id": OLD, "product_uuid": "", "address": "192.0.2.12"}])
    # it was killed before the third server had a record
    seen = found(mine=begun, metal3=server(THIRD, "c3", records=[record()]), metal2=server(NEW, "c2", "probe", "notes"))
    result = planned(seen, confirm="")
    assert (result["why"], result["at"], result["proof"]) == ([], NOW, "person metal2")
    assert result["lines"][0] == f"metal2: the machine {NEW} continues to take over"
    assert ways(result) == {"c2": "controller", "notes": "elsewhere", "web": "lost", "probe": "recreate"}
    # a VM that was asked for was defined, but may not run
    assert ways(planned({**seen, "metal2": server(NEW, "web")}, confirm="", recreate=["web"]))["web"] == "recreate"


def test_an_interrupted_run_is_not_continued_while_the_earlier_machine_is_on_again() -> None:
    begun = record(NEW, "replacing", NOW, proof="person metal2", old=[{"machine_id": OLD, "product_uuid": "", "address": "192.0.2.99"}])
    seen = found(mine=begun)
    result = planned(seen, confirm="", answering=["192.0.2.99"])
    assert result["why"][0].startswith("the earlier machine of metal2 is not off: 192.0.2.99 answers")
    assert "reports on, not off" in planned(seen, confirm="", bmc="metal2-old", power="on")["why"][0]
    assert planned(seen, confirm="", bmc="metal2-old", power="off")["proof"] == "person metal2"


def test_it_is_unfinished_until_every_server_has_recorded_its_end() -> None:
    old = [{"machine_id": OLD, "product_uuid": "", "address": "192.0.2.12"}]
    done, begun = record(NEW, at=NOW, old=old), record(NEW, "replacing", NOW, proof="person metal2", old=old)
    # a later record, of a server that had none
    late = record(NEW, at="20261127T110000Z")
    for first, third in ((done, begun), (begun, done), (late, begun)):
        seen = found(mine=first, metal2=server(NEW, "c2", "probe", "notes"), metal3=server(THIRD, "c3", records=[third]))
        result = planned(seen, confirm="")
        assert (result["why"], result["action"], result["at"], result["proof"]) == ([], "replace", NOW, "person metal2")


def test_the_record_of_the_new_machine_does_not_hide_that_of_the_earlier_one() -> None:
    # provision_virt ran first: one server kept its record with a warning, another one had none
    seen = found(mine=record(address="192.0.2.99"), metal3=server(THIRD, "c3", records=[record(NEW, at="20261125T190000Z")]))
    result = planned(seen)
    assert (result["action"], result["addresses"]) == ("replace", ["192.0.2.99"])
    assert result["lines"][0] == f"metal2: the machine {NEW} takes over from the machine {OLD}"
    assert OLD in planned(seen, confirm="")["why"][0]


def test_the_newest_copy_is_used() -> None:
    newer = copies()
    newer["copies"] = [{**newer["copies"][0], "id": "20261126T101500Z", "copied": "2026-11-26T10:15:00Z"}]
    for first, third in ((copies(), newer), (newer, copies())):
        seen = found(metal1=server(OTHER, "c1", records=[record()], standbys=[first]), metal3=server(THIRD, "c3", records=[record()], standbys=[third]))
        (way,) = [way for way in planned(seen)["ways"] if way["way"] == "standby"]
        assert (way["server"], way["copy"]) == ("metal3" if third is newer else "metal1", "20261126T101500Z")


def test_an_interrupted_start_is_continued() -> None:
    claimed = {**copies(state="started"), "phase": "claimed"}
    (way,) = [way for way in planned(found(metal1=server(OTHER, "c1", records=[record()], standbys=[claimed])))["ways"] if way["id"] == "notes"]
    assert (way["way"], way["server"], way["copy"]) == ("standby", "metal1", "")


def test_a_vm_that_was_started_on_its_standby_is_moved_back() -> None:
    witness = {"metal0": {"standbys": [{**copies(state="started"), "phase": None}]}}
    result = planned({**witness, **found(metal1=server(OTHER, "c1", "notes", records=[record()], standbys=[copies(state="started")]))})
    assert ways(result)["notes"] == "return" and "notes was started on its standby metal1, and is moved to metal2" in "".join(result["lines"])
    third = {"metal1": server(OTHER, "c1", records=[record()], standbys=[copies(state="started")]), "metal3": server(THIRD, "c3", "notes")}
    for state in ("started", "receiving"):
        seen = found(metal1=server(OTHER, "c1", "notes", records=[record()], standbys=[copies(state=state)]), metal2=server(NEW, "notes"))
        seen["metal1"]["vms"][1]["moved"] = "metal2"
        assert ways(planned(seen))["notes"] == "return" and ways(planned({**seen, **third}))["notes"] == "elsewhere"


def test_a_copy_that_is_not_verified_is_none() -> None:
    seen = found(metal1=server(OTHER, "c1", records=[record()], standbys=[copies(verified=False)]))
    result = planned(seen)
    assert ways(result)["notes"] == "lost"
    assert any("notes is LOST, and not created: its standby metal1 has no verified copy of it." in line for line in result["lines"])
    # nor one that another server sent
    assert ways(planned(found(metal1=server(OTHER, "c1", records=[record()], standbys=[copies(source="metal3")]))))["notes"] == "lost"


def test_an_empty_disk_replaces_a_lost_one_only_on_request() -> None:
    assert ways(planned(recreate=["web"]))["web"] == "recreate"
    result = planned(recreate=["notes"])
    assert result["why"] == ["replace_server_recreate: notes would lose what its copy on metal1 contains. Omit it"]


def test_ids_may_be_numbers() -> None:
    result = planned(inventory=known(vms=[{"id": 7, "name": "web", "ram": 1, "disks": [DISK]}]))
    # the copy of a VM that is not in the list of the server counts as well
    assert ways(result) == {"7": "lost", "notes": "standby"}
    assert result["gone"] == ["7", 7]


def test_a_vm_on_another_server_stays_there() -> None:
    seen = found(metal3=server(THIRD, "c3", "web", records=[record()]))
    assert ways(planned(seen))["web"] == "elsewhere"
    # a note about a VM that was moved away is not the VM
    seen["metal3"]["vms"][1]["moved"] = "metal2"
    result = planned(seen)
    assert ways(result)["web"] == "lost" and any("metal3 has what it was before its move" in line for line in result["lines"])


def test_the_server_of_the_master() -> None:
    result = planned(inventory=known(master="master"))
    assert result["ok"] and result["lines"][-1].startswith("  master: this server is the destination of its migration. If it was migrated, it is LOST")
    copied = found(metal1=server(OTHER, "c1", records=[record()], standbys=[copies(), copies("master")]))
    result = planned(copied, inventory=known(master="master"))
    assert ways(result)["master"] == "standby" and "LOST, because" not in "".join(result["lines"])
    result = planned(found(metal3=server(THIRD, "c3", "master", records=[record()])), inventory=known(master="master"))
    assert "destination" not in "".join(result["lines"])


def test_the_others_must_keep_a_quorum() -> None:
    result = planned(looked=looks(down=("c2", "c3")))
    assert not result["ok"]
    assert result["why"][0].startswith("galera has 1 of 3 members and needs 2: c2: does not answer, c3: does not answer. Repair the others first;")
    assert "docs/replace-server.md" in result["why"][0]  # a backup is older than the data of c1
    # a single controller: its data is not anywhere else
    alone = known(members={"galera": ["c2"], "witness": []}, places={"c2": "metal2"})
    assert "galera has 0 of 1 members and needs 1" in (why := planned(looked={"c2": {}}, inventory=alone)["why"][0]) and "restore_database" in why


def test_a_sick_member_elsewhere_is_repaired_first() -> None:
    sick = {**looks(), "c3": look(True, galera=galera(ready=False), rabbitmq=rabbitmq(["c1", "c3"]))}
    result = planned(looked=sick)
    assert not result["ok"] and result["why"][0].startswith("galera has 1 of 3 members and needs 2: ")
    five = [*NAMES, "c4", "c5"]
    inventory = known(members={"galera": five, "witness": []}, places={**PLACES, "c4": "metal1", "c5": "metal3"})
    sick = {**{name: look(name == "c5") for name in five}, "c2": {}, "c4": look(galera=galera(ready=False))}
    result = planned(looked=sick, inventory=inventory)
    assert len(result["why"]) == 1 and result["why"][0].startswith("galera on c4: ")
    assert result["why"][0].endswith("3 of 5 members serve; repair it first")


def test_two_controllers_and_a_witness_can_lose_a_server() -> None:
    inventory = known(members={"galera": ["c1", "c2"], "witness": ["w"]}, places={"c1": "metal1", "c2": "metal2"}, servers={"metal1": "a", "metal2": "b"})
    witness = {"units": {"garbd@lab.service": unit()}, "facts": {"connected": ["192.0.2.11:4567"]}}
    seen = {name: facts for name, facts in found().items() if name != "metal3"}
    looked = {"c1": look(True, galera=galera(size=2)), "c2": {}, "w": {"addresses": [], "services": {"witness": witness}}}
    result = planned(seen, looked=looked, inventory=inventory)
    assert result["ok"], result["why"]
    result = planned(seen, looked={**looked, "w": {}}, inventory=inventory)
    assert "galera has 1 of 3 members and needs 2" in result["why"][0]


def test_two_controllers_on_the_server_are_not_replaced_with_it() -> None:
    five = [*NAMES, "c4", "c5"]
    inventory = known(
        members={"galera": five, "witness": []},
        places={**PLACES, "c4": "metal2", "c5": "metal3"},
        vms=[{"id": "c2", "ram": 1, "disks": [DISK]}, {"id": "c4", "ram": 1, "disks": [DISK]}],
    )
    result = planned(looked={**{name: look(name == "c5") for name in five}, "c2": {}, "c4": {}}, inventory=inventory)
    assert result["why"] == [
        "c2 and c4 were on the same server, and only one controller is replaced with its server. Replace them with replace_controller"
    ]


def test_every_other_server_must_answer() -> None:
    result = planned(found(metal3={}))
    assert result["why"] == ["metal3 does not answer: it may have VMs of metal2, or copies of them. Repair it first"]


def test_one_replacement_at_a_time() -> None:
    other = record(THIRD, "replacing", name="metal3")
    result = planned(found(metal1=server(OTHER, "c1", records=[record(), other], standbys=[copies()])))
    assert result["why"] == [
        "replace_server_name: the replacement of metal3 is unfinished. Finish it first, with replace_server_name=metal3"
    ]


def test_a_machine_that_was_replaced_does_not_take_its_name_back() -> None:
    now = record(NEW, old=[{"machine_id": OLD, "product_uuid": "", "address": "192.0.2.12"}])
    result = planned(found(here=OLD, mine=now))
    assert result["why"][0].startswith(f"the machine that answers as metal2 was itself replaced at {BEFORE}, by {NEW}. Power it off")


def test_a_machine_that_was_replaced_does_not_continue_its_own_replacement() -> None:
    mine = record(OLD, "replacing", proof="person metal2")
    later = record(NEW, "replacing", NOW, old=[{"machine_id": OLD, "product_uuid": "", "address": "192.0.2.12"}])
    for first, third in ((mine, later), (later, mine)):
        result = planned(found(here=OLD, mine=first, metal3=server(THIRD, "c3", records=[third])))
        assert result["why"][0].startswith("the machine that answers as metal2 was itself replaced")


def test_a_copied_machine_id_is_refused() -> None:
    for seen in (found(here=OTHER), found(here=THIRD, metal1=server(OTHER, "c1", records=[record(), record(THIRD, name="metal3")], standbys=[copies()]))):
        result = planned(seen)
        assert len(result["why"]) == 1 and "has the same machine-id as metal" in result["why"][0]


def test_without_records_a_machine_with_vms_is_the_living_one() -> None:
    result = planned(found(mine={}, metal2=server(OLD, "c2")), confirm="")
    assert (result["ok"], result["action"]) == (True, "none") and "has its VMs" in result["lines"][0]
    result = planned(found(mine={}))
    assert result["ok"] and result["lines"][0].endswith("takes over from a machine that no other server has recorded")
    assert "the earlier machine still runs" in planned(found(mine={}), confirm="")["why"][0]


def test_a_footprint_of_one_server_asks_the_server_itself() -> None:
    inventory = known(members={}, places={}, servers={"metal2": "192.0.2.12"}, vms=[VMS[2]])
    seen = {"metal2": server(NEW, records=[record(NEW, "replacing", proof="person metal2")])}
    result = planned(seen, looked={}, inventory=inventory, confirm="")
    assert result["ok"] and result["lines"][0].endswith("continues to take over") and ways(result) == {"web": "lost"}
