# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encrypt what keystone keeps in memcached, so that nobody but keystone can read or write it.

memcached knows no users, and the client of oslo.cache unpickles what it reads: whoever may write to memcached would run
code as keystone. ``Sealed``, named in ``[cache] proxies``, gives the whole process another client. It stores bytes that are
encrypted and signed with a key of the members alone, and unpickles nothing else. That is done to the client, because
keystone does not put a proxy in front of each of its regions: not of the one with its invalidations.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import pickle
import typing as t

import memcache
from cryptography import fernet
from dogpile.cache import proxy
from dogpile.cache.backends import null
from oslo_cache import _memcache_pool

KEY_FILE = pathlib.Path("/etc/keystone/footprint-cache.key")
#: Names that a member without this client does not ask for: it would take what is sealed for an entry and fail.
PREFIX = "sealed."


class SealedClient(_memcache_pool._MemcacheClient):  # type: ignore[misc,name-defined]  # pylint: disable=protected-access
    """A client of memcached. What was not made with the key, for this name, is a miss."""

    fernet: t.Any = None

    def _recv_value(self, server: t.Any, flags: int, rlen: int) -> bytes:
        """Read an entry off the connection as it is; one that is not plain bytes, such as a pickle, counts as empty."""
        found = server.recv(rlen + 2)
        if len(found) != rlen + 2:
            raise memcache._Error("the entry ends early")  # pylint: disable=protected-access
        return found[:-2] if flags == 0 else b""

    def seal(self, key: str, value: t.Any) -> bytes:
        """Bytes for an entry; its name is part of them, so that none can take the place of another."""
        return self.fernet.encrypt(pickle.dumps((key, value), protocol=4))

    def unseal(self, key: str, found: t.Any) -> t.Any:
        """The entry that was sealed under this name, else ``None``."""
        if not isinstance(found, bytes):
            return None
        try:
            opened = self.fernet.decrypt(found)
        except fernet.InvalidToken:
            return None
        # it was signed with the members' key before it is unpickled
        name, value = pickle.loads(opened)
        return value if name == key else None

    def get(self, key: str, default: t.Any = None) -> t.Any:
        """One entry."""
        found = self.unseal(key, super().get(PREFIX + key))
        return default if found is None else found

    def get_multi(self, keys: t.Iterable[str], key_prefix: str = "") -> dict[str, t.Any]:
        """Those of many that there are."""
        wanted = {PREFIX + key_prefix + key: key for key in keys}
        found = {wanted[name]: self.unseal(key_prefix + wanted[name], entry) for name, entry in super().get_multi(list(wanted)).items()}
        return {key: value for key, value in found.items() if value is not None}

    def set(self, key: str, val: t.Any, *arguments: t.Any, **more: t.Any) -> t.Any:
        """Keep one entry."""
        return super().set(PREFIX + key, self.seal(key, val), *arguments, **more)

    def set_multi(self, mapping: t.Mapping[str, t.Any], *arguments: t.Any, **more: t.Any) -> t.Any:
        """Keep many."""
        return super().set_multi({PREFIX + key: self.seal(key, value) for key, value in mapping.items()}, *arguments, **more)

    def delete(self, key: str, *arguments: t.Any, **more: t.Any) -> t.Any:
        """Forget one entry."""
        return super().delete(PREFIX + key, *arguments, **more)

    def delete_multi(self, keys: t.Iterable[str], *arguments: t.Any, **more: t.Any) -> t.Any:
        """Forget many."""
        return super().delete_multi([PREFIX + key for key in keys], *arguments, **more)


def cipher() -> t.Any:
    """What encrypts and signs with the members' key.

    :raises ValueError: the file has none.
    """
    secret = KEY_FILE.read_bytes().strip()
    if len(secret) < 16:
        raise ValueError(f"{KEY_FILE} has no key of 16 characters or more")
    return fernet.Fernet(base64.urlsafe_b64encode(hashlib.sha256(secret).digest()))


class Sealed(proxy.ProxyBackend):
    """Has all connections of this process made by :class:`SealedClient`, and is itself of no further use."""

    def __init__(self, *arguments: t.Any, **more: t.Any) -> None:
        super().__init__(*arguments, **more)
        if not all(callable(getattr(memcache.Client, name, None)) for name in ("_recv_value", "get", "get_multi", "set", "set_multi")):
            raise TypeError("footprint_cache does not know this version of python-memcached")
        SealedClient.fernet = cipher()
        _memcache_pool._MemcacheClient = SealedClient  # pylint: disable=protected-access

    def wrap(self, backend: t.Any) -> Sealed:
        """Stand in front of a backend that uses this client.

        :raises TypeError: it uses another one.
        """
        pool = getattr(backend, "client_pool", None)
        if not isinstance(pool, _memcache_pool.MemcacheClientPool) and not isinstance(backend, null.NullBackend):  # [cache] enabled = false
            raise TypeError(f"footprint_cache needs the backend oslo_cache.memcache_pool, not {type(backend).__name__}")
        return t.cast(Sealed, super().wrap(backend))
