# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The VMs of a host over libvirt's test driver: filters, returned values, and that nothing is changed."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, DriverMissing
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain, xml_metadata

URI = "test:///default"
NOTHING = {"drift": [], "pending": [], "kept": [], "restart_required": False}
DOCUMENT = """<domain type='test'><name>{name}</name><memory>65536</memory><vcpu>2</vcpu><os><type>hvm</type><boot dev='hd'/></os>
<devices><disk type='file' device='disk'><source file='{path}'/><target dev='vda'/></disk>
<disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk></devices></domain>"""


def document(name: str, origin: str | None, path: str = "/nowhere/disk0") -> str:
    """A domain as it is defined, ours when it has an origin."""
    root = xml_domain.parse(DOCUMENT.format(name=name, path=path))
    if origin:
        xml_metadata.attach(root, xml_metadata.Ownership("lab", name, name == "web", origin, xml_domain.canonical(root)))
    return xml_domain.text_of(root)


def edited(host: DomainHost, name: str, *edits: tuple[str, str, str]) -> None:
    """Change the definition outside the collection: path, attribute (or ``text``) and new value."""
    domain = host.connection.lookupByName(name)
    root = xml_domain.parse(domain.XMLDesc(2))
    for path, attribute, value in edits:
        element = root.find(path)
        if attribute == "text":
            element.text = value
        else:
            element.set(attribute, value)
    host.connection.defineXML(xml_domain.text_of(root))


def standing(name: str) -> dict[str, t.Any]:
    """What is said of it that has to do with drift."""
    vm = read_vms(InfoRequest(uri=URI, names=[name], drift=True, owner="all"))[0]
    return {key: vm[key] for key in NOTHING}


@pytest.fixture(name="host")
def fixture_host(tmp_path: pathlib.Path) -> t.Iterator[DomainHost]:
    """web runs, db is off, master is kept by a migration, and test is libvirt's own."""
    (tmp_path / "disk0").write_bytes(b"x" * 8192)
    with DomainHost(URI) as host:
        for name, origin in (("web", "vm_define"), ("db", "vm_define"), ("master", "master_migrate")):
            host.define(document(name, origin, str(tmp_path / "disk0")))
        host.connection.lookupByName("web").create()
        yield host
        for record in host.domains():
            if record.name == "test":
                continue
            domain = host.connection.lookupByUUIDString(record.uuid)
            if domain.isActive():
                domain.destroy()
            if record.persistent:
                host.undefine(record.uuid)


def names(**asked: t.Any) -> list[str]:
    """Names of what is found."""
    return [vm["name"] for vm in read_vms(InfoRequest(uri=URI, **asked))]


FILTERS: list[tuple[str, dict[str, t.Any], list[str]]] = [
    ("nothing asked", {}, ["db", "master", "web"]),
    ("all", {"owner": "all"}, ["db", "master", "test", "web"]),
    ("foreign", {"owner": "foreign"}, ["test"]),
    ("cluster", {"cluster": "lab", "owner": "all"}, ["db", "master", "web"]),
    ("another cluster", {"cluster": "other"}, []),
    ("origin", {"origins": ["master_migrate"], "owner": "all"}, ["master"]),
    ("ids", {"ids": ["db", "web"], "owner": "all"}, ["db", "web"]),
    ("names", {"names": ["db", "test"]}, ["db"]),
    ("names of all", {"names": ["db", "test"], "owner": "all"}, ["db", "test"]),
    ("states", {"states": ["running"]}, ["web"]),
    ("foreign with an id", {"ids": ["web"], "owner": "foreign"}, []),
]


@pytest.mark.parametrize("asked, found", [case[1:] for case in FILTERS], ids=[case[0] for case in FILTERS])
def test_filters(host: DomainHost, asked: dict[str, t.Any], found: list[str]) -> None:
    assert names(**asked) == found


def test_returned_values(host: DomainHost) -> None:
    web = read_vms(InfoRequest(uri=URI, names=["web"]))[0]
    found = {"id": "web", "cluster": "lab", "origin": "vm_define", "protected": True, "state": "running", "persistent": True, "cpu": 2, "memory_mib": 64}
    assert {key: web[key] for key in found} == found
    assert not {"xml", "live_xml", "volumes"} & set(web)
    foreign = read_vms(InfoRequest(uri=URI, owner="foreign"))[0]
    assert (foreign["id"], foreign["cluster"], foreign["origin"], foreign["restart_required"]) == (None, None, None, False)


def test_documents_on_request(host: DomainHost) -> None:
    db, web = read_vms(InfoRequest(uri=URI, names=["db", "web"], xml=True))
    assert "<name>db</name>" in db["xml"]
    assert db["live_xml"] is None
    assert "<name>web</name>" in web["live_xml"]


def test_snapshots_and_managed_saves_are_returned(host: DomainHost) -> None:
    domain = host.connection.lookupByName("web")
    snapshot = domain.snapshotCreateXML("<domainsnapshot><name>s</name></domainsnapshot>", 0)
    domain.managedSave(0)
    db, web = read_vms(InfoRequest(uri=URI, names=["db", "web"]))
    snapshot.delete(0)
    domain.managedSaveRemove(0)
    assert (db["has_snapshots"], db["has_managed_save"]) == (False, False)
    assert (web["has_snapshots"], web["has_managed_save"], web["state"]) == (True, True, "shutdown")


def test_a_transient_domain(host: DomainHost) -> None:
    host.connection.createXML(document("passing", "vm_define"), 0)
    passing = read_vms(InfoRequest(uri=URI, names=["passing"], xml=True, drift=True))[0]
    assert (passing["persistent"], passing["autostart"], passing["state"]) == (False, False, "running")
    assert passing["drift"] == passing["pending"] == []
    assert "<name>passing</name>" in passing["xml"]


@pytest.mark.parametrize("name", ["web", "db", "test"])
def test_no_drift_without_outside_changes(host: DomainHost, name: str) -> None:
    assert standing(name) == NOTHING


def test_outside_change_is_returned_with_its_class_and_not_corrected(host: DomainHost) -> None:
    for name in ("web", "db"):
        edited(host, name, ("memory", "text", "131072"), ("currentMemory", "text", "131072"))
        before = host.connection.lookupByName(name).XMLDesc(2)
        found = standing(name)
        memory = next(drift for drift in found["drift"] if drift["path"] == "memory")
        assert (memory["applied"], memory["config"]) == ("65536 KiB", "131072 KiB")
        assert memory["live"] == ("65536 KiB" if name == "web" else None)
        # what runs is still as applied, so putting the definition right needs no restart
        assert (found["pending"], found["restart_required"]) == ([], False)
        assert host.connection.lookupByName(name).XMLDesc(2) == before


def test_a_change_of_ours_that_waits_is_pending_and_no_drift(host: DomainHost) -> None:
    root = xml_domain.parse(host.connection.lookupByName("web").XMLDesc(2))
    owned = xml_metadata.read(root)
    root.find("memory").text = root.find("currentMemory").text = "131072"
    applied = xml_domain.parse(owned.applied)
    applied.find("memory").text = "131072"
    xml_metadata.attach(root, owned._replace(applied=xml_domain.canonical(applied), previous=owned.applied))
    host.connection.defineXML(xml_domain.text_of(root))
    found = standing("web")
    assert (found["drift"], found["pending"], found["restart_required"]) == ([], ["currentMemory", "memory"], True)
    # exact without the comparison being asked for, too
    web = read_vms(InfoRequest(uri=URI, names=["web"]))[0]
    assert (web["restart_required"], web["has_previous"]) == (True, True)


def test_what_a_bmc_emulator_set_is_kept_and_no_drift(host: DomainHost) -> None:
    domain = host.connection.lookupByName("db")
    root = xml_domain.parse(domain.XMLDesc(2))
    for boot in root.findall("os/boot"):
        boot.set("dev", "network")
    host.connection.defineXML(xml_domain.text_of(root))
    found = standing("db")
    assert found["drift"] == []
    assert any("boot" in path for path in found["kept"])


def test_volumes_on_request(host: DomainHost, tmp_path: pathlib.Path) -> None:
    host.connection.storagePoolCreateXML(f"<pool type='dir'><name>here</name><target><path>{tmp_path}</path></target></pool>", 0)
    try:
        found = read_vms(InfoRequest(uri=URI, names=["db"], volumes=True))[0]["volumes"]
    finally:
        host.connection.storagePoolLookupByName("here").destroy()
    # the test driver knows no sizes; the integration test asks QEMU
    assert found == [{"target": "vda", "path": str(tmp_path / "disk0"), "pool": "here", "name": "disk0", "capacity_bytes": None, "allocation_bytes": 8192}]


def test_a_driver_that_is_not_there_has_no_vms_and_none_at_all_is_an_error(host: DomainHost) -> None:
    def some(uri: str) -> DomainHost:
        if uri.startswith("lxc"):
            raise DriverMissing("no daemon")
        return DomainHost(URI)

    def none(uri: str) -> DomainHost:
        raise DriverMissing("no daemon")

    assert [vm["name"] for vm in read_vms(InfoRequest(), connect=some)] == ["db", "master", "web"]
    with pytest.raises(BackendError, match="no daemon"):
        read_vms(InfoRequest(), connect=none)


def test_the_vms_of_a_driver_that_does_not_answer_are_not_none(host: DomainHost) -> None:
    def restarting(uri: str) -> DomainHost:
        if uri.startswith("qemu"):
            raise BackendError("the connection to libvirtd was lost.")
        return DomainHost(URI)

    with pytest.raises(BackendError, match="was lost"):
        read_vms(InfoRequest(), connect=restarting)


def test_a_seed_that_the_guest_has_not_read_waits(host: DomainHost) -> None:
    web = host.connection.lookupByName("web")
    # as vm_define does it: in the running domain only
    host.set_metadata(web.UUIDString(), xml_metadata.SEED_NAMESPACE, "footprint-seed", "<changed/>", live=True)
    found = standing("web")
    assert (found["drift"], found["pending"], found["restart_required"]) == ([], ["seed"], True)
    assert read_vms(InfoRequest(uri=URI, names=["web"]))[0]["restart_required"]
    web.destroy()
    assert standing("web") == NOTHING


def test_addresses_are_returned_on_request(host: DomainHost) -> None:
    root = xml_domain.parse(host.connection.lookupByName("web").XMLDesc(2))
    nic = "<interface type='network'><mac address='52:54:00:00:00:0a'/><source network='default'/></interface>"
    root.find("devices").append(xml_domain.parse(nic))
    host.connection.lookupByName("web").destroy()
    host.connection.defineXML(xml_domain.text_of(root)).create()
    db, master, web = read_vms(InfoRequest(uri=URI, addresses=True))
    assert [(row["mac"], row["source"]) for row in web["addresses"]] == [("52:54:00:00:00:0a", "lease")]
    assert (db["addresses"], master["addresses"]) == ([], [])
    assert "addresses" not in read_vms(InfoRequest(uri=URI, names=["web"]))[0]
