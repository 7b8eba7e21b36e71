# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: hand over the clients of a controller to its peers, and list the moves of VMs from a server."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_controller
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._loadbalancer.io_haproxy import HaProxy
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_store, model_journal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import CONFIRMED, Record

_HINT = "Run the playbook status and check the journals of haproxy and keepalived on the controllers, then run the play again."


def local_balancer(path: str) -> HaProxy:
    """Return the HAProxy of this host.

    :arg path: its admin socket.
    """
    return HaProxy(path)


@dataclasses.dataclass(frozen=True)
class HandoverRequest:
    """The handover of a controller.

    :arg member: the controller that hands over.
    :arg here: whether this host is ``member``: then its virtual address is moved, else its clients are redirected.
    :arg ports: service → port at the virtual address.
    """

    member: str
    here: bool
    virtual_address: str
    ports: t.Mapping[str, int]
    wait_timeout: float = 30
    unit: str = "keepalived.service"


def hand_over(
    request: HandoverRequest,
    balancer: HaProxy,
    check_mode: bool,
    host: t.Any = io_controller,
    sleep: t.Callable[[float], None] = time.sleep,
    clock: t.Callable[[], float] = time.monotonic,
) -> list[str]:
    """Hand over the virtual address or the clients; returns what was done, or would be done in check mode."""
    act = _move_address if request.here else _redirect_clients
    return act(request, balancer, check_mode, host, sleep, clock)


def _move_address(request: HandoverRequest, _balancer: HaProxy, check_mode: bool, host: t.Any, sleep: t.Callable[[float], None], clock: t.Any) -> list[str]:
    """Restart keepalived, which releases the address and starts in BACKUP; nothing has to be reverted if this is interrupted."""
    if request.virtual_address not in host.addresses():
        return []
    if not check_mode:
        host.restart(request.unit)
        _await(
            lambda: request.virtual_address not in host.addresses() and all(host.touch(request.virtual_address, port) for port in request.ports.values()),
            f"no peer took over the virtual address {request.virtual_address}",
            request.wait_timeout,
            sleep,
            clock,
        )
    return ["address"]


def _redirect_clients(request: HandoverRequest, balancer: HaProxy, check_mode: bool, host: t.Any, sleep: t.Callable[[float], None], clock: t.Any) -> list[str]:
    done = []
    for name, frontend in sorted(balancer.frontends().items()):
        if frontend["in_use"] != request.member or name not in request.ports:
            continue
        others = [server for server, state in frontend["servers"].items() if server != request.member and state["status"].startswith("UP")]
        if not others:
            raise RefusedError(f"{request.member} is the only healthy member of {name}.", hint="Recover the other members first.")

        def others_serve(name: str = name) -> bool:
            if balancer.frontends()[name]["in_use"] == request.member:
                # its health checks mark it as up again within two seconds, so this may have to be repeated
                balancer.take_out(name, request.member)
                # the server of the first client is used for all following ones; connect, because no other client may do so now
                host.touch(request.virtual_address, request.ports[name])
            return balancer.frontends()[name]["in_use"] != request.member

        if not check_mode:
            _await(others_serve, f"the load balancer still sends clients of {name} to {request.member}", request.wait_timeout, sleep, clock)
        done.append(f"writer of {name}")
    return done


def _await(true: t.Callable[[], bool], problem: str, timeout: float, sleep: t.Callable[[float], None], clock: t.Callable[[], float]) -> None:
    began = clock()
    while not true():
        if clock() - began >= timeout:
            raise BackendError(f"{problem} after {int(timeout)} s.", hint=_HINT)
        sleep(0.2)


def parse_ports(value: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Parse services and their ports."""
    found = {}
    for name, port in value.items():
        text = str(port)
        if not text.isdecimal() or not 0 < int(text) < 65536:
            raise InputError(f"{port!r} is not a valid port.", f"ports.{name}", "Write NAME: PORT, e.g. {mysql: 3306}.")
        found[str(name)] = int(text)
    return found


def departures(cluster: str | None = None, unfinished: bool = False) -> list[dict[str, t.Any]]:
    """Return the records of VMs that were or are being moved from this server, sorted by name.

    :arg unfinished: only moves that are not confirmed.
    """
    found = [_departure(record) for record in io_owner.read_all().values()]
    found = [each for each in found if cluster in (None, each["cluster"]) and not (unfinished and each["state"] == CONFIRMED)]
    return sorted(found, key=lambda each: (each["name"], each["uuid"]))


def _departure(record: Record) -> dict[str, t.Any]:
    values = {key: getattr(record, key) for key in ("id", "cluster", "name", "uuid", "at", "state")}
    return {**values, "to": record.where, "waiting": _waiting(record.id, record.uuid)}


def _waiting(vm_id: str, uuid: str) -> str | None:
    """Return what the worker of a move from this server waits for; moves are stored by ID, which VMs of two clusters may share."""
    journal = io_store.MoveStore(vm_id).journal()
    return model_journal.waiting(journal) if (journal.facts.get("vm") or {}).get("uuid") == uuid else None
