# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A separate libvirtd for these tests: one pool of files, real guests that run without an image."""

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

from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_pool_mounts  # noqa: E402
from remote_host import RemoteHost, served  # noqa: E402
from storage_host import StorageHost  # noqa: E402

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support" / "libvirtd"


@pytest.fixture(name="mounts", autouse=True)
def fixture_mounts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record the mount points of the pools in a folder of the test."""
    monkeypatch.setattr(io_pool_mounts, "STATE", tmp_path / "state" / "pool-mounts.json")


@pytest.fixture(scope="session", name="daemon")
def fixture_daemon() -> t.Iterator[dict[str, str]]:
    """Start libvirtd once; remove it completely afterwards."""
    folder = f"/var/tmp/footprint-storage-{os.getpid()}"
    started = subprocess.run([str(SUPPORT), "start", folder], check=True, capture_output=True, text=True).stdout
    libvirt.registerErrorHandler(lambda unused, error: None, None)
    try:
        yield dict(pair.split("=", 1) for pair in shlex.split(started))
    finally:
        subprocess.run([str(SUPPORT), "stop", folder], check=True)


@pytest.fixture(name="host")
def fixture_host(daemon: dict[str, str]) -> t.Iterator[StorageHost]:
    """The host without domains and volumes."""
    host = StorageHost(daemon["FOOTPRINT_TEST_QEMU_URI"], daemon["FOOTPRINT_TEST_LXC_URI"], pathlib.Path(daemon["FOOTPRINT_TEST_POOL"]))
    host.clear()
    yield host
    host.clear()
    host.close()


@pytest.fixture(name="remote")
def fixture_remote(daemon: dict[str, str], host: StorageHost) -> t.Iterator[RemoteHost]:
    """Provide the same libvirtd as a remote host: over TCP, with a pool whose files exist only there."""
    folder = pathlib.Path(daemon["FOOTPRINT_TEST_POOL"]).parent
    with served(folder / "run" / "libvirt-sock") as port:
        remote = RemoteHost(port, folder)
        try:
            yield remote
        finally:
            remote.end()
