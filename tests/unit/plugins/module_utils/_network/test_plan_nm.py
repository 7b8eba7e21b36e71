# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Link, Profile, Vlan, Wanted
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_nm import NmProfile, NmState
from ansible_collections.reduced.footprint.plugins.module_utils._network.plan_network import layout
from ansible_collections.reduced.footprint.plugins.module_utils._network.plan_nm import change

MAC = "02:00:00:00:00:01"
ADMIN = NmProfile(
    "u-admin", "admin", "802-3-ethernet", priority=3, settings={"ipv4.method": "manual", "ipv4.addresses": "192.0.2.11/24", "ipv6.method": "auto"}
)
BONDED = Wanted(
    bonds=(Bond("bond0", ("eno1", "eno2"), primary="eno1"),),
    vlans=(Vlan("bond0.42", "bond0", 42),),
    bridges=(Bridge("br-admin", ("bond0",)), Bridge("br-vms", ("bond0.42",), address="none")),
)


def links(**more):
    found = {"eno1": Link("eno1", 2, MAC, addresses=("192.0.2.11/24",)), "eno2": Link("eno2", 3, "02:00:00:00:00:02")}
    return {**found, **more}


def planned(wanted, state=None, there=None):
    there = there or links()
    return change(layout(wanted, there, {name: Profile("networkmanager") for name in there}), state or NmState({"eno1": ADMIN}, {"admin": True}, "source"))


def words(commands, *beginning):
    """The settings of the one command that begins so."""
    found = [argv[len(beginning) :] for argv in commands if argv[: len(beginning)] == beginning]
    assert len(found) == 1, (beginning, commands)
    return dict(zip(found[0][::2], found[0][1::2]))


def added(commands, kind, link):
    return words(commands, "nmcli", "connection", "add", "save", "no", "type", kind, "con-name", f"reduced-footprint-{link}", "ifname", link)


def test_addresses_go_to_the_bridge_over_the_bond():
    apply = planned(BONDED).apply
    bridge = added(apply, "bridge", "br-admin")
    assert bridge["ipv4.addresses"] == "192.0.2.11/24" and bridge["ipv6.method"] == "auto"
    assert bridge["802-3-ethernet.cloned-mac-address"] == MAC
    assert bridge["bridge.stp"] == "no" and bridge["bridge.forward-delay"] == "0"
    bond = added(apply, "bond", "bond0")
    assert bond["bond.options"] == "mode=active-backup,miimon=100,primary=eno1"
    assert (bond["connection.master"], bond["connection.slave-type"]) == ("br-admin", "bridge")
    assert not [key for key in bond if key.startswith("ipv")]
    vlan = added(apply, "vlan", "bond0.42")
    assert (vlan["vlan.parent"], vlan["vlan.id"], vlan["connection.master"]) == ("bond0", "42", "br-vms")
    assert added(apply, "bridge", "br-vms")["ipv4.method"] == "disabled"


@pytest.mark.parametrize(
    ("method", "addresses", "token"),
    [
        ("auto", ("192.0.2.11/24", "2001:db8::5:6ff:fe07:8/64"), "::5:6ff:fe07:8"),
        ("auto", ("2001:db8::11/64", "2001:db8:0:1:a:b:c:d/64"), "::a:b:c:d"),
        ("auto", ("2001:db8::99/128",), None),
        ("disabled", ("2001:db8::5:6ff:fe07:8/64",), None),
    ],
)
def test_the_bridge_makes_the_same_address_of_the_router_s_prefix(method, addresses, token):
    profile = dataclasses.replace(ADMIN, settings={"ipv6.method": method, "ipv6.addresses": "2001:db8::11/64"})
    there = links(eno1=Link("eno1", 2, MAC, addresses=addresses))
    bridge = added(planned(BONDED, NmState({"eno1": profile}, {}, ""), there).apply, "bridge", "br-admin")
    assert bridge.get("ipv6.token") == token
    assert bridge.get("ipv6.addr-gen-mode") == ("eui64" if token else None)


def test_a_port_with_a_profile_gets_a_copy_and_a_spare_one_a_new_one():
    apply = planned(BONDED).apply
    assert ("nmcli", "connection", "clone", "--temporary", "uuid", "u-admin", "reduced-footprint-eno1") in apply
    copy = words(apply, "nmcli", "connection", "modify", "--temporary", "id", "reduced-footprint-eno1")
    assert (copy["connection.interface-name"], copy["connection.master"], copy["connection.slave-type"]) == ("eno1", "bond0", "bond")
    assert added(apply, "ethernet", "eno2")["connection.master"] == "bond0"


def test_nothing_is_saved_or_comes_up_by_itself_before_it_is_confirmed():
    planned_change = planned(BONDED)
    assert not planned_change.trial and not planned_change.keep
    for argv in planned_change.apply:
        if argv[:3] == ("nmcli", "connection", "add"):
            assert argv[3:5] == ("save", "no") and argv[argv.index("connection.autoconnect") + 1] == "no"
        elif argv[:2] == ("nmcli", "connection") and argv[2] in ("clone", "modify"):
            assert argv[3] == "--temporary"
    raised = [argv[-1] for argv in planned_change.apply if "up" in argv]
    assert raised == [f"reduced-footprint-{name}" for name in ("eno1", "eno2", "bond0.42")]


def test_the_checkpoint_is_around_everything():
    planned_change = planned(BONDED)
    script = ("{python}", "{folder}/nm_checkpoint.py")
    assert planned_change.apply[0] == (*script, "create", "{folder}", "{timeout}")
    assert planned_change.revert == ((*script, "rollback", "{folder}"),)
    assert planned_change.confirm[0] == (*script, "hold", "{folder}")
    assert planned_change.confirm[-1] == (*script, "commit", "{folder}")
    assert planned_change.scripts["nm_checkpoint.py"] == "source"


def test_what_answers_is_saved_to_come_up_before_what_stands_above_it():
    confirm = planned(BONDED).confirm
    first = [argv[4] for argv in confirm if argv[-1] == "yes"]
    assert first == [f"reduced-footprint-{name}" for name in ("eno1", "eno2", "bond0", "bond0.42", "br-admin", "br-vms")]
    assert confirm[-2] == ("nmcli", "connection", "modify", "uuid", "u-admin", "connection.autoconnect", "no")


@pytest.mark.parametrize("more", [{"bound": False}, {"saved": False}, {"autoconnect": False}])
def test_a_profile_that_is_not_for_the_link_alone_stays_as_it_is(more):
    profile = NmProfile("u-any", "any", "802-3-ethernet", **more)
    planned_change = planned(BONDED, NmState({"eno1": profile}, {"any": True}, ""))
    assert not [argv for argv in planned_change.confirm if "u-any" in argv]
    notes = json.loads(planned_change.scripts["nm.json"])
    assert notes["autoconnect"] == [] and notes["up"] == ["u-any"]


def test_a_profile_left_by_a_killed_run_is_replaced_and_one_in_use_is_not():
    left = NmState({"eno1": ADMIN}, {"admin": True, "reduced-footprint-bond0": False}, "")
    assert ("nmcli", "connection", "delete", "id", "reduced-footprint-bond0") in planned(BONDED, left).apply
    used = NmState({"eno1": ADMIN}, {"admin": True, "reduced-footprint-bond0": True}, "")
    names = [argv[argv.index("con-name") + 1] for argv in planned(BONDED, used).apply if "con-name" in argv]
    assert "reduced-footprint-bond0-2" in names and "reduced-footprint-bond0" not in names


def test_a_bond_that_is_there_goes_under_the_bridge_with_its_ports():
    nics = {name: Link(name, 2, MAC, master="bond0") for name in ("eno1", "eno2")}
    bond = Link("bond0", 4, MAC, kind="bond", ports=("eno1", "eno2"), addresses=("192.0.2.11/24",))
    profiles = {name: NmProfile(f"u-{name}", name, "x", settings={"ipv4.method": "auto"}) for name in ("bond0", "eno1", "eno2")}
    state = NmState(profiles, {}, "")
    apply = planned(Wanted(bridges=(Bridge("br-admin", ("bond0",)),)), state, {**nics, "bond0": bond}).apply
    assert added(apply, "bridge", "br-admin")["ipv4.method"] == "auto"
    copies = {link: words(apply, "nmcli", "connection", "modify", "--temporary", "id", f"reduced-footprint-{link}") for link in profiles}
    assert {link: copy["connection.master"] for link, copy in copies.items()} == {"bond0": "br-admin", "eno1": "bond0", "eno2": "bond0"}
    assert [argv[-1] for argv in apply if "up" in argv] == [f"reduced-footprint-{name}" for name in ("bond0", "eno1", "eno2")]


def test_a_bond_whose_ports_would_be_taken_away_is_refused():
    state = NmState({"eno1": ADMIN}, {}, "", detaching_script="/etc/network/if-post-down.d/ifenslave")
    with pytest.raises(RefusedError, match="ifenslave detaches the ports of bond0"):
        planned(BONDED, state)
    planned(Wanted(bridges=(Bridge("br-admin", ("eno1",)),)), state)


def test_a_bond_without_a_profile_is_refused():
    bond = Link("bond0", 4, MAC, kind="bond", addresses=("192.0.2.11/24",))
    with pytest.raises(RefusedError, match="no profile for bond0"):
        planned(Wanted(bridges=(Bridge("br-admin", ("bond0",)),)), NmState({}, {}, ""), {"bond0": bond})


def test_a_diff_shows_every_profile():
    shown = planned(BONDED).shown
    before, after = shown["NetworkManager profile reduced-footprint-br-admin"]
    assert before == "" and "ipv4.addresses: 192.0.2.11/24\n" in after
    assert shown["NetworkManager profile admin"] == ("connection.autoconnect: yes\n", "connection.autoconnect: no\n")
    assert len(shown) == 7
