# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is the master: the decisions of both sides of a hand-over, without any input or output.

The source owns the admin address. It lends it for the length of a lease, and every answer it gives
to the worker renews that. It gives it away in two steps: asked to ``hand_over`` it says that it is
ready (``handing_over``, on a lease that is fresh), and only the worker's ``confirm`` makes it final.
Until the worker knows that it is final, no client reaches the VM, and the VM is stopped before the
source could return:

- the worker itself stops it :data:`FENCE` of the lease after it asked the source for the last time
  with success,
- the guard, a process of its own, does so :data:`GUARD` of the lease after that, whatever has become
  of the worker: killed, stopped, hanging.

An answer that is lost leaves the worker in doubt. It asks again. When the final word was sent already
it never stops asking, for only the source knows whether it heard it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, QUIESCED, SERVING

# Parts of the lease after which the VM is stopped when the source was not heard from: by the worker, by the guard.
FENCE = 0.6
GUARD = 0.7

# What the journal says of a hand-over under way: it was asked for; the final word may have been said.
ASKED = "asked"
FINAL = "final"

# What a worker does next.
ASK = "ask the source to hand over"
CONFIRM = "say the final word"
FINISH = "let clients in"
BACK = "go back"
WAIT = "ask until the source answers"

# Commands of the worker to its source.
HAND_OVER_COMMAND = "hand_over"
CONFIRM_COMMAND = "confirm"

# States in which the source has lent its address, and returns when its lease runs out.
LENT = (PARKED, HANDING_OVER)

# How often a worker may die in how many seconds before it is thought to be unable to do its work.
KILLS, KILLS_WITHIN = 5, 600.0

# systemd's words for a worker that it starts again.
_STARTED_AGAIN = ("signal", "core-dump", "watchdog", "timeout")
#: Exit code of a worker that must be started again: nobody else finds out what became of its final word.
AGAIN = 75


def source_after(state: str, command: str) -> str:
    """The state of a source after a command of its worker."""
    if command == HAND_OVER_COMMAND and state in LENT:
        return HANDING_OVER
    if command == CONFIRM_COMMAND and state == HANDING_OVER:
        return HANDED_OVER
    return state


def source_returns(state: str, lease_left: float, taken: bool) -> bool:
    """Whether a source that nobody asked takes everything back.

    :arg taken: somebody answers for the admin address.
    """
    if lease_left > 0:
        return False
    return state == QUIESCED or (state in LENT and not taken)


def next_step(source: str | None, said: str | None, vm_runs: bool, in_time: bool) -> str:
    """What a worker that wants to commit does next.

    :arg source: what the source said last, ``None`` when its answer is missing.
    :arg said: what the journal says of the hand-over: nothing, :data:`ASKED` or :data:`FINAL`.
    :arg in_time: less than :data:`FENCE` of the lease passed since the source was heard from.
    """
    if source == HANDED_OVER:
        return FINISH
    if source in (SERVING, QUIESCED):
        return BACK
    if source is None:
        if said == FINAL:
            return WAIT
        return ASK if vm_runs and in_time else BACK
    if not vm_runs or not in_time:
        # it is about to return, or will be
        return BACK
    return CONFIRM if source == HANDING_OVER else ASK


def stop_is_due(age: float, lease: float, part: float) -> bool:
    """Whether a VM that the source has not given everything to is stopped.

    :arg age: seconds since the source was asked for the last time with success, those of a suspended host included.
    :arg part: of the lease, :data:`FENCE` or :data:`GUARD`.
    """
    return age >= lease * part


def started_again(result: str, exit_code: str | None) -> bool:
    """Whether systemd starts a worker again that ended.

    :arg result: ``SERVICE_RESULT``.
    :arg exit_code: ``EXIT_STATUS`` of a worker that ended by itself.
    """
    return result in _STARTED_AGAIN or (result == "exit-code" and exit_code == str(AGAIN))


def worn_out(starts: t.Sequence[float], now: float) -> bool:
    """Whether a worker was killed too often to be any good.

    :arg starts: when it was started since it last came to an end of its own, this time included.
    """
    return len([each for each in starts if now - each <= KILLS_WITHIN]) > KILLS
