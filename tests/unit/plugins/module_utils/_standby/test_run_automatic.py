# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the module does about automatic starts."""

from __future__ import annotations

import json
import os
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import (
    io_grants,
    io_lease,
    io_lease_units,
    plan_lease,
    run_automatic,
    run_standby,
)
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import LEASE, Grants
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import job_data, parse_job

from tests.support.leases import ARMED, JOB, KEYS, PARAMS


def test_a_standby_watches_until_it_has_no_copies(tmp_path, monkeypatch):
    monkeypatch.setattr(run_automatic.run_jobs, "prepare_key", lambda directory, name, check_mode: {"changed": False, "public_key": name, "key_marker": "k"})
    monkeypatch.setattr(io_lease_units, "takeover_differs", lambda code: False)
    witness = {"name": "w1", "host": "192.0.2.13", "host_keys": list(KEYS)}
    given = {**PARAMS, "state": "watched", "source": "metal2", "witnesses": [witness]}
    assert run_standby.apply(given, check_mode=True)["changed"] and not io_grants.watches()
    done = run_standby.apply(given, check_mode=False)
    assert done["changed"] and done["public_key"] == "takeover-m@blue" and io_grants.watches() == [("blue", "m")]
    assert not run_standby.apply(given, check_mode=False)["changed"]
    with pytest.raises(InputError, match="needs at least one witness"):
        run_standby.apply({**given, "witnesses": []}, check_mode=False)
    io_grants.GrantStore("blue", "m").keep(ARMED)
    assert run_standby.apply({**PARAMS, "state": "absent"}, check_mode=False)["changed"]
    assert not io_grants.watches() and io_grants.GrantStore("blue", "m").grants() == Grants()
    assert not run_standby.apply({**PARAMS, "state": "absent"}, check_mode=False)["changed"]


@pytest.mark.parametrize(("watchdog", "there", "refused"), [
    ("required", False, True), ("required", True, False), ("software", False, False), ("none", False, False),
])
def test_a_server_without_watchdog_is_refused(tmp_path, monkeypatch, watchdog, there, refused):
    monkeypatch.setattr(io_lease_units, "DEVICE", tmp_path / "watchdog0")
    if there:
        (tmp_path / "watchdog0").touch()
    job = JOB._replace(watchdog=watchdog)
    if refused:
        with pytest.raises(InputError, match="has no hardware watchdog") as raised:
            run_automatic.refuse_unfit(job)
        assert raised.value.path == "automatic" and "standby_watchdog" in raised.value.hint
    else:
        run_automatic.refuse_unfit(job)
    run_automatic.refuse_unfit(job._replace(automatic=False))


def test_a_job_needs_a_witness_and_survives_its_file():
    assert parse_job(json.loads(json.dumps(job_data(JOB)))) == JOB
    with pytest.raises(InputError, match="needs at least one witness"):
        parse_job({**job_data(JOB), "witnesses": []})
    # of an earlier version
    assert not parse_job({key: value for key, value in job_data(JOB).items() if key not in ("automatic", "watchdog")}).automatic


def test_the_units():
    texts = io_lease_units.lease_texts(io_lease.ARMED)
    lease = texts[io_lease_units.LEASE]
    for line in ("Type=notify", "WatchdogSec=10", "WatchdogSignal=SIGKILL", "Restart=always", f"OnFailure={io_lease_units.FENCE}", "StartLimitBurst=2"):
        assert line in lease.splitlines()
    assert "FailureAction=reboot-immediate" in texts[io_lease_units.FENCE].splitlines()
    assert os.path.basename(str(io_lease_units.DROP_IN)).endswith(".conf")


def test_times_are_those_since_the_boot():
    assert abs(time.clock_gettime(time.CLOCK_BOOTTIME) - float(open("/proc/uptime", encoding="ascii").read().split()[0])) < 5
    assert plan_lease.LEASE == LEASE
