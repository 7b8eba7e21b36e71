# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CapacityError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import hidden_values
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import FoundNetwork
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeRequest, check_node, prepare_node
from tests.support.fake_node import GIB, FakeBackend

VM = {"id": 1, "cpu": 1, "ram": 1, "hypervisor": "qemu", "nics": [{"bridge": "br-admin"}], "disks": [{"size": 10}]}


@pytest.fixture
def backend():
    return FakeBackend()


REQUEST = NodeRequest(name="metal1", cluster="lab", roles=["virt"], vms=[VM], pool_path="/pool")
TAKEN = FoundNetwork("taken", "u", "nat", "virbr0", True, True)


def run(backend, check_mode=False, **changes):
    return types.SimpleNamespace(**prepare_node(REQUEST._replace(**changes), check_mode=check_mode, backend=backend))


def checked(backend, **changes):
    return check_node(REQUEST._replace(**changes), backend=backend)


def test_first_run_second_run(backend):
    first = vars(run(backend))
    assert first["changed"] and first["actions"] == ["define pool default", "record"]
    assert backend.pools == {"default": ["/pool", True, True]}
    # free memory, free space and the time of a proof move on; nothing of that is a change
    backend.free -= GIB
    second = vars(run(backend))
    assert not second["changed"] and second["actions"] == [] and second["diff"] == []


def test_check_mode_says_the_same_and_does_nothing(backend):
    foreseen = run(backend, check_mode=True)
    assert backend.text == "" and backend.pools == {}
    real = run(backend)
    assert foreseen.actions == real.actions
    assert [one["after_header"] for one in foreseen.diff] == [one["after_header"] for one in real.diff]


def test_the_record(backend):
    run(backend)
    recorded = json.loads(backend.text)
    assert recorded["attributes"]["vms"][0]["id"] == "1"
    assert recorded["hypervisors"]["qemu"]["usable"] is True
    assert recorded["capacity"]["memory_mib"] == 8192
    # free space is recorded separately, because it is not a change
    assert recorded["capacity"]["pools"] == {"default": {"path": "/pool", "type": "dir"}}
    assert recorded["measured"]["pools"]["default"]["available_bytes"] == 50 * GIB


def test_a_half_made_pool_is_completed(backend):
    backend.pools["default"] = ["/pool", False, False]
    assert run(backend).actions == ["start pool default", "record"]
    assert backend.pools["default"] == ["/pool", True, True]


@pytest.mark.parametrize(
    ("state", "changes", "error", "words", "path"),
    [
        ({"pools": {"default": ["/elsewhere", True, True]}}, {}, RefusedError, "at /elsewhere, not at /pool", "pool_path"),
        ({}, {"pool_path": None}, InputError, "no storage pool default", "pool"),
        ({}, {"pool_path": "pool"}, InputError, None, "pool_path"),
        ({}, {"vms": [dict(VM, ram=64)]}, CapacityError, "missing 57 GiB", "vms"),
        # a pool that is not made yet counts by its file system
        ({"free": GIB}, {}, CapacityError, "pool default: requested 10 GiB, available 1 GiB", "vms"),
        ({"bridges_there": {"br-other"}}, {}, RefusedError, None, "vms[0].nics[0].bridge"),
        ({"usable": {"qemu": False}}, {"vms": [dict(VM, hypervisor="auto")]}, RefusedError, "kvm: hung.*qemu: hung", "vms[0].hypervisor"),
        ({}, {"pools": [{"name": "fast", "source": "vg9"}]}, FootprintError, None, "pools[0].source"),
        ({}, {"pools": [{"name": "nowhere"}]}, FootprintError, None, "pools[0].name"),
        ({}, {"networks": [{"bridge": "br-nowhere"}]}, FootprintError, None, "networks[0].bridge"),
        ({"networks": {"taken": TAKEN}}, {"networks": [{"bridge": "br-admin", "name": "taken"}]}, FootprintError, None, "networks[0].name"),
    ],
)
def test_what_is_refused_before_anything_is_done(backend, state, changes, error, words, path):
    for name, value in state.items():
        setattr(backend, name, {**getattr(backend, name), **value} if isinstance(value, dict) else value)
    before = dict(backend.pools)
    for check_mode in (True, False):
        with pytest.raises(error, match=words) as caught:
            run(backend, check_mode=check_mode, **changes)
        assert caught.value.path == path
    assert backend.text == "" and backend.pools == before


def test_an_existing_pool_is_left_as_it_is(backend):
    backend.pools["default"] = ["/any", True, False]
    assert run(backend, pool_path=None).actions == ["record"]


def test_virt_without_details_is_fine(backend):
    assert run(backend, vms=[]).actions == ["define pool default", "record"]


def test_a_server_without_virt_needs_no_libvirt(backend):
    backend.libvirt_answers = False
    result = run(backend, roles=["compute"], vms=[])
    assert result.actions == ["record"] and result.hypervisors == {} and backend.proved == []


def test_other_guests_count_and_our_own_do_not(backend):
    backend.others = (4000, 1)  # asked of both drivers
    with pytest.raises(CapacityError, match="not in the VM details"):
        run(backend)
    assert len(backend.known) == 1


def test_a_bridge_to_be_made_counts_in_check_mode_only(backend):
    backend.bridges_there = set()
    run(backend, check_mode=True, bridges=["br-admin"])
    with pytest.raises(RefusedError) as caught:
        run(backend, bridges=["br-admin"])
    assert caught.value.path == "bridges[0]"


@pytest.mark.parametrize("kind, fails", [("kvm", True), ("qemu", False), ("lxc", False), ("auto", False)])
def test_a_vm_needs_a_proven_hypervisor(backend, kind, fails):
    vm = dict(VM, hypervisor=kind, disks=[])
    if not fails:
        run(backend, vms=[vm])
        return
    for check_mode in (True, False):
        with pytest.raises(RefusedError, match="hung after 15 s") as caught:
            run(backend, check_mode=check_mode, vms=[vm])
        assert caught.value.path == "vms[0].hypervisor"


def test_what_a_vm_asks_for_is_proven_though_not_listed(backend):
    run(backend, hypervisors=[], vms=[dict(VM, hypervisor="lxc", disks=[])])
    assert backend.proved == ["lxc"]


def test_proofs_are_kept_and_made_again_on_demand(backend):
    run(backend)
    assert backend.proved == ["kvm", "lxc", "qemu"]
    result = run(backend)
    assert backend.proved == ["kvm", "lxc", "qemu"] and result.hypervisors["kvm"]["cached"]
    # the duration of a proof differs; the same outcome is not a change
    again = run(backend, reprove=True)
    assert len(backend.proved) == 6 and again.actions == [] and not again.hypervisors["kvm"]["cached"]
    backend.usable["kvm"] = True
    assert run(backend, reprove=True).actions == ["record"]


def test_a_container_that_did_not_run_is_asked_again(backend):
    backend.usable["lxc"] = False
    run(backend)
    assert run(backend).actions == []
    assert backend.proved.count("lxc") == 2


def test_an_unprepared_host(backend):
    backend.libvirt_answers = False
    backend.usable["qemu"] = False
    backend.bridges_there = set()
    result = run(backend, check_mode=True, bridges=["br-admin"])
    assert result.actions == ["define pool default", "record"] and len(result.warnings) == 1
    assert "libvirt does not answer" in result.warnings[0]
    assert result.hypervisors == {} and backend.proved == []
    with pytest.raises(BackendError):
        run(backend)


def test_damaged_record_is_replaced(backend):
    run(backend)
    backend.text = json.dumps({"hypervisors": ["what"]})
    assert run(backend).actions == ["record"]


def test_secrets_are_hidden(backend):
    vms = [dict(VM, password="sesame")]
    result = run(backend, vms=vms)
    assert "sesame" not in backend.text + str(result)
    assert hidden_values(vms) == hidden_values(json.dumps(vms)) == {"sesame"}
    assert hidden_values("{no json") == set()


def test_unusable_kvm_is_reported(backend):
    assert run(backend).warnings == []
    backend.kvm_device = True
    assert "/dev/kvm exists on metal1 but cannot run guests (hung after 15 s)" in run(backend).warnings[0]


def test_check_of_details_needs_no_libvirt_and_changes_nothing(backend):
    backend.libvirt_answers = False
    backend.bridges_there = set()
    found = checked(backend, bridges=["br-admin"])
    assert found["attributes"]["name"] == "metal1" and found["capacity"]["memory_mib"] == 8192
    assert backend.proved == [] and backend.text == ""


@pytest.mark.parametrize(
    "vm, error, path",
    [
        (dict(VM, ram=64), CapacityError, "vms"),
        (dict(VM, ram=-1), InputError, "vms[0].ram"),
        (dict(VM, roles=["compute"]), RefusedError, "vms[0].roles"),
        (dict(VM, nics=[{"bridge": "br-other"}]), RefusedError, "vms[0].nics[0].bridge"),
    ],
)
def test_check_of_details_refuses(backend, vm, error, path):
    with pytest.raises(error) as caught:
        checked(backend, vms=[vm])
    assert caught.value.path == path


def test_more_pools_and_a_network(backend):
    backend.groups["vg0"] = (200 * GIB, 150 * GIB)
    backend.pools["there"] = ["/there", True, False]
    wanted = {
        "pools": [{"name": "fast", "type": "logical", "source": "vg0"}, {"name": "there"}],
        "networks": [{"bridge": "br-admin"}],
    }
    foreseen = run(backend, check_mode=True, **wanted)
    assert backend.networks == {} and list(backend.pools) == ["there"]
    first = run(backend, **wanted)
    assert first.actions == foreseen.actions == ["define pool default", "define pool fast", "define network br-admin", "record"]
    assert [one["after_header"] for one in first.diff][:3] == ["pool default", "pool fast", "network br-admin"]
    assert backend.networks["br-admin"].bridge == "br-admin" and backend.pools["fast"] == ["/dev/vg0", True, True]
    assert first.capacity["pools"]["fast"] == {
        "path": "/dev/vg0",
        "type": "logical",
        "source": "vg0",
        "capacity_bytes": 200 * GIB,
        "allocation_bytes": 50 * GIB,
        "available_bytes": 150 * GIB,
        "promised_bytes": 0,
        "overcommit": 0.0,
    }
    assert run(backend, **wanted).actions == []


def test_a_pool_has_a_reserve_of_its_own(backend):
    backend.free = 15 * GIB
    run(backend, check_mode=True)
    with pytest.raises(CapacityError, match="pool default: requested 10 GiB, available 9 GiB .*6 GiB reserve"):
        run(backend, pool_path=None, pools=[{"name": "default", "path": "/pool", "reserve": 6}])


def test_measured_values_are_refreshed_without_a_change(backend):
    run(backend)
    backend.free -= GIB
    looked = backend.text
    assert run(backend, check_mode=True).actions == [] and backend.text == looked
    assert run(backend).actions == []
    assert json.loads(backend.text)["measured"]["pools"]["default"]["available_bytes"] == 49 * GIB
    backend.text = backend.text.replace('"measured"', '"meddled"')
    assert run(backend).actions == ["record"] and "meddled" not in backend.text


def test_check_of_details_covers_the_form_of_pools_and_networks(backend):
    backend.libvirt_answers = False
    checked(backend, networks=[{"bridge": "br-admin"}], pools=[{"name": "fast", "source": "vg0"}])
    for changes, path in (({"pools": [{"name": "a", "path": "b"}]}, "pools[0].path"), ({"networks": [{"bridge": "br-no"}]}, "networks[0].bridge")):
        with pytest.raises(FootprintError) as caught:
            checked(backend, **changes)
        assert caught.value.path == path
