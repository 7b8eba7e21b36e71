# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent: the program at the destination that executes commands of the source.

``python3 -m …move_agent COMMAND NAME`` with a JSON mapping on standard input; the answer is a JSON mapping on
standard output. It starts no VM by itself: the journal on the source decides which copy may run.
"""

from __future__ import annotations

import os
import re
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_channel, io_live, io_look, io_place
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import DISK, Item
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, io_key_session
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import key_marker
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, DomainRecord
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, run_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import FORMER, INCOMING, OWNER, Record, record_from
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._move.run_agent"

_POLL = 0.2
_LOCK = 120.0
# a guest that ends within this number of seconds counts as not started
_STEADY = 2.0

Given = t.Mapping[str, t.Any]


def answer(command: str, given: Given) -> dict[str, t.Any]:
    """Execute one command of the source."""
    if command not in _COMMANDS:
        raise InputError(f"{command!r} is not a valid command of the move agent.")
    return _COMMANDS[command](given)


def _items(given: Given) -> list[Item]:
    return [Item(**each) for each in given["items"]]


def _look(given: Given) -> dict[str, t.Any]:
    return io_look.look(given["vm"], given["uri"])


def _receive(given: Given) -> dict[str, t.Any]:
    """Reserve this VM for the move, so that it is not defined or started otherwise; returns the hashes of existing base images."""
    of = record_from(given["record"], f"source/{given['uuid']}.json")
    operation = of.operation
    if of.role != OWNER or operation is None:
        raise InputError("begins no move.", "record")
    with host_lock("domains", _LOCK), DomainHost(given["uri"]) as host:
        here = host.domain(of.uuid) is not None
        run_owner.change(of.uuid, Event("received", here=operation.to, token=operation.token, to=operation.by, of=of, complete=here))
    items = _items(given)
    io_place.prepare(items)
    return {"hashes": {item.path: io_place.content_hash(item.path) for item in items if item.base and os.path.isfile(item.path)}}


def _answers(given: Given) -> dict[str, Record]:
    """Return the record of the source, by its name."""
    return {given["source"]: record_from(given["record"], f"source/{given['uuid']}.json")}


def _answer(uuid: str) -> dict[str, t.Any]:
    record = io_owner.known(uuid)
    return {"record": record.values() if record else None}


def _own(given: Given, found: DomainRecord | None) -> None:
    """Make sure that the VM belongs to this host: take it from its source, or end its return to that.

    :raises RefusedError: it does not.
    """
    record = io_owner.known(given["uuid"])
    if record is not None and record.role == OWNER and record.operation is None:
        return
    name = "cancelled" if record is not None and record.role == OWNER else "taken"
    run_owner.change(given["uuid"], Event(name, here=record.to if record else "", answers=_answers(given), complete=found is not None))


def _place(given: Given) -> dict[str, t.Any]:
    """Rename received files to their final paths; disks that libvirt mirrors are created empty first."""
    items = _items(given)
    for item in items:
        if given.get("empty") and item.carried == DISK:
            io_place.make_empty(item)
    io_place.place(items, given["uuid"])
    _refresh(given["uri"], items)
    return {}


def _refresh(uri: str, items: t.Iterable[Item]) -> None:
    with DomainHost(uri) as host:
        store = VolumeStore(host)
        for item in items:
            found = store.pool_of(item.path)
            if found is not None:
                with store.locked(found[0]):
                    pass
        store.refresh()


def _define(given: Given) -> dict[str, t.Any]:
    """Define the VM, whose data are complete, with autostart disabled until the move is."""
    with host_lock("domains", _LOCK), DomainHost(given["uri"]) as host:
        host.define(given["xml"])
        host.set_autostart(given["uuid"], False)
        run_owner.change(given["uuid"], Event("arrived", token=given["token"]))
    return _answer(given["uuid"])


def _state(given: Given) -> dict[str, t.Any]:
    """Return the state of the VM here: running, paused, off or gone."""
    with DomainHost(given["uri"]) as host:
        record = host.domain(given["uuid"])
    boot = (read_text("/proc/sys/kernel/random/boot_id") or "").strip()
    state = "gone" if record is None else record.state if record.active else "off"
    return {"state": state, "boot_id": boot, **_answer(given["uuid"])}


def _run(given: Given) -> dict[str, t.Any]:
    """Start the VM, or resume it if it is paused, and wait until it is running."""
    uuid = given["uuid"]
    with host_lock("domains", _LOCK), DomainHost(given["uri"]) as host:
        record = host.domain(uuid)
        if record is None:
            raise BackendError("the VM is not defined at the destination.")
        _own(given, record)
        if record.state != "running":
            try:
                if record.active:
                    host.resume(uuid)
                else:
                    host.start(uuid)
            except BackendError as error:
                return {"error": str(error), "ran": False}
        steady = time.monotonic() + (0 if record.active else _STEADY)
        until = time.monotonic() + float(given["seconds"])
        while True:
            record = host.domain(uuid)
            if record is None or not record.active:
                return {"error": "the VM ended immediately after its start; check its log in /var/log/libvirt.", "ran": True}
            if record.state == "running" and time.monotonic() >= steady:
                return {"error": None, "ran": True}
            if time.monotonic() > until:
                return {"error": f"the VM is {record.state} {given['seconds']} s after its start.", "ran": True}
            time.sleep(_POLL)


def _stop(given: Given) -> dict[str, t.Any]:
    """Shut the VM down, and with ``returns`` prevent another start; with ``cut`` destroy a domain that never ran here."""
    uuid = given["uuid"]
    with host_lock("domains", _LOCK), DomainHost(given["uri"]) as host:
        record = host.domain(uuid)
        if record is not None and record.persistent:
            host.set_autostart(uuid, False)
        if record is not None and record.active:
            if given.get("cut"):
                if record.state == "running":
                    raise RefusedError("the VM is running at the destination, but was not started by the move.", hint="Find out which copy is valid.")
                io_live.cut(host, uuid)
            else:
                host.shutdown(uuid, float(given["seconds"]), bool(given.get("force")))
        own = io_owner.known(uuid)
        if given.get("returns") and own is not None and own.role == OWNER:
            left = host.domain(uuid)
            run_owner.change(uuid, Event("stopped", running=left is not None and left.active))
        return {"was": record.state if record is not None else "gone"}


def _undefine(given: Given) -> dict[str, t.Any]:
    """Undefine the VM, which must be off; with ``keep`` all of its files stay, otherwise ``discard`` removes them."""
    with host_lock("domains", _LOCK), DomainHost(given["uri"]) as host:
        record = host.domain(given["uuid"])
        if record is not None and record.active:
            raise RefusedError(f"the VM is {record.state} at the destination.")
        if record is not None:
            # otherwise its NVRAM goes with it: it is one of the files that came along
            host.undefine(given["uuid"], keep=bool(given.get("keep")))
    return {}


def _discard(given: Given) -> dict[str, t.Any]:
    items = _items(given)
    gone, left = io_place.discard(items, given["uuid"] if given.get("arrived") else None)
    if gone:
        _refresh(given["uri"], items)
    return {"removed": gone, "left": left}


def _refuse_moved_on(uuid: str, source: str) -> None:
    """Refuse to treat the copy here as the VM if it was moved on from here: it runs on a third server then, and this copy is old."""
    there = io_owner.known(uuid)
    if there is not None and there.role != INCOMING and there.state is not None and there.where != source:
        raise RefusedError(
            f"the VM is no longer there: it was moved on to {there.where} (state {there.state}), and the copy there is old.",
            hint=f"Move it from {there.where} back there first: with state: returned if that move is not confirmed yet.",
        )


def _written(given: Given) -> dict[str, t.Any]:
    """Return where the VM has its data here; refused if it was moved on from here, because that is old then."""
    _refuse_moved_on(given["uuid"], given["source"])
    return {"written": io_look.written(given["uri"], given["uuid"], given["known"])}


def _hold(given: Given) -> dict[str, t.Any]:
    """Begin the return of the VM to the source."""
    uuid, source = given["uuid"], given["source"]
    with host_lock("domains", _LOCK):
        _refuse_moved_on(uuid, source)
        record = io_owner.known(uuid)
        # unless it has been given back already
        if record is None or record.role != FORMER:
            run_owner.change(uuid, Event("begun", here=source, token=given["token"], to=source, answers=_answers(given)))
    return {}


def _hand_back(given: Given) -> dict[str, t.Any]:
    """Give the VM to the source, which has all of its data, or does without."""
    with host_lock("domains", _LOCK):
        record = io_owner.known(given["uuid"])
        if record is None or record.role != FORMER:
            run_owner.change(given["uuid"], Event("handed over", answers=_answers(given), complete=True))
    return _answer(given["uuid"])


def _settle(given: Given) -> dict[str, t.Any]:
    """Complete the move or the return here: set autostart, and end the operation in the record."""
    uuid = given["uuid"]
    with host_lock("domains", _LOCK), DomainHost(given["uri"]) as host:
        _refuse_moved_on(uuid, given["source"])
        record, found = io_owner.known(uuid), host.domain(uuid)
        io_place.settle(_items(given))
        if given.get("autostart") is not None:
            _own(given, found)
            # one that was removed here without its disks returns with them
            if found is not None or not given.get("returns"):
                host.set_autostart(uuid, bool(given["autostart"]))
        elif record is not None and record.state is not None:
            run_owner.change(uuid, Event("discarded" if record.role == INCOMING else "confirmed", answers=_answers(given)))
    return _answer(uuid)


def _channel(given: Given) -> dict[str, t.Any]:
    """Prepare the sockets of a live migration."""
    with DomainHost(given["uri"]) as host:
        folder = io_channel.make_folder(given["name"], io_channel.owner(host))
    return {"socket": io_channel.daemon_socket(), "folder": str(folder)}


def _forget_key(given: Given) -> dict[str, t.Any]:
    io_channel.remove_folder(given["name"])
    return {"changed": io_authorized_keys.forget(given["marker"])}


_COMMANDS: t.Mapping[str, t.Callable[[Given], dict[str, t.Any]]] = {
    "look": _look,
    "receive": _receive,
    "place": _place,
    "define": _define,
    "state": _state,
    "run": _run,
    "stop": _stop,
    "undefine": _undefine,
    "discard": _discard,
    "written": _written,
    "hold": _hold,
    "hand_back": _hand_back,
    "settle": _settle,
    "channel": _channel,
    "forget_key": _forget_key,
}


def main(argv: t.Sequence[str]) -> int:
    """Entry point; exit code 0 with ``{"ok": …}``, or 1 with ``{"error": …}``."""
    if len(argv) != 2 or not re.match(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z", argv[1]):
        sys.stderr.write("usage: move_agent COMMAND NAME\n")
        return 2
    return io_key_session.serve(lambda given: _answer_for(argv[1], argv[0], given), argv[0])


def _answer_for(name: str, command: str, given: Given) -> dict[str, t.Any]:
    if os.environ.get(io_key_session.VARIABLE) and given.get("marker", key_marker(name)) != key_marker(name):
        raise InputError(f"the key of {name} must not remove another key.", "marker")
    return answer(command, {**given, "name": name})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
