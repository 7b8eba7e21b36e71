# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is requested of a machine, and what a kind of machine refuses."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_power, model_redfish, plan_power, xml_boot

OFF = model_power.Power("off", "disk", False, "uefi", {})
RESET = {
    "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
    "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown", "PowerCycle"],
}
SYSTEM = {
    "@odata.id": "/redfish/v1/Systems/1",
    "PowerState": "On",
    "Actions": {"#ComputerSystem.Reset": RESET},
    "Boot": {
        "BootSourceOverrideEnabled": "Disabled",
        "BootSourceOverrideTarget": "None",
        "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd", "BiosSetup"],
        "BootSourceOverrideMode": "UEFI",
        "BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI", "Legacy"],
    },
}


@pytest.mark.parametrize(
    ("wanted", "found", "power"),
    [("on", "off", "on"), ("on", "on", None), ("on", "transition", "on"), ("off", "on", "off"), ("off", "off", None), ("off", "transition", "off"),
     ("soft", "on", "soft"), ("soft", "off", None), ("cycle", "on", "cycle"), ("cycle", "off", "on"), (None, "on", None)],
)  # fmt: skip
def test_power(wanted: str | None, found: str, power: str | None) -> None:
    request = model_power.wish(wanted, "pxe", False, None)
    plan = plan_power.plan(request, OFF._replace(state=found))
    assert plan.power == power and plan.boot == ("pxe", False, None)


def test_only_what_differs_is_requested() -> None:
    assert plan_power.plan(model_power.wish("off", "disk", False, "uefi"), OFF).actions == ()
    assert plan_power.plan(model_power.wish(None, "disk", True, None), OFF).actions == ("boot from disk once",)
    once = OFF._replace(boot_once=True)
    assert plan_power.plan(model_power.wish(None, "disk", True, None), once).actions == ()
    assert plan_power.plan(model_power.wish(None, "disk", False, None), once).actions == ("boot from disk continuously",)
    assert plan_power.plan(model_power.wish(None, "none", False, "bios"), OFF).actions == ("set the boot mode to bios", "remove the boot device")


@pytest.mark.parametrize("operation", model_power.OPERATIONS)
def test_an_operation_that_is_missing_is_unsupported_with_its_reason(operation: str) -> None:
    state = operation if operation in model_power.STATES else None
    device = "pxe" if operation in ("boot_device", "boot_once") else None
    request = model_power.wish(state, device, operation == "boot_once", "bios" if operation == "boot_mode" else None)
    found = OFF._replace(state="off" if operation == "on" else "on", unsupported={operation: "it has none"})
    with pytest.raises(model_power.UnsupportedError, match="unsupported: it has none"):
        plan_power.plan(request, found)


@pytest.mark.parametrize("given", [(None, None, False, None), (None, None, True, "uefi"), ("on", "none", True, None)])
def test_an_empty_request_is_refused(given: tuple[str | None, str | None, bool, str | None]) -> None:
    with pytest.raises(InputError):
        model_power.wish(*given)


def test_a_system_is_read() -> None:
    power = model_redfish.power(SYSTEM)
    assert power[:4] == ("on", "none", False, "uefi") and power.unsupported == {}
    boot: dict[str, object] = {**SYSTEM["Boot"], "BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}  # type: ignore[dict-item]
    once = {**SYSTEM, "PowerState": "PoweringOff", "Boot": boot}
    assert model_redfish.power(once)[:4] == ("transition", "pxe", True, "uefi")
    assert model_redfish.power({})[:4] == ("transition", None, False, None)


def test_what_a_controller_does_not_list_is_unsupported() -> None:
    found = model_redfish.unsupported({"Actions": {"#ComputerSystem.Reset": {**RESET, "ResetType@Redfish.AllowableValues": ["On"]}}})
    assert sorted(found) == ["boot_device", "boot_mode", "boot_once", "cycle", "off", "soft"] and "offers On, not ForceOff" in found["off"]
    assert len(model_redfish.unsupported({})) == len(model_power.OPERATIONS)
    with pytest.raises(model_power.UnsupportedError, match="offers None, Pxe, Hdd, BiosSetup, not Cd"):
        model_redfish.boot_request(model_power.Boot("cdrom", False, None), SYSTEM)


def test_requests() -> None:
    assert model_redfish.boot_request(model_power.Boot("pxe", True, "bios"), SYSTEM) == {
        "Boot": {"BootSourceOverrideMode": "Legacy", "BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
    }
    assert model_redfish.boot_request(model_power.Boot("none", False, None), SYSTEM) == {"Boot": {"BootSourceOverrideEnabled": "Disabled"}}
    assert model_redfish.reset("cycle", SYSTEM) == (RESET["target"], "PowerCycle")
    without = {"Actions": {"#ComputerSystem.Reset": {"target": "/x"}}}
    assert [model_redfish.reset(each, without)[1] for each in model_power.STATES] == ["On", "ForceOff", "GracefulShutdown", "PowerCycle"]


@pytest.mark.parametrize(
    ("offered", "supported", "switches"),
    [(["On", "ForceOff"], True, True), (["ForceOn", "ForceOff", "PowerCycle"], True, True), (["On", "PowerCycle"], True, False), (["ForceOff"], False, False),
     # a restart is not a power cycle
     (["On", "ForceRestart"], False, False)],
)  # fmt: skip
def test_a_power_cycle_is_off_and_on(offered: list[str], supported: bool, switches: bool) -> None:
    system = {"Actions": {"#ComputerSystem.Reset": {"target": "/x", "ResetType@Redfish.AllowableValues": offered}}}
    assert ("cycle" not in model_redfish.unsupported(system), model_redfish.switches(system)) == (supported, switches)


def test_the_system_is_found_by_id_name_and_uuid_and_never_guessed() -> None:
    listed = {"/s/1": {"Id": "1", "Name": "metal1", "UUID": "ABC"}, "/s/2": {"Id": "2", "Name": "metal2", "UUID": "DEF"}}
    for wanted in ("2", "metal2", "def"):
        assert model_redfish.choose(list(listed), wanted, listed.__getitem__) == "/s/2"
    assert model_redfish.choose(["/s/1"], None, listed.__getitem__) == "/s/1"
    with pytest.raises(RefusedError, match="has 2 systems: 1, 2"):
        model_redfish.choose(list(listed), None, listed.__getitem__)
    with pytest.raises(InputError, match="no such system. It has 1, 2"):
        model_redfish.choose(list(listed), "3", listed.__getitem__)
    same = {path: {"Id": path, "Name": "x"} for path in listed}
    with pytest.raises(RefusedError, match="2 systems of the BMC have this name"):
        model_redfish.choose(list(same), "x", same.__getitem__)


@pytest.mark.parametrize("path", ["https://elsewhere/redfish", "//elsewhere/x", "", None, 7])
def test_credentials_are_not_sent_to_another_machine(path: object) -> None:
    with pytest.raises(BackendError):
        model_redfish.local(path)


def test_messages_of_errors() -> None:
    assert model_redfish.message({"error": {"message": "general", "@Message.ExtendedInfo": [{"Message": "exact."}]}}) == "exact"
    assert model_redfish.message({"error": {"message": "general"}}) == "general"
    assert model_redfish.message(["nonsense"]) == ""


KINDS = "<domain><os><type>hvm</type><boot dev='hd'/><boot dev='cdrom'/></os>"
KINDS += "<devices><disk device='disk'/><disk device='cdrom'/><interface/></devices></domain>"
SINGLE = "<domain><os firmware='efi'><type>hvm</type></os><devices><disk><boot order='2'/></disk><interface><boot order='1'/></interface></devices></domain>"


def test_the_boot_device_of_a_domain() -> None:
    assert (xml_boot.device(KINDS), xml_boot.mode(KINDS)) == ("disk", "bios")
    assert (xml_boot.device(SINGLE), xml_boot.mode(SINGLE)) == ("pxe", "uefi")
    assert xml_boot.with_device(KINDS, "pxe").count("<boot dev=") == 3
    changed = xml_boot.with_device(SINGLE, "disk")
    assert xml_boot.device(changed) == "disk" and "order=" not in changed and changed.index('dev="hd"') < changed.index('dev="network"')
    for wanted in ("cdrom", "bios", "none"):
        with pytest.raises(model_power.UnsupportedError):
            xml_boot.with_device(SINGLE, wanted)
