# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domains over libvirt's own test driver: the port keeps its contract."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend.domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError

UUID = "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11"
XML = f"<domain type='test'><name>a</name><uuid>{UUID}</uuid><memory unit='MiB'>{{}}</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>"


@pytest.fixture(name="host")
def fixture_host() -> t.Iterator[DomainHost]:
    """A host with one domain of ours and the one libvirt's driver brings."""
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


def test_redefining_a_running_domain_leaves_what_runs(host: DomainHost) -> None:
    host.start(UUID)
    host.define(XML.format(64))
    record = host.domain(UUID)
    assert record.state == "running"
    assert "32768" in record.live_xml
    assert "65536" in record.config_xml


def test_foreign_domains_are_listed_too(host: DomainHost) -> None:
    assert {"a", "test"} <= {record.name for record in host.domains()}


def test_a_refused_document_comes_with_libvirts_words(host: DomainHost) -> None:
    with pytest.raises(BackendError, match="libvirt refuses the document: .*memory"):
        host.define(XML.format("much"))
    assert host.domain(UUID) is not None


def test_a_guest_that_does_not_obey_is_told_and_forced_only_when_allowed(host: DomainHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.start(UUID)
    monkeypatch.setattr(DomainHost, "_ask", staticmethod(lambda domain: True))
    with pytest.raises(BackendError, match="still runs 0 s after"):
        host.shutdown(UUID, timeout=0, force=False)
    assert host.domain(UUID).active
    host.shutdown(UUID, timeout=0, force=True)
    assert not host.domain(UUID).active


def test_nobody_there() -> None:
    with pytest.raises(BackendError, match="cannot connect to qemu:///system") as raised:
        DomainHost("qemu:///system?socket=/nonexistent")
    assert "libvirtd" in str(raised.value.mend)
