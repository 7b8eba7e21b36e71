# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One host for all tests, and a table of the results."""

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
    """Start the host once; remove it completely afterwards."""
    host = Host(pathlib.Path(f"/var/tmp/footprint-harden-{os.getpid()}"))
    try:
        yield host
    finally:
        host.stop()


@pytest.fixture(name="host")
def fixture_host(only_host: Host) -> t.Iterator[Host]:
    """Return the host without domains and volumes."""
    only_host.start_daemon()
    only_host.clear()
    yield only_host


@pytest.fixture(name="network")
def fixture_network(host: Host) -> t.Iterator[str]:
    """Create an isolated network; return its name."""
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


@pytest.fixture(name="add_row")
def fixture_add_row() -> t.Callable[[str, str, str], None]:
    """Add a row to the table: fault, number of runs, result."""
    return lambda fault, runs, result: ROWS.append((fault, runs, result))


def pytest_terminal_summary(terminalreporter: t.Any, config: pytest.Config) -> None:
    """Print the table and write it to a file."""
    if not ROWS:
        return
    lines = ["| fault | runs | result |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in ROWS)]
    OUTPUT.mkdir(exist_ok=True)
    whole = config.getoption("--whole")
    name = "vm_define-whole.md" if whole else "vm_define-slice.md"
    (OUTPUT / name).write_text("\n".join(lines) + "\n", "utf-8")
    terminalreporter.section("torture of vm_define, " + ("whole" if whole else "a slice"))
    for line in lines:
        terminalreporter.write_line(line)
