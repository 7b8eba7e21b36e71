# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Broken templates on real libvirt: reported with the VM, the line and libvirt's message; nothing is left incomplete."""

from __future__ import annotations

import typing as t

import pytest
from broken import BRACES, JINJA2, REFUSED, SILENT, SYNTAX, Broken
from conftest import Host

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, TemplateError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, DefineResult, define_vms

DETAILS = {
    "id": "c1",
    "cpu": 1,
    "memory_mb": 64,
    "hypervisor": "qemu",
    "note": "first\nsecond",
    "nics": [{"network": "default"}] * 2,
    "disks": [{"size": "1 MiB"}, {"size": "1 MiB", "format": "qcow2"}],
}


def ask(host: Host, template: str, *, check_mode: bool = False, strict: bool = False, **details: t.Any) -> DefineResult:
    """Run ``vm_define`` for one VM of a template."""
    vm = {key: value for key, value in {**DETAILS, **details}.items() if value is not None}
    request = DefineRequest(
        cluster="lab", vms=[vm], template=template, uri=host.uris["qemu"], pool="footprint-test", state="present", strict=strict
    )
    return define_vms(request, check_mode=check_mode)


@pytest.mark.parametrize("source", [JINJA2, BRACES], ids=["jinja2", "braces"])
def test_unbroken_templates_are_valid(host: Host, source: str) -> None:
    result = ask(host, source)
    assert (result.vms[0].error, result.vms[0].state) == (None, "shutdown")


@pytest.mark.parametrize("case", SYNTAX, ids=lambda case: case.name)
@pytest.mark.parametrize("check_mode", [False, True], ids=["run", "check"])
def test_errors_of_jinja2_and_xml_are_reported(host: Host, case: Broken, check_mode: bool) -> None:
    with pytest.raises(TemplateError) as raised:
        ask(host, case.template, check_mode=check_mode)
    assert f"template line {case.line}: " in str(raised.value)
    assert host.left() == ([], [])


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refusal_by_libvirt_is_reported(host: Host, case: Broken) -> None:
    result = ask(host, case.template)
    assert (result.vms[0].error or "").startswith(f"VM 'c1', template line {case.line}: libvirt refuses the document: ")
    assert (result.vms[0].state, result.vms[0].actions, result.vms[0].changed) == ("absent", [], False)
    assert host.left() == ([], [])


def test_other_xml_document_is_refused(host: Host) -> None:
    with pytest.raises(TemplateError, match="^VM 'c1': the outermost element is <network>, not <domain>"):
        ask(host, "<network><name>{id}</name></network>")
    assert host.left() == ([], [])


@pytest.mark.parametrize("case", [case for case in REFUSED if case.source is JINJA2][::6], ids=lambda case: case.name)
def test_refusal_by_libvirt_leaves_an_existing_vm_unchanged(host: Host, case: Broken) -> None:
    assert not ask(host, case.source, disks=[]).failed
    before = host.connections["qemu"].lookupByName("c1").XMLDesc(0)
    result = ask(host, case.template)
    assert f"template line {case.line}: libvirt refuses the document: " in (result.vms[0].error or "")
    assert host.connections["qemu"].lookupByName("c1").XMLDesc(0) == before
    assert host.left() == (["c1"], [])


@pytest.mark.parametrize("case", SILENT, ids=lambda case: case.name)
def test_silently_dropped_elements_are_refused_by_strict(host: Host, case: Broken) -> None:
    details = {"note": None} if case.source is JINJA2 else {}
    with pytest.raises(TemplateError, match=f"^VM 'c1', template line {case.line}: strict: libvirt's schema does not allow ") as raised:
        ask(host, case.template, strict=True, check_mode=True, **details)
    assert case.says in str(raised.value)
    assert host.left() == ([], [])
    assert not ask(host, case.template).failed


def test_strict_reports_all_dropped_elements(host: Host) -> None:
    template = JINJA2.replace("<acpi/>", "<acpi/>\n    <pae old='1'/>").replace("<serial type='pty'/>", "<cereal/>\n<serial type='pty' x='1'/>")
    with pytest.raises(TemplateError) as raised:
        ask(host, template, strict=True, note=None)
    for words in ("the attribute old of <pae> (line 12)", "<cereal> in <devices> (line 35)", "the attribute x of <serial> (line 36)"):
        assert words in str(raised.value)


def foreign(host: Host, mac: str) -> None:
    """Define an unmanaged domain."""
    nic = f"<interface type='network'><mac address='{mac}'/><source network='default'/></interface>"
    text = f"<domain type='qemu'><name>foreign</name><memory>32768</memory><os><type>hvm</type></os><devices>{nic}</devices></domain>"
    host.connections["qemu"].defineXML(text)


NICS = (
    ({"nics": [{"network": "default"}, {"network": "nowhere"}]}, "vms[0].nics[1].network: libvirt has no network 'nowhere' (existing: asleep, default)."),
    ({"nics": [{"network": "asleep"}]}, "vms[0].nics[0].network: the libvirt network 'asleep' is not active. Start it: virsh net-start asleep."),
    ({"nics": [{"bridge": "rf-none"}]}, "vms[0].nics[0].bridge: this host has no bridge 'rf-none'."),
    ({"nics": [{"bridge": "lo"}]}, "vms[0].nics[0].bridge: 'lo' is a network interface of this host, not a bridge."),
    ({"nics": [{"network": "default", "mac": "52:54:00:00:00:77"}]}, "vms[0].nics[0].mac: the MAC 52:54:00:00:00:77 is already used by foreign on this host."),
)


@pytest.mark.parametrize("check_mode", [False, True], ids=["run", "check"])
@pytest.mark.parametrize("details, says", NICS, ids=[str(case[0]) for case in NICS])
def test_missing_resources_of_the_host_are_reported(host: Host, details: dict[str, t.Any], says: str, check_mode: bool) -> None:
    foreign(host, "52:54:00:00:00:77")
    with pytest.raises(InputError) as raised:
        ask(host, "default", check_mode=check_mode, **details)
    assert str(raised.value).startswith(says)
    assert host.left() == (["foreign"], [])


def test_linux_bridge_is_refused_for_open_vswitch(host: Host) -> None:
    with pytest.raises(InputError, match="is a Linux bridge, not an Open vSwitch bridge"):
        ask(host, "default", nics=[{"bridge": host.bridge, "virtualport": "openvswitch"}])
    assert not ask(host, "default", nics=[{"bridge": host.bridge}]).failed


def test_fixed_mac_or_name_in_the_template_conflicts(host: Host) -> None:
    vms = [dict(DETAILS, id=name, disks=[]) for name in ("a", "b")]
    request = DefineRequest(cluster="lab", vms=vms, uri=host.uris["qemu"], state="present")
    mac = JINJA2.replace("<interface type='network'>", "<interface type='network'>\n<mac address='52:54:00:00:00:0{{ loop.index }}'/>")
    for template, says in (
        (mac, "VM 'b', template line 29: the MAC 52:54:00:00:00:01 is already used by a on this host."),
        (JINJA2.replace("{{ name }}", "one"), "VM 'b', template line 3: the name 'one' is already used by the VM 'a'."),
    ):
        first, second = define_vms(type(request)(**{**vars(request), "template": template}), check_mode=False).vms
        # the first one has it, and only the second one fails
        assert first.error is None and first.actions
        assert (second.error or "").startswith(says) and not second.actions
        define_vms(type(request)(**{**vars(request), "state": "absent"}), check_mode=False)
        assert host.left() == ([], [])


def test_missing_network_fails_only_the_vm_to_be_started(host: Host) -> None:
    vms = [dict(DETAILS, id="a", disks=[], nics=[{"network": "asleep"}]), dict(DETAILS, id="b", disks=[], nics=[])]
    template = JINJA2.replace("    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>\n", "")
    network = host.connections["qemu"].networkLookupByName("asleep")
    network.create()
    try:
        request = DefineRequest(cluster="lab", vms=vms, uri=host.uris["qemu"], state="present", template=template)
        assert not define_vms(request, check_mode=False).failed
    finally:
        network.destroy()
    result = define_vms(type(request)(**{**vars(request), "state": "running"}), check_mode=False)
    assert (result.vms[0].error or "").startswith("vms[0].nics[0].network: the libvirt network 'asleep' is not active.")
    assert [vm.state for vm in result.vms] == ["shutdown", "running"]
