# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client in front of keystone's cache; memcache, oslo.cache and dogpile.cache are made up here, and real in tests/controllers."""

from __future__ import annotations

import os
import pickle
import sys
import types

import pytest

from tests.support.program import load


class Client:
    """As python-memcached has it: it pickles, and unpickles what the flags call a pickle. :cvar kept: key → flags and bytes."""

    kept: dict[str, tuple[int, bytes]] = {}

    def _recv_value(self, server, flags, rlen):
        found = server.recv(rlen + 2)[:-2]
        return pickle.loads(found) if flags & 1 else found

    def get(self, key, default=None):
        if key not in self.kept:
            return default
        flags, stored = self.kept[key]
        return self._recv_value(types.SimpleNamespace(recv=lambda length: (stored + b"\r\n")[:length]), flags, len(stored))

    def get_multi(self, keys, key_prefix=""):
        return {key: Client.get(self, key_prefix + key) for key in keys if key_prefix + key in self.kept}

    def set(self, key, val, time=0):
        self.kept[key] = (0, val) if isinstance(val, bytes) else (1, pickle.dumps(val))

    def set_multi(self, mapping, time=0):
        for key, value in mapping.items():
            Client.set(self, key, value)

    def delete(self, key):
        self.kept.pop(key, None)

    def delete_multi(self, keys):
        for key in keys:
            Client.delete(self, key)


class Proxy:
    """As dogpile.cache has it."""

    def __init__(self, *arguments, **more):
        pass

    def wrap(self, backend):
        self.proxied = backend
        return self


class Pool:
    """As oslo.cache has it."""


class Null:
    """The backend of a cache that is off."""


class Exploit:
    """What an unauthorized client writes: a command that is run when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(name="module")
def fixture_module(monkeypatch, tmp_path):
    fakes = {
        "memcache": {"_Error": type("_Error", (Exception,), {}), "Client": Client},
        "dogpile": {},
        "dogpile.cache": {},
        "dogpile.cache.proxy": {"ProxyBackend": Proxy},
        "dogpile.cache.backends": {},
        "dogpile.cache.backends.null": {"NullBackend": Null},
        "oslo_cache": {},
        "oslo_cache._memcache_pool": {"MemcacheClientPool": Pool, "_MemcacheClient": type("_MemcacheClient", (Client,), {})},
    }
    made = {name: types.ModuleType(name) for name in fakes}
    for name, contents in fakes.items():
        vars(made[name]).update(contents)
        parent, unused, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, made[name])
        monkeypatch.setitem(sys.modules, name, made[name])
    found = load("roles/keystone/files/footprint_cache.py")
    (tmp_path / "key").write_text("a secret of the members\n", "utf-8")
    found.KEY_FILE = tmp_path / "key"
    Client.kept = {}
    return found


@pytest.fixture(name="backend")
def fixture_backend():
    return types.SimpleNamespace(client_pool=Pool())


@pytest.fixture(name="cache")
def fixture_cache(module, backend):
    """A connection as every region of the process gets one, with a proxy in front of it or without."""
    module.Sealed().wrap(backend)
    return module._memcache_pool._MemcacheClient()


def test_what_is_kept_comes_back(cache):
    cache.set("a", {"token": "secret"}, time=5)
    cache.set_multi({"b": [1], "c": b"bytes"})
    assert cache.get("a") == {"token": "secret"}
    assert cache.get_multi(["b", "x", "c"]) == {"b": [1], "c": b"bytes"}
    assert cache.get("x") is None and cache.get("x", 7) == 7
    assert not any(b"secret" in stored for flags, stored in Client.kept.values())
    assert {flags for flags, stored in Client.kept.values()} == {0}


def test_members_without_it_share_no_entries(cache):
    """Else they would fail at what is sealed, as long as an upgrade goes from member to member."""
    theirs = Client()
    theirs.set("a", "theirs")
    cache.set("a", "ours")
    cache.set_multi({"b": 1, "c": 2})
    assert theirs.get("a") == "theirs" and theirs.get("b") is None
    cache.delete("a")
    cache.delete_multi(["b"])
    assert [cache.get(key) for key in "abc"] == [None, None, 2] and theirs.get("a") == "theirs"


def test_a_planted_pickle_is_run_without_it(module, tmp_path):
    Client.kept["a"] = (1, pickle.dumps(Exploit(tmp_path / "run")))
    module._memcache_pool._MemcacheClient().get("a")
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", [0, 1, 2, 4, 8, 9, 16])
def test_a_planted_pickle_is_a_miss_and_is_not_run(cache, tmp_path, flags):
    Client.kept["sealed.a"] = Client.kept["a"] = (flags, pickle.dumps(Exploit(tmp_path / "run")))
    assert cache.get("a") is None and cache.get_multi(["a"]) == {}
    assert not (tmp_path / "run").exists()


def test_another_key_an_altered_entry_and_another_name_are_misses(module, cache, backend):
    cache.set("a", 1)
    flags, stored = Client.kept["sealed.a"]
    Client.kept["sealed.b"] = (flags, stored)
    Client.kept["sealed.c"] = (flags, stored[:-9] + b"AAAAAAAA" + stored[-1:])
    assert [cache.get(name) for name in "abc"] == [1, None, None]
    module.KEY_FILE.write_text("the secret of another cluster\n", "utf-8")
    module.Sealed().wrap(backend)
    assert module._memcache_pool._MemcacheClient().get("a") is None


def test_without_a_key_of_some_length_there_is_no_cache(module):
    module.KEY_FILE.write_text("short\n", "utf-8")
    with pytest.raises(ValueError):
        module.Sealed()


def test_a_backend_or_a_client_it_does_not_know_is_refused(module, monkeypatch):
    with pytest.raises(TypeError):
        module.Sealed().wrap(object())
    monkeypatch.delattr(Client, "_recv_value")
    with pytest.raises(TypeError):
        module.Sealed()


def test_a_cache_that_is_off_needs_nothing(module):
    assert isinstance(module.Sealed().wrap(Null()).proxied, Null)
