# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Open vSwitch of a chassis, on a switch that behaves as the real one does."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.model_chassis import Found, parse_wanted
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.run_chassis import Request, ensure

WANTED = {
    "external_ids": {"hostname": "metal1", "ovn-remote": "ssl:192.0.2.1:6642,ssl:192.0.2.2:6642", "ovn-cms-options": None},
    "managers": ["ptcp:6640:127.0.0.1"],
    "bridges": [{"name": "br-ex", "ports": ["eno2"]}],
}


class Switch:
    """A switch in memory that understands the commands it is given."""

    def __init__(self, kernel: bool = True, here: bool = True) -> None:
        self.has_kernel, self.here = kernel, here
        self.found = Found()
        self.restarts = 0

    def installed(self) -> bool:
        return self.here

    def kernel(self) -> tuple[bool, str]:
        return self.has_kernel, "" if self.has_kernel else "Generic Netlink family 'ovs_datapath' does not exist"

    def read(self) -> Found:
        return self.found

    def restart(self) -> None:
        self.restarts += 1

    def change(self, commands: t.Sequence[t.Sequence[str]]) -> None:
        ids, config = dict(self.found.external_ids), dict(self.found.other_config)
        bridges = {name: [datapath, list(ports)] for name, (datapath, ports) in self.found.bridges.items()}
        managers, uplinks, observer = self.found.managers, set(self.found.uplinks), self.found.observer
        for command in commands:
            words = [word for word in command if not word.startswith("--")]
            if words[:3] == ["set", "Open_vSwitch", "."]:
                column, _colon, rest = words[3].partition(":")
                key, _equals, value = rest.partition("=")
                {"external_ids": ids, "other_config": config}[column][key] = value.strip('"')
            elif words[0] == "remove":
                {"external_ids": ids, "other_config": config}[words[3]].pop(words[4])
            elif words[0] == "set-manager":
                managers = tuple(words[1:])
            elif words[0] == "add-br":
                bridges[words[1]] = ["", []]
            elif words[:2] == ["set", "Port"]:
                assert words[3] == "external_ids:footprint-uplink=true"
                uplinks.add(words[2])
            elif words[:3] == ["set", "Interface", "fp-observer"]:
                assert words[3] == "type=internal"
                observer = words[4].removeprefix("external_ids:iface-id=").strip('"')
            elif words[0] == "set":
                assert words[1] == "Bridge"
                bridges[words[2]][0] = words[3].partition("=")[2]
            elif words[0] == "del-port":
                bridges[words[1]][1].remove(words[2])
                uplinks.discard(words[2])
                observer = "" if words[2] == "fp-observer" else observer
            else:
                assert words[0] == "add-port"
                bridges[words[1]][1].append(words[2])
        there = {name: (datapath, tuple(ports)) for name, (datapath, ports) in bridges.items()}
        self.found = Found(ids, config, managers, there, frozenset(uplinks), observer)


def run(switch: Switch, check_mode: bool = False, **change: t.Any) -> t.Any:
    wanted = parse_wanted({**WANTED, **change.pop("wanted", {})})
    return ensure(Request(wanted, **change), check_mode=check_mode, switch=switch)


def test_a_chassis_is_configured_once():
    switch = Switch()
    done = run(switch)
    assert done.datapath == "system" and done.actions
    # the default datapath is stored as an empty text
    assert switch.found.bridges == {"br-ex": ("", ("eno2",))}
    assert switch.found.external_ids["ovn-remote"] == "ssl:192.0.2.1:6642,ssl:192.0.2.2:6642"
    assert switch.found.external_ids["ovn-bridge-datapath-type"] == "system"
    assert switch.found.managers == ("ptcp:6640:127.0.0.1",)
    assert run(switch).actions == () and switch.restarts == 0


def test_check_mode_changes_nothing():
    switch = Switch()
    assert run(switch, check_mode=True).actions
    assert switch.found == Found()
    assert run(Switch(here=False), check_mode=True).actions == ("configure Open vSwitch",)


def test_without_the_kernel_the_process_forwards_and_accepts_large_segments():
    switch = Switch(kernel=False)
    done = run(switch)
    assert (done.datapath, "ovs_datapath" in done.proof) == ("netdev", True)
    assert switch.found.bridges["br-ex"][0] == "netdev"
    assert switch.found.other_config == {"userspace-tso-enable": "true"} and switch.restarts == 1
    assert run(switch).actions == () and switch.restarts == 1


def test_a_kernel_that_gets_the_datapath_is_used():
    switch = Switch(kernel=False)
    run(switch)
    switch.has_kernel = True
    assert run(switch).datapath == "system"
    assert switch.found.other_config == {} and switch.found.bridges["br-ex"][0] == "system"


def test_the_datapath_of_the_kernel_is_refused_without_one():
    with pytest.raises(RefusedError, match="has no datapath of Open vSwitch"):
        run(Switch(kernel=False), datapath="system")


def test_keys_ports_and_bridges_of_others_stay():
    switch = Switch()
    switch.found = Found({"system-id": "x", "ovn-cms-options": "enable-chassis-as-gw"}, {}, ("ptcp:6641",), {"br-int": ("system", ("tap1",))})
    run(switch)
    assert switch.found.external_ids["system-id"] == "x" and "ovn-cms-options" not in switch.found.external_ids
    assert switch.found.managers == ("ptcp:6640:127.0.0.1", "ptcp:6641") and switch.found.bridges["br-int"] == ("system", ("tap1",))


def test_another_uplink_replaces_the_earlier_one():
    switch = Switch()
    run(switch)
    # OVN and the operator add ports, too
    switch.found = switch.found._replace(bridges={"br-ex": ("", ("eno2", "patch-1", "eno9"))})
    change = {"bridges": [{"name": "br-ex", "ports": ["eno3"]}]}
    assert "--if-exists del-port br-ex eno2" in run(switch, check_mode=True, wanted=change).actions
    run(switch, wanted=change)
    assert switch.found.bridges["br-ex"][1] == ("patch-1", "eno9", "eno3") and switch.found.uplinks == {"eno3"}
    assert run(switch, wanted=change).actions == ()
    run(switch, wanted={"bridges": [{"name": "br-ex"}]})
    assert switch.found.bridges["br-ex"][1] == ("patch-1", "eno9")


@pytest.mark.parametrize("kernel, there", [(True, {}), (False, {}), (True, {"br-int": ("system", ("tap1",))})])
def test_a_chassis_that_is_not_a_gateway_has_an_interface_that_observes_them(kernel, there):
    switch = Switch(kernel)
    switch.found = Found(bridges=there)
    change = {"observer": "footprint-observer-metal1"}
    run(switch, wanted=change)
    # the bridge of OVN is made if its controller has not done so yet
    datapath = "system" if kernel else "netdev"
    assert switch.found.observer == "footprint-observer-metal1"
    assert switch.found.bridges["br-int"] == (datapath, (*there.get("br-int", ("", ()))[1], "fp-observer"))
    assert run(switch, wanted=change).actions == run(switch).actions == ()
    assert run(switch, wanted={"observer": ""}).actions == ("--if-exists del-port br-int fp-observer",)
    assert switch.found.observer == "" and run(switch, wanted={"observer": ""}).actions == ()


def test_an_uplink_that_was_a_port_before_is_known_from_then_on():
    switch = Switch()
    switch.found = Found(bridges={"br-ex": ("", ("eno2",))})
    run(switch)
    assert switch.found.bridges["br-ex"][1] == ("eno2",) and switch.found.uplinks == {"eno2"}


def test_the_restart_that_a_killed_run_has_left_is_done_by_the_next_one(monkeypatch):
    switch = Switch(kernel=False)

    def killed():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(switch, "restart", killed)
        run(switch)
    assert switch.found.other_config == {"userspace-tso-enable": "true"}
    assert run(switch).actions == ("restart ovs-vswitchd",) and switch.restarts == 1
    assert run(switch).actions == () and "footprint-restart" not in switch.found.external_ids


def test_a_host_without_the_package_fails():
    with pytest.raises(BackendError, match="not installed"):
        run(Switch(here=False))


@pytest.mark.parametrize(
    "value, path",
    [
        ({"bridges": [{"name": "a b"}]}, "bridges[0].name"),
        ({"bridges": [{"name": "br-ex", "ports": ["eno2", "much-too-long-name"]}]}, "bridges[0].ports[1]"),
        ({"bridges": [{"name": "br-ex"}, {"name": "br-ex"}]}, "bridges[1].name"),
        ({"external_ids": {"a b": "x"}}, "external_ids.a b"),
    ],
)
def test_invalid_values(value, path):
    with pytest.raises(InputError) as error:
        parse_wanted(value)
    assert error.value.path == path
