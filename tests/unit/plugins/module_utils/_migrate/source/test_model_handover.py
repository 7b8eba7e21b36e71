# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The decisions of a hand-over one by one; what they come to together is in test_handover_model.py."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import model_handover
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import ASK, ASKED, BACK, CONFIRM, FINAL, FINISH, WAIT
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, QUIESCED, SERVING

SOURCES = (None, SERVING, QUIESCED, PARKED, HANDING_OVER, HANDED_OVER)


@pytest.mark.parametrize(
    ("source", "said", "runs", "in_time", "step"),
    [
        (PARKED, None, True, True, ASK),
        (HANDING_OVER, ASKED, True, True, CONFIRM),
        (HANDED_OVER, FINAL, True, True, FINISH),
        # the answer is lost
        (None, ASKED, True, True, ASK),
        (None, ASKED, True, False, BACK),
        (None, FINAL, True, True, WAIT),
        (None, FINAL, True, False, WAIT),
        (None, FINAL, False, False, WAIT),
        # found out later
        (HANDED_OVER, FINAL, False, False, FINISH),
        (HANDED_OVER, ASKED, False, False, FINISH),
        (HANDING_OVER, FINAL, True, True, CONFIRM),
        (HANDING_OVER, FINAL, False, False, BACK),
        (PARKED, FINAL, True, True, ASK),
        # nothing is given to a VM that does not run, or was to be stopped
        (PARKED, None, False, True, BACK),
        (HANDING_OVER, ASKED, True, False, BACK),
        (SERVING, FINAL, False, False, BACK),
        (SERVING, ASKED, True, True, BACK),
        (QUIESCED, None, True, True, BACK),
    ],
)
def test_next_step_of_a_worker(source, said, runs, in_time, step):
    assert model_handover.next_step(source, said, runs, in_time) == step


@pytest.mark.parametrize(("source", "said", "runs", "in_time"), itertools.product(SOURCES, (None, ASKED, FINAL), (True, False), (True, False)))
def test_clients_are_let_in_only_after_the_hand_over_and_confirm_is_not_sent_for_a_vm_that_is_off(source, said, runs, in_time):
    step = model_handover.next_step(source, said, runs, in_time)
    assert (step == FINISH) == (source == HANDED_OVER)
    assert step not in (ASK, CONFIRM) or (runs and in_time)
    assert step != CONFIRM or source == HANDING_OVER
    # what may have been given away is never left without an answer
    assert not (said == FINAL and source is None) or step == WAIT


@pytest.mark.parametrize(
    ("state", "command", "after"),
    [
        (PARKED, "hand_over", HANDING_OVER),
        (HANDING_OVER, "hand_over", HANDING_OVER),
        (HANDING_OVER, "confirm", HANDED_OVER),
        (HANDED_OVER, "hand_over", HANDED_OVER),
        (HANDED_OVER, "confirm", HANDED_OVER),
        # confirm too late, or without hand_over before
        (PARKED, "confirm", PARKED),
        (SERVING, "confirm", SERVING),
        (SERVING, "hand_over", SERVING),
        (QUIESCED, "hand_over", QUIESCED),
    ],
)
def test_state_of_a_source_after_a_command(state, command, after):
    assert model_handover.source_after(state, command) == after


@pytest.mark.parametrize(
    ("state", "left", "taken", "returns"),
    [
        (QUIESCED, 0, True, True),
        (PARKED, 0, False, True),
        (PARKED, 0, True, False),
        (PARKED, 1, False, False),
        (HANDING_OVER, -1, False, True),
        (HANDING_OVER, -1, True, False),
        (HANDED_OVER, float("-inf"), False, False),
        (SERVING, -1, False, False),
    ],
)
def test_return_of_a_source_without_a_command(state, left, taken, returns):
    assert model_handover.source_returns(state, left, taken) is returns


@pytest.mark.parametrize(
    ("result", "code", "again"),
    [
        ("signal", None, True),
        ("core-dump", None, True),
        ("watchdog", None, True),
        ("exit-code", "75", True),
        ("exit-code", "1", False),
        ("success", "0", False),
        # asked to end: systemctl stop
        ("success", "TERM", False),
        ("start-limit-hit", None, False),
        ("", None, False),
    ],
)
def test_results_after_which_a_worker_is_started_again(result, code, again):
    assert model_handover.started_again(result, code) is again


def test_a_worker_gives_up_after_repeated_kills():
    assert not model_handover.worn_out([100.0 + each for each in range(5)], 110.0)
    assert model_handover.worn_out([100.0 + each for each in range(6)], 110.0)
    assert not model_handover.worn_out([100.0 + each for each in range(6)], 1000.0)
