# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs that another server has: neither made, started, changed nor removed on this one, over libvirt's test driver."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import RECORDS_PATH, DefineResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.io_owner import HOME
from tests.support.driver_host import driver_host
from tests.support.records import away, use_folder

URI = "test:///default"
AWAY, HERE = {"id": "away", "cpu": 1, "memory_mb": 32}, {"id": "here", "cpu": 1, "memory_mb": 32}


class Host:
    """A host that has notes about VMs."""

    def __init__(self, host: DomainHost, notes: pathlib.Path) -> None:
        self.host = host
        self.notes = notes

    def run(self, vms: t.Sequence[t.Mapping[str, t.Any]] = (AWAY, HERE), check: bool = False, uri: str = URI, **options: t.Any) -> DefineResult:
        """One call."""
        request = DefineRequest(cluster="lab", vms=list(vms), uri=uri, records_path=str(self.notes), **options)
        return define_vms(request, check_mode=check)

    def note(self, state: str, uuid: str = vm_uuid("lab", "away"), name: str = "away") -> None:
        """As vm_move writes it."""
        io_owner.write(away(state, "metal2", name, uuid))

    def states(self) -> dict[str, str]:
        """What libvirt says."""
        return {record.name: record.state for record in self.host.domains() if record.name != "test"}


@pytest.fixture(name="host")
def fixture_host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Host]:
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    with driver_host() as connection:
        use_folder(tmp_path, monkeypatch)
        yield Host(connection, tmp_path / "vms")


def test_the_notes_are_looked_for_where_they_are_written() -> None:
    assert pathlib.Path(RECORDS_PATH) == HOME


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("wanted", ["running", "present"])
@pytest.mark.parametrize(
    ("note", "state", "says"),
    [
        ("moved", "moved", "was moved to metal2"),
        ("confirmed", "moved", "was moved to metal2"),
        ("moving", "moving", "is being moved to metal2"),
        ("arriving", "arriving", "is being moved to this host"),
    ],
)
def test_moved_vm_is_not_created_again(host: Host, note: str, state: str, says: str, wanted: str, check: bool) -> None:
    host.note(note)
    result = host.run(state=wanted, check=check)
    away, here = result.vms
    assert (away.state, away.moved_to, away.actions, away.changed, away.error) == (state, "metal2", [], False, None)
    assert (here.moved_to, here.changed) == (None, True)
    assert [warning for warning in result.warnings if warning.startswith(f"VM away: {says}")]
    assert "away" not in host.states()
    assert not any("away" in entry["before_header"] for entry in result.diff)


def test_its_old_copy_is_neither_started_nor_changed_nor_missed_in_the_list(host: Host) -> None:
    host.run()
    host.host.connection.lookupByName("away").destroy()
    host.note("moved")
    away, here = host.run([dict(AWAY, memory_mb=64), HERE]).vms
    assert (away.state, away.changed, away.changes, here.changed) == ("moved", False, [], False)
    assert host.states() == {"away": "shutdown", "here": "running"}
    assert host.run([HERE]).unlisted == []
    # and without the note it is one as any other
    io_owner.forget(vm_uuid("lab", "away"))
    assert host.run([HERE]).unlisted == ["away"]
    assert host.run().vms[0].actions == ["start"]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("options", [{"state": "absent"}, {"state": "absent", "remove_disks": True}, {"state": "shutdown"}, {"state": "rolled_back"}], ids=str)
def test_what_only_its_own_server_can_do_is_refused(host: Host, options: dict[str, t.Any], check: bool) -> None:
    host.run()
    host.note("moving")
    away = host.run([AWAY], check=check, **options).vms[0]
    assert away.error is not None and "metal2" in away.error and "vm_move" in away.error
    assert (away.changed, away.actions) == (False, [])
    assert host.states() == {"away": "running", "here": "running"}


def test_one_that_was_taken_over_is_known_by_its_own_uuid_and_by_its_id(host: Host) -> None:
    host.note("confirmed", uuid="6a7cfa1d-1111-4222-8333-123456789abc")
    assert [vm.state for vm in host.run().vms] == ["moved", "running"]
    io_owner.forget("6a7cfa1d-1111-4222-8333-123456789abc")
    # a note that cannot be read forbids as well
    (host.notes / f"{vm_uuid('lab', 'away')}.json").write_text("{", "utf-8")
    away = host.run().vms[0]
    assert (away.state, away.moved_to) == ("moved", "another host")


def test_moved_vm_in_check_mode_without_libvirt(host: Host) -> None:
    host.note("moved")
    vms = [dict(vm, hypervisor="qemu") for vm in (AWAY, HERE)]
    result = host.run(vms, check=True, uri="qemu:///system?socket=/nonexistent")
    assert [(vm.state, vm.changed) for vm in result.vms] == [("moved", False), ("running", True)]
    refused = host.run(vms, check=True, uri="qemu:///system?socket=/nonexistent", state="absent")
    assert refused.vms[0].error is not None and refused.vms[1].error is None


def test_notes_that_cannot_be_looked_for_stop_a_run(host: Host) -> None:
    host.notes.write_text("", "utf-8")
    with pytest.raises(BackendError, match="cannot read which VMs other hosts have"):
        host.run()


def test_a_host_of_libvirt_elsewhere_has_notes_of_its_own(host: Host) -> None:
    host.note("moved")
    with pytest.raises(BackendError, match="cannot connect"):
        host.run([dict(AWAY, hypervisor="qemu")], uri="qemu+tcp://127.0.0.1:1/system")


def test_info_distinguishes_copies(host: Host) -> None:
    host.run()
    host.note("moved")
    found = read_vms(InfoRequest(uri=URI, records_path=str(host.notes)))
    assert {vm["name"]: vm["moved"] for vm in found} == {"away": "metal2", "here": None}
    # it runs here until it is handed over
    host.note("moving")
    assert {vm["moved"] for vm in read_vms(InfoRequest(uri=URI, records_path=str(host.notes)))} == {None}


def test_the_record_of_a_removed_vm_is_forgotten_with_its_disks(host: Host) -> None:
    """One that is created again begins with the first epoch; disks that are kept are those of the epoch in the record, and can return to its former host."""
    uuid = vm_uuid("lab", "away")
    owner = away("moved", "metal2", "away", uuid)._replace(role="owner", epoch=2, operation=None)
    host.run()
    io_owner.write(owner)
    assert host.run([AWAY], state="absent").vms[0].changed and io_owner.known(uuid) == owner
    assert host.run([AWAY]).vms[0].changed and io_owner.known(uuid) == owner
    options: dict[str, t.Any] = {"state": "absent", "remove_disks": True, "pool": "default-pool"}
    assert host.run([AWAY], check=True, **options).vms[0].changed and io_owner.known(uuid) == owner
    assert host.run([AWAY], **options).vms[0].changed and io_owner.known(uuid) is None


def test_the_record_is_kept_with_a_disk_that_is_kept(host: Host) -> None:
    uuid = vm_uuid("lab", "away")
    host.run([dict(AWAY, disks=[{"size": "1 MiB", "protected": True}])], pool="default-pool")
    io_owner.write(away("moved", "metal2", "away", uuid)._replace(role="owner", operation=None))
    removed = host.run([AWAY], state="absent", remove_disks=True, pool="default-pool").vms[0]
    assert removed.state == "absent" and removed.error is None and io_owner.known(uuid) is not None
