# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A libvirt of the corpus' own, with two networks."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import sys
import typing as t

import libvirt
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from drift_guest import Host  # noqa: E402

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support" / "libvirtd"
NETWORK = "<network><name>{name}</name><bridge name='{bridge}' stp='off'/></network>"


@pytest.fixture(scope="session", name="host")
def fixture_host() -> t.Iterator[Host]:
    """Started once; nothing of it is left afterwards."""
    folder = f"/var/tmp/footprint-drift-{os.getpid()}"
    started = subprocess.run([str(SUPPORT), "start", folder], check=True, capture_output=True, text=True).stdout
    settings = dict(pair.split("=", 1) for pair in shlex.split(started))
    # expected errors need not be printed
    libvirt.registerErrorHandler(lambda unused, error: None, None)
    uris = {"qemu": settings["FOOTPRINT_TEST_QEMU_URI"], "lxc": settings["FOOTPRINT_TEST_LXC_URI"]}
    qemu, lxc = libvirt.open(uris["qemu"]), libvirt.open(uris["lxc"])
    number = os.getpid() % 0xFFFFF
    networks = []
    try:
        for letter in "ab":
            networks.append(qemu.networkDefineXML(NETWORK.format(name=f"drift-{letter}", bridge=f"rfdr{letter}{number:05x}")))
            networks[-1].create()
        yield Host(qemu, lxc, pathlib.Path(settings["FOOTPRINT_TEST_POOL"]), networks[0].bridgeName(), uris)
    finally:
        for network in networks:
            if network.isActive():
                network.destroy()
        for connection in (qemu, lxc):
            connection.close()
        subprocess.run([str(SUPPORT), "stop", folder], check=True)
