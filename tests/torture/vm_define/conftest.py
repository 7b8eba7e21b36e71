# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One host for all of it, and a table of what was tried."""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harden_host import Host  # noqa: E402

OUTPUT = pathlib.Path(__file__).resolve().parents[2] / "output"
NETWORK = "<network><name>{name}</name><bridge name='{bridge}' stp='off'/></network>"
ROWS: list[tuple[str, str, str]] = []


@pytest.fixture(scope="session", name="only_host")
def fixture_only_host() -> t.Iterator[Host]:
    """Started once; nothing of it is left afterwards."""
    host = Host(pathlib.Path(f"/var/tmp/footprint-harden-{os.getpid()}"))
    try:
        yield host
    finally:
        host.stop()


@pytest.fixture(name="host")
def fixture_host(only_host: Host) -> t.Iterator[Host]:
    """The host, empty."""
    only_host.start_daemon()
    only_host.clear()
    yield only_host


@pytest.fixture(name="network")
def fixture_network(host: Host) -> t.Iterator[str]:
    """A network without the world behind it; its name."""
    name = "torture"
    with host.libvirt() as there:
        there.connection.networkDefineXML(NETWORK.format(name=name, bridge=f"rfha{os.getpid()}")).create()
    yield name
    host.start_daemon()
    host.clear()
    with host.libvirt() as there:
        network = there.connection.networkLookupByName(name)
        network.destroy()
        network.undefine()


@pytest.fixture(name="tell")
def fixture_tell() -> t.Callable[[str, str, str], None]:
    """Adds a row to the table: what was done, how often, what came of it."""
    return lambda what, count, result: ROWS.append((what, count, result))


def pytest_terminal_summary(terminalreporter: t.Any, config: pytest.Config) -> None:
    """The table, for the eye and for the documentation."""
    if not ROWS:
        return
    lines = ["| what was done | how often | what came of it |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in ROWS)]
    OUTPUT.mkdir(exist_ok=True)
    whole = config.getoption("--whole")
    name = "vm_define-whole.md" if whole else "vm_define-slice.md"
    (OUTPUT / name).write_text("\n".join(lines) + "\n", "utf-8")
    terminalreporter.section("torture of vm_define, " + ("whole" if whole else "a slice"))
    for line in lines:
        terminalreporter.write_line(line)
