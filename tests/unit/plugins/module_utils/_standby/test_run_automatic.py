# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM enters the cluster and leaves it: what is recorded first, and what is refused without a majority."""

from __future__ import annotations

import typing as t
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, io_store, run_automatic, xml_cib
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import CONFIRMED, MOVED, MOVING, Record
from tests.support.records import away

UUID = "6a1f3c6e-0000-4000-8000-000000000001"
METAL2 = Machine("metal2", "192.0.2.12", 22, ("ssh-ed25519 AAAA",))
JOB = Job("m", "lab", "m", UUID, "qemu:///system", METAL2, (METAL2._replace(name="w1"),), 900, 2, 0, "metal1", automatic=True)
EMPTY = '<cib epoch="1"><configuration><crm_config/><resources/><constraints/></configuration></cib>'
PARAMS = {"id": "m", "cluster": "lab"}


class Cluster:
    """The cluster as this server, metal1, sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.document = ET.fromstring(EMPTY)
        self.owners: dict[str, str] = {}
        self.name, self.quorum, self.formed = "metal1", True, True
        self.online, self.unclean, self.confirmed, self.refreshed = {"metal1", "metal2"}, set[str](), list[str](), 0
        for name, function in {
            "is_formed": lambda: self.formed, "stored": lambda: self.document, "cib": lambda: self.document, "here": lambda: self.name,
            "owner": self.owners.get, "set_owner": self._own, "forget_owner": lambda vm_id: self.owners.pop(vm_id, None), "has_quorum": lambda: self.quorum,
            "apply": self._apply, "refresh": self._refresh, "partition": lambda: frozenset(self.online), "confirm_off": self.confirmed.append,
            "seen": lambda: xml_cib.Seen(self.quorum, frozenset(self.online), frozenset(self.unclean), {}, frozenset(), {}, {}),
        }.items():  # fmt: skip
            monkeypatch.setattr(io_cluster, name, function)
        monkeypatch.setattr(xml_cib, "owner_of", lambda document, vm_id: self.owners.get(vm_id))

    def _own(self, vm_id: str, name: str) -> None:
        if not self.quorum:
            raise BackendError("no majority.")
        self.owners[vm_id] = name

    def _apply(self, parts: xml_cib.Parts, is_ours: t.Callable[[str], bool], *, check_mode: bool) -> tuple[str, list[str]]:
        assert not check_mode
        # recorded before Pacemaker knows of it
        assert not parts or self.owners.get("m") and io_owner.is_clustered(UUID)
        after = xml_cib.changed(self.document, parts, is_ours)
        before, self.document = self.document, self.document if after is None else after
        return (xml_cib.difference(before, self.document) if after is not None else "", [])

    def _refresh(self, vm_id: str) -> None:
        self.refreshed += 1

    @property
    def managed(self) -> bool | None:
        """Whether the VM is started and stopped, ``None`` if it is not known."""
        found = xml_cib.vms_of(self.document).get("m")
        return None if found is None else xml_cib.is_managed(found)


@pytest.fixture(name="cluster")
def fixture_cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


@pytest.fixture(name="store")
def fixture_store() -> io_store.StandbyStore:
    store = io_store.StandbyStore("m")
    store.write_job(job_data(JOB))
    return store


def test_a_vm_enters_once_and_leaves(cluster: Cluster) -> None:
    assert run_automatic.differs(JOB) and run_automatic.begin(JOB)
    assert cluster.managed and cluster.owners == {"m": "metal1"} and io_owner.is_clustered(UUID) and io_owner.is_permitted(UUID)
    assert not run_automatic.differs(JOB) and not run_automatic.begin(JOB) and cluster.refreshed == 1
    ended = JOB._replace(automatic=False)
    assert run_automatic.differs(ended) and run_automatic.end(ended)
    assert cluster.managed is None and not cluster.owners and io_owner.is_guarded(UUID) and io_owner.is_permitted(UUID)
    assert not run_automatic.differs(ended) and not run_automatic.end(ended) and not run_automatic.begin(ended)


def test_a_move_is_a_pause(cluster: Cluster, store: io_store.StandbyStore) -> None:
    run_automatic.begin(JOB)
    run_automatic.pause(store, JOB)
    assert cluster.managed is False and io_owner.is_guarded(UUID) and io_owner.is_permitted(UUID)
    # the worker, after the move has ended here
    assert run_automatic.begin(JOB) and cluster.managed and io_owner.is_clustered(UUID)


def test_a_vm_that_is_moved_or_was_moved_does_not_enter(cluster: Cluster) -> None:
    for state in (MOVING, MOVED, CONFIRMED):
        before = away(state, "metal3", "m", uuid=UUID)
        io_owner.write(before)
        with pytest.raises(RefusedError, match="metal3"):
            run_automatic.begin(JOB)
        assert io_owner.known(UUID) == before and cluster.managed is None and not cluster.owners


def test_without_a_majority_nothing_leaves(cluster: Cluster, store: io_store.StandbyStore) -> None:
    run_automatic.begin(JOB)
    cluster.quorum = False
    store.pause()
    with pytest.raises(RefusedError, match="metal2 may be about to start m"):
        run_automatic.pause(store, JOB)
    # the copies continue
    assert store.paused_seconds() is None and cluster.managed and io_owner.is_clustered(UUID)
    with pytest.raises(RefusedError) as caught:
        run_automatic.end(JOB)
    assert "confirmed: metal2" in str(caught.value.hint)
    with pytest.raises(RefusedError):
        run_automatic.end(JOB, "metal3")
    assert run_automatic.end(JOB, "metal2") and cluster.managed is None


def test_a_vm_that_was_started_elsewhere_does_not_enter_here(cluster: Cluster, store: io_store.StandbyStore) -> None:
    run_automatic.begin(JOB)
    cluster.owners["m"] = "metal2"
    with pytest.raises(RefusedError, match="was started on metal2"):
        run_automatic.begin(JOB)
    # it was moved here for good
    paused = xml_cib.changed(cluster.document, xml_cib.vm_parts(run_automatic.Vm("m", "lab", UUID, "m"), "metal2", False), xml_cib.is_of_vm("m"))
    managed, cluster.document = cluster.document, paused if paused is not None else cluster.document
    assert run_automatic.begin(JOB) and cluster.owners == {"m": "metal1"} and cluster.managed
    cluster.document, cluster.owners["m"] = managed, "metal2"
    # its removal here, before it moves back, changes nothing there
    assert not run_automatic.end(JOB)
    run_automatic.pause(store, JOB)
    assert cluster.managed and cluster.owners == {"m": "metal2"}


def test_its_new_server_takes_it_out_before_it_moves_back(cluster: Cluster) -> None:
    run_automatic.begin(JOB)
    cluster.name = "metal2"
    with pytest.raises(RefusedError, match="m belongs to metal1"):
        run_automatic.disarmed(PARAMS, False)
    cluster.owners["m"] = "metal2"
    assert run_automatic.disarmed(PARAMS, True)["changed"] and cluster.managed
    cluster.quorum = False
    with pytest.raises(RefusedError, match="no majority"):
        run_automatic.disarmed(PARAMS, False)
    cluster.quorum = True
    assert run_automatic.disarmed(PARAMS, False)["changed"] and cluster.managed is None
    # it starts there as any VM
    assert not io_owner.is_clustered(UUID) and not io_owner.is_guarded(UUID)
    assert run_automatic.disarmed(PARAMS, False) == run_automatic.disarmed({**PARAMS, "cluster": "green"}, False) == {"changed": False}


def test_its_own_server_takes_it_out(cluster: Cluster, store: io_store.StandbyStore) -> None:
    run_automatic.begin(JOB)
    assert run_automatic.disarmed(PARAMS, False)["changed"] and cluster.managed is None
    assert store.job() == JOB._replace(automatic=False) and run_automatic.disarmed(PARAMS, False) == {"changed": False}
    # refused, it is as before
    store.write_job(job_data(JOB))
    run_automatic.begin(JOB)
    cluster.quorum = False
    with pytest.raises(RefusedError):
        run_automatic.disarmed(PARAMS, False)
    assert store.job() == JOB and cluster.managed


def test_a_vm_with_the_same_id_is_another_one(cluster: Cluster) -> None:
    run_automatic.begin(JOB)
    with pytest.raises(RefusedError, match="another VM with the ID m, of lab"):
        run_automatic.begin(JOB._replace(uuid="another", cluster="green"))
    cluster.formed = False
    with pytest.raises(RefusedError, match="not in a cluster"):
        run_automatic.begin(JOB)


def test_a_start_by_a_person_is_recorded_in_the_cluster(cluster: Cluster) -> None:
    assert run_automatic.confirm("m", "metal1") == [] and not cluster.owners
    run_automatic.begin(JOB)
    cluster.name, cluster.online, cluster.unclean = "metal2", {"metal2"}, {"metal1"}
    cluster.quorum = False
    assert run_automatic.confirm("m", "metal1") == [] and cluster.owners == {"m": "metal1"} and not cluster.confirmed
    cluster.quorum = True
    assert run_automatic.confirm("m", "metal1") == [] and cluster.owners == {"m": "metal2"} and cluster.confirmed == ["metal1"]
    # it was fenced meanwhile
    cluster.unclean = set()
    assert run_automatic.confirm("m", "metal1") == [] and cluster.confirmed == ["metal1"]


def test_a_record_of_another_kind_is_kept(cluster: Cluster) -> None:
    io_owner.guard(Record("lab", "m", UUID, "m", epoch=3), permitted=True)
    run_automatic.begin(JOB)
    record = io_owner.known(UUID)
    assert record is not None and (record.epoch, record.start) == (3, "cluster")
    assert io_owner.release(UUID) and not io_owner.is_clustered(UUID) and not io_owner.release(UUID)
