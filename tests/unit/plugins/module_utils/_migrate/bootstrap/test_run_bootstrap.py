# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a bootstrap system leaves, and when it is booted; that it boots and hands out its disks is in tests/migrate, for it needs a hypervisor."""

from __future__ import annotations

import pathlib
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import run_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import run_copy
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_remote_disk import RemoteDisk
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

SPEC = {
    "boot": "pxe",
    "vm": {"id": "master", "nics": [{"bridge": "b"}], "disks": [{"size": 6}]},
    "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
}


class Host:
    """A hypervisor without domains."""

    def __init__(self, uri):
        self.uri = uri

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        return None


@pytest.fixture(name="done")
def fixture_done(tmp_path, monkeypatch):
    """What is asked of the host, in its order; its places are in a folder of the test."""
    done = []
    monkeypatch.setattr(run_bootstrap, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(run_bootstrap, "KEYS", tmp_path / "keys")
    monkeypatch.setattr(run_bootstrap, "DomainHost", Host)
    monkeypatch.setattr(run_bootstrap.io_rehearsal, "destroy", lambda host, uuid: done.append(f"destroy {uuid}") or True)
    monkeypatch.setattr(run_bootstrap.io_pxe, "stop", lambda unit: done.append(f"stop {unit}"))
    return done


def context_of(tmp_path, **more):
    spec = parse_spec({**SPEC, **more})
    store = JournalStore("master", tmp_path)
    journal = Journal("master")
    journal.facts["vm"] = {"name": "master", "disk": str(tmp_path / "disk.img"), "disks": [str(tmp_path / "disk.img")]}
    return Context(spec, vm_details(spec), store, journal, tmp_path, None)


def left_behind(context, machine):
    """Everything a bootstrap system makes."""
    left = machine._note()
    files = [*(pathlib.Path(each) for each in left["files"] if "/var/log" not in each), machine.keys / "client", machine.folder / "vmlinuz"]
    for each in files:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.touch()
    return files


def test_it_is_named_in_the_journal_before_it_is_made_and_gone_with_it(tmp_path, done):
    context = context_of(tmp_path)
    machine = run_bootstrap.BootstrapMachine(context)
    files = left_behind(context, machine)
    assert context.store.read().facts["bootstrap"]["uuid"] == machine.uuid
    machine.down()
    assert done == [f"destroy {machine.uuid}", "stop reduced-footprint-pxe-master.service"]
    assert not [each for each in files if each.exists()] and not machine.keys.exists() and not machine.folder.exists()
    assert "bootstrap" not in context.store.read().facts
    machine.down()
    assert len(done) == 2


def test_what_the_source_serves_stays_until_the_end(tmp_path, done):
    context = context_of(tmp_path, pxe_from_source=True)
    machine = run_bootstrap.BootstrapMachine(context)
    left_behind(context, machine)
    context.journal.state = "failed"
    run_bootstrap.sweep(context)
    assert (machine.folder / "vmlinuz").exists() and not machine.keys.exists()
    context.journal.state = "done"
    run_bootstrap.sweep(context)
    assert not machine.folder.exists()


def test_what_cannot_be_swept_is_said_and_kept_in_mind(tmp_path, done, monkeypatch):
    context = context_of(tmp_path)
    machine = run_bootstrap.BootstrapMachine(context)
    left_behind(context, machine)

    def no(host, uuid):
        raise BackendError("libvirt is gone")

    monkeypatch.setattr(run_bootstrap.io_rehearsal, "destroy", no)
    run_bootstrap.sweep(context)
    assert "cannot be removed yet: libvirt is gone" in context.store.tail(1)[0]
    assert "bootstrap" in context.journal.facts


@pytest.mark.parametrize(
    ("given", "booted"),
    [
        ({}, ["up"]),
        ({"stop_after": "prepare"}, ["up"]),
        ({"pxe_from_source": True}, ["boot_from_source", "up"]),
        ({"pxe_from_source": True, "stop_after": "prepare"}, []),
    ],
)
def test_prepare_does_not_boot_before_the_files_are_on_the_other_server(tmp_path, done, monkeypatch, given, booted):
    steps = []
    for step in ("build", "boot_from_source", "up"):
        monkeypatch.setattr(run_bootstrap.BootstrapMachine, step, lambda self, step=step: steps.append(step))
    context = context_of(tmp_path, **given)
    run_worker._prepare(context)
    assert steps == ["build", *booted]
    if "pxe_from_source" in given:
        assert "boot.ipxe, vmlinuz and initrd.img" in context.store.tail(1)[0]
    if "boot_from_source" in booted:
        # a continued migration does not repeat it
        run_worker._prepare(context)
        assert steps[3:] == ["build", "up"]


def test_image_needs_none_of_it_and_finds_what_another_run_left(tmp_path, done, monkeypatch):
    context = context_of(tmp_path, boot="image")
    run_worker._prepare(context)
    assert done == [] and not isinstance(context.disk(), RemoteDisk)
    left_behind(context, run_bootstrap.BootstrapMachine(context))
    monkeypatch.setattr(run_worker, "_migrate", lambda context: None)
    run_worker.carry_out(context, run_worker.MIGRATE)
    assert "stop reduced-footprint-pxe-master.service" in done


def test_a_container_is_refused_with_the_parameter_named(tmp_path):
    with pytest.raises(InputError) as refused:
        context_of(tmp_path, vm={**SPEC["vm"], "hypervisor": "lxc"})
    assert refused.value.path == "vm.hypervisor"


@pytest.mark.parametrize("boot", ["network", ["hd", "network"]])
def test_a_master_that_may_boot_from_the_network_is_refused(tmp_path, boot):
    with pytest.raises(InputError) as refused:
        context_of(tmp_path, vm={**SPEC["vm"], "boot": boot})
    assert refused.value.path == "vm.boot"


def test_a_template_that_adds_a_boot_from_the_network_is_refused(tmp_path, monkeypatch):
    context = context_of(tmp_path)
    disk = "<devices><disk type='file' device='disk'><source file='/disk.img'/><target dev='vda'/></disk></devices>"
    xml = f"<domain type='qemu'><os><type>hvm</type><boot dev='hd'/><boot dev='network'/></os>{disk}</domain>"
    monkeypatch.setattr(run_copy, "stop_clone", lambda context: None)
    monkeypatch.setattr(run_copy, "define_vms", lambda request, check_mode: types.SimpleNamespace(failed=False))
    monkeypatch.setattr(Host, "domain", lambda self, uuid: types.SimpleNamespace(name="master", uuid=uuid, config_xml=xml), raising=False)
    monkeypatch.setattr(type(context), "domains", lambda self: Host(""))
    with pytest.raises(BackendError, match="a boot from the network") as refused:
        run_copy.define(context)
    assert refused.value.path == "template"


def test_its_disks_are_as_many_as_the_layout_has(tmp_path, done):
    disk = context_of(tmp_path).disk()
    assert isinstance(disk, RemoteDisk)
    assert [pathlib.Path(each).name for each in disk.images] == ["disk0"] and disk.machine.socket(0) == "/run/disk-0"
