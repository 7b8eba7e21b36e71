# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An isolated network: an unnamed network namespace, used by one thread of this process.

The kernel removes it with the process, for whatever reason that ends. No packet filter, bridge or
network manager of the host is involved.
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
    """An isolated network; use as a context manager.

    :raises BackendError: the kernel does not create a namespace.
    """

    def __init__(self) -> None:
        # a single thread: only this thread and the commands it starts are in the namespace
        self._executor = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="isolated")
        try:
            self._id = self.run(_enter_namespace)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> IsolatedNetwork:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def run(self, work: t.Callable[..., _T], *arguments: t.Any, **named: t.Any) -> _T:
        """Run a function in the namespace; returns its result or raises its exception."""
        return self._executor.submit(work, *arguments, **named).result()

    def take(self, interface: str) -> None:
        """Move an interface of the host into the namespace and set it up."""
        run(["ip", "link", "set", "dev", interface, "netns", str(self._id)], timeout=30)
        self.run(run, ["ip", "link", "set", "dev", interface, "up"], timeout=30)

    def tag(self, interface: str, vlan: int) -> str:
        """Create a VLAN interface on an interface in the namespace; returns its name."""
        name = f"{interface}v"
        self.run(run, ["ip", "link", "add", "link", interface, "name", name, "type", "vlan", "id", str(vlan)], timeout=30)
        self.run(run, ["ip", "link", "set", "dev", name, "up"], timeout=30)
        return name

    def settle(self, interface: str, address: str, prefix: int, neighbour: str) -> None:
        """Configure an address, with the neighbour as default gateway."""
        self.run(run, ["ip", "address", "add", f"{address}/{prefix}", "dev", interface], timeout=30)
        # reaches further addresses of the neighbour, on any network
        self.run(run, ["ip", "route", "add", "default", "via", neighbour, "dev", interface, "onlink"], timeout=30)

    def close(self) -> None:
        """Leave the namespace without waiting for a running check."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _enter_namespace() -> int:
    """Move the calling thread into a new namespace; returns its thread ID."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise BackendError(f"The kernel did not create a network namespace: {reason}.", hint="Run as root, on a kernel with network namespaces.")
    return threading.get_native_id()


def own_address(peer: str, *, routed: bool = False) -> str | None:
    """Return this host's source address to a peer on a directly connected network, else ``None``.

    :arg routed: also for a peer behind a gateway.
    """
    done = run(["ip", "-json", "-4", "route", "get", peer], timeout=30, ok=range(256))
    routes = json.loads(done.stdout or "[]") if done.rc == 0 else []
    if not routes or ("gateway" in routes[0] and not routed):
        return None
    shown = routes[0].get("prefsrc")
    return None if shown is None else str(shown)
