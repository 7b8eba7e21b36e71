# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is ready."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_member import lags, problems

A = "aaaaaaaa-0000-11ef-8000-000000000001"
B = "bbbbbbbb-0000-11ef-8000-000000000002"
READY = {
    "wsrep_cluster_status": "Primary",
    "wsrep_connected": "ON",
    "wsrep_ready": "ON",
    "wsrep_local_state_comment": "Synced",
    "wsrep_cluster_state_uuid": A,
    "wsrep_cluster_size": "3",
}


def test_ready():
    assert problems(READY) == ()
    assert problems(READY, A) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wsrep_cluster_status", "non-Primary"),
        ("wsrep_connected", "OFF"),
        ("wsrep_ready", "OFF"),
        ("wsrep_local_state_comment", "Joined"),
        ("wsrep_cluster_state_uuid", B),
    ],
)
def test_not_ready(name, value):
    assert [why for why in problems({**READY, name: value}, A) if why.startswith(f"{name} is {value}")]


def test_an_empty_status_is_not_ready():
    assert len(problems({}, A)) == 5


def test_a_donor_serves_but_is_not_ready():
    donor = {**READY, "wsrep_local_state_comment": "Donor/Desynced"}
    assert problems(donor)
    assert problems(donor, serves=True) == ()
    assert problems({**donor, "wsrep_ready": "OFF"}, serves=True)


@pytest.mark.parametrize(
    ("state", "queue", "expected"),
    [
        ("Donor/Desynced", "0", False),
        ("Donor/Desynced", "1", True),
        ("Donor/Desynced", "412", True),
        ("Donor/Desynced", None, True),
        ("Donor/Desynced", "", True),
        # flow control limits it
        ("Synced", "12", False),
    ],
)
def test_a_donor_lags_whose_queue_is_not_applied(state: str, queue: str | None, expected: bool):
    status = {**READY, "wsrep_local_state_comment": state}
    assert lags(status if queue is None else {**status, "wsrep_local_recv_queue": queue}) is expected
