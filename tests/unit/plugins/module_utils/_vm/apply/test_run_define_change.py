# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What becomes of VMs that are there: drift, changes, adoption, going back, restarts, a lost connection."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_live
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_live import LiveDomain, LiveRefusal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineResult, VmResult
from tests.support.driver_host import driver_host

TEMPLATE = """<domain type='test'><name>{{ name }}</name>{% if title %}<title>{{ title }}</title>{% endif %}
<memory unit='MiB'>{{ memory_mb }}</memory><vcpu>{{ cpu }}</vcpu><os><type>hvm</type></os><devices>
{% for nic in nics or [] %}<interface type='network'><mac address='{{ nic.mac }}'/><source network='default'/></interface>{% endfor %}
</devices></domain>"""
A: dict[str, t.Any] = {"id": "a", "cpu": 1, "memory_mb": 32, "nics": [{"network": "default"}]}
B: dict[str, t.Any] = {"id": "b", "cpu": 1, "memory_mb": 32}
FOREIGN = """<domain type='test'><name>a</name><uuid>11111111-2222-4333-8444-555555555555</uuid><memory unit='MiB'>32</memory><vcpu>1</vcpu>
<os><type>hvm</type></os><devices><interface type='network'><mac address='52:54:00:0a:0b:0c'/><source network='default'/></interface></devices></domain>"""


class Call:
    """Calls on one host."""

    def __init__(self, host: DomainHost) -> None:
        self.host = host

    def __call__(self, *vms: t.Any, check: bool = False, **options: t.Any) -> DefineResult:
        """One call."""
        asked = dict({"cluster": "lab", "vms": list(vms), "uri": "test:///default", "template": TEMPLATE, "shutdown_timeout": 5, "live_timeout": 0}, **options)
        return define_vms(DefineRequest(**asked), check_mode=check)

    def one(self, vm: t.Any, **options: t.Any) -> VmResult:
        """The result of a single VM."""
        return self(vm, **options).vms[0]

    def domain(self, name: str) -> t.Any:
        """libvirt's own handle."""
        return self.host.connection.lookupByName(name)


@pytest.fixture(name="call")
def fixture_call(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Call]:
    """A host that is empty again afterwards."""
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    with driver_host() as host:
        yield Call(host)


def test_drift_is_reported_and_corrected(call: Call) -> None:
    call(A, state="present")
    call.host.define(call.domain("a").XMLDesc(0).replace("<vcpu placement='static'>1<", "<vcpu placement='static'>3<"))
    foreseen = call.one(A, state="present", check=True)
    made = call.one(A, state="present")
    assert foreseen == made
    assert made.actions == ["redefine"]
    assert [(drift["path"], drift["applied"], drift["config"]) for drift in made.drift] == [("vcpu", "1", "3"), ("vcpu/@current", "1", "3")]
    assert [(change["path"], change["class"], change["before"], change["after"]) for change in made.changes][0] == ("vcpu", "next_boot", "3", "1")
    again = call.one(A, state="present")
    assert (again.changed, again.drift, again.changes) == (False, [], [])


def test_what_the_template_does_not_speak_of_stays(call: Call) -> None:
    call(A, state="present")
    call.host.define(call.domain("a").XMLDesc(0).replace("<devices>", "<devices><watchdog model='i6300esb'/>"))
    assert not call.one(A, state="present").changed
    assert call.one(dict(A, memory_mb=48), state="present").actions == ["redefine"]
    assert "<watchdog" in call.domain("a").XMLDesc(0)


def test_a_change_of_what_runs_and_its_refusal(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    call(A)
    titled = dict(A, title="new")
    refused = {"count": 0}

    def refuses(self: LiveDomain, what: str, text: str | None) -> None:
        refused["count"] += 1
        raise LiveRefusal("the guest says no")

    monkeypatch.setattr(io_live.LiveDomain, "set_text", refuses)
    result = call(titled)
    made = result.vms[0]
    assert (made.actions, made.restart_required) == (["redefine", "change_live"], True)
    assert [(change["path"], change["class"]) for change in made.changes] == [("title", "next_boot")]
    assert any("title waits for its next start: the guest says no" in warning for warning in result.warnings)
    again = call.one(titled)
    assert (again.changed, again.restart_required, again.drift, refused["count"]) == (False, True, [], 1)
    cycled = call.one(titled, allow_power_cycling=True)
    assert (cycled.actions, cycled.restart_required) == (["power_cycle"], False)
    assert not call.one(titled).restart_required


def test_going_back_keeps_to_it_and_forward_again(call: Call) -> None:
    call(A, state="present")
    assert "has no previous definition" in str(call.one({"id": "a"}, state="rolled_back").error)
    call(dict(A, memory_mb=48), state="present")
    foreseen = call.one({"id": "a"}, state="rolled_back", check=True)
    back = call.one({"id": "a"}, state="rolled_back")
    assert foreseen == back
    assert (back.actions, back.state, back.macs) == (["redefine"], "shutdown", call.one(A, state="present", check=True).macs)
    assert "<memory unit='KiB'>32768<" in call.domain("a").XMLDesc(0)
    assert not call.one({"id": "a"}, state="rolled_back").changed
    assert call.one(dict(A, memory_mb=48), state="present").actions == ["redefine"]
    assert "does not exist" in str(call.one({"id": "missing"}, state="rolled_back").error)


def test_adoption_keeps_what_was_there_for_good(call: Call) -> None:
    call.host.define(FOREIGN)
    assert "adopt: true" in str(call.one(A, state="present").error)
    foreseen = call.one(A, state="present", adopt=True, check=True)
    taken = call.one(A, state="present", adopt=True)
    assert foreseen == taken
    assert (taken.actions, taken.uuid, taken.macs) == (["adopt", "autostart_on"], "11111111-2222-4333-8444-555555555555", ["52:54:00:0a:0b:0c"])
    later = call(A, B, state="present")
    assert (later.vms[0].changed, later.vms[0].macs, later.unlisted) == (False, ["52:54:00:0a:0b:0c"], [])
    assert call.one(dict(A, title="t"), state="present").actions == ["redefine"]
    assert call(B, state="present").unlisted == ["a"]
    gone = call.one({"id": "a"}, state="absent")
    assert (gone.state, gone.uuid) == ("absent", "11111111-2222-4333-8444-555555555555")


def test_unmanaged_domain_is_not_removed(call: Call) -> None:
    call.host.define(FOREIGN)
    for options in ({"state": "absent", "adopt": True}, {"state": "rolled_back", "adopt": True}):
        assert "which is not managed by this collection" in str(call.one({"id": "a"}, **options).error)
    assert call.domain("a")


@pytest.mark.parametrize(
    "change, words", [({"uuid": "11111111-2222-4333-8444-555555555555"}, "the UUID of a VM cannot be changed"), ({"name": "z"}, "under the name 'a'")]
)
def test_another_identity_is_refused_with_a_hint(call: Call, change: dict[str, t.Any], words: str) -> None:
    call(A, state="present")
    result = call.one(dict(A, **change), state="present")
    assert words in str(result.error)
    assert (result.changed, result.state) == (False, "shutdown")


def test_a_domain_without_a_definition_gets_one(call: Call) -> None:
    call(A)
    call.domain("a").undefine()
    foreseen = call.one(A, check=True)
    made = call.one(A)
    assert foreseen == made
    assert made.actions[0] == "define"
    assert not call.one(A).changed


def test_failed_restart_stops_further_restarts(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    call(A, B)
    monkeypatch.setattr(DomainHost, "start", lambda self, uuid: (nothing for nothing in ()).throw(BackendError("no memory left.")))
    result = call(dict(A, memory_mb=48), dict(B, memory_mb=48), allow_power_cycling=True)
    assert [(vm.error, vm.restart_required) for vm in result.vms][1] == (None, True)
    assert "no memory left" in str(result.vms[0].error)
    assert result.vms[1].actions == ["redefine"]
    assert any("is not restarted, because the restart of a failed" in warning for warning in result.warnings)
    monkeypatch.undo()


def test_a_lost_connection_is_named_for_each_vm(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    call(A, B, state="present")
    real = DomainHost.define

    def breaks(self: DomainHost, xml: str) -> str:
        if "<name>b<" in xml:
            monkeypatch.setattr(DomainHost, "alive", lambda self: False)
            raise BackendError("client socket is closed.")
        return real(self, xml)

    monkeypatch.setattr(DomainHost, "define", breaks)
    result = call(dict(A, memory_mb=48), dict(B, memory_mb=48), state="present")
    assert (result.vms[0].error, result.vms[0].actions) == (None, ["redefine"])
    assert "the connection to test:///default was lost (client socket is closed); its guests keep running." in str(result.vms[1].error)
    assert result.vms[1].state == "shutdown"
    monkeypatch.undo()
