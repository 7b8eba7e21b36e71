# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Grants leases: ``python3 -m …run_grantor COMMAND KEY`` on a standby and on witnesses, one JSON mapping per line on both sides.

With ``lease``, for the server of the VM, it renews leases and ends the automatic start; with ``claim``, for the standby, it gives the VM away.
A session stays open; one without a request for a minute ends, because its other side may be gone.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_key_session
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import parse_standby_key, parse_takeover_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_grants, plan_lease
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import Grants, parse_number, parse_renewal
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import STARTED

_IDLE = "its service that would start the VM does not run"

MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._standby.run_grantor"
LEASING, CLAIMING = "lease", "claim"
_SILENT = 60.0
_MOST = 1 << 20

Given = t.Mapping[str, t.Any]


def _started(cluster: str, vm_id: str) -> bool:
    return io_copies.CopyStore(cluster, vm_id).record().get("state") == STARTED


def _renew(store: io_grants.GrantStore, given: Given) -> dict[str, t.Any]:
    now = io_grants.clock()
    asked, before = parse_renewal(given), store.grants()
    grants, seen, reason = plan_lease.renewed(before, store.seen(now), asked, now, _started(store.cluster, store.vm_id))
    store.keep(grants)
    store.note(seen)
    # its server reports it
    idle = _IDLE if io_grants.WatchStore(store.cluster, store.vm_id).idle() else None
    return {**_answer(grants, reason), **({"idle": idle} if idle else {})}


def _disarm(store: io_grants.GrantStore, given: Given) -> dict[str, t.Any]:
    grants, reason = plan_lease.disarmed(store.grants(), parse_number(given.get("number"), "number"), _started(store.cluster, store.vm_id))
    store.keep(grants)
    return _answer(grants, reason)


def _answer(grants: Grants, reason: str | None) -> dict[str, t.Any]:
    return {"granted": reason is None, "reason": reason, "arm": grants.arm, "disarmed": grants.disarmed}


def claim(store: io_grants.GrantStore, arm: int, number: int, by: str) -> str | None:
    """Claim a VM on this machine, whose lock is held; returns why it is refused."""
    now = io_grants.clock()
    grants, reason = plan_lease.claimed(store.grants(), store.seen(now), arm, number, by, now, _started(store.cluster, store.vm_id))
    store.keep(grants)
    return reason


def _claim(store: io_grants.GrantStore, given: Given) -> dict[str, t.Any]:
    reason = claim(store, parse_number(given.get("arm"), "arm"), parse_number(given.get("number"), "number"), str(given.get("by") or "standby"))
    return _answer(store.grants(), reason)


def _withdraw(store: io_grants.GrantStore, given: Given) -> dict[str, t.Any]:
    store.keep(plan_lease.withdrawn(store.grants(), parse_number(given.get("number"), "number")))
    return _answer(store.grants(), None)


def _taken(store: io_grants.GrantStore, given: Given) -> dict[str, t.Any]:
    """Record, as before a start by a person, that the VM was started on its standby."""
    copies = io_copies.CopyStore(store.cluster, store.vm_id)
    if store.grants().claim is not None and copies.record().get("state") != STARTED:
        copies.write_record({"state": STARTED, "at": time.time(), "from": given.get("source"), "proof": {"by": "lease"}})
    return _answer(store.grants(), None)


_COMMANDS: t.Mapping[str, t.Mapping[str, t.Callable[[io_grants.GrantStore, Given], dict[str, t.Any]]]] = {
    LEASING: {"renew": _renew, "disarm": _disarm},
    CLAIMING: {"claim": _claim, "withdraw": _withdraw, "taken": _taken},
}


def answer(kind: str, cluster: str, vm_id: str, given: Given) -> dict[str, t.Any]:
    """Answer one request of a session.

    :arg kind: ``lease`` or ``claim``.
    :raises FootprintError: it is not valid.
    """
    command = _COMMANDS[kind].get(str(given.get("do")))
    if command is None:
        raise InputError(f"{given.get('do')!r} is not a valid request of a session for a {kind}.", "do")
    store = io_grants.GrantStore(cluster, vm_id)
    with store.locked():
        return command(store, given)


def _lines(handle: int) -> t.Iterator[str]:
    """Return the lines of a stream; ends with it, and when nothing comes any more."""
    content = b""
    while len(content) <= _MOST:
        ready = select.select([handle], [], [], _SILENT)[0]
        part = os.read(handle, 65536) if ready else b""
        if not part:
            break
        *lines, content = (content + part).split(b"\n")
        yield from (each.decode(errors="replace") for each in lines)
    if content.strip():
        yield content.decode(errors="replace")


def main(argv: t.Sequence[str]) -> int:
    """Entry point; for each line one with ``{"ok": …}`` or ``{"error": …}``; exit code 0 at the end of the session."""
    parse = {LEASING: parse_standby_key, CLAIMING: parse_takeover_key}.get(argv[0]) if len(argv) == 2 else None
    whose = parse(argv[1]) if parse else None
    if whose is None:
        sys.stderr.write("usage: run_grantor lease standby-ID@CLUSTER | claim takeover-ID@CLUSTER\n")
        return 2
    for line in _lines(sys.stdin.fileno()):
        try:
            io_key_session.require()
            said: dict[str, t.Any] = {"ok": answer(argv[0], *whose, dict(json.loads(line)))}
        except FootprintError as error:
            said = {"error": {"message": error.message, "hint": error.hint}}
        except (OSError, ValueError, TypeError) as error:
            said = {"error": {"message": f"the request failed: {error}", "hint": None}}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
