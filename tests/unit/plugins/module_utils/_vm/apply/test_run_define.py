# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case over libvirt's test driver: one call for many VMs, twice, in check mode, and with failures."""

from __future__ import annotations

import errno
import json
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError, TemplateError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac, vm_uuid
from tests.support.driver_host import driver_host

VMS: list[dict[str, t.Any]] = [
    {"id": 0, "cpu": 1, "memory_mb": 32, "nics": [{"network": "default"}], "disks": [{"size": "1 MiB"}]},
    {"id": "b", "cpu": 1, "memory_mb": 32},
    {"id": "c", "cpu": 1, "memory_mb": 32},
]
NEW = ["define", "autostart_on", "start"]
BREAKS_FOR_0 = """<domain type='test'><name>{{ name }}</name><memory>32768</memory><vcpu>1</vcpu><os><type>hvm</type></os>
<title>{{ 1 / (1 if id != '0' else 0) }}</title></domain>"""


class Farm:
    """A host that outlives the calls, as a real one does."""

    def __init__(self, host: DomainHost, folder: pathlib.Path) -> None:
        self.host = host
        folder.mkdir()
        host.connection.storagePoolCreateXML(f"<pool type='dir'><name>p</name><target><path>{folder}</path></target></pool>", 0)
        self.folder = folder

    def run(self, vms: t.Any = None, check: bool = False, **options: t.Any) -> DefineResult:
        """One call."""
        asked = dict({"cluster": "lab", "vms": VMS if vms is None else vms, "uri": "test:///default", "pool": "p"}, **options)
        return define_vms(DefineRequest(**asked), check_mode=check)

    def state(self, name: str) -> str:
        """What libvirt says."""
        return next((record.state for record in self.host.domains() if record.name == name), "absent")


@pytest.fixture(name="farm")
def fixture_farm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Farm]:
    """An empty host with a pool."""
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    with driver_host() as host:
        yield Farm(host, tmp_path / "pool")


def actions(result: DefineResult) -> dict[str, list[str]]:
    """Name → what was done."""
    return {vm.name: vm.actions for vm in result.vms}


def test_many_at_once_then_nothing_to_do(farm: Farm) -> None:
    first = farm.run()
    assert actions(first) == {"0": ["define", "create_volume p/0-disk0.img", *NEW[1:]], "b": NEW, "c": NEW}
    assert [(vm.state, vm.changed, vm.error) for vm in first.vms] == [("running", True, None)] * 3
    assert (first.vms[0].uuid, first.vms[0].macs) == (vm_uuid("lab", 0), [nic_mac("lab", 0, 0)])
    second = farm.run()
    assert actions(second) == {"0": [], "b": [], "c": []}
    assert not second.as_result()["changed"]
    assert not second.diff


def test_check_mode_says_what_the_real_run_does_and_does_nothing(farm: Farm) -> None:
    foreseen = farm.run(check=True)
    assert farm.state("b") == "absent"
    assert list(farm.folder.iterdir()) == []
    done = farm.run()
    assert actions(foreseen) == actions(done)
    assert foreseen.diff == done.diff
    assert [vm.state for vm in foreseen.vms] == [vm.state for vm in done.vms]


@pytest.mark.parametrize("what", ["_vm.storage.io_pool_mounts.PoolMounts.remember", "_vm.storage.io_volume_files.created_atomically"])
def test_an_error_of_the_operating_system_is_that_of_one_vm(farm: Farm, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    def full(*unused: t.Any) -> t.NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", "/var/lib/x")

    monkeypatch.setattr(f"ansible_collections.reduced.footprint.plugins.module_utils.{what}", full)
    result = farm.run()
    assert (result.vms[0].error or "").startswith("/var/lib/x: No space left on device. Check the space"), result.vms[0].error
    assert (actions(result)["b"], actions(result)["c"]) == (NEW, NEW)
    monkeypatch.undo()
    monkeypatch.setattr(io_lock, "lock_folder", lambda: farm.folder.parent / "locks")
    assert farm.run().vms[0].error is None and farm.state("0") == "running"


def test_invalid_uri_is_reported_by_path() -> None:
    with pytest.raises(InputError) as raised:
        DefineRequest("lab", [], uri="qemu+ssh://[::1/system")
    assert raised.value.path == "uri" and raised.value.hint


def test_check_mode_of_a_host_without_libvirt_says_what_the_first_run_does(farm: Farm, tmp_path: pathlib.Path) -> None:
    def refused(uri: str) -> DomainHost:
        raise BackendError(f"cannot connect to {uri}.")

    vms = [{**VMS[1], "disks": [{"size": "1 MiB"}], "user_data": "#cloud-config\n"}]
    request = DefineRequest("lab", [{**vms[0], "hypervisor": "qemu"}], pool="p", facts_path=str(tmp_path / "facts"), records_path=str(tmp_path / "vms"))
    foreseen = define_vms(request, check_mode=True, connect=refused)
    assert any("is not prepared yet" in warning for warning in foreseen.warnings)
    assert actions(foreseen) == actions(farm.run(vms))


def test_a_creation_that_was_killed_before_its_seed_is_completed_with_the_host_key(farm: Farm) -> None:
    vms = [{**VMS[1], "disks": [{"size": "1 MiB"}], "user_data": "#cloud-config\n"}]
    keys = {"b": io_certificates.make_ssh_key()}
    made = farm.run(vms, state="present", host_keys=keys).vms[0]
    assert made.host_key
    # as after a kill: the disk is there, the seed is not, and the metadata lists the disk as pending
    (farm.folder / "b-seed.iso").unlink()
    (record,) = [record for record in farm.host.domains() if record.name == "b"]
    document = xml_domain.parse(record.config_xml)
    owned = xml_metadata.read(document)._replace(pending_disks=(str(farm.folder / "b-disk0.img"),))
    xml_metadata.attach(document, owned)
    farm.host.define(xml_domain.text_of(document))
    again = farm.run(vms, host_keys=keys).vms[0]
    assert (again.error, again.host_key) == (None, made.host_key)
    assert (again.actions[0], again.state) == ("write_seed p/b-seed.iso", "running")


def test_no_details_are_a_no_op(farm: Farm) -> None:
    assert farm.run([]).as_result() == {"changed": False, "vms": [], "unlisted": [], "diff": []}


def test_an_edit_of_a_running_vm_waits_for_its_restart(farm: Farm) -> None:
    farm.run()
    edited = [dict(VMS[1], memory_mb=64)]
    result = farm.run(edited)
    assert actions(result) == {"b": ["redefine"]}
    assert result.vms[0].restart_required
    assert any("until it is restarted" in warning for warning in result.warnings)
    assert "-  <memory" not in result.diff[0]["before"]
    assert '<memory unit="MiB">32</memory>' in result.diff[0]["before"]
    assert '<memory unit="MiB">64</memory>' in result.diff[0]["after"]
    again = farm.run(edited)
    assert (actions(again), again.vms[0].restart_required) == ({"b": []}, True)
    cycled = farm.run(edited, allow_power_cycling=True, shutdown_timeout=5)
    assert (actions(cycled), cycled.vms[0].restart_required) == ({"b": ["power_cycle"]}, False)
    assert ("restart: due" in cycled.diff[0]["before"], "restart: done" in cycled.diff[0]["after"]) == (True, True)
    assert farm.run(edited).vms[0].restart_required is False


def test_an_entry_that_left_the_list_runs_on_and_is_named(farm: Farm) -> None:
    farm.run()
    result = farm.run(VMS[:1])
    assert result.unlisted == ["b", "c"]
    assert any("b, c" in warning for warning in result.warnings)
    assert farm.state("b") == "running"
    assert not result.as_result()["changed"]


def test_vms_of_a_migration_are_never_missed(farm: Farm) -> None:
    farm.run(VMS[1:2], origin="master_migrate", state="present", autostart=False)
    assert farm.state("b") == "shutdown"
    assert farm.run(VMS[:1]).unlisted == []


def test_another_cluster_is_none_of_ours(farm: Farm) -> None:
    farm.run(VMS[1:2], cluster="other")
    result = farm.run(VMS[2:])
    assert result.unlisted == []


def test_a_stopped_vm_is_started_again(farm: Farm) -> None:
    farm.run()
    farm.host.connection.lookupByName("b").destroy()
    assert actions(farm.run())["b"] == ["start"]


def test_states(farm: Farm) -> None:
    farm.run(state="present", autostart=False)
    assert farm.state("b") == "shutdown"
    farm.run()
    assert actions(farm.run(state="shutdown", shutdown_timeout=5))["b"] == ["shutdown"]
    assert not farm.run(state="shutdown").as_result()["changed"]
    gone = farm.run(state="absent")
    assert [(vm.state, vm.actions) for vm in gone.vms] == [("absent", ["undefine"])] * 3
    assert (farm.folder / "0-disk0.img").exists()
    assert not farm.run(state="absent").as_result()["changed"]


def test_a_protected_vm_stays_and_the_others_go(farm: Farm) -> None:
    farm.run([dict(VMS[1], protected=True), VMS[2]])
    result = farm.run(VMS[1:], state="absent")
    assert result.failed and "is protected" in str(result.vms[0].error)
    assert (result.vms[0].state, result.vms[1].state) == ("running", "absent")
    returned = result.as_result()
    assert returned["msg"] == returned["error"]["message"] and returned["msg"].startswith("1 of 2 VMs failed, the others are done. b: is protected")
    lifted = farm.run(VMS[1:2])
    assert (actions(lifted), "protected: no" in lifted.diff[0]["after"]) == ({"b": ["update_metadata"]}, True)
    assert not farm.run(VMS[1:2], state="absent").failed


def test_a_foreign_domain_of_the_same_name_is_refused_untouched(farm: Farm) -> None:
    result = farm.run([{"id": "test", "cpu": 1, "memory_mb": 32}, VMS[2]])
    assert "already has a domain 'test'" in str(result.vms[0].error)
    assert (result.vms[0].changed, result.vms[1].state) == (False, "running")


def test_failed_start_is_reported_and_repeated(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    real = DomainHost.start

    def fails(self: DomainHost, uuid: str) -> None:
        if uuid == vm_uuid("lab", "b"):
            raise BackendError("no memory left.")
        real(self, uuid)

    monkeypatch.setattr(DomainHost, "start", fails)
    result = farm.run()
    assert [(vm.state, vm.error) for vm in result.vms] == [("running", None), ("shutdown", "no memory left."), ("running", None)]
    assert result.vms[1].actions == ["define", "autostart_on"]
    monkeypatch.undo()
    monkeypatch.setattr(io_lock, "lock_folder", lambda: farm.folder.parent / "locks")
    assert actions(farm.run()) == {"0": [], "b": ["start"], "c": []}


def test_a_document_libvirt_refuses_leaves_the_others_alone(farm: Farm) -> None:
    template = "<domain type='test'><name>{id}</name><memory>{memory_mb}</memory><vcpu>{wrong}</vcpu><os><type>hvm</type></os></domain>"
    result = farm.run([dict(VMS[1], wrong="many"), dict(VMS[2], wrong=1)], template=template)
    assert "libvirt refuses the document: " in str(result.vms[0].error)
    assert [vm.state for vm in result.vms] == ["absent", "running"]


def test_the_specifications_template_says_what_it_filled_in(farm: Farm) -> None:
    template = "<domain type='test'>\n<name>{id}</name>\n<memory unit='GiB'>{ram}</memory>\n<vcpu placement='static'>{cpu}</vcpu>\n</domain>"
    result = farm.run([{"id": 0, "rack": "r1", "disks": [{"size": 1}]}], template=template)
    assert (result.vms[0].unused_attributes, result.vms[0].missing_variables) == (["rack", "disks"], ["ram", "cpu"])
    warnings = {"VM 0: the memory was empty and is set to 2048 MiB", "VM 0: rack: not used by the template, and without any other meaning"}
    assert warnings <= set(result.warnings) and not list(farm.folder.iterdir())


REFUSED: list[tuple[dict[str, t.Any], type[Exception], str]] = [
    ({"vms": [{"id": 1, "ram": -1}]}, InputError, r"^vms\[0\]\.ram: -1 is negative"),
    ({"state": "paused"}, InputError, "^state: 'paused' is not a valid state"),
    ({"template": "my-template"}, InputError, "^template: 'my-template' is neither"),
    ({"node_roles": ["compute"]}, RefusedError, r"^vms: this host has VM details but not the role virt \(its roles: compute\)"),
    ({"template": "<domain>\n{{ x( }}</domain>"}, TemplateError, "^template line 2: "),
    ({"template": "<domain>\n{{ 1/0 }}</domain>"}, TemplateError, "^VM '0', template line 2: division by zero"),
    ({"template": "<domain type='test'>\n<name>{id}<name>\n</domain>"}, TemplateError, "^VM '0', template line 3: the result is malformed XML"),
    ({"template": "{% for x in [1,2] %}\n<a>\n</a>\n{% endfor %}"}, TemplateError, "^VM '0', template line 2: .* Extra content"),
    ({"template": "{% for x in [1,2] %}\n<a>\n<b></a>\n{% endfor %}"}, TemplateError, "^VM '0', template line 3: .*b line 3 and a"),
    ({"template": "<network><name>{id}</name></network>"}, TemplateError, "^VM '0': the outermost element is <network>"),
    ({"vms": [dict(VMS[1], rack=1)], "strict": True}, InputError, r"^vms\[0\]: strict: the template does not use rack"),
    ({"vms": [{"id": 1}], "strict": True}, InputError, r"^vms\[0\]: strict: the template uses memory_mb, cpu"),
    ({"vms": [dict(VMS[1], disks=[{"size": "1 MiB", "cache": "a\0"}])]}, InputError, r"^vms\[0\]\..*U\+0000"),
    ({"vms": [dict(VMS[1], disks=[{"size": 1, "pool": "x"}])]}, InputError, r"^vms\[0\]\.disks\[0\]\.pool: the host has no"),
    ({"vms": [dict(VMS[1], disks=[{"image": "x"}])]}, InputError, r"^vms\[0\]\.disks\[0\]\.image: the base image"),
]


@pytest.mark.parametrize("options, kind, message", REFUSED, ids=[case[2] for case in REFUSED])
def test_bad_input_touches_nothing(farm: Farm, options: dict[str, t.Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as raised:
        farm.run(**options)
    assert getattr(raised.value, "hint")
    assert farm.state("b") == "absent"
    assert not [entry for entry in farm.folder.iterdir() if entry.name != "images"]


@pytest.mark.parametrize(
    "details, options, message",
    [
        ({}, {"pool": "nowhere"}, "pool: the host has no storage pool 'nowhere'"),
        ({"disks": [{"size": 1, "pool": "x"}]}, {}, "vms[0].disks[0].pool: the host has no storage pool 'x'"),
        ({"disks": [{"image": "x"}]}, {}, "vms[0].disks[0].image: the base image 'x'"),
        ({"disks": [{"size": "1 MiB", "cache": "a\0"}]}, {}, "U+0000"),
        ({}, {"template": BREAKS_FOR_0}, "VM '0', template line 2: division by zero"),
    ],
)
def test_what_is_wrong_with_one_vm_leaves_the_others_alone(farm: Farm, details: dict[str, t.Any], options: dict[str, t.Any], message: str) -> None:
    vms = [dict(VMS[0], **details), *VMS[1:]]
    for check in (True, False):
        result = farm.run(vms, check=check, **options)
        assert message in (result.vms[0].error or "") and result.failed
        assert (result.vms[0].actions, result.vms[0].changed, result.vms[0].hypervisor) == ([], False, "test")
        assert [(vm.error, vm.actions) for vm in result.vms[1:]] == [(None, NEW)] * 2
        assert "1 of 3 VMs failed, the others are done. 0: " in result.as_result()["msg"]
    assert [farm.state(name) for name in "0bc"] == ["absent", "running", "running"]
    assert not [entry for entry in farm.folder.iterdir() if entry.name != "images"]


def test_an_unusable_hypervisor_is_the_error_of_its_vm(tmp_path: pathlib.Path) -> None:
    facts = tmp_path / "facts"
    facts.write_text(json.dumps({"hypervisors": {"kvm": {"usable": False, "reason": "it hung"}}}))
    asked: dict[str, t.Any] = {"cluster": "lab", "uri": "qemu:///system?socket=/nonexistent", "facts_path": str(facts)}
    request = DefineRequest(vms=[{"id": "a", "hypervisor": "kvm"}, {"id": "b", "hypervisor": "qemu"}], **asked)
    result = define_vms(request, check_mode=True)
    assert "vms[0].hypervisor: kvm is not usable on this host: it hung." in (result.vms[0].error or "")
    assert (result.vms[1].error, result.vms[1].actions) == (None, NEW)


def test_check_mode_on_a_bare_host_foresees_new_vms() -> None:
    request = DefineRequest(cluster="lab", vms=VMS, uri="qemu:///system?socket=/nonexistent")
    result = define_vms(request, check_mode=True)
    assert actions(result) == {"0": ["define", "create_volume default/0-disk0.img", *NEW[1:]], "b": NEW, "c": NEW}
    assert any("not prepared yet" in warning for warning in result.warnings)
    with pytest.raises(BackendError, match="cannot connect"):
        define_vms(request, check_mode=False)


def test_check_mode_on_a_bare_host_warns_of_containers() -> None:
    request = DefineRequest(cluster="lab", vms=[{"id": "box", "hypervisor": "lxc"}], uri="lxc:///system?socket=/nonexistent")
    assert [warning for warning in define_vms(request, check_mode=True).warnings if warning.startswith("box: containers share the kernel")]


def test_check_mode_on_a_bare_host_warns_of_a_proof_that_is_missing(tmp_path: pathlib.Path) -> None:
    asked: dict[str, t.Any] = {"uri": "qemu:///system?socket=/nonexistent", "facts_path": str(tmp_path / "none")}
    result = define_vms(DefineRequest(cluster="lab", vms=[{"id": "a", "hypervisor": "kvm"}], **asked), check_mode=True)
    assert result.vms[0].error is None
    assert [warning for warning in result.warnings if warning.startswith("a: kvm is not proven usable here yet")]


@pytest.mark.parametrize(
    ("key", "value"),
    [("parallel", value) for value in (0, -1)]
    + [(key, value) for key in ("shutdown_timeout", "live_timeout", "lock_timeout") for value in (-1, -0.001, float("inf"), float("nan"))],
)
def test_a_number_that_means_nothing_is_refused(key: str, value: float) -> None:
    with pytest.raises(InputError) as caught:
        DefineRequest(cluster="lab", vms=[], **{key: value})
    assert caught.value.path == key and caught.value.hint


@pytest.mark.parametrize(("key", "value"), [("parallel", 1), ("shutdown_timeout", 0), ("live_timeout", 0.5), ("lock_timeout", 0)])
def test_the_least_of_a_number_is_taken(key: str, value: float) -> None:
    assert getattr(DefineRequest(cluster="lab", vms=[], **{key: value}), key) == value


def test_only_some_of_the_list(farm: Farm) -> None:
    result = farm.run(only=["c", "b"])
    assert actions(result) == {"b": NEW, "c": NEW}
    assert farm.state("0") == "absent"
    # the others are on the list, so nothing is said about them
    again = farm.run(only=["b"])
    assert (actions(again), again.unlisted) == ({"b": []}, [])
    assert actions(farm.run(only=["b"], state="absent")) == {"b": ["shutdown", "undefine"]}
    assert farm.state("c") == "running"
    with pytest.raises(InputError, match="only: unknown VM id x"):
        farm.run(only=["x"])
    with pytest.raises(InputError, match=r"vms\[1\]"):
        farm.run([VMS[1], {"id": "z", "ram": -1}], only=["b"])


def test_addresses_are_read_once_the_guests_run(farm: Farm) -> None:
    result = farm.run(wait="address", wait_timeout=1)
    # the test driver invents a lease for each NIC of a network, and an agent that knows no interface
    [found] = result.vms[0].addresses or []
    assert (found["mac"], found["source"], found["address"].startswith("192.168.122.")) == (result.vms[0].macs[0], "lease", True)
    assert [(vm.addresses, vm.state) for vm in result.vms[1:]] == [([], "running")] * 2
    assert [(vm.error or "").split(". ")[0] for vm in result.vms] == ["", *["no address known after 1 s"] * 2]
    # check mode does not wait; without the option nothing is read
    assert [bool(vm.addresses or vm.error) for vm in farm.run(wait="address", check=True).vms] == [True, False, False]
    assert [vm.addresses for vm in farm.run().vms] == [None] * 3


def test_ssh_is_waited_for_at_a_declared_address(farm: Farm) -> None:
    """Nothing answers at the address of this machine that has no server."""
    [vm] = farm.run([dict(VMS[1], address="127.0.0.2")], wait="ssh", wait_timeout=1).vms
    assert (vm.error or "").startswith("no answer with ssh at 127.0.0.2 after 1 s.")
    assert (vm.state, vm.addresses) == ("running", [{"address": "127.0.0.2", "mac": "", "source": "details"}])


@pytest.mark.parametrize("state", ["present", "shutdown", "absent", "rolled_back"])
def test_only_running_guests_are_waited_for(farm: Farm, state: str) -> None:
    with pytest.raises(InputError, match="^wait: is not supported with state: "):
        farm.run(wait="ssh", state=state)
