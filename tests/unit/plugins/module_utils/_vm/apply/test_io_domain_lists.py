# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which drivers a host has, according to the real library of libvirt; the daemon is a socket."""

from __future__ import annotations

import pathlib
import socket
import threading

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domain_lists import drivers
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, DriverMissing

pytest.importorskip("libvirt")
HERE = "test:///default"


def uri(path: pathlib.Path) -> str:
    return f"qemu+unix:///system?socket={path}"


def test_a_driver_without_a_daemon_is_missing(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DriverMissing, match="cannot connect to qemu.unix"):
        DomainHost(uri(tmp_path / "sock"))


def test_a_driver_whose_daemon_does_not_answer_is_not_missing(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(tmp_path / "sock"))
        # it ends
        with pytest.raises(BackendError) as refused:
            DomainHost(uri(tmp_path / "sock"))
        daemon.listen(1)

        def end() -> None:
            """End during the connection."""
            daemon.accept()[0].close()

        threading.Thread(target=end, daemon=True).start()
        with pytest.raises(BackendError) as lost:
            DomainHost(uri(tmp_path / "sock"))
    assert not isinstance(refused.value, DriverMissing) and not isinstance(lost.value, DriverMissing)


def test_drivers_that_are_missing_are_left_out(tmp_path: pathlib.Path) -> None:
    [host] = drivers([HERE, uri(tmp_path / "sock")])
    assert host.uri == HERE
    host.close()
    with pytest.raises(DriverMissing):
        list(drivers([uri(tmp_path / "sock")]))
    with pytest.raises(DriverMissing):
        list(drivers(needed=uri(tmp_path / "sock"), connect=lambda each: DomainHost(each if "sock" in each else HERE)))


def test_a_driver_that_is_there_and_does_not_answer_is_an_error(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(tmp_path / "sock"))
        with pytest.raises(BackendError, match="Connection refused"):
            list(drivers([uri(tmp_path / "sock"), HERE]))
