# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A network that no wire leads out of: a network namespace without a name, inhabited by one thread of this process.

The kernel takes it away with the process, however that ends, and no packet filter, bridge or
network manager of the host has a part in it.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import os
import threading
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_CLONE_NEWNET = 0x40000000
_T = t.TypeVar("_T")


class IsolatedNetwork:
    """Use as a context manager.

    :raises BackendError: the kernel gives no namespace.
    """

    def __init__(self) -> None:
        # always the same thread, for only the thread that moved there is there; so are the commands it starts
        self._inhabitant = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="isolated")
        try:
            self._id = self.run(_move_out)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> IsolatedNetwork:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def run(self, work: t.Callable[..., _T], *arguments: t.Any, **named: t.Any) -> _T:
        """Do something in there; returns what it returns, raises what it raises."""
        return self._inhabitant.submit(work, *arguments, **named).result()

    def take(self, interface: str) -> None:
        """Bring an interface of the host in, and up."""
        run(["ip", "link", "set", "dev", interface, "netns", str(self._id)], timeout=30)
        self.run(run, ["ip", "link", "set", "dev", interface, "up"], timeout=30)

    def tag(self, interface: str, vlan: int) -> str:
        """The end of a VLAN on an interface that was taken in."""
        name = f"{interface}v"
        self.run(run, ["ip", "link", "add", "link", interface, "name", name, "type", "vlan", "id", str(vlan)], timeout=30)
        self.run(run, ["ip", "link", "set", "dev", name, "up"], timeout=30)
        return name

    def settle(self, interface: str, address: str, prefix: int, neighbour: str) -> None:
        """Live at an address beside a neighbour, through whom everything else is looked for too."""
        self.run(run, ["ip", "address", "add", f"{address}/{prefix}", "dev", interface], timeout=30)
        # further addresses of the neighbour's are its own, whatever network they belong to
        self.run(run, ["ip", "route", "add", "default", "via", neighbour, "dev", interface, "onlink"], timeout=30)

    def close(self) -> None:
        """Leave it; nobody waits for a question that is still under way."""
        self._inhabitant.shutdown(wait=False, cancel_futures=True)


def _move_out() -> int:
    """Move the calling thread into a new namespace; returns its number."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise BackendError(f"The kernel gives no network namespace: {reason}.", hint="Run as root, on a kernel with network namespaces.")
    return threading.get_native_id()


def own_address(peer: str, *, routed: bool = False) -> str | None:
    """The address this host shows to a peer on a network of its own; ``None`` when the peer is further away.

    :arg routed: then too.
    """
    done = run(["ip", "-json", "-4", "route", "get", peer], timeout=30, ok=range(256))
    routes = json.loads(done.stdout or "[]") if done.rc == 0 else []
    if not routes or ("gateway" in routes[0] and not routed):
        return None
    shown = routes[0].get("prefsrc")
    return None if shown is None else str(shown)
