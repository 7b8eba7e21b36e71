# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes one file of each kind that the collection keeps between runs, with the code that writes it on hosts.

``python -m tests.support.state_files FOLDER`` stores them, as ``tests/unit/frozen/`` has those of earlier versions: run it before the
schema number of a kind is raised, and commit the result as a new folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import sys
import tempfile
import typing as t
from unittest import mock

from lxml import etree

from ansible_collections.reduced.footprint.plugins.filter.controlplane_decision import maintain_virt_node
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_rolling, run_run_lock, run_write_probe
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock, io_records
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import Backup
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.model_identity import REPLACING, Identity, Machine
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeRequest, prepare_node
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.io_settings import SettingsHost
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_state
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import run_state_metrics
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_replacement
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_replacement import RETIRED, Replacement
from ansible_collections.reduced.footprint.plugins.module_utils._network import io_deadman, io_trial
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Change
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, io_worker_starts
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import Header
from ansible_collections.reduced.footprint.plugins.module_utils._service import run_allow_list
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_allow_list import parse_allow_lists
from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_copies import CopyStore
from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_store import StandbyStore
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy, CopyDisk, StandbyJournal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm_record, io_machine_proof
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, io_volume_pools, model_storage
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_pool_mounts import PoolMounts
from tests.support.controlplane import look
from tests.support.fake_node import FakeBackend

NAME = "master"
UUID = "5a2b8f4e-9f2f-4c53-9a0b-3d8c3a1f2b10"
JOB = {"name": NAME, "vm": {"id": "master", "cpu": 2}, "bandwidth_limit": 0}
_PHASES = {"define": {"state": "done", "seconds": 2.5}}
JOURNAL = Journal(name=NAME, state="stopped", phase="rehearse", started=1790000000.0, phases=_PHASES, facts={"vm": {"id": "m"}})
COPIES = StandbyJournal(name=NAME, state="copied", started=1790000000.0, facts={"copy": "20260921T123000Z", "at": 1790000000.0})
COPY = Copy(
    *("20260921T123000Z", NAME, "5a2b8f4e-9f2f-4c53-9a0b-3d8c3a1f2b10", NAME, "metal1", 1790000000.0, 1790000009.5, True, "full", 4096, 9.5, "<domain/>"),
    *({"/var/lib/libvirt/qemu/nvram/master_VARS.fd": "AAAA"}, True, (CopyDisk("vda", "/pool/m", "qcow2", 4096, "/pool/standby/m.qcow2"),)),
)
MOVE = MoveJournal(name="7", state="moved", started=1790000000.0, method="copy", switched=True, facts={"from": "metal1", "to": "metal2"})
SOURCE = {
    **{"state": "parked", "services": ["mariadb.service"], "containers": [], "admin": {"address": "192.0.2.2"}},
    **{"boot_id": "b", "lease": 60.0, "deadline": 99.5},
}
REPORT = {"name": NAME, "state": "running", "phase": "precopy"}
COMMANDS = [["/usr/bin/systemctl", "stop", "backup.timer"], ["/usr/local/bin/after"]]
RECORD = Record("lab", "7", UUID, "web", 2, to="metal1", start="ask")
RUN = {"node": "admin", "machine": "m", "boot": "b", "namespace": "n", "process": "7", "start": "9", "user": "root", "playbook": "rolling_restart"}
REPLACED = Replacement("7", "lab", UUID, "20261125T190000Z", "metal1", "metal2", RETIRED, ("/pool/7-disk0.qcow2.replaced-20261125T190000Z",))
SERVER = Identity("metal2", Machine("1" * 32, UUID, "192.0.2.12"), "20261125T190000Z", REPLACING, (Machine("0" * 32),), "confirmed by a person")
OWNER = xml_metadata.Ownership(
    cluster="lab",
    id="7",
    protected=True,
    origin="vm_define",
    applied="<domain/>",
    previous="<domain type='qemu'/>",
    echo={"vcpu": "2"},
    protected_disks=("p/v",),
)
NODE = NodeRequest(name="metal1", cluster="lab", roles=["virt"], vms=[], pool_path="/pool")
PROOF = (True, "a guest reached long mode", None)
MOUNTS = "36 25 0:32 / /srv/pool rw - ext4 /dev/sdb1 rw\n"
LISTS = [{"name": "galera", "served": ["192.0.2.11"], "rules": [{"ports": ["3306"], "allowed": ["192.0.2.0/24"]}], "units": ["mariadb.service"]}]
METRICS = {
    "server": True, "services": ["galera"], "cloud": False, "probes": {"web": {"port": 80}}, "cluster": "lab", "environment": "lab",
    "votes": {"galera": 3}, "directory": "/var/lib/prometheus/node-exporter",
}  # fmt: skip
BACKUP = Backup(
    *("lab-20261122T021500Z", "lab-20261122T021500Z.mbs.zst", "lab", "c2", "20261122T021500Z", "10.11.6-MariaDB", "zstd"),
    hashlib.sha256(b"").hexdigest(),
    *(5, UUID, 42),
)
DISCOVERED = {"name": "metal1", "read": "2026-01-02T03:04:05Z", "hardware": {"system": {"uuid": UUID}}}
CHANGE = Change(manager="ifupdown", trial={"/etc/network/interfaces.d/new": "auto br0\n"}, apply=(("ifup", "br0"),), revert=(("ifdown", "br0"),))
CONTROLLERS = ["c1", "c2", "c3"]


class Volume:
    """A volume of libvirt that is never wiped completely."""

    def info(self) -> list[int]:
        return [0, 1024, 1024]

    def path(self) -> str:
        return "/pool/v"

    def XMLDesc(self, flags: int) -> str:
        return "<volume/>"

    def resize(self, size: int, flags: int) -> None:
        """Accept any size."""

    def wipe(self, flags: int) -> None:
        raise KeyboardInterrupt


class Handle:
    """A pool of libvirt with one volume."""

    def storageVolLookupByName(self, name: str) -> Volume:
        return Volume()


def pool(home: pathlib.Path) -> io_volume_pools.PoolVolumes:
    """Return the volumes of a pool with their markers below a folder."""
    return io_volume_pools.PoolVolumes(model_storage.Pool("p", "iscsi", "/pool"), Handle(), home / "volumes")


def settings(home: pathlib.Path) -> SettingsHost:
    """Return a host on which the kernel allocates fewer huge pages than requested."""
    folder = home / "sys/kernel/mm/hugepages/hugepages-2048kB"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("nr_hugepages", "free_hugepages"):
        (folder / name).write_text("3\n", encoding="ascii")
    (home / "proc/sys/vm").mkdir(parents=True, exist_ok=True)
    return SettingsHost(str(home))


def maintenance(journal: str = "") -> dict[str, t.Any]:
    """Return the plan of the maintenance of a server with one VM."""
    looks = {name: look(name == "c1") for name in CONTROLLERS}
    places = dict(zip(CONTROLLERS, ("metal1", "metal2", "metal3")))
    vms = [{"name": "c1", "id": "c1", "state": "running", "hypervisor": "qemu"}]
    return maintain_virt_node(looks, ["metal1"], server="metal1", environments={"": {"galera": CONTROLLERS}}, vms=vms, places=places, journal=journal)


def rolling(journal: t.Any = None) -> plan_rolling.Plan:
    """Return the plan of a rolling restart."""
    members = dict.fromkeys(("galera", "rabbitmq", "load_balancer"), CONTROLLERS)
    looks = {name: look(name == "c1") for name in CONTROLLERS}
    return plan_rolling.plan(plan_rolling.parse_request("restart", "galera"), members, looks, journal, "2026-11-24")


def mounts(home: pathlib.Path) -> PoolMounts:
    """Return the mount points of pools on a host with one own file system."""
    (home / "mountinfo").write_text(MOUNTS, encoding="ascii")
    return PoolMounts(home / "pool-mounts.json", str(home / "mountinfo"))


def write_all(home: pathlib.Path) -> None:
    """Write a file of each kind below a folder, named by its kind."""
    work = home / "work"
    for store, journal, name in ((JournalStore(NAME, work / "migrations"), JOURNAL, "migration"), (MoveStore("7", work / "moves"), MOVE, "move")):
        store.write(journal)
        store.write_job(JOB)
        _keep(home, f"{name}_journal", store.directory / "journal.json")
        _keep(home, f"{name}_request", store.directory / "job.json")
    store, record = StandbyStore(NAME, work / "standby"), CopyStore("lab", NAME, work / "copies")
    store.write(COPIES)
    _keep(home, "standby_journal", store.directory / "journal.json")
    _text(home, "standby_copy", COPY.to_json())
    record.write_record({"state": "started", "copy": COPY.id})
    _keep(home, "standby_record", record.directory / "record.json")
    record.prepare(None, [])
    _keep(home, "standby_partial", record.directory / "partial.json")
    _source(home, work)
    guard = VmGuard(NAME, work / "run")
    guard.begin("qemu:///system", UUID, NAME, 30.0, 5.0)
    _keep(home, "vm_guard", guard.file)
    with mock.patch.object(io_worker_starts, "clock", lambda: 7.5):
        io_worker_starts.note(NAME, work / "run")
    _keep(home, "worker_starts", work / "run" / f"migrate-{NAME}.starts")
    with mock.patch.object(io_owner, "HOME", work / "vms"):
        io_owner.write(RECORD)
    _keep(home, "vm_owner", work / "vms" / f"{UUID}.json")
    io_replacement.write(REPLACED, work / "replaced")
    _keep(home, "replacement", work / "replaced" / f"{UUID}.json")
    io_records.write(work / "servers", SERVER.name, SERVER.to_json())
    _keep(home, "server_identity", work / "servers" / "metal2.json")
    document = etree.fromstring("<domain><name>web</name></domain>")
    xml_metadata.attach(document, OWNER)
    _text(home, "domain_metadata", etree.tostring(document, encoding="unicode"))
    _host(home, work)
    _text(home, "backup", BACKUP.note())
    _text(home, "state_metrics", run_state_metrics.request(METRICS))
    _text(home, "allow_list", run_allow_list._files(parse_allow_lists(LISTS))[0].content)  # pylint: disable=protected-access
    _text(home, "maintenance", json.dumps(maintenance()["journal"], indent=4, sort_keys=True) + "\n")
    _text(home, "rolling_restart", json.dumps(rolling().as_dict()["journal"], indent=4, sort_keys=True) + "\n")
    target = io_blocks.Target("/dev/null", io_blocks.BLOCK, home / "block_hashes")
    target.keep(bytes(32))
    (home / "manifest").write_bytes(Header("a1", 5).encode())


def _source(home: pathlib.Path, work: pathlib.Path) -> None:
    with mock.patch.object(io_state, "HOME", work):
        work.mkdir(exist_ok=True)
        state = io_state.SourceState(NAME)
        state.write(SOURCE)
        _keep(home, "source_state", state.file)
    io_state.keep_report(NAME, REPORT, work)
    _keep(home, "source_report", work / f"{NAME}.journal")
    io_authorized_keys.allow(NAME, COMMANDS, work)
    _keep(home, "key_commands", work / f"{NAME}.commands")


def _host(home: pathlib.Path, work: pathlib.Path) -> None:
    backend = FakeBackend()
    prepare_node(NODE, check_mode=False, backend=backend)
    _text(home, "host_facts", backend.text)
    with mock.patch.object(io_kvm_record, "record_path", lambda: home / "kvm_proof"), mock.patch.object(io_kvm_record, "_key", lambda: "boot|qemu"):
        with mock.patch.object(io_machine_proof, "prove", lambda *unused: PROOF):
            io_kvm_record.proof(True)
    mounts(work).declare("/srv/pool", True)
    mounts(work).declare("/srv/plain", False)
    _keep(home, "pool_mounts", work / "pool-mounts.json")
    pool(work).grow("v", 2048)
    with contextlib.suppress(KeyboardInterrupt):
        pool(work).remove("v", wipe=True)
    _keep(home, "volume_grown", work / "volumes" / "p.v.growing")
    _keep(home, "volume_unfinished", work / "volumes" / "p.v.unfinished")
    image, disk = work / "image", work / "disk"
    image.write_bytes(b"image")
    disk.write_bytes(b"disk")
    with mock.patch.object(io_disk_header, "image_state", lambda path: (5, 1790000000000000000)):
        io_disk_header.note_origin(disk, "debian-12", "/pool/images/debian-12.qcow2")
    (home / "volume_origin").write_bytes(io_disk_header.os.getxattr(disk, "user.footprint.image"))
    with mock.patch("ansible_collections.reduced.footprint.plugins.module_utils._host.settings.io_settings._put", lambda *unused: None):
        settings(work).give_pages(2048, 16)
    _keep(home, "huge_pages", work / "run/reduced.footprint/huge-pages.json")
    with mock.patch.object(io_trial, "RUN_DIR", str(work)), mock.patch.object(io_trial, "connection", lambda: None):
        with mock.patch.object(io_trial, "run", lambda *unused, **more: io_trial.current().set_state(io_deadman.STATE_APPLIED)):
            io_trial.start(CHANGE, 60)
    _keep(home, "network_trial", work / "network" / "plan.json")
    with mock.patch.object(io_lock, "lock_folder", lambda: work / "locks"):
        run_run_lock.take(RUN, takeover=False, check_mode=False)
    _keep(home, "controlplane_run", work / "locks" / run_run_lock.FILE)
    with mock.patch.object(run_write_probe, "io_units", mock.Mock(unit_active=lambda unit: False)):
        run_write_probe.start("192.0.2.20", 3306, False, patience=0, home=work)
    _keep(home, "write_probe", work / "target")


def _keep(home: pathlib.Path, kind: str, path: pathlib.Path) -> None:
    (home / kind).write_bytes(path.read_bytes())


def _text(home: pathlib.Path, kind: str, text: str) -> None:
    (home / kind).write_text(text, encoding="utf-8")


def main(target: pathlib.Path) -> None:
    """Store the files in a folder."""
    with tempfile.TemporaryDirectory() as made:
        write_all(pathlib.Path(made))
        target.mkdir(parents=True, exist_ok=True)
        for path in pathlib.Path(made).iterdir():
            if path.is_file():
                (target / path.name).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
