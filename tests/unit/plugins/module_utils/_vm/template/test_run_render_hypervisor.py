# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hypervisor a VM gets: recorded, proven, asked of another host, emulated only if that is allowed."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineRequest
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm_record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.run_render import HypervisorChoice

PROOFS = {"kvm": {"usable": False, "reason": "it hung"}, "qemu": {"usable": True}, "lxc": {"usable": True}}
NOT_PROVEN = "kvm is not usable on this host: it has not been proven."
REMOTE = "qemu+ssh://other/system"
CHOICES: list[tuple[str, t.Any, str | None, str]] = [
    ("auto", {"kvm": {"usable": True}}, None, "kvm qemu:///system"),
    ("auto", PROOFS, None, "auto requires kvm, which is not usable on this host: it hung."),
    ("auto", None, None, NOT_PROVEN),
    ("lxc", PROOFS, None, "lxc lxc:///system"),
    ("qemu", PROOFS, "qemu:///session", "qemu qemu:///session"),
    ("qemu", PROOFS, REMOTE, f"qemu {REMOTE}"),
    ("kvm", {"kvm": {"usable": True}}, None, "kvm qemu:///system"),
    ("kvm", None, None, NOT_PROVEN),
    ("kvm", {"qemu": {"usable": True}}, None, NOT_PROVEN),
    ("kvm", {"kvm": {}}, "qemu:///system", NOT_PROVEN),
    ("qemu", None, None, "qemu qemu:///system"),
    ("lxc", None, None, "lxc lxc:///system"),
    ("kvm", PROOFS, None, "kvm is not usable on this host: it hung."),
    ("lxc", PROOFS, "qemu:///session", "lxc is not supported by qemu:///session."),
    ("lxc", PROOFS, REMOTE, "containers are not supported over a remote connection."),
    ("auto", PROOFS, "lxc:///system", "auto never selects lxc."),
]


@pytest.mark.parametrize("kind, proofs, uri, outcome", CHOICES)
def test_hypervisor(tmp_path: pathlib.Path, kind: str, proofs: t.Any, uri: str | None, outcome: str) -> None:
    facts = tmp_path / "facts"
    if proofs is not None:
        facts.write_text(json.dumps({"hypervisors": proofs}))
    choice = HypervisorChoice(uri, str(facts))
    vm = parse_vms([{"id": "a", "hypervisor": kind}], cluster="lab")[0]
    try:
        chosen = choice.of(vm)
        choice.check(vm, chosen.type)
        assert f"{chosen.type} {chosen.uri}" == outcome
    except InputError as error:
        assert (error.path, error.message) == ("vms[0].hypervisor", outcome)


@pytest.mark.parametrize("proofs", [PROOFS, {}])
def test_emulation_is_used_only_if_it_is_allowed(tmp_path: pathlib.Path, proofs: t.Any) -> None:
    (tmp_path / "facts").write_text(json.dumps({"hypervisors": proofs}))
    vm = parse_vms([{"id": "a"}], cluster="lab")[0]
    allowed = HypervisorChoice(None, str(tmp_path / "facts"), allow_emulation=True)
    assert allowed.of(vm).type == "qemu"
    allowed.check(vm, "qemu")
    refused = HypervisorChoice(None, str(tmp_path / "facts"))
    with pytest.raises(InputError) as raised:
        refused.check(vm, "qemu")
    assert raised.value.path == "vms[0].hypervisor" and "allow_emulation: true" in (raised.value.hint or "")
    # a VM that is emulated already keeps running
    refused.check(vm, "qemu", exists=True)


def probe(monkeypatch: pytest.MonkeyPatch, usable: bool) -> list[bool]:
    """Let KVM be proven as usable or not; the list gets an entry with each proof."""
    made: list[bool] = []
    monkeypatch.setattr(io_kvm_record, "proof", lambda remember: made.append(remember) or {"usable": usable, "reason": "it hung"})
    return made


@pytest.mark.parametrize("usable", [True, False])
@pytest.mark.parametrize("kind", ["kvm", "auto"])
def test_kvm_is_proven_where_nothing_is_recorded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str, usable: bool) -> None:
    made = probe(monkeypatch, usable)
    vm = parse_vms([{"id": "a", "hypervisor": kind}], cluster="lab")[0]
    choice = HypervisorChoice(None, str(tmp_path / "none"))
    choice.use_probe(None, wanted=True, remember=True)
    chosen = choice.of(vm)
    if usable:
        choice.check(vm, chosen.type)
        assert chosen.type == "kvm"
    else:
        with pytest.raises(InputError, match="not usable on this host: it hung") as raised:
            choice.check(vm, chosen.type)
        assert "remove " in (raised.value.hint or "")
    assert made == [True]


@pytest.mark.parametrize("vm, proofs", [({"hypervisor": "qemu"}, {}), ({"hypervisor": "lxc"}, {}), ({}, {"kvm": {"usable": True}}), ({}, PROOFS)])
def test_nothing_is_proven_without_need(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, vm: t.Any, proofs: t.Any) -> None:
    made = probe(monkeypatch, True)
    (tmp_path / "facts").write_text(json.dumps({"hypervisors": proofs}))
    parsed = parse_vms([dict(vm, id="a")], cluster="lab")[0]
    choice = HypervisorChoice(None, str(tmp_path / "facts"), allow_emulation=True)
    choice.use_probe(None, wanted=True, remember=True)
    choice.check(parsed, choice.of(parsed).type)
    # nor for a removal
    bare = HypervisorChoice(None, str(tmp_path / "none"))
    bare.use_probe(None, wanted=False, remember=True)
    bare.of(parse_vms([{"id": "a"}], cluster="lab")[0])
    assert not made


class Remote:
    """A connection to another host, as far as its types of domains go."""

    def __init__(self, kinds: t.Container[str]) -> None:
        self.offers = kinds.__contains__


def test_a_vm_that_is_there_keeps_its_hypervisor_and_another_host_is_asked(tmp_path: pathlib.Path) -> None:
    vm, auto = parse_vms([{"id": "a", "hypervisor": "kvm"}, {"id": "b"}], cluster="lab")
    HypervisorChoice(None, str(tmp_path / "none")).check(vm, "kvm", exists=True)
    for kinds, usable in (({"kvm"}, True), ({"qemu"}, False)):
        remote = HypervisorChoice(REMOTE, str(tmp_path / "none"))
        remote.use_probe(t.cast(DomainHost, Remote(kinds)), wanted=True, remember=True)
        assert remote.of(auto).type == ("kvm" if usable else "qemu")
        for each in (vm, auto):
            if usable:
                remote.check(each, "kvm")
                continue
            with pytest.raises(InputError, match="not usable at qemu.ssh://other/system: libvirt at qemu.ssh://other/system does not offer it") as raised:
                remote.check(each, remote.of(each).type)
            assert raised.value.path == f"{each.path}.hypervisor" and raised.value.hint


def test_each_host_has_its_lock(tmp_path: pathlib.Path) -> None:
    names = [HypervisorChoice(uri, str(tmp_path / "none")).lock for uri in (None, "qemu:///system", REMOTE, "qemu+ssh://third/system")]
    assert names[:2] == ["domains", "domains"] and len(set(names)) == 3


@pytest.mark.parametrize("uri", [None, "qemu:///system", "qemu+unix:///system?socket=/run/x"])
def test_images_are_uploaded_to_another_host_only(uri: str | None) -> None:
    with pytest.raises(InputError) as raised:
        DefineRequest(cluster="lab", vms=[], uri=uri, images_path="/srv/images")
    assert raised.value.path == "images_path"
    DefineRequest(cluster="lab", vms=[], uri=REMOTE, images_path="/srv/images")
