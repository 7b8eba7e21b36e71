# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers under QEMU, each with one network manager, and the network they are connected to."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import typing as t

import pytest

from tests.support import leftovers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from seeds import FILES, Seed  # noqa: E402
from server import Server  # noqa: E402
from server_image import Image, build  # noqa: E402
from wire import Wire  # noqa: E402

Start = t.Callable[[str, str], Server]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Group the tests by server, because a start takes half a minute."""
    order = list(FILES)
    mine = [item for item in items if hasattr(item, "callspec") and "manager" in item.callspec.params]
    items[:] = sorted(mine, key=lambda item: order.index((item.callspec.params["manager"], item.callspec.params["addressing"])))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> t.Generator[None, t.Any, None]:
    """Add the state of the server to the report of a failure."""
    outcome = yield
    report = outcome.get_result()
    server = getattr(item, "funcargs", {}).get("server")
    if report.when == "call" and report.failed and server is not None:
        report.sections.append(("the server", server.report()))


@pytest.fixture(scope="session", name="image")
def fixture_image() -> Image:
    """Return the image from the cache, or create it."""
    return build()


@pytest.fixture(scope="session", name="folder")
def fixture_folder() -> t.Iterator[pathlib.Path]:
    """Return a folder for sockets, with a short name."""
    with leftovers.folder("rfnet") as folder:
        yield folder


@pytest.fixture(scope="session", name="key")
def fixture_key(folder: pathlib.Path) -> pathlib.Path:
    """Return the ssh key of the operator."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key


@pytest.fixture(scope="session", name="wire")
def fixture_wire(folder: pathlib.Path) -> t.Iterator[Wire]:
    """Create the network once."""
    wire = Wire(folder)
    wire.start()
    try:
        yield wire
    finally:
        wire.stop()


@pytest.fixture(scope="module", name="start")
def fixture_start(folder: pathlib.Path, image: Image, wire: Wire, key: pathlib.Path) -> t.Iterator[Start]:
    """Return a function that starts a server by manager and addressing; one at a time, because they share the network."""
    running: dict[tuple[str, str], Server] = {}

    def start(manager: str, addressing: str) -> Server:
        if (manager, addressing) not in running:
            for other in running.values():
                other.off()
            running.clear()
            place = pathlib.Path(tempfile.mkdtemp(prefix=f"{manager}-", dir=folder))
            server = Server(place, image, wire, Seed(manager, addressing, key.with_suffix(".pub").read_text()), key)
            running[manager, addressing] = server
            server.on()
        return running[manager, addressing]

    with contextlib.ExitStack() as ending:
        ending.callback(lambda: [server.off() for server in running.values()])
        yield start
