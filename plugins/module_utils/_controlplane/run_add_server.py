# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: one controller as growth sees it, and what it holds handed to its peers."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_controller
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import Wanted, problems
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_galera
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._loadbalancer.io_haproxy import HaProxy
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_store
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_journal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_moved
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import CONFIRMED, MOVED, MOVING

_PAUSE = 1.0
_HINT = "Look at `status` and at the journals of haproxy and keepalived on the controllers, then run the play again."


@dataclasses.dataclass(frozen=True)
class LookRequest:
    """What is looked at, and what is waited for.

    :arg wait: seconds the controller gets to become what is ``wanted``.
    """

    units: tuple[str, ...]
    virtual_address: str | None
    port: int
    wanted: Wanted
    wait: float = 0


def wanted(size: int | None, uuid: str | None, position: int, absent: t.Sequence[str], balanced: bool) -> Wanted:
    """What is waited for, from a module's parameters."""
    return Wanted(size, uuid or None, position, tuple(absent), balanced)


def local_balancer(path: str) -> HaProxy:
    """The HAProxy of this host.

    :arg path: its admin socket.
    """
    return HaProxy(path)


def look(
    request: LookRequest,
    database: MariaDb,
    balancer: HaProxy,
    host: t.Any = io_controller,
    sleep: t.Callable[[float], None] = time.sleep,
    clock: t.Callable[[], float] = time.monotonic,
) -> dict[str, t.Any]:
    """The controller as it is, as soon as it is well or the time is over."""
    began = clock()
    while True:
        seen: dict[str, t.Any] = {
            "galera": run_galera.look(database, recover=False),
            "services": host.unit_states(request.units),
            "addresses": host.addresses(),
            "frontends": None,
            "answers": None,
        }
        if request.virtual_address:
            try:
                seen["frontends"] = balancer.frontends()
            except BackendError:
                pass  # told by the missing value
            seen["answers"] = host.database_greets(request.virtual_address, request.port)
        seen["problems"] = problems(seen, request.wanted)
        if not seen["problems"] or clock() - began >= request.wait:
            return {**seen, "waited": round(clock() - began, 1)}
        sleep(_PAUSE)


@dataclasses.dataclass(frozen=True)
class HandoverRequest:
    """What a controller is to let go of.

    :arg member: the one that lets go.
    :arg here: whether this host is that one: then the virtual address goes, else the clients are sent to others.
    :arg ports: service → port at the virtual address.
    """

    member: str
    here: bool
    virtual_address: str
    ports: t.Mapping[str, int]
    timeout: float = 30
    unit: str = "keepalived.service"


def hand_over(
    request: HandoverRequest,
    balancer: HaProxy,
    check_mode: bool,
    host: t.Any = io_controller,
    sleep: t.Callable[[float], None] = time.sleep,
    clock: t.Callable[[], float] = time.monotonic,
) -> list[str]:
    """Let go of what clients need; returns what was done, or in check mode would be.

    :raises BackendError: nobody took it over in time.
    :raises RefusedError: there is nobody else to serve.
    """
    act = _give_address if request.here else _send_elsewhere
    return act(request, balancer, check_mode, host, sleep, clock)


def _give_address(request: HandoverRequest, _balancer: HaProxy, check_mode: bool, host: t.Any, sleep: t.Callable[[float], None], clock: t.Any) -> list[str]:
    """A restart says goodbye to the peers, and comes back as one that waits; nothing stays behind when we are killed here."""
    if request.virtual_address not in host.addresses():
        return []
    if not check_mode:
        host.restart(request.unit)
        _await(
            lambda: request.virtual_address not in host.addresses() and all(host.touch(request.virtual_address, port) for port in request.ports.values()),
            f"no peer took the virtual address {request.virtual_address} over",
            request.timeout,
            sleep,
            clock,
        )
    return ["address"]


def _send_elsewhere(request: HandoverRequest, balancer: HaProxy, check_mode: bool, host: t.Any, sleep: t.Callable[[float], None], clock: t.Any) -> list[str]:
    done = []
    for name, frontend in sorted(balancer.frontends().items()):
        if frontend["in_use"] != request.member or name not in request.ports:
            continue
        others = [server for server, state in frontend["servers"].items() if server != request.member and state["status"].startswith("UP")]
        if not others:
            raise RefusedError(f"nobody but {request.member} serves {name}.", hint="Bring the other members back first.")

        def others_serve(name: str = name) -> bool:
            if balancer.frontends()[name]["in_use"] == request.member:
                # its checks bring it back within two seconds, so this may have to be said again
                balancer.take_out(name, request.member)
                # where the first client is sent is remembered for all that follow; nobody says that one comes right now
                host.touch(request.virtual_address, request.ports[name])
            return balancer.frontends()[name]["in_use"] != request.member

        if not check_mode:
            _await(others_serve, f"the load balancer goes on sending clients of {name} to {request.member}", request.timeout, sleep, clock)
        done.append(f"writer of {name}")
    return done


def _await(true: t.Callable[[], bool], problem: str, timeout: float, sleep: t.Callable[[float], None], clock: t.Callable[[], float]) -> None:
    began = clock()
    while not true():
        if clock() - began >= timeout:
            raise BackendError(f"{problem} within {int(timeout)} s.", hint=_HINT)
        sleep(0.2)


def parse_ports(value: t.Mapping[str, t.Any]) -> dict[str, int]:
    """Services and their ports.

    :raises InputError: a port that is none.
    """
    found = {}
    for name, port in value.items():
        text = str(port)
        if not text.isdecimal() or not 0 < int(text) < 65536:
            raise InputError(f"{port!r} is no port.", f"ports.{name}", "Write NAME: PORT, e.g. {mysql: 3306}.")
        found[str(name)] = int(text)
    return found


def departures(cluster: str | None = None, unfinished: bool = False) -> list[dict[str, t.Any]]:
    """The notes this server keeps of VMs that left it or are on their way, by name.

    :arg unfinished: only those that wait for something.
    """
    notes = [dataclasses.asdict(note) for note in io_moved.read_all().values()]
    noted = {note["id"] for note in notes if note["state"] != CONFIRMED}
    # a worker writes its note when the VM is about to leave; until then only its journal tells that it is at work
    notes += [note for note in _at_work() if note["id"] not in noted]
    notes = [note for note in notes if cluster in (None, note["cluster"]) and not (unfinished and note["state"] == CONFIRMED)]
    return sorted(notes, key=lambda note: (note["name"], note["uuid"]))


def _at_work() -> t.Iterator[dict[str, t.Any]]:
    for name in io_journal.names(io_store.HOME):
        store = io_store.MoveStore(name)
        job, found = store.read_job() or {}, store.read()
        params = job.get("params") or {}
        if job.get("action") != MOVED or found is None or found.state not in ("new", "running"):
            continue
        vm = found.facts.get("vm") or {}
        where = params.get("destination") or {}
        yield {
            "id": str(params.get("id", name)),
            "cluster": str(params.get("cluster") or vm.get("cluster") or ""),
            "name": str(vm.get("name") or name),
            "uuid": str(vm.get("uuid") or ""),
            "to": str(where.get("name") or where.get("host") or ""),
            "at": "",
            "state": MOVING,
        }
