# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import plan_move
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import CONFIRMED, MOVED, RETURNED, MoveJournal, report
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import AUTO, COPY, DISK, LIVE, STATE, Item, parse_spec

POOL = "/var/lib/libvirt/images"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"
SPEC = parse_spec({"id": "c1", "cluster": "lab", "destination": {"host": "192.0.2.13", "name": "metal3", "host_keys": [KEY]}})
HOST = {"uuid": "a", "cpu": "<cpu/>", "libvirt": 9_000_000, "hypervisor": 7_002_000, "name": "metal1"}
BASE = Item(f"{POOL}/images/base.raw", "file", True, size=100)
TOP = Item(f"{POOL}/c1-disk0", "file", False, DISK, "qcow2", 1000, 300, BASE.path, "raw")
NVRAM = Item("/var/lib/libvirt/qemu/nvram/c1_VARS.fd", "file", False, STATE, size=5)
VM = {
    "name": "c1", "uuid": "u1", "uri": "qemu:///system", "type": "kvm", "cluster": "lab", "id": "c1", "state": "running", "active": True,
    "persistent": True, "autostart": True, "rsync": "/usr/bin/rsync", "saved": False, "snapshots": False, "macs": ["52:54:00:00:00:01"],
    "memory": 1024, "arch": "x86_64", "machine": "q35", "emulator": "/usr/bin/qemu", "cpu_mode": "custom", "cpu_xml": "<cpu/>", "passed": [],
    "only_live": [], "changed": False, "bridges": ["br-admin"], "networks": ["net"], "links": [], "unfit": [], "pools": {POOL: "default"},
    "items": [TOP._asdict(), BASE._asdict(), NVRAM._asdict()], "sizes": {BASE.path: 100, TOP.path: 300}, "host": HOST,
}
THERE = {
    "name": "metal3", "arch": "x86_64", "state": None, "owns": False, "tools": {"rsync": "/r", "qemu-img": "/q"}, "memory_available": 4096,
    "bridges": ["br-admin"], "links": [], "existing": {}, "arrived": [], "half": {}, "reason": None, "domain": None, "name_taken": None, "macs_taken": {},
    "networks": {"net": True},
    "host": {**HOST, "uuid": "b", "name": "metal3"}, "pools": {POOL: {"name": "default", "available": 1000}}, "machine": None, "cpu": None,
}


def reported(vm=None, there=None):
    return [each.message for each in plan_move.find_problems(SPEC, {**VM, **(vm or {})}, {**copy.deepcopy(THERE), **(there or {})})]


def test_nothing_in_the_way():
    assert reported() == []
    assert plan_move.live_blockers(VM, THERE) == []


@pytest.mark.parametrize(
    "vm, there, words",
    [
        ({"id": None}, {}, "not managed by this collection"),
        ({"persistent": False}, {}, "transient"),
        ({"state": "paused"}, {}, "is paused"),
        ({"saved": True}, {}, "managed save image"),
        ({"snapshots": True}, {}, "snapshots"),
        ({"passed": ["hostdev"]}, {}, "hostdev of the source"),
        ({"unfit": ["/dev/sdb is a block device"]}, {}, "block device"),
        ({"only_live": ["/x"]}, {}, "only in the persistent configuration"),
        ({"rsync": None}, {}, "rsync is missing on the source"),
        ({}, {"reason": "cannot connect."}, "not usable as a virt host"),
        ({}, {"name": "metal1", "host": HOST}, "the source itself"),
        ({}, {"tools": {"rsync": None, "qemu-img": "/q"}}, "rsync is missing on"),
        ({}, {"arch": "aarch64"}, "architecture aarch64"),
        ({}, {"machine": "no such machine"}, "does not support this VM"),
        ({}, {"bridges": []}, "no bridge br-admin"),
        ({"links": ["eth7"]}, {}, "no link eth7"),
        ({}, {"networks": {"net": False}}, "no active network net"),
        ({}, {"pools": {}}, "no active storage pool"),
        ({}, {"memory_available": 1023}, "of memory available"),
        ({}, {"name_taken": "u2"}, "another domain at the destination has the name c1"),
        ({}, {"macs_taken": {"52:54:00:00:00:01": "other"}}, "has the MAC"),
        ({}, {"domain": {"name": "c1", "state": "shutdown", "active": False}}, "already exists at the destination (c1"),
        ({}, {"domain": {"name": "c1", "state": "running", "active": True}, "state": "arriving"}, "already exists at the destination (c1"),
        ({}, {"state": "moved", "to": "metal1", "domain": {"name": "c1", "state": "shutdown", "active": False}}, "still has the old copy"),
        ({}, {"owns": True}, "has a record that it has the VM"),
        ({}, {"existing": {TOP.path: 1}, "state": "arriving"}, f"{TOP.path} already exists at the destination"),
        ({}, {"existing": {TOP.path: 1}}, f"{TOP.path} already exists at the destination"),
        ({}, {"existing": {BASE.path: 99}}, "different content"),
        ({}, {"pools": {POOL: {"name": "default", "available": 399}}}, "available, the VM needs"),
        ({}, {"pools": {POOL: {"name": "default", "available": 1000, "unmounted": "/srv"}}}, "is on the file system of /srv, which is not mounted"),
    ],
)
def test_each_problem_is_reported(vm, there, words):
    found = reported(vm, there)
    assert len(found) == 1 and words in found[0]


def test_the_disk_of_the_vm_on_shared_storage_is_not_to_be_removed():
    (problem,) = plan_move.find_problems(SPEC, VM, {**THERE, "existing": {TOP.path: 1}})
    assert "If both servers share this storage, it is the disk of this VM: do not remove it" in problem.hint


def test_all_problems_are_reported_together():
    assert len(reported({"saved": True, "snapshots": True}, {"bridges": [], "name_taken": "u2"})) == 4


@pytest.mark.parametrize(
    "there",
    [
        {"existing": {BASE.path: 100}, "pools": {POOL: {"name": "default", "available": 300}}},
        {"half": {TOP.path: 290}, "pools": {POOL: {"name": "default", "available": 110}}},
        {"existing": {TOP.path: 300}, "arrived": [TOP.path], "state": "arriving"},
        {"domain": {"name": "c1", "state": "shutdown", "active": False}, "state": "arriving", "existing": {TOP.path: 300}},
        {"state": "confirmed", "to": "metal1"},
        {"macs_taken": {}},
    ],
    ids=["image there", "partly copied", "of an earlier attempt", "defined by an earlier attempt", "left for good once", "nothing"],
)
def test_ignored_leftovers_at_the_destination(there):
    assert reported({}, there) == []


@pytest.mark.parametrize(
    "vm, here, there, words",
    [
        ({"type": "lxc"}, {}, {}, "container"),
        ({"state": "shutdown"}, {}, {}, "not running"),
        ({"uri": "qemu:///session"}, {}, {}, "qemu:///session"),
        ({}, {}, {"uuid": "a"}, "same host UUID"),
        ({}, {"libvirt": 6_007_000}, {}, "6.8"),
        ({}, {}, {"hypervisor": 7_001_000}, "older at the destination"),
        ({"cpu_mode": "host-passthrough"}, {}, {"cpu": "<cpu>other</cpu>"}, "the hosts' CPUs differ"),
        ({"type": "qemu", "cpu_mode": "maximum"}, {}, {"hypervisor": 8_000_000}, "emulators differ"),
        ({"changed": True}, {}, {}, "changed definition"),
    ],
)
def test_live_blockers(vm, here, there, words):
    found = plan_move.live_blockers({**VM, **vm, "host": {**HOST, **here}}, {**THERE, "host": {**THERE["host"], **there}})
    assert len(found) == 1 and words in found[0]


def test_a_cpu_that_cannot_be_had():
    assert "vmx" in plan_move.live_blockers(VM, {**THERE, "cpu": "lacks vmx"})[0]


@pytest.mark.parametrize("method, reasons, way", [(AUTO, [], LIVE), (AUTO, ["x"], COPY), (LIVE, [], LIVE), (COPY, [], COPY), (COPY, ["x"], COPY)])
def test_the_way_it_goes(method, reasons, way):
    assert plan_move.choose(method, reasons) == way


def test_live_or_nothing():
    with pytest.raises(RefusedError, match="because|cannot be moved live: x"):
        plan_move.choose(LIVE, ["x"])


def test_what_is_copied():
    items = plan_move.items_of(VM)
    assert plan_move.copied(items, COPY) == items
    assert plan_move.copied(items, LIVE) == [BASE]
    assert plan_move.mirrored(items) == [TOP]


def journal(method, switched=False, **phases):
    return MoveJournal(name="c1", method=method, switched=switched, phases={name: {"state": state} for name, state in phases.items()})


@pytest.mark.parametrize(
    "found, here, there, phase",
    [
        (journal("copy"), None, None, "preflight"),
        (journal("copy", stop="running"), "running", None, "preflight"),
        (journal("copy", stop="running"), "off", None, "stop"),
        (journal("copy", stop="done", copy="done"), "off", None, "verify"),
        (journal("copy", stop="done", copy="done", verify="done", place="failed"), "off", None, "place"),
        (journal("copy", stop="done", copy="done", verify="done", place="done"), "off", None, "switch"),
        (journal("copy", stop="done"), "gone", None, "preflight"),
        (journal("copy", True), None, None, "switch"),
        (journal("copy", True, switch="done", start="failed"), None, None, "start"),
        (journal("copy", True, switch="done", start="done"), None, None, "settle"),
        (journal("live", migrate="running"), "left", "paused", "switch"),
        (journal("live", migrate="running"), "left", "gone", "preflight"),
        (journal("live", migrate="running"), "left", "running", "switch"),
        (journal("live", migrate="running"), "running", "paused", "preflight"),
        (journal("live", migrate="running"), "halted", "paused", "preflight"),
        (journal("live", migrate="running"), "off", "paused", "preflight"),
        (journal("live", True), None, None, "switch"),
        (journal("live", True, switch="done"), None, None, "start"),
    ],
)
def test_resume_phase(found, here, there, phase):
    assert plan_move.resume_phase(found, here, there)[0] == phase


def switched(going=MOVED, seconds=None, was=None, **held):
    facts = {"held": held or None, **({"was": was} if was else {})}
    return MoveJournal(name="c1", switched=True, going=going, facts=facts, downtime={"started": 1.0, **({"seconds": seconds} if seconds else {})})


@pytest.mark.parametrize(
    "found, action, expected",
    [
        (switched(running=True), MOVED, True),
        (switched(running=True), RETURNED, True),
        # it runs at the destination
        (switched(running=True, seconds=2.0), MOVED, False),
        (switched(running=True, seconds=2.0), RETURNED, False),
        (switched(running=True, seconds=2.0), CONFIRMED, False),
        (switched(running=False), MOVED, False),
        # stopped here
        (MoveJournal(name="c1", facts={"held": {"running": True}}), MOVED, True),
        (MoveJournal(name="c1", facts={"held": None}), MOVED, False),
        # stopped there
        (switched(RETURNED, running=True), RETURNED, True),
        (switched(RETURNED, running=False, was="running"), RETURNED, True),
        (switched(RETURNED, running=False, was="off"), RETURNED, False),
        # it runs here again
        (MoveJournal(name="c1", going=RETURNED, facts={"held": {"running": True}}, downtime={"seconds": 2.0}), RETURNED, False),
    ],
)
def test_whether_only_its_worker_starts_the_vm_again(found, action, expected):
    assert plan_move.is_off(found, action) is expected


def test_a_journal_survives_its_file():
    one = journal("live", True, start="done")
    assert MoveJournal.parse(one.to_json()) == one
    one.started = 5.0
    assert (report(one)["id"], report(one)["started"]) == ("c1", "1970-01-01T00:00:05Z")
    one.renew(5.0)
    assert (one.switched, one.phases, one.facts) == (False, {}, {})
    one.facts["job"] = {"token": "1", "ended": False}
    one.renew(6.0)
    assert one.facts["job"] == {"token": "1", "ended": False}


@pytest.mark.parametrize(
    "params, path",
    [
        ({"id": "../x"}, "id"),
        ({"destination": {}}, "destination.host"),
        ({"destination": {"host": "-oProxyCommand=x"}}, "destination.host"),
        ({"destination": {"host": "h", "port": 0}}, "destination.port"),
        ({"destination": {"host": "h", "host_keys": ["nonsense"]}}, "destination.host_keys[0]"),
        ({"shutdown_timeout": 0}, "shutdown_timeout"),
        ({"max_downtime": 0.0}, "max_downtime"),
        ({"bandwidth_limit": "fast"}, "bandwidth_limit"),
    ],
)
def test_bad_requests_name_the_value(params, path):
    with pytest.raises(InputError) as error:
        parse_spec({"id": "c1", "cluster": "lab", "destination": {"host": "192.0.2.13"}, **params})
    assert error.value.path == path


def test_a_bandwidth_limit_is_a_rate_with_a_unit():
    given = {"id": "c1", "destination": {"host": "h"}}
    assert [parse_spec({**given, "bandwidth_limit": each}).bandwidth_limit for each in (None, "20 MiB/s", "1")] == [0, 20480, 1024]


def test_an_address_becomes_a_name():
    assert parse_spec({"id": "c1", "destination": {"host": "2001:db8::13"}}).destination.name == "2001-db8--13"


def test_all_that_a_return_would_lose_is_reported():
    same = {"paths": [NVRAM.path, TOP.path], "layers": [], "snapshots": False, "saved": False}
    assert plan_move.return_problems([TOP, BASE, NVRAM], same, "metal3") == []
    assert plan_move.added_files([TOP, BASE, NVRAM], same) == []
    # an overlay of an overlay, a disk without a path, snapshots and saved memory
    other = {"paths": [f"{POOL}/c1.snap2", "vdb"], "layers": [f"{POOL}/c1.snap1"], "snapshots": True, "saved": True}
    files, snapshots, saved = plan_move.return_problems([TOP, BASE, NVRAM], other, "metal3")
    new = f"{POOL}/c1.snap1, {POOL}/c1.snap2, vdb"
    assert files.message == f"the files of the VM on metal3 are not those that were moved there: new {new}; missing {POOL}/c1-disk0, {NVRAM.path}."
    assert "blockcommit" in files.hint and "with a new move from metal3" in files.hint
    assert "snapshots on metal3" in snapshots.message and "saved" not in snapshots.message and "managed save image on metal3" in saved.message
    assert plan_move.added_files([TOP, BASE, NVRAM], other) == [f"{POOL}/c1.snap1", f"{POOL}/c1.snap2"]
