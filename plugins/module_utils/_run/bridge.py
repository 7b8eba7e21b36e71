# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: a bridge takes over a port without cutting the operator off (X8)."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import bridge as network
from ansible_collections.reduced.footprint.plugins.module_utils._backend import deadman
from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.network import Change
from ansible_collections.reduced.footprint.plugins.module_utils._plan.bridge import ifupdown_change, networkd_change

_INTERFACE = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,14}\Z")
_PENDING = (deadman.STATE_PLANNED, deadman.STATE_TRYING, deadman.STATE_APPLIED)


@dataclasses.dataclass(frozen=True)
class BridgeRequest:
    """The bridge the user wants; ``timeout`` in seconds."""

    name: str
    port: str
    state: str = "present"
    timeout: int = 60


@dataclasses.dataclass
class BridgeResult:
    """What was found and done; ``trial`` tells that the change still waits for its confirmation."""

    changed: bool
    trial: bool
    manager: str | None
    addresses: list[str]
    diff: list[dict[str, str]]

    def as_dict(self) -> dict[str, t.Any]:
        """The result as keyword arguments for ``exit_json``."""
        return dataclasses.asdict(self)


def take_over(request: BridgeRequest, *, check_mode: bool, backend: t.Any = network) -> BridgeResult:
    """Start the change, or confirm one that was started; nothing where the bridge has its port already.

    :raises FootprintError: bad names, a network manager this collection does not drive, a change that was taken back.
    """
    for value, path in ((request.name, "name"), (request.port, "port")):
        if not _INTERFACE.match(value):
            raise InputError(f"{value!r} is no name of a network interface.", path, "Use up to 15 letters, digits, '.', '_' and '-'.")
    if request.timeout < 5:
        raise InputError(f"{request.timeout} s is too short to confirm anything.", "timeout", "Give at least 5 seconds.")
    pending = backend.trial_of(request.name).state in _PENDING
    if request.state == "confirmed":
        return _confirm(request, pending, check_mode, backend)
    links = backend.links()
    bridge = links.get(request.name)
    if bridge and bridge.is_bridge and request.port in bridge.ports:
        return BridgeResult(pending, pending, None, list(backend.addresses(request.name)), [])
    if pending:
        raise BackendError(f"a change of {request.name} is under way and has not got the port {request.port} yet.", mend="Run again in a minute.")
    if request.port not in links:
        physical = ", ".join(sorted(name for name in links if name != "lo")) or "none"
        raise InputError(f"there is no interface {request.port} (there are: {physical}).", "port", "Name the NIC the bridge is to take over.")
    if bridge:
        kind = "a bridge without this port" if bridge.is_bridge else "no bridge"
        raise RefusedError(f"{request.name} exists and is {kind} (port {request.port}).", "name", "Add the port yourself, or choose another name.")
    port = links[request.port]
    if port.master:
        raise RefusedError(f"{request.port} already belongs to {port.master}.", "port", f"Use {port.master}, or name another port.")
    change = _plan(request, port, backend.manager_of(port))
    addresses = list(backend.addresses(request.port))
    diff = [{"before_header": path, "after_header": path, "before": read_text(path) or "", "after": text} for path, text in change.keep.items()]
    if not check_mode:
        backend.start_trial(request.name, change, request.timeout)
        missing = backend.wait_for_takeover(request.name, request.port, addresses, request.timeout / 2)
        if missing:
            mend = f"The old configuration returns by itself within {request.timeout} s."
            raise BackendError(f"the change was applied, but {missing}.", mend=mend)
    return BridgeResult(True, True, change.manager, addresses, diff)


def _plan(request: BridgeRequest, port: t.Any, manager: t.Any) -> Change:
    if manager.name == "networkd":
        return networkd_change(request.name, request.port, port.mac, manager.path, manager.text)
    if manager.name == "ifupdown":
        return ifupdown_change(request.name, request.port, port.mac, manager.path, manager.text)
    who = {"netplan": "netplan", "networkmanager": "NetworkManager"}.get(manager.name or "", "nothing this collection knows")
    raise RefusedError(
        f"{request.port} is managed by {who}; bridges are made through systemd-networkd and ifupdown only.",
        "port",
        f"Make the bridge {request.name} over {request.port} with the host's own tools and run again: a bridge that exists is left as it is.",
    )


def _confirm(request: BridgeRequest, pending: bool, check_mode: bool, backend: t.Any) -> BridgeResult:
    if backend.trial_of(request.name).state == deadman.STATE_REVERTED or (pending and not check_mode):
        backend.confirm_trial(request.name)
    links = backend.links()
    addresses = list(backend.addresses(request.name)) if request.name in links else []
    return BridgeResult(pending, False, None, addresses, [])
