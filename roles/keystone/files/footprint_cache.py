# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encrypt what keystone keeps in memcached, so that nobody but keystone can read or write it.

memcached knows no users, and the client of oslo.cache unpickles what it reads: whoever may write to memcached would run
code as keystone. The proxy ``Sealed``, named in ``[cache] proxies``, stores bytes that are encrypted and signed with a
key of the members alone, takes nothing else back, and keeps the client from unpickling anything by itself.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import pickle
import typing as t

import memcache
from cryptography import fernet
from dogpile.cache import api, proxy
from dogpile.cache.backends import null
from oslo_cache import _memcache_pool

KEY_FILE = pathlib.Path("/etc/keystone/footprint-cache.key")
#: Names that a member without this proxy does not ask for: it would take what is sealed for an entry and fail.
PREFIX = "sealed."


def receive(server: t.Any, flags: int, length: int) -> bytes:
    """Read an entry off the connection as it is; one that is not plain bytes, such as a pickle, counts as empty."""
    found = server.recv(length + 2)
    if len(found) != length + 2:
        raise memcache._Error("the entry ends early")  # pylint: disable=protected-access
    return found[:-2] if flags == 0 else b""


class Sealed(proxy.ProxyBackend):
    """Between dogpile.cache and ``oslo_cache.memcache_pool``. What was not made with the key, for this name, is a miss."""

    def __init__(self, *arguments: t.Any, **more: t.Any) -> None:
        super().__init__(*arguments, **more)
        secret = KEY_FILE.read_bytes().strip()
        if len(secret) < 16:
            raise ValueError(f"{KEY_FILE} has no key of 16 characters or more")
        self.fernet = fernet.Fernet(base64.urlsafe_b64encode(hashlib.sha256(secret).digest()))

    def wrap(self, backend: t.Any) -> Sealed:
        """Stand in front of a backend, whose clients are kept from unpickling."""
        if isinstance(backend, null.NullBackend):  # [cache] enabled = false
            return t.cast(Sealed, super().wrap(backend))
        pool = getattr(backend, "client_pool", None)
        if not isinstance(pool, _memcache_pool.MemcacheClientPool):
            raise TypeError(f"footprint_cache.Sealed needs the backend oslo_cache.memcache_pool, not {type(backend).__name__}")
        connect = pool._create_connection  # pylint: disable=protected-access

        def create() -> t.Any:
            client = connect()
            if not callable(getattr(client, "_recv_value", None)):
                raise TypeError("footprint_cache.Sealed does not know this version of python-memcached")
            client._recv_value = receive  # pylint: disable=protected-access
            return client

        pool._create_connection = create  # pylint: disable=protected-access
        return t.cast(Sealed, super().wrap(backend))

    def seal(self, key: str, value: t.Any) -> bytes:
        """Bytes for an entry; its name is part of them, so that none can take the place of another."""
        return self.fernet.encrypt(pickle.dumps((str(key), value), protocol=4))

    def unseal(self, key: str, found: t.Any) -> t.Any:
        """The entry that was sealed under this name, else ``NO_VALUE``."""
        if not isinstance(found, bytes):
            return api.NO_VALUE
        try:
            opened = self.fernet.decrypt(found)
        except fernet.InvalidToken:
            return api.NO_VALUE
        # it was signed with the members' key before it is unpickled
        name, value = pickle.loads(opened)
        return value if name == str(key) else api.NO_VALUE

    # what dogpile.cache asks for, each for one entry and for many

    def get(self, key: str) -> t.Any:
        """One entry."""
        return self.unseal(key, self.proxied.get(PREFIX + key))

    def get_multi(self, keys: t.Sequence[str]) -> list[t.Any]:
        """Many, in their order."""
        return [self.unseal(key, found) for key, found in zip(keys, self.proxied.get_multi([PREFIX + key for key in keys]))]

    def set(self, key: str, value: t.Any) -> None:
        """Keep one entry."""
        self.proxied.set(PREFIX + key, self.seal(key, value))

    def set_multi(self, mapping: t.Mapping[str, t.Any]) -> None:
        """Keep many."""
        self.proxied.set_multi({PREFIX + key: self.seal(key, value) for key, value in mapping.items()})

    def delete(self, key: str) -> None:
        """Forget one entry."""
        self.proxied.delete(PREFIX + key)

    def delete_multi(self, keys: t.Sequence[str]) -> None:
        """Forget many."""
        self.proxied.delete_multi([PREFIX + key for key in keys])

    get_serialized = get
    get_serialized_multi = get_multi
    set_serialized = set
    set_serialized_multi = set_multi
