# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions with a machine that grants leases."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._keys import run_dispatch, run_one_time_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_grants, io_session, run_agent, run_grantor, run_standby
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import WAIT, Seen

from tests.support.leases import ARMED, PARAMS


def test_a_session_of_leases(clock):
    renewal = {"do": "renew", "arm": 5, "running": True, "grantors": ["metal2", "w1"]}
    said = run_grantor.answer("lease", "blue", "m", renewal)
    assert said == {"granted": True, "reason": None, "arm": 5, "disarmed": 0}
    store = io_grants.GrantStore("blue", "m")
    assert store.grants() == ARMED and store.seen(1000.0) == Seen(1000.0, 1000.0)
    claim = {"do": "claim", "arm": 5, "number": 7, "by": "metal2"}
    clock.now += WAIT - 1
    assert "was silent for less" in run_grantor.answer("claim", "blue", "m", claim)["reason"]
    clock.now += 1
    assert run_grantor.answer("claim", "blue", "m", claim)["granted"]
    assert run_grantor.answer("lease", "blue", "m", renewal)["reason"] == "its standby has claimed it"
    assert run_grantor.answer("lease", "blue", "m", {"do": "disarm", "number": 5})["reason"] == "its standby has claimed it"
    # the guard of the first server waits
    assert run_agent.answer("look", "blue", "m", {})["record"]["starting"] is True
    assert run_grantor.answer("claim", "blue", "m", {"do": "taken", "number": 7, "source": "metal1"})["granted"]
    assert run_agent.answer("look", "blue", "m", {})["record"]["state"] == "started"
    assert run_standby.apply({**PARAMS, "state": "returned"}, check_mode=False)["changed"]
    # it must be put under leases again first
    clock.now += 10 * WAIT
    assert store.grants().claim is None and "has ended" in run_grantor.answer("claim", "blue", "m", {**claim, "number": 9})["reason"]


def test_a_restart_of_the_machine_begins_the_waiting_time_again(clock, monkeypatch):
    store = io_grants.GrantStore("blue", "m")
    store.keep(ARMED)
    with store.locked():
        store.note(Seen(0.0, 10.0))
    monkeypatch.setattr(io_grants, "boot_id", lambda: "another")
    clock.now = 1000.0
    assert "was silent for less" in run_grantor.answer("claim", "blue", "m", {"do": "claim", "arm": 5, "number": 7, "by": "metal2"})["reason"]


@pytest.mark.parametrize(("kind", "given"), [
    ("lease", {"do": "claim"}), ("claim", {"do": "renew"}), ("lease", {"do": "renew", "arm": 0}), ("lease", {"do": "renew", "running": "yes"}),
    ("lease", {"do": "disarm"}), ("claim", {"do": "claim", "arm": True, "number": 1}), ("lease", {"do": "renew", "grantors": ["../x"]}), ("lease", {}),
])
def test_invalid_requests(kind, given):
    with pytest.raises(FootprintError):
        run_grantor.answer(kind, "blue", "m", given)


def test_lines_of_a_session(tmp_path):
    program = f"import sys; sys.path[:0] = {sys.path!r}\nimport {run_grantor.MODULE} as it\nfor each in it._lines(0): print(each, flush=True)"
    done = subprocess.run([sys.executable, "-c", program], input=b'{"a": 1}\n{"b": 2}\n{"c"', capture_output=True, check=True)
    assert done.stdout.splitlines() == [b'{"a": 1}', b'{"b": 2}', b'{"c"']


@pytest.mark.parametrize(("purpose", "name", "command", "allowed"), [
    ("standby", "standby-m@blue", "lease", True), ("takeover", "takeover-m@blue", "claim", True), ("takeover", "takeover-m@blue", "lease", False),
    ("standby", "standby-m@blue", "claim", False),
])
def test_a_key_runs_its_own_sessions_only(purpose, name, command, allowed, capsys):
    library = f"/var/lib/reduced.footprint/lib/{'0' * 32}.zip"
    wanted = run_dispatch.model_one_time_key.parse_command(purpose, name, f"PYTHONPATH={library} python3 -m {run_grantor.MODULE} {command} {name}")
    # the program itself compares the key with the command
    parse = {"lease": run_grantor.parse_standby_key, "claim": run_grantor.parse_takeover_key}[command]
    assert (parse(wanted.arguments[1]) is not None) is allowed
    if not allowed:
        assert run_grantor.main(list(wanted.arguments)) == 2 and "usage" in capsys.readouterr().err
        with pytest.raises(InputError):
            run_dispatch.model_one_time_key.parse_command("takeover", "takeover-m@blue", f"PYTHONPATH={library} python3 -m {run_agent.MODULE} look {name}")


@pytest.mark.parametrize("purpose", ["standby", "takeover"])
def test_the_key_of_the_claims_is_withdrawn_with_that_of_the_copies(purpose, tmp_path, monkeypatch):
    keys = run_one_time_key.io_authorized_keys
    monkeypatch.setattr(keys, "PATH", tmp_path / "authorized_keys")
    monkeypatch.setattr(keys, "ALLOWED", tmp_path)
    other = "restrict ssh-ed25519 CCCC reduced.footprint-migrate-takeover-n@blue\n"
    for each in ("standby", "takeover"):
        keys.place(f"reduced.footprint-migrate-{each}-m@blue", f"restrict ssh-ed25519 AAAA reduced.footprint-migrate-{each}-m@blue")
    keys.place("reduced.footprint-migrate-takeover-n@blue", other.strip())
    given = {"name": "m", "cluster": "blue", "purpose": purpose, "state": "absent"}
    assert run_one_time_key.apply(given, check_mode=True)["changed"] and run_one_time_key.apply(given, check_mode=False)["changed"]
    left = "" if purpose == "standby" else "restrict ssh-ed25519 AAAA reduced.footprint-migrate-standby-m@blue\n"
    assert (tmp_path / "authorized_keys").read_text("ascii") == left + other
    assert not run_one_time_key.apply(given, check_mode=False)["changed"]


def test_a_session_that_is_answered_late_fails():
    session = io_session.LeaseSession(["sh", "-c", 'read line; echo "{\\"ok\\": {\\"said\\": $line}}"; read line; sleep 30'])
    assert session.ask({"a": 1}, 5) == {"said": {"a": 1}}
    with pytest.raises(BackendError, match="no answer within"):
        session.ask({}, 0.2)
    session.close()
    ended = io_session.LeaseSession(["true"])
    with pytest.raises(BackendError, match="the connection ended"):
        ended.ask({}, 5)
