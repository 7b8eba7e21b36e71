# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate libvirtd for the templates, with a network."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import typing as t

import libvirt
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support" / "libvirtd"
NETWORK = "<network><name>{name}</name><bridge name='{bridge}' stp='off'/></network>"


@dataclasses.dataclass(frozen=True)
class Host:
    """Its connections and addresses (by driver), the folder of its pool and the bridge of its network ``default``."""

    connections: dict[str, t.Any]
    uris: t.Mapping[str, str]
    pool: pathlib.Path
    bridge: str

    def clear(self) -> None:
        """Remove every domain and volume."""
        for connection in self.connections.values():
            for domain in connection.listAllDomains(0):
                if domain.isActive():
                    domain.destroy()
                if domain.OSType() == "hvm":
                    domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_NVRAM)
                else:
                    domain.undefine()
        for path in self.pool.iterdir():
            if path.is_file():
                path.unlink()

    def restart(self) -> None:
        """End libvirtd, start it again and connect to it; guests continue to run."""
        folder = self.pool.parent
        process = pathlib.Path("/proc", (folder / "run" / "libvirtd.pid").read_text(encoding="ascii").strip(), "stat")
        os.kill(int(process.parent.name), signal.SIGTERM)
        until = time.monotonic() + 20
        while process.exists() and process.read_text(encoding="utf-8").split()[2] != "Z" and time.monotonic() < until:
            time.sleep(0.05)
        subprocess.run([str(SUPPORT), "start", str(folder)], check=True, capture_output=True)
        for driver, uri in self.uris.items():
            self.connections[driver].close()
            self.connections[driver] = libvirt.open(uri)

    def left(self) -> tuple[list[str], list[str]]:
        """Return the names of domains and of volumes."""
        domains = [domain.name() for connection in self.connections.values() for domain in connection.listAllDomains(0)]
        return sorted(domains), sorted(path.name for path in self.pool.iterdir() if path.is_file())


@pytest.fixture(scope="session", name="daemon")
def fixture_daemon() -> t.Iterator[Host]:
    """Start libvirtd once; remove it completely afterwards."""
    folder = f"/var/tmp/footprint-templates-{os.getpid()}"
    started = subprocess.run([str(SUPPORT), "start", folder], check=True, capture_output=True, text=True).stdout
    variables = dict(pair.split("=", 1) for pair in shlex.split(started))
    libvirt.registerErrorHandler(lambda unused, error: None, None)
    uris = {"qemu": variables["FOOTPRINT_TEST_QEMU_URI"], "lxc": variables["FOOTPRINT_TEST_LXC_URI"]}
    connections = {driver: libvirt.open(uri) for driver, uri in uris.items()}
    bridge = f"rftp{os.getpid() % 0xFFFFF:05x}"
    connections["qemu"].networkDefineXML(NETWORK.format(name="default", bridge=bridge)).create()
    connections["qemu"].networkDefineXML(NETWORK.format(name="asleep", bridge=f"{bridge}s"))
    try:
        yield Host(connections, uris, pathlib.Path(variables["FOOTPRINT_TEST_POOL"]), bridge)
    finally:
        connections["qemu"].networkLookupByName("default").destroy()
        for connection in connections.values():
            connection.close()
        subprocess.run([str(SUPPORT), "stop", folder], check=True)


@pytest.fixture(name="host")
def fixture_host(daemon: Host) -> t.Iterator[Host]:
    """The host without domains and volumes."""
    daemon.clear()
    yield daemon
    daemon.clear()
