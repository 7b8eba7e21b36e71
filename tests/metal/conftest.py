# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate libvirtd whose machines are the bare servers, a bridge, and a management controller for them."""

from __future__ import annotations

import os
import pathlib
import secrets
import shlex
import subprocess
import sys
import typing as t

import libvirt
import pytest

from tests.support import leftovers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import bare  # noqa: E402

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support" / "libvirtd"


class Place(t.NamedTuple):
    """The libvirtd: its folder, URI, connection, pool and bridge, the controller, and the password of its account."""

    folder: pathlib.Path
    uri: str
    lxc_uri: str
    connection: t.Any
    pool: pathlib.Path
    bridge: str
    emulator: bare.Emulator
    password: str

    def machine(self, name: str, *, uefi: bool = False, size: str = "8G", **more: t.Any) -> t.Any:
        """Define a machine with an empty disk, or return it; its domain."""
        disk = self.pool / f"{name}.qcow2"
        if not disk.exists():
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), size], check=True)
        return self.connection.defineXML(bare.domain(name, disk, uefi=uefi, network=self.bridge, **more))


@pytest.fixture(scope="session", name="place")
def fixture_place() -> t.Iterator[Place]:
    """Start all of it once; remove it completely afterwards."""
    folder = pathlib.Path(f"/var/tmp/footprint-metal-{os.getpid()}")
    started = subprocess.run([str(SUPPORT), "start", str(folder)], check=True, capture_output=True, text=True).stdout
    found = dict(pair.split("=", 1) for pair in shlex.split(started))
    libvirt.registerErrorHandler(lambda unused, error: None, None)
    bridge = f"rfm{os.getpid() % 0xFFFFF:05x}"
    password = secrets.token_hex(12)
    try:
        leftovers.note("link", bridge)
        subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
        subprocess.run(["ip", "link", "set", bridge, "up"], check=True)
        connection = libvirt.open(found["FOOTPRINT_TEST_QEMU_URI"])
        (folder / "bmc").mkdir()
        with bare.Emulator(folder / "bmc", found["FOOTPRINT_TEST_QEMU_URI"], password) as emulator:
            yield Place(
                folder,
                found["FOOTPRINT_TEST_QEMU_URI"],
                found["FOOTPRINT_TEST_LXC_URI"],
                connection,
                pathlib.Path(found["FOOTPRINT_TEST_POOL"]),
                bridge,
                emulator,
                password,
            )
        connection.close()
    finally:
        subprocess.run([str(SUPPORT), "stop", str(folder)], check=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)
