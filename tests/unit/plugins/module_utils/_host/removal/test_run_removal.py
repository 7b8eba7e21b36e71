# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.run_removal import RemovalRequest, remove_node
from tests.support.node_host import LXC, QEMU, Host, record
from tests.support.records import away

QUORUMS = {"controller": [{"name": f"c{n}", "server": f"metal{n}"} for n in (1, 2, 3)]}
REQUEST = RemovalRequest(name="metal1", cluster="lab", roles=["virt"], confirm="metal1", remove_vms=True, quorums=QUORUMS)


@pytest.fixture
def host():
    found = Host()
    found.records[QEMU] = [
        record("c1", disk="/pool/c1.img", network="br-admin"),
        record("kept", protected=True, disk="/pool/kept.img"),
        record("theirs", "other"),
        record("outside", None),
    ]
    found.records[LXC] = [record("box")]
    found.add_pool("default", "/pool", volumes=2)
    found.add_pool("fast", "/dev/vg0", kind="logical")
    found.add_pool("old", "/old", ours=False)
    found.add_network("br-admin")
    found.add_network("default", ours=False)
    return found


def run(host, check_mode=False, **changes):
    return remove_node(REQUEST._replace(**changes), check_mode=check_mode, backend=host)


ALL = ["remove box", "remove c1", "network br-admin", "pool fast", "forget"]


def test_what_goes_and_what_stays(host):
    result = run(host)
    assert result.refusal is None
    assert host.done == ALL
    assert [one.name for one in host.records[QEMU]] == ["kept", "theirs", "outside"] and host.records[LXC] == []
    # a protected VM has its disk in the pool, and the old one was there before
    assert sorted(pool.name for pool in host.pool_list.values()) == ["default", "old"]
    assert "the pool default is kept: it is needed by kept" in result.warnings
    output = result.as_dict()
    assert [(vm["name"], vm["fate"]) for vm in output["removal"]["vms"]] == [
        ("box", "removed"),
        ("c1", "removed"),
        ("kept", "protected"),
        ("outside", "foreign"),
        ("theirs", "foreign"),
    ]
    assert output["actions"][-2:] == ["remove pool fast", "remove record"]


def test_again_changes_nothing_and_asks_for_no_confirmation(host):
    run(host)
    host.done.clear()
    again = run(host, confirm=None)
    assert again.as_dict()["changed"] is False and host.done == [] and again.refusal is None


def test_check_mode_says_the_same_and_does_nothing(host):
    foreseen = run(host, check_mode=True)
    assert host.done == []
    real = run(host)
    assert (foreseen.actions, foreseen.diff, foreseen.warnings) == (real.actions, real.diff, real.warnings)


@pytest.mark.parametrize("check_mode", [True, False])
def test_refused_without_confirmation(host, check_mode):
    result = run(host, check_mode, confirm=None)
    output = result.as_dict()
    assert host.done == [] and result.warnings == [] and output["error"]["path"] == "confirm" and len(output["removal"]["vms"]) == 5
    for words in ("c1: cluster lab", "kept: cluster lab; running; protected", "theirs: cluster other", "outside: unmanaged", "controller loses c1"):
        assert words in output["msg"]


def test_without_remove_vms_they_run_on(host):
    result = run(host, remove_vms=False)
    assert host.done == ["autostart uuid-box False", "autostart uuid-c1 False", "pool fast", "forget"]
    assert "still running, because remove_vms is not set: box, c1; their autostart is disabled" in result.warnings
    assert any("the network br-admin is kept: it is needed by c1" in warning for warning in result.warnings)


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_machine_of_another_node_is_not_removed(host, check_mode):
    # the addresses of two servers were exchanged
    with pytest.raises(RefusedError, match="the machine that answers as metal2 is recorded as the node metal1. Nothing was changed.") as caught:
        run(host, check_mode, name="metal2", confirm="metal2")
    assert caught.value.path == "name" and host.done == []
    # another cluster may have another name for it
    host.text = host.text.replace('"lab"', '"other"')
    assert run(host, name="metal2", confirm="metal2", break_quorum=True).refusal is None


@pytest.mark.parametrize("steps", range(len(ALL)))
def test_cut_off_anywhere_the_next_run_completes_it(host, steps):
    host.dies_after = steps
    with pytest.raises(KeyboardInterrupt):
        run(host)
    assert host.text  # the record is removed last, so that the next run finds it
    host.dies_after = None
    assert run(host).refusal is None
    assert host.text == "" and [one.name for one in host.records[QEMU]] == ["kept", "theirs", "outside"]
    assert run(host).actions == []


def test_disks_go_only_when_asked(host):
    with pytest.raises(InputError, match="requires remove_vms"):
        run(host, remove_vms=False, erase="disks")
    run(host, erase="disks")
    assert "remove c1 with disks" in host.done


def test_a_server_of_two_clusters_remains_the_node_of_the_other(host):
    result = run(host, keep_shared=True)
    assert host.done == ["remove box", "remove c1"] and host.text and len(host.pool_list) == 3
    assert "the server remains a virt host with its pools and networks: it is used by other" in result.warnings
    assert run(host, keep_shared=True, confirm=None).actions == []


def test_a_server_recorded_for_another_cluster_is_kept_without_its_vms(host):
    host.records[QEMU] = [one for one in host.records[QEMU] if one.name != "theirs"]
    host.text = '{"attributes": {"name": "metal1", "cluster": "other", "roles": ["virt"]}}'
    run(host, keep_shared=True)
    assert host.done == ["remove box", "remove c1"] and host.text


def test_a_server_of_one_cluster_is_not_shared(host):
    host.records[QEMU] = [one for one in host.records[QEMU] if one.name != "theirs"]
    run(host, keep_shared=True)
    assert host.done == ALL


def test_a_quorum_is_kept(host):
    dead = {"controller": [dict(member, alive=member["name"] != "c2") for member in QUORUMS["controller"]]}
    refused = run(host, quorums=dead)
    assert refused.refusal.path == "break_quorum" and "1 of 3 members remain, 2 are required" in refused.refusal.message and host.done == []
    assert run(host, quorums=dead, break_quorum=True).refusal is None


def test_the_roles_of_a_vm_come_from_the_record_or_the_details(host):
    assert "its other members are unknown" in run(host, quorums=None).refusal.message
    host.text = ""
    assert run(host, check_mode=True, quorums=None).refusal is None
    details = [{"id": "c1", "roles": ["controller"], "nics": [{"bridge": "br-admin"}]}]
    assert "other members are unknown" in run(host, quorums=None, vms=details).refusal.message


def test_details_protect_too(host):
    run(host, vms=[{"id": "c1", "protected": True}])
    assert "remove c1" not in host.done


@pytest.mark.parametrize(
    "spoil, says",
    [
        (lambda host: host.journals.update(master="running"), "master \\(running\\)"),
        (lambda host: host.notes.update(u=away("arriving", "metal1", "m")), "the move of m \\(arriving\\)"),
        (lambda host: host.notes.update({"uuid-c1": away("moved", "metal3", uuid="uuid-c1")}), "old copy of an unconfirmed move: c1 \\(now on metal3\\)"),
        (lambda host: host.errors.update(c1="is protected."), "c1: is protected"),
    ],
)
def test_what_has_not_ended_is_refused(host, spoil, says):
    spoil(host)
    assert re.search(says, run(host).refusal.message) and host.done == []


def test_a_finished_migration_is_none(host):
    host.journals.update(master="done", older="retired")
    host.notes.update(u=away("confirmed", "metal2", "m"))
    assert run(host).refusal is None


def test_vm_that_cannot_be_removed_stops_the_removal(host):
    plain = host.define

    def stubborn(request, *, check_mode):
        host.errors = {} if check_mode else {"box": "still runs 120 s after the shutdown request."}
        return plain(request, check_mode=check_mode)

    host.define = stubborn
    with pytest.raises(BackendError, match="1 of 1 VMs could not be removed. box: still runs"):
        run(host)
    assert host.text and len(host.pool_list) == 3


def test_without_libvirt(host):
    host.answers = False
    with pytest.raises(BackendError, match="does not answer"):
        run(host)
    # a server that never was a virt node has none
    host.text = '{"attributes": {"name": "metal1", "cluster": "lab", "roles": ["compute"]}}'
    assert run(host).actions == ["remove record"] and host.text == ""
    assert run(host).actions == []


def test_a_damaged_record_goes(host):
    host.text = '{"attributes": ["what"]}'
    run(host)
    assert host.text == ""
