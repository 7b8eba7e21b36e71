# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Encrypt keystone's entries in memcached, so that only keystone can read or write them.

memcached has no authentication, and the client of oslo.cache unpickles what it reads: a process that can write to memcached could
run code as keystone. ``Sealed``, configured in ``[cache] proxies``, replaces the client of the whole process. The new client stores
bytes that are encrypted and signed with a key that only the members have, and unpickles nothing else. The client is replaced because
keystone does not use proxies for all of its cache regions: not for the region with its invalidations.
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
#: Prefix of entry names. A member without this client would fail on encrypted entries; it does not request names with this prefix.
PREFIX = "sealed."


class SealedClient(_memcache_pool._MemcacheClient):  # type: ignore[misc,name-defined]  # pylint: disable=protected-access
    """A memcached client. An entry that was not encrypted with the key, for its name, is a miss."""

    fernet: t.Any = None

    def _recv_value(self, server: t.Any, flags: int, rlen: int) -> bytes:
        """Read an entry from the connection unchanged; an entry that is not plain bytes, such as a pickle, counts as empty."""
        found = server.recv(rlen + 2)
        if len(found) != rlen + 2:
            raise memcache._Error("the entry ends early")  # pylint: disable=protected-access
        return found[:-2] if flags == 0 else b""

    def seal(self, key: str, value: t.Any) -> bytes:
        """Encrypt an entry together with its name, so that entries cannot be exchanged."""
        return self.fernet.encrypt(pickle.dumps((key, value), protocol=4))

    def unseal(self, key: str, found: t.Any) -> t.Any:
        """Return the entry that was encrypted under this name, else ``None``."""
        if not isinstance(found, bytes):
            return None
        try:
            opened = self.fernet.decrypt(found)
        except fernet.InvalidToken:
            return None
        # safe to unpickle: the signature with the members' key is verified
        name, value = pickle.loads(opened)
        return value if name == key else None

    def get(self, key: str, default: t.Any = None) -> t.Any:
        """Return one entry."""
        found = self.unseal(key, super().get(PREFIX + key))
        return default if found is None else found

    def get_multi(self, keys: t.Iterable[str], key_prefix: str = "") -> dict[str, t.Any]:
        """Return the existing ones of several entries."""
        wanted = {PREFIX + key_prefix + key: key for key in keys}
        found = {wanted[name]: self.unseal(key_prefix + wanted[name], entry) for name, entry in super().get_multi(list(wanted)).items()}
        return {key: value for key, value in found.items() if value is not None}

    def set(self, key: str, val: t.Any, *arguments: t.Any, **more: t.Any) -> t.Any:
        """Store one entry."""
        return super().set(PREFIX + key, self.seal(key, val), *arguments, **more)

    def set_multi(self, mapping: t.Mapping[str, t.Any], *arguments: t.Any, **more: t.Any) -> t.Any:
        """Store several entries."""
        return super().set_multi({PREFIX + key: self.seal(key, value) for key, value in mapping.items()}, *arguments, **more)

    def delete(self, key: str, *arguments: t.Any, **more: t.Any) -> t.Any:
        """Delete one entry."""
        return super().delete(PREFIX + key, *arguments, **more)

    def delete_multi(self, keys: t.Iterable[str], *arguments: t.Any, **more: t.Any) -> t.Any:
        """Delete several entries."""
        return super().delete_multi([PREFIX + key for key in keys], *arguments, **more)


def cipher() -> t.Any:
    """Return the Fernet object with the members' key.

    :raises ValueError: the file contains no valid key.
    """
    secret = KEY_FILE.read_bytes().strip()
    if len(secret) < 16:
        raise ValueError(f"{KEY_FILE} must contain a key of 16 characters or more")
    return fernet.Fernet(base64.urlsafe_b64encode(hashlib.sha256(secret).digest()))


class Sealed(proxy.ProxyBackend):
    """Replaces the client of all connections of this process by :class:`SealedClient`; the proxy itself does nothing else."""

    def __init__(self, *arguments: t.Any, **more: t.Any) -> None:
        super().__init__(*arguments, **more)
        if not all(callable(getattr(memcache.Client, name, None)) for name in ("_recv_value", "get", "get_multi", "set", "set_multi")):
            raise TypeError("footprint_cache does not support this version of python-memcached")
        SealedClient.fernet = cipher()
        _memcache_pool._MemcacheClient = SealedClient  # pylint: disable=protected-access

    def wrap(self, backend: t.Any) -> Sealed:
        """Wrap a backend that uses this client.

        :raises TypeError: the backend uses another client.
        """
        pool = getattr(backend, "client_pool", None)
        if not isinstance(pool, _memcache_pool.MemcacheClientPool) and not isinstance(backend, null.NullBackend):  # [cache] enabled = false
            raise TypeError(f"footprint_cache requires the backend oslo_cache.memcache_pool, got {type(backend).__name__}")
        return t.cast(Sealed, super().wrap(backend))
