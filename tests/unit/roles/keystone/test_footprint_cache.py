# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proxy in front of keystone's cache; oslo.cache and dogpile.cache are made up here, and real in tests/controllers."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import pickle
import sys
import types

import pytest

FILE = pathlib.Path(__file__).resolve().parents[4] / "roles" / "keystone" / "files" / "footprint_cache.py"
NO_VALUE = object()


class Proxy:
    """As dogpile.cache has it."""

    def __init__(self, *arguments, **more):
        pass

    def wrap(self, backend):
        self.proxied = backend
        return self


class Client:
    """A client of memcached. :ivar kept: key → flags and bytes."""

    def __init__(self, kept):
        self.kept = kept

    def _recv_value(self, server, flags, length):
        found = server.recv(length + 2)[:-2]
        return pickle.loads(found) if flags & 1 else found

    def get(self, key):
        if key not in self.kept:
            return None
        flags, stored = self.kept[key]
        return self._recv_value(types.SimpleNamespace(recv=lambda length: (stored + b"\r\n")[:length]), flags, len(stored))

    def set(self, key, value):
        self.kept[key] = (0, value) if isinstance(value, bytes) else (1, pickle.dumps(value))


class Pool:
    """As oslo.cache has it."""

    def __init__(self, kept):
        self.kept = kept

    def _create_connection(self):
        return Client(self.kept)


class Backend:
    """The backend oslo_cache.memcache_pool."""

    def __init__(self):
        self.kept = {}
        self.client_pool = Pool(self.kept)

    def get(self, key):
        found = self.client_pool._create_connection().get(key)
        return NO_VALUE if found is None else found

    def get_multi(self, keys):
        return [self.get(key) for key in keys]

    def set(self, key, value):
        self.client_pool._create_connection().set(key, value)

    def set_multi(self, mapping):
        for key, value in mapping.items():
            self.set(key, value)

    def delete(self, key):
        self.kept.pop(key, None)

    def delete_multi(self, keys):
        for key in keys:
            self.delete(key)


class Null:
    """The backend of a cache that is off."""


class Exploit:
    """What a stranger plants: a command that is run when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(name="module")
def fixture_module(monkeypatch, tmp_path):
    fakes = {
        "memcache": {"_Error": type("_Error", (Exception,), {})},
        "dogpile": {},
        "dogpile.cache": {},
        "dogpile.cache.api": {"NO_VALUE": NO_VALUE},
        "dogpile.cache.proxy": {"ProxyBackend": Proxy},
        "dogpile.cache.backends": {},
        "dogpile.cache.backends.null": {"NullBackend": Null},
        "oslo_cache": {},
        "oslo_cache._memcache_pool": {"MemcacheClientPool": Pool},
    }
    made = {name: types.ModuleType(name) for name in fakes}
    for name, contents in fakes.items():
        vars(made[name]).update(contents)
        parent, unused, last = name.rpartition(".")
        if parent:
            setattr(made[parent], last, made[name])
        monkeypatch.setitem(sys.modules, name, made[name])
    spec = importlib.util.spec_from_file_location("footprint_cache", FILE)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    (tmp_path / "key").write_text("a secret of the members\n", "utf-8")
    found.KEY_FILE = tmp_path / "key"
    return found


@pytest.fixture(name="backend")
def fixture_backend():
    return Backend()


@pytest.fixture(name="cache")
def fixture_cache(module, backend):
    return module.Sealed().wrap(backend)


def test_what_is_kept_comes_back(cache, backend):
    cache.set("a", {"token": "secret"})
    cache.set_multi({"b": [1], "c": None})
    assert cache.get("a") == {"token": "secret"}
    assert cache.get_multi(["b", "x", "c"]) == [[1], NO_VALUE, None]
    assert not any(b"secret" in stored for flags, stored in backend.kept.values())
    assert {flags for flags, stored in backend.kept.values()} == {0}


def test_members_without_the_proxy_share_no_entries(cache, backend):
    """Else they would fail at what is sealed, as long as an upgrade goes from member to member."""
    backend.set("a", b"theirs")
    cache.set("a", "ours")
    cache.set_multi({"b": 1, "c": 2})
    assert backend.get("a") == b"theirs" and "b" not in backend.kept
    cache.delete("a")
    cache.delete_multi(["b"])
    assert [cache.get(key) for key in "abc"] == [NO_VALUE, NO_VALUE, 2] and backend.get("a") == b"theirs"


def test_a_planted_pickle_is_run_without_the_proxy(backend, tmp_path):
    backend.kept["a"] = (1, pickle.dumps(Exploit(tmp_path / "run")))
    backend.get("a")
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", [0, 1, 2, 4, 8, 9, 16])
def test_a_planted_pickle_is_a_miss_and_is_not_run(cache, backend, tmp_path, flags):
    backend.kept["sealed.a"] = (flags, pickle.dumps(Exploit(tmp_path / "run")))
    assert cache.get("a") is NO_VALUE and cache.get_multi(["a"]) == [NO_VALUE]
    assert not (tmp_path / "run").exists()


def test_another_key_an_altered_entry_and_another_name_are_misses(module, cache, backend):
    cache.set("a", 1)
    flags, stored = backend.kept["sealed.a"]
    backend.kept["sealed.b"] = (flags, stored)
    backend.kept["sealed.c"] = (flags, stored[:-9] + b"AAAAAAAA" + stored[-1:])
    assert [cache.get(name) for name in "abc"] == [1, NO_VALUE, NO_VALUE]
    module.KEY_FILE.write_text("the secret of somebody else\n", "utf-8")
    assert module.Sealed().wrap(backend).get("a") is NO_VALUE


def test_without_a_key_of_some_length_there_is_no_cache(module):
    module.KEY_FILE.write_text("short\n", "utf-8")
    with pytest.raises(ValueError):
        module.Sealed()


def test_a_client_it_does_not_know_is_refused(module, backend):
    with pytest.raises(TypeError):
        module.Sealed().wrap(object())
    backend.client_pool._create_connection = object
    sealed = module.Sealed().wrap(backend)
    with pytest.raises(TypeError):
        sealed.get("a")


def test_a_cache_that_is_off_needs_nothing(module):
    assert isinstance(module.Sealed().wrap(Null()).proxied, Null)
