# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts


def test_this_machine():
    facts = io_facts.measure()
    assert facts.memory_mib > 100 and facts.cpus > 0 and facts.kernel and facts.arch


def test_a_machine_without_memory_is_refused(tmp_path):
    with pytest.raises(BackendError, match="MemTotal|memory"):
        io_facts.measure(str(tmp_path))


def test_numbers_from_proc(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       16384000 kB\nMemFree: 1 kB\n")
    (tmp_path / "proc" / "cpuinfo").write_text("processor : 0\nmodel name\t: A CPU\nmicrocode\t: 0x1\n")
    facts = io_facts.measure(str(tmp_path))
    assert (facts.memory_mib, facts.cpu_model, facts.microcode) == (16000, "A CPU", "0x1")


@pytest.mark.parametrize("text, value", [("", {}), ("{half", {}), ("[1]", {}), ('{"a": 1}', {"a": 1})])
def test_recorded_facts_however_damaged(tmp_path, text, value):
    path = tmp_path / "x.fact"
    path.write_text(text)
    assert io_facts.read_recorded(str(path)) == (text, value)


def test_no_recorded_facts(tmp_path):
    assert io_facts.read_recorded(str(tmp_path / "none")) == ("", {})


def test_free_bytes_of_a_folder_that_is_not_there_yet(tmp_path):
    total, free = io_facts.free_bytes(str(tmp_path / "a" / "b"))
    assert (total, free > 0) == (io_facts.free_bytes(str(tmp_path))[0], True)
    assert json.dumps([total, free])


@pytest.fixture
def vgs(tmp_path, monkeypatch):
    """A stand-in for LVM's vgs, for the kernels tests run on have no device mapper; it says what LVM 2.03 says."""
    said = {"report": [{"vg": [{"vg_name": "vg0", "vg_size": "1073741824", "vg_free": "4194304"}, {"vg_name": "vg1", "vg_size": "5", "vg_free": "0"}]}]}
    program = tmp_path / "vgs"
    program.write_text(f"#!/bin/sh\ncase \"$*\" in *'--units b --nosuffix'*) ;; *) exit 3 ;; esac\ncat <<'END'\n{json.dumps(said)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


@pytest.mark.parametrize("name, sizes", [("vg0", (1073741824, 4194304)), ("vg1", (5, 0)), ("vg", None)])
def test_volume_groups(vgs, name, sizes):
    assert io_facts.volume_group(name) == sizes


def test_lvm_that_fails_or_is_missing(vgs):
    vgs.write_text("#!/bin/sh\necho 'no device mapper' >&2\nexit 5\n")
    with pytest.raises(BackendError, match="no device mapper"):
        io_facts.volume_group("vg0")
    vgs.unlink()
    with pytest.raises(BackendError, match="not installed") as caught:
        io_facts.volume_group("vg0")
    assert caught.value.hint == "Install lvm2 on the host."


def test_bridges(tmp_path):
    for link in ("br-admin/bridge", "br0/bridge", "eno1", "port/brport"):
        (tmp_path / "sys/class/net" / link).mkdir(parents=True)
    assert io_facts.bridges(str(tmp_path)) == {"br-admin", "br0"}


def process(root, pid, name):
    folder = root / "proc" / pid
    (folder / "root/dev").mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    return folder / "root/dev/kvm"


def node(path, device="/dev/null"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(device)


def test_whether_libvirt_sees_the_device_of_kvm(tmp_path, monkeypatch):
    # not every machine has the real one
    monkeypatch.setattr(io_facts, "_KVM_NUMBER", os.stat("/dev/null").st_rdev)
    assert not io_facts.kvm_seen_by(root=str(tmp_path))
    node(tmp_path / "dev/kvm")
    # without a libvirtd process, the device of the host counts
    assert io_facts.kvm_seen_by(root=str(tmp_path))
    node(process(tmp_path, "10", "bash"))
    process(tmp_path, "11", "libvirtd").write_text("")
    assert not io_facts.kvm_seen_by(root=str(tmp_path))
    # what systemd puts in the place of a hidden device
    node(process(tmp_path, "12", "virtqemud"), "/dev/zero")
    assert not io_facts.kvm_seen_by(root=str(tmp_path))
    node(process(tmp_path, "13", "virtqemud"))
    assert io_facts.kvm_seen_by(root=str(tmp_path))


def test_the_key_of_a_proof_changes_with_what_it_holds_for():
    facts = io_facts.measure()
    keys = {io_facts.proof_key(kind, facts) for kind in ("kvm", "qemu", "lxc")}
    assert len(keys) == 3
    assert all(facts.kernel in key for key in keys)
