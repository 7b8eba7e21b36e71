# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decisions of both sides of the hand-over, without any input or output.

The source owns the admin address. It lends it for the length of a lease, and every answer it gives
to the worker renews that lease. It hands it over in two steps: after the command ``hand_over`` it is in
the state ``handing_over`` with a new lease, and only the worker's ``confirm`` makes the hand-over final.
Until the worker has the answer to ``confirm``, no client reaches the VM, and the VM is stopped before the
source could return:

- the worker itself stops it :data:`FENCE` of the lease after its last successful request to the source,
- the guard, a separate process, does so at :data:`GUARD` of the lease, even if the worker was killed,
  is stopped or hangs.

If an answer is lost, the worker asks again. Once ``confirm`` was sent, it asks for the source's state
without limit, because only the source knows whether it received the command.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, QUIESCED, SERVING

# Fractions of the lease after which the VM is stopped if the source did not answer: by the worker, by the guard.
FENCE = 0.6
GUARD = 0.7

# Journal values of a hand-over: hand_over was sent; confirm may have been sent.
ASKED = "asked"
FINAL = "final"

# Next steps of a worker: the first three are commands to its source, WAIT until that answers.
ASK = "hand_over"
CONFIRM = "confirm"
WAIT = "state"
FINISH = "let clients in"
BACK = "roll back"

# States in which the source has lent its address, and returns when its lease expires.
LENT = (PARKED, HANDING_OVER)

# A worker that was killed more than KILLS times within KILLS_WITHIN seconds gives up.
KILLS, KILLS_WITHIN = 5, 600.0

# values of SERVICE_RESULT after which systemd restarts a worker
_STARTED_AGAIN = ("signal", "core-dump", "watchdog", "timeout")
#: Exit code of a worker that must be started again, because only a worker can find out the result of ``confirm``.
AGAIN = 75


def source_after(state: str, command: str) -> str:
    """The state of a source after a command of its worker."""
    if command == ASK and state in LENT:
        return HANDING_OVER
    if command == CONFIRM and state == HANDING_OVER:
        return HANDED_OVER
    return state


def source_returns(state: str, lease_left: float, taken: bool) -> bool:
    """Whether a source returns to service without a command.

    :arg lease_left: seconds until the lease expires.
    :arg taken: another machine answers for the admin address.
    """
    if lease_left > 0:
        return False
    return state == QUIESCED or (state in LENT and not taken)


def next_step(source: str | None, said: str | None, vm_runs: bool, in_time: bool) -> str:
    """The next step of a worker in the phase ``commit``.

    :arg source: the state in the source's last answer, ``None`` if there was no answer.
    :arg said: the hand-over in the journal: ``None``, :data:`ASKED` or :data:`FINAL`.
    :arg in_time: less than :data:`FENCE` of the lease has passed since the last answer.
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
        # the source is about to return
        return BACK
    return CONFIRM if source == HANDING_OVER else ASK


def stop_is_due(age: float, lease: float, part: float) -> bool:
    """Whether a VM must be stopped: its source has not handed over, and has not answered for ``age`` seconds, this part of the lease."""
    return age >= lease * part


def started_again(result: str, exit_code: str | None) -> bool:
    """Whether systemd restarts a worker that has ended, from ``SERVICE_RESULT`` and, if it was not killed, ``EXIT_STATUS``."""
    return result in _STARTED_AGAIN or (result == "exit-code" and exit_code == str(AGAIN))


def worn_out(starts: t.Sequence[float], now: float) -> bool:
    """Whether a worker was killed too often to be started again, from the times of its starts since the last one that was not killed."""
    return len([each for each in starts if now - each <= KILLS_WITHIN]) > KILLS
