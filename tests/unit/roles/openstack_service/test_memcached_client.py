# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What services read from memcached, with the real client (python3-memcache) and a small memcached."""

from __future__ import annotations

import os
import pathlib
import pickle
import socketserver
import sys
import threading
import typing as t

import memcache
import pytest

from tests.support.program import load as load_program


class Exploit:
    """What an unauthorized client writes: a command that is run when it is unpickled."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __reduce__(self) -> t.Any:
        return os.mkdir, (str(self.path),)


class Memcached(socketserver.ThreadingTCPServer):
    """As memcached answers. :ivar kept: key → flags and bytes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.kept: dict[bytes, tuple[int, bytes]] = {}


class Connection(socketserver.StreamRequestHandler):
    """A connection of a client."""

    server: Memcached

    def handle(self) -> None:
        for line in self.rfile:
            command, *words = line.split()
            if command == b"set":
                self.server.kept[words[0]] = (int(words[1]), self.rfile.read(int(words[3]) + 2)[:-2])
                self.wfile.write(b"STORED\r\n")
            else:
                for key in words:
                    if key in self.server.kept:
                        flags, stored = self.server.kept[key]
                        self.wfile.write(b"VALUE %s %d %d\r\n%s\r\n" % (key, flags, len(stored), stored))
                self.wfile.write(b"END\r\n")


class PooledClient(memcache.Client):  # type: ignore[misc]
    """As oslo.cache derives its client."""


@pytest.fixture(name="server")
def fixture_server() -> t.Iterator[Memcached]:
    with Memcached() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(name="client", params=[memcache.Client, PooledClient])
def fixture_client(server: Memcached, request: pytest.FixtureRequest) -> t.Iterator[t.Any]:
    """A client of each of keystonemiddleware's two pools."""
    client = request.param([f"127.0.0.1:{server.server_address[1]}"])
    yield client
    client.disconnect_all()


@pytest.fixture(name="load")
def fixture_load(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> t.Callable[..., t.Any]:
    """Return what loads a service with this program."""
    monkeypatch.delenv("FOOTPRINT_WSGI", raising=False)
    # the change is for the whole process: end it with the test
    monkeypatch.setattr(memcache.Client, "_recv_value", memcache.Client._recv_value)  # pylint: disable=protected-access
    module = load_program("roles/openstack_service/files/openstack_wsgi.py")

    def load(program: str = "") -> t.Any:
        (tmp_path / "program").write_text(f"{program}\napplication = lambda environ, start: [b'served']\n")
        return module.load({"program": str(tmp_path / "program"), "drain": str(tmp_path / "drain"), "database": {}})

    return load


def test_a_planted_pickle_is_run_without_it(server: Memcached, client: t.Any, tmp_path: pathlib.Path) -> None:
    server.kept[b"a"] = (1, pickle.dumps(Exploit(tmp_path / "run"), protocol=0))
    client.get("a")
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", [1, 2, 4, 8, 9, 16, 32])
def test_a_planted_pickle_is_a_miss_and_is_not_run(
    server: Memcached, client: t.Any, load: t.Callable[..., t.Any], tmp_path: pathlib.Path, flags: int
) -> None:
    load()
    server.kept[b"a"] = (flags, pickle.dumps(Exploit(tmp_path / "run"), protocol=0))
    server.kept[b"b"] = (0, b"bytes")
    assert client.get("a") is None
    assert client.get_multi(["a", "b"]) == {"a": None, "b": b"bytes"}
    assert not (tmp_path / "run").exists()
    # the connection is still at the beginning of an answer
    assert client.get("b") == b"bytes" and client.get("c") is None


@pytest.mark.parametrize("size", [0, 100, 100_000])
def test_plain_bytes_come_back(server: Memcached, client: t.Any, load: t.Callable[..., t.Any], size: int) -> None:
    """keystonemiddleware stores bytes, and does not request their compression."""
    load()
    assert client.set("a", b"x" * size, time=300)
    assert server.kept[b"a"] == (0, b"x" * size)
    assert client.get("a") == b"x" * size


def test_the_client_is_imported_after_the_program(load: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    (tmp_path / "memcache.py").write_text("import threading\nbase = threading.local\nclass Client:\n    def _recv_value(self):\n        pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "memcache")
    monkeypatch.setattr(threading, "local", threading.local)
    load("import threading\nthreading.local = 'of eventlet'")
    assert sys.modules["memcache"].base == "of eventlet"


def test_a_service_without_the_client_is_served(load: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "memcache", None)
    assert load()({"PATH_INFO": "/"}, None) == [b"served"]


def test_an_unknown_version_of_the_client_is_refused(load: t.Callable[..., t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(memcache.Client, "_recv_value")
    with pytest.raises(TypeError, match="does not support this version of python-memcached"):
        load()
