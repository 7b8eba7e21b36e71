# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_hypervisor_probe
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_facts import measure
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm, io_machine_proof


def test_the_proof_of_a_machine_is_recorded_with_its_key(monkeypatch):
    monkeypatch.setattr(io_machine_proof, "prove", lambda kind, timeout: (kind == "qemu", f"{kind} within {timeout} s", {"max": "ran"}))
    facts = measure()
    proof = io_hypervisor_probe.prove("qemu", facts, 7)
    assert (proof.usable, proof.reason, proof.cpu_models) == (True, "qemu within 7 s", {"max": "ran"})
    assert proof.key and proof.seconds < 7


def test_no_device_no_kvm(monkeypatch):
    monkeypatch.setattr(io_kvm, "KVM_DEVICE", "/nonexistent/kvm")
    proof = io_hypervisor_probe.prove("kvm", measure(), 7)
    assert (proof.usable, proof.reason) == (False, "/nonexistent/kvm does not exist")


def test_a_libvirt_that_is_not_there_is_the_reason():
    proof = io_hypervisor_probe.prove("lxc", measure(), 5, "lxc:///system?socket=/nonexistent/socket")
    assert not proof.usable and proof.reason
