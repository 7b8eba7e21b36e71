# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent on the standby: the only program, beside the channel of the disks, that the key of the copies may run.

``python3 -m …run_agent COMMAND KEY`` with a JSON mapping on standard input; the answer is a JSON mapping on standard output. It
starts no VM, and it changes nothing once the VM was started here.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_key_session
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import parse_standby_key
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_nbd, plan_standby, run_start
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import CHUNK, DIGEST, STARTED, Copy, CopyDisk, packed, parse_copy_id

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._standby.run_agent"
_RECORD = 4 + DIGEST

Given = t.Mapping[str, t.Any]


def answer(command: str, cluster: str, vm_id: str, given: Given) -> dict[str, t.Any]:
    """Execute one command of the server of the VM."""
    if command not in _COMMANDS:
        raise InputError(f"{command!r} is not a valid command of the standby's agent.")
    return _COMMANDS[command](io_copies.CopyStore(cluster, vm_id), given)


def _look(store: io_copies.CopyStore, unused: Given) -> dict[str, t.Any]:
    """Return the record and the complete copies."""
    copies = [
        {"id": each.id, "at": each.at, "disks": [[disk.target, disk.path, disk.capacity] for disk in each.disks]} for each in store.copies()
    ]
    # before the record: between both, a start may have been recorded
    starting = {"starting": True} if store.starting() else {}
    return {"record": {**store.record(), **starting}, "copies": copies, "used": store.used()}


def _check(store: io_copies.CopyStore, unused: Given) -> dict[str, t.Any]:
    """Return why the last copy could not be started at present."""
    copies = store.copies()
    return {"obstacle": run_start.obstacle(copies[-1]) if copies else None}


def _refuse_started(store: io_copies.CopyStore) -> None:
    if store.record().get("state") == STARTED:
        raise RefusedError(f"{store.vm_id} was started on the standby.", hint="Move it back with move_vm.")


def _refuse_other(store: io_copies.CopyStore, given: Given) -> None:
    """Refuse copies of another VM with the same ID, and of disks that do not continue those of the copies: they would be pruned.

    :arg given: UUID, machine-id of the source and epoch of the VM there. They are not known of an earlier version.
    """
    hint = "remove its copies with vm_standby, state: absent, on the standby."
    copies = store.copies()
    others = sorted({each.name for each in copies if each.uuid != given.get("uuid", each.uuid)})
    if others:
        message = f"the standby has copies of another VM with the ID {store.vm_id}: {', '.join(others)}."
        raise RefusedError(message, hint=f"Give one of the two VMs another id, or {hint}")
    # those from before a start here are replaced by those of the VM that was moved back
    last = copies[-1] if copies and copies[-1].at > float(store.record().get("at") or 0) else None
    if last is not None and last.machine not in ("", given.get("machine", last.machine)) and int(given["epoch"]) <= last.epoch:
        raise RefusedError(
            f"the last copy of {store.vm_id} is from another machine: {last.source} was installed again, and its disks may be new.",
            hint=f"If they are, start the VM from its copy with start_standby, and move it back with move_vm. To do without the copies, {hint}",
        )


def _disks(store: io_copies.CopyStore, copy_id: str, given: Given) -> list[CopyDisk]:
    found = []
    for each in given["disks"]:
        path = os.path.normpath(str(each["path"]))
        if not os.path.isabs(path) or not re.match(r"\A[A-Za-z0-9]+\Z", str(each["target"])):
            raise InputError(f"{each['path']!r} is not a valid disk.", "disks")
        found.append(CopyDisk(str(each["target"]), path, str(each["format"]), int(each["capacity"]), store.image(path, copy_id, str(each["target"]))))
    return found


def _ask(store: io_copies.CopyStore, given: Given) -> dict[str, t.Any]:
    """Note the witnesses of a request before it takes effect: a start is recorded on all that its server may ask."""
    with store.locked():
        _refuse_started(store)
        _note_witnesses(store, given["witnesses"])
    return {}


def _note_witnesses(store: io_copies.CopyStore, names: t.Sequence[t.Any]) -> None:
    store.note_witnesses([parse_name(name, f"witnesses[{index}]") for index, name in enumerate(names)])


def _begin(store: io_copies.CopyStore, given: Given) -> dict[str, t.Any]:
    """Prepare the images of a copy, and return the digests of what an interrupted attempt already sent."""
    with store.locked():
        _refuse_started(store)
        _refuse_other(store, given)
        copies = store.copies()
        base = next((each for each in copies if each.id == given.get("base")), None)
        if given.get("base") and base is None:
            raise BackendError(f"the copy {given['base']} does not exist any more.")
        disks = _disks(store, parse_copy_id(given["copy"]), given)
        pools = _pool_folders()
        for folder in {os.path.dirname(disk.path) for disk in disks}:
            if folder not in pools:
                raise BackendError(f"no storage pool on the standby has the path {folder}.", hint="Create a pool with the same path there.")
            io_copies.check_room(folder, int(given.get("needed") or 0), store.vm_id)
        store.note_folders(disks)
        if "witnesses" in given:
            _note_witnesses(store, given["witnesses"])
        kept = store.prepare(base, disks)
        have: dict[str, str] = {}
        if kept:
            for disk in disks:
                have[disk.target] = encoded(_read(store, disk, plan_standby.touched(store.allocated(disk), disk.capacity)))
        return {"have": have, "resumed": kept, "digests": _digests(store, base)}


def _pool_folders() -> t.Collection[str]:
    with DomainHost("qemu:///system") as host:
        return io_domain_lists.pool_folders(host)


def _digests(store: io_copies.CopyStore, base: Copy | None) -> dict[str, str]:
    """Return the digests of the disks in the last copy, for the comparison with the disks of the VM."""
    found = {}
    for disk in base.disks if base else ():
        values = store.digests(t.cast(Copy, base), disk)
        if values is None:
            raise BackendError(f"the digests of {disk.target} in the copy {t.cast(Copy, base).id} are missing.", hint="Remove that copy.")
        found[disk.target] = base64.b64encode(packed(values)).decode()
    return found


def _read(store: io_copies.CopyStore, disk: CopyDisk, chunks: t.Sequence[int]) -> dict[int, bytes]:
    """Read chunks of the partial copy back from the disk."""
    path = store.image(disk.path, "partial", disk.target)
    found: dict[int, bytes] = {}
    if chunks:
        with _uncached(path) as connection:
            for index in chunks:
                (found[index],) = io_nbd.digests_of(connection.read(index * CHUNK, plan_standby.length_of(index, disk.capacity)))
    return found


@contextlib.contextmanager
def _uncached(path: str) -> t.Iterator[io_nbd.NbdDisk]:
    """Connect to an image, and read from the disk, where its file system supports that."""
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(io_nbd.served(path, "qcow2", uncached=True))
        except BackendError:
            address = stack.enter_context(io_nbd.served(path, "qcow2"))
        yield stack.enter_context(io_nbd.NbdDisk().connect_socket(address))


def encoded(digests: t.Mapping[int, bytes]) -> str:
    """Return chunk → digest as text."""
    return base64.b64encode(b"".join(index.to_bytes(4, "big") + value for index, value in sorted(digests.items()))).decode()


def decoded(text: str) -> dict[int, bytes]:
    """Return chunk → digest from that text."""
    content = base64.b64decode(text)
    return {int.from_bytes(content[at : at + 4], "big"): content[at + 4 : at + _RECORD] for at in range(0, len(content), _RECORD)}


def _finish(store: io_copies.CopyStore, given: Given) -> dict[str, t.Any]:
    """Read everything that was sent back, compare it, and make it a copy."""
    with store.locked():
        _refuse_started(store)
        partial = store.partial()
        if partial is None:
            raise BackendError("the partial copy does not exist.")
        base = next((each for each in store.copies() if each.id == partial["base"]), None)
        disks = _disks(store, parse_copy_id(given["copy"]), given)
        digests: dict[str, list[bytes]] = {}
        count = 0
        for disk in disks:
            sent = decoded(given["sent"][disk.target])
            read = _read(store, disk, sorted(sent))
            wrong = [index for index, value in sent.items() if read[index] != value]
            if wrong:
                store.discard_partial()
                raise BackendError(f"{len(wrong)} of {len(sent)} chunks of {disk.target} differ from what was sent, the first at byte {wrong[0] * CHUNK}.")
            count += len(sent)
            below = next((each for each in base.disks if each.target == disk.target), None) if base else None
            known = store.digests(base, below) if base and below else plan_standby.blank(disk.capacity)
            if known is None:
                raise BackendError(f"the digests of the copy {partial['base']} are missing.")
            for index, value in sent.items():
                known[index] = value
            digests[disk.target] = known
        facts = given["facts"]
        _refuse_other(store, facts)
        copy = Copy(
            id=given["copy"], vm=store.vm_id, uuid=facts["uuid"], name=facts["name"], source=facts["source"], at=float(facts["at"]), verified_at=time.time(),
            frozen=bool(facts["frozen"]), mode=facts["mode"], bytes=int(facts["bytes"]), seconds=float(facts["seconds"]), xml=facts["xml"],
            files={str(path): str(text) for path, text in facts["files"].items()}, autostart=bool(facts["autostart"]), disks=tuple(disks),
            machine=str(facts.get("machine") or ""), epoch=int(facts.get("epoch") or 0),
        )  # fmt: skip
        store.commit(copy, digests)
        store.prune(plan_standby.surplus_copies([each.id for each in store.copies()], max(1, int(given["keep"]))))
        return {"verified": count, "used": store.used(), **_check(store, given)}


def _discard(store: io_copies.CopyStore, unused: Given) -> dict[str, t.Any]:
    with store.locked():
        store.discard_partial()
    return {}


_COMMANDS: t.Mapping[str, t.Callable[[io_copies.CopyStore, Given], dict[str, t.Any]]] = {
    "look": _look,
    "check": _check,
    "ask": _ask,
    "begin": _begin,
    "finish": _finish,
    "discard": _discard,
}


def main(argv: t.Sequence[str]) -> int:
    """Entry point; exit code 0 with ``{"ok": …}``, or 1 with ``{"error": …}``."""
    whose = parse_standby_key(argv[1]) if len(argv) == 2 else None
    if whose is None:
        sys.stderr.write("usage: run_agent COMMAND standby-ID@CLUSTER\n")
        return 2
    return io_key_session.serve(lambda given: answer(argv[0], *whose, given), argv[0])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
