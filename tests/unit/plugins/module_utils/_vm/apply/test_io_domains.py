# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domains over libvirt's own test driver: the port keeps its contract."""

from __future__ import annotations

import subprocess
import types
import typing as t
from unittest import mock

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost

UUID = "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11"
XML = f"<domain type='test'><name>a</name><uuid>{UUID}</uuid><memory unit='MiB'>{{}}</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>"


@pytest.fixture(name="host")
def fixture_host() -> t.Iterator[DomainHost]:
    """A host with one managed domain and the one of libvirt's test driver."""
    with DomainHost("test:///default") as host:
        host.define(XML.format(32))
        yield host


def test_a_domain_goes_through_its_life(host: DomainHost) -> None:
    record = host.domain(UUID)
    assert record is not None
    assert (record.name, record.state, record.active, record.persistent, record.live_xml) == ("a", "shutdown", False, True, None)
    host.start(UUID)
    host.start(UUID)
    assert host.domain(UUID).state == "running"
    host.connection.lookupByUUIDString(UUID).suspend()
    assert host.domain(UUID).state == "paused"
    host.resume(UUID)
    host.set_autostart(UUID, True)
    assert host.domain(UUID).autostart
    host.shutdown(UUID, timeout=5, force=False)
    assert host.domain(UUID).state == "shutdown"
    host.undefine(UUID)
    assert host.domain(UUID) is None


@pytest.mark.parametrize(("keep", "flags"), [(False, 1 | 2 | 4 | 16), (True, 1 | 2 | 8 | 16 | 64)])
def test_the_nvram_and_the_tpm_of_kept_disks_are_kept(host: DomainHost, monkeypatch: pytest.MonkeyPatch, keep: bool, flags: int) -> None:
    domain = mock.Mock()
    monkeypatch.setattr(host, "_lookup", lambda uuid: domain)
    with pytest.raises(BackendError, match="still exists"):
        host.undefine(UUID, keep)
    # VIR_DOMAIN_UNDEFINE_…: MANAGED_SAVE 1, SNAPSHOTS_METADATA 2, NVRAM 4, KEEP_NVRAM 8, CHECKPOINTS_METADATA 16, TPM 32, KEEP_TPM 64
    domain.undefineFlags.assert_called_once_with(flags)


def test_redefining_a_running_domain_leaves_what_runs(host: DomainHost) -> None:
    host.start(UUID)
    host.define(XML.format(64))
    record = host.domain(UUID)
    assert record.state == "running"
    assert "32768" in record.live_xml
    assert "65536" in record.config_xml


def test_foreign_domains_are_listed_too(host: DomainHost) -> None:
    assert {"a", "test"} <= {record.name for record in host.domains()}


def test_domains_in_bulk_equal_single_reads(host: DomainHost) -> None:
    other = UUID.replace("6d1d", "7d1d")
    third = UUID.replace("6d1d", "8d1d")
    for name, uuid in (("b", other), ("c", third)):
        host.define(XML.format(32).replace(UUID, uuid).replace("<name>a<", f"<name>{name}<"))
        host.start(uuid)
    host.set_autostart(other, True)
    host.connection.lookupByUUIDString(third).suspend()
    host.connection.createXML(XML.format(32).replace(UUID, UUID.replace("6d1d", "9d1d")).replace("<name>a<", "<name>passing<"), 0)
    records = {record.name: record for record in host.domains()}
    assert {name: (record.state, record.autostart, record.persistent) for name, record in records.items() if name != "test"} == {
        "a": ("shutdown", False, True),
        "b": ("running", True, True),
        "c": ("paused", False, True),
        "passing": ("running", False, False),
    }
    assert all(record == host.domain(record.uuid) for record in records.values())


def test_many_are_read_in_their_order_without_those_that_vanish() -> None:
    def read(number: int) -> int:
        if number % 7 == 3:
            raise _refusal(libvirt.VIR_ERR_NO_DOMAIN)
        return number

    assert io_domains._all(range(40), read) == [number for number in range(40) if number % 7 != 3]
    assert io_domains._all((), read) == []


def _refusal(code: int, domain: int = 0) -> libvirt.libvirtError:
    error = libvirt.libvirtError("libvirt says no")
    error.err = (code, domain, "libvirt says no", 2, None, None, None, 0, 0)
    return error


@pytest.mark.parametrize("failure", [MemoryError(), _refusal(libvirt.VIR_ERR_RPC), _refusal(libvirt.VIR_ERR_OPERATION_TIMEOUT)])
def test_one_that_cannot_be_read_does_not_count_as_one_that_is_not_there(failure: Exception) -> None:
    def read(number: int) -> int:
        if number == 5:
            raise failure
        return number

    with pytest.raises(type(failure)):
        io_domains._all(range(10), read)


def test_lost_daemon_while_reading_domains_is_reported(host: DomainHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*unused: object) -> None:
        raise _refusal(libvirt.VIR_ERR_RPC)

    monkeypatch.setattr(io_domains, "_record", gone)
    with pytest.raises(BackendError, match="cannot read the domains: libvirt says no"):
        host.domains()


def test_a_daemon_that_goes_leaves_a_socket_with_few_words(host: DomainHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*unused: object) -> None:
        raise _refusal(libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_FROM_RPC)

    monkeypatch.setattr(io_domains, "_record", gone)
    with pytest.raises(BackendError, match="cannot read the domains: the connection to libvirtd was lost .libvirt says no") as raised:
        host.domains()
    assert "run again" in str(raised.value.hint)


@pytest.mark.parametrize(("kind", "calls"), [("exe", ["shutdown", "signal"]), ("hvm", ["shutdown"])])
def test_a_container_whose_init_is_not_systemd_gets_a_signal_too(kind: str, calls: list[str]) -> None:
    # libvirt's test driver has no containers
    said: list[str] = []
    guest = types.SimpleNamespace(
        OSType=lambda: kind,
        ID=lambda: 0,
        shutdown=lambda: said.append("shutdown"),
        shutdownFlags=lambda flags: said.append("signal" if flags == libvirt.VIR_DOMAIN_SHUTDOWN_SIGNAL else "?"),
    )
    assert DomainHost._request_shutdown(guest)
    assert said == calls


@pytest.mark.parametrize("ended", [True, False])
def test_a_container_libvirt_lost_sight_of_is_off_when_its_process_is(host: DomainHost, monkeypatch: pytest.MonkeyPatch, ended: bool) -> None:
    # libvirt's test driver has no containers, and none of its domains has a process
    host.start(UUID)
    process = subprocess.Popen(["true" if ended else "sleep", "60"][: 1 if ended else 2])
    try:
        monkeypatch.setattr(io_domains, "_EXIT_DETECTION", 0)
        monkeypatch.setattr(io_domains.io_container_process, "controller", lambda domain: process.pid)
        monkeypatch.setattr(DomainHost, "_request_shutdown", staticmethod(lambda domain: True))
        if ended:
            process.wait()
            host.shutdown(UUID, timeout=10, force=False)
        else:
            with pytest.raises(BackendError, match="still runs"):
                host.shutdown(UUID, timeout=0, force=False)
    finally:
        process.kill()
        process.wait()
    assert host.domain(UUID).active is not ended


def test_a_refused_document_comes_with_libvirts_words(host: DomainHost) -> None:
    with pytest.raises(BackendError, match="libvirt refuses the document: .*memory"):
        host.define(XML.format("much"))
    assert host.domain(UUID) is not None


def test_ignored_shutdown_is_reported_and_forced_only_when_allowed(host: DomainHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.start(UUID)
    monkeypatch.setattr(DomainHost, "_request_shutdown", staticmethod(lambda domain: True))
    with pytest.raises(BackendError, match="still runs 0 s after"):
        host.shutdown(UUID, timeout=0, force=False)
    assert host.domain(UUID).active
    host.shutdown(UUID, timeout=0, force=True)
    assert not host.domain(UUID).active


def test_unreachable_daemon_is_an_error() -> None:
    with pytest.raises(BackendError, match="cannot connect to qemu:///system") as raised:
        DomainHost("qemu:///system?socket=/nonexistent")
    assert "libvirtd" in str(raised.value.hint)


class Rising:
    """A domain libvirt is still starting for a run that was killed: paused at first, running at the third look."""

    def __init__(self) -> None:
        self.looks = 0

    def state(self, unused: int) -> list[int]:
        self.looks += 1
        return [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_STARTING_UP] if self.looks < 3 else [libvirt.VIR_DOMAIN_RUNNING, 1]

    def __getattr__(self, name: str) -> t.Callable[..., t.Any]:
        return lambda *unused: "<domain/>" if name == "XMLDesc" else 1


def test_starting_domain_is_waited_for() -> None:
    record = DomainHost._read_domain(Rising())
    assert (record.state, record.active) == ("running", True)


def test_resume_by_another_process_is_accepted() -> None:
    class Resumed(Rising):
        def resume(self) -> None:
            raise libvirt.libvirtError("domain is already running")

    domain = Resumed()
    domain.looks = 1
    DomainHost._resume(domain)
    stuck = Resumed()
    stuck.looks = -10
    with pytest.raises(libvirt.libvirtError):
        DomainHost._resume(stuck)
