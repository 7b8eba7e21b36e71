# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A copy that its standby cannot run, according to the test driver of libvirt, which has a VM named test."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, run_fit, run_start
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import STARTED, Copy
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost

pytest.importorskip("libvirt")
URI = "test:///default"
UUID = "6a1f3c6e-0000-4000-8000-000000000001"
OF_TEST = "52:54:00:a5:75:01"


def copy(name: str = "m", memory: int = 8192, nic: str = "") -> Copy:
    devices = f"<devices>{f'<interface type={nic}</interface>' if nic else ''}</devices>"
    xml = f"<domain type='test'><name>{name}</name><uuid>{UUID}</uuid><memory>{memory}</memory><os><type arch='i686'>hvm</type></os>{devices}</domain>"
    return Copy("20261124T100001Z", "m", UUID, name, "metal1", 1.0, 1.0, False, "full", 1, 1.0, xml, {}, True, ())


@pytest.fixture(autouse=True)
def fixture_fits(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[DomainHost]:
    """The test driver is of another architecture, and has no capabilities of domains."""
    monkeypatch.setattr(io_look.platform, "machine", lambda: "i686")
    monkeypatch.setattr(io_look, "_machine", lambda host, vm: (None, None))
    # its state lasts as long as a connection
    with DomainHost(URI) as host:
        yield host


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "test"}, "another VM on this server has the name test"),
        ({"memory": 1 << 60}, "of memory available, the VM needs"),
        ({"nic": "'bridge'><source bridge='br-missing'/>"}, "has no bridge br-missing"),
        ({"nic": "'network'><source network='missing'/>"}, "has no active network missing"),
    ],
)
def test_a_copy_that_cannot_run_is_refused_before_its_start_is_recorded(given: dict[str, t.Any], why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_start, "refuse_unfit", run_fit.refuse_unfit)
    store = io_copies.CopyStore("lab", "m")
    store.write_record({"state": "receiving"})
    store.commit(copy(**given), {})
    request = {"id": "m", "cluster": "lab", "confirmed": "metal1", "uri": URI}
    for check_mode in (True, False):
        with pytest.raises(BackendError, match=why):
            run_start.start(request, check_mode=check_mode)
    assert store.record()["state"] != STARTED
    # reported with each copy
    monkeypatch.setattr(run_start, "URI", URI)
    assert why in (run_start.obstacle(store.copies()[0]) or "")


def test_a_copy_that_can_run_is_not_refused() -> None:
    run_fit.refuse_unfit(copy(nic="'network'><source network='default'/>"), URI)


def test_a_mac_that_another_vm_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with DomainHost(URI) as host:
        nic = f"<interface type='network'><mac address='{OF_TEST}'/><source network='default'/></interface>"
        host.connection.defineXML(f"<domain type='test'><name>other</name><memory>1</memory><os><type>hvm</type></os><devices>{nic}</devices></domain>")
        with pytest.raises(BackendError, match=f"the VM other on this server has the MAC {OF_TEST}"):
            run_fit.refuse_unfit(copy(nic=f"'network'><mac address='{OF_TEST}'/><source network='default'/>"), URI)


def test_a_server_that_does_not_answer_is_not_known_to_fit() -> None:
    with pytest.raises(BackendError, match="cannot connect"):
        run_fit.refuse_unfit(copy(), "qemu+unix:///system?socket=/nonexistent")
