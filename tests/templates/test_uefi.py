# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines with UEFI firmware are booted: the firmware runs, its NVRAM is created, kept and removed."""

from __future__ import annotations

import hashlib
import os
import pathlib
import time
import typing as t

import pytest
from conftest import Host

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_firmware
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse

DETAILS = {"id": "u1", "cpu": 1, "memory_mb": 192, "hypervisor": "qemu", "boot_firmware": "efi", "boot": "hd", "disks": [{"size": "4 MiB"}]}


def make(host: Host, state: str = "running", template: str = "default", **details: t.Any) -> VmResult:
    """Define the machine."""
    uri, pool = host.uris["qemu"], "footprint-test"
    vms = [{**DETAILS, **details}]
    request = DefineRequest(cluster="lab", vms=vms, uri=uri, pool=pool, state=state, template=template, force=True, shutdown_timeout=1)
    result = define_vms(request, check_mode=False)
    assert not result.failed, result.vms[0].error
    return result.vms[0]


def nvram_of(host: Host) -> pathlib.Path:
    """Return the path of the NVRAM outside of the mount namespace of libvirtd."""
    return host.pool.parent / "lib" / "qemu" / "nvram" / "u1_VARS.fd"


def said(host: Host, words: bytes, timeout: float) -> bytes:
    """Return the output of the firmware on the serial console up to the given text."""
    console = parse(host.connections["qemu"].lookupByName("u1").XMLDesc(0)).find("devices/serial/source").get("path")
    heard = b""
    until = time.monotonic() + timeout
    descriptor = os.open(console, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        while words not in heard and time.monotonic() < until:
            try:
                heard += os.read(descriptor, 65536)
            except BlockingIOError:
                time.sleep(0.2)
    finally:
        os.close(descriptor)
    return heard


def test_uefi_machine_boots_and_keeps_its_variables(host: Host) -> None:
    assert make(host).state == "running"
    # the disk is empty: the firmware says so
    assert b"BdsDxe" in said(host, b"BdsDxe", 120)
    nvram = nvram_of(host)
    assert nvram.is_file()
    assert (make(host).changed, make(host).changed) == (False, False)
    domain = host.connections["qemu"].lookupByName("u1")
    # a card is plugged into a port that is kept free for it; another boot order waits
    plugged = make(host, nics=[{"network": "default"}])
    assert (plugged.actions, plugged.restart_required) == (["redefine", "change_live"], False)
    assert parse(domain.XMLDesc(0)).find("devices/interface/source").get("network") == "default"
    domain.destroy()
    before = (hashlib.sha256(nvram.read_bytes()).hexdigest(), nvram.stat().st_ino)
    # an edit of the definition never touches them
    edit: dict[str, t.Any] = {"memory_mb": 256, "boot": ["network", "hd"]}
    assert make(host, "present", **edit).actions == ["redefine"]
    assert (hashlib.sha256(nvram.read_bytes()).hexdigest(), nvram.stat().st_ino) == before
    assert make(host, **edit).actions == ["start"]
    assert not make(host, **edit).changed
    make(host, "absent", boot_firmware="efi")
    assert not nvram.exists()
    assert host.left()[0] == []


def test_secure_boot_selects_the_firmware_that_checks_signatures(host: Host) -> None:
    make(host, secure_boot=True)
    loader = parse(host.connections["qemu"].lookupByName("u1").XMLDesc(0)).find("os/loader")
    assert loader.get("secure") == "yes"
    assert b"BdsDxe" in said(host, b"BdsDxe", 120)
    assert not make(host, secure_boot=True).changed


def test_missing_firmware_is_reported_before_any_change(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_firmware, "fitting", lambda *unused: False)
    with pytest.raises(InputError) as raised:
        make(host, secure_boot=True)
    assert raised.value.path == "vms[0].boot_firmware"
    assert "this host has no UEFI firmware with enrolled-keys and with secure-boot. Install the package ovmf" in str(raised.value)
    own = "<domain type='qemu'><name>{id}</name>\n<os><type machine='q35'>hvm</type>\n"
    own += "<loader type='pflash' readonly='yes'>/nowhere/CODE.fd</loader></os></domain>"
    with pytest.raises(InputError, match="^VM 'u1', template line 3: the firmware /nowhere/CODE.fd does not exist on this host"):
        make(host, template=own, boot_firmware=None)
    assert host.left() == ([], [])
