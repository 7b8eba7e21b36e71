# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import RENEW, converged, predict, resume
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import FENCE, GUARD
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, PHASES
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import QUIESCED, SERVING, Journal


def journal(done_until, begun=None):
    made = Journal(name="m")
    for phase in PHASES[: PHASES.index(done_until)] if done_until else PHASES:
        made.begin(phase, 1.0)
        made.end(phase, 2.0)
    if begun:
        made.begin(begun, 3.0)
    return made


@pytest.mark.parametrize(
    ("unfinished", "source", "clone", "phase", "stop"),
    [
        ("preflight", None, False, "preflight", False),
        ("precopy", None, False, "precopy", False),
        # killed before the source was touched, a clone left over from an earlier attempt
        ("precopy", SERVING, True, "precopy", True),
        ("quiesce", QUIESCED, False, "quiesce", False),
        ("final", QUIESCED, False, "quiesce", False),
        ("verify", QUIESCED, False, "quiesce", False),
        # the source was rebooted, or came back by itself
        ("final", SERVING, False, "precopy", False),
        ("fixup", SERVING, False, "precopy", False),
        ("cutover", SERVING, True, "precopy", True),
        ("commit", SERVING, True, "precopy", True),
        ("cutover", QUIESCED, False, "quiesce", False),
        ("verify", PARKED, False, "cutover", False),
        ("cutover", PARKED, False, "cutover", False),
        ("cutover", PARKED, True, "cutover", False),
        ("commit", PARKED, True, "commit", False),
        # the destination lost its power before the source let go
        ("commit", PARKED, False, "cutover", False),
        ("commit", HANDING_OVER, True, "commit", False),
        ("commit", HANDING_OVER, False, "cutover", False),
        ("commit", HANDED_OVER, True, "commit", False),
        ("commit", HANDED_OVER, False, "commit", False),
        ("cutover", HANDED_OVER, False, "commit", False),
        # the source cannot be asked: nothing is undone on a guess
        ("cutover", None, True, "cutover", False),
        ("verify", None, True, "verify", True),
    ],
)
def test_where_to_go_on(unfinished, source, clone, phase, stop):
    found = resume(journal(unfinished, unfinished), source, clone)
    assert (found.phase, found.stop_clone) == (phase, stop)


@pytest.mark.parametrize("unfinished", PHASES)
@pytest.mark.parametrize("clone", [True, False])
def test_a_clone_never_runs_on_beside_a_serving_source(unfinished, clone):
    found = resume(journal(unfinished, unfinished), SERVING, clone)
    assert found.stop_clone == clone
    assert PHASES.index(found.phase) < PHASES.index("quiesce")


@pytest.mark.parametrize(
    ("seconds", "enough"),
    [([], False), ([30], False), ([4], True), ([30, 10], False), ([30, 29], True), ([30, 10, 7], False), ([30, 20, 15, 11, 8, 6.5], True)],
)
def test_passes_end_when_another_is_not_worth_it(seconds, enough):
    assert converged([{"seconds": each} for each in seconds], 6, 5.0) is enough


def test_the_lease_is_lost_here_before_it_runs_out_there():
    assert 4 * RENEW <= FENCE < GUARD < 1 - RENEW


def test_without_a_measurement_only_the_boot_is_guessed():
    assert predict([], {}, 0) == {"seconds": 30.0, "data": 0.0, "parts": {"quiesce": 0.0, "final": 0.0, "fixup": 0.0, "verify": 0.0, "cutover": 30.0}}


def test_each_part_is_predicted_from_its_last_duration():
    found = predict([{"seconds": 90}, {"seconds": 2}], {"manifest": {"seconds": 1.5}, "fixup_seconds": 0.5, "boot_seconds": 12}, 3)
    assert found["parts"] == {"quiesce": 3.0, "final": 2.0, "fixup": 0.5, "verify": 1.5, "cutover": 12.0}
    assert (found["seconds"], found["data"]) == (19.0, 4.0)


def test_a_maintenance_boot_is_predicted_from_an_earlier_one_or_the_last_boot():
    def quiesce(**facts):
        return predict([], facts, 3, reboots=True)["parts"]["quiesce"]

    assert quiesce() == 90.0
    assert quiesce(source_facts={"boot_seconds": 33.5}) == 43.5
    assert quiesce(source_facts={"boot_seconds": 33.5}, reboot_seconds=61.2) == 61.2
    assert quiesce(source_facts={"boot_seconds": None}) == 90.0
