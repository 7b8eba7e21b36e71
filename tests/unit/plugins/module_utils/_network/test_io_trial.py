# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import io_deadman, io_trial
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Change, Link
from tests.support.chain import CHAIN, LINKS, layout_of


@pytest.fixture
def trial(tmp_path, monkeypatch):
    """A trial in a folder of its own; ``begun`` are the commands systemd would have started."""
    monkeypatch.setattr(io_trial, "RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(io_trial, "connection", lambda: "198.51.100.1 1000 192.0.2.11 22")
    begun = []

    def run(argv, timeout, hint):
        # no systemd works in here: its part is to run the script that stands last
        begun.append(argv)
        io_trial.current().set_state(io_deadman.STATE_APPLIED)

    monkeypatch.setattr(io_trial, "run", run)
    monkeypatch.setattr(io_trial, "unit_active", lambda unit: False)
    monkeypatch.setattr(io_trial, "host_lock", lambda name, timeout: contextlib.nullcontext())
    found = io_trial.current()
    found.begun = begun
    return found


def change(tmp_path, **more):
    return Change("networkd", trial={str(tmp_path / "t"): "new"}, keep={str(tmp_path / "k"): "new"}, **more)


def test_the_folder_holds_all_that_the_unit_needs(trial, tmp_path):
    (tmp_path / "k").write_text("old")
    words = (("{python}", "{folder}/nm.py", "{timeout}"),)
    io_trial.start(change(tmp_path, apply=words, confirm=words, scripts={"nm.py": "script"}, modes={str(tmp_path / "k"): 0o600}), 45)
    plan = trial.plan
    python, script, timeout = plan["apply"][0]
    assert python == sys.executable
    assert (script, timeout) == (f"{trial.folder}/nm.py", "45") and plan["confirm"] == plan["apply"]
    assert plan["restore"] == {str(tmp_path / "t"): None, str(tmp_path / "k"): "old"}
    assert plan["modes"] == {str(tmp_path / "k"): 0o600}
    assert "def settle" in (tmp_path / "run" / "network" / "deadman.py").read_text()
    assert (tmp_path / "run" / "network" / "nm.py").stat().st_mode & 0o777 == 0o700
    assert trial.begun[0][0] == "systemd-run" and trial.begun[0][-1] == trial.folder
    assert io_trial.pending()


def test_a_second_run_does_not_replace_the_plan_of_the_first(trial, tmp_path):
    """It would return to what it found: the network that the first one is trying."""
    (tmp_path / "k").write_text("old")
    io_trial.start(change(tmp_path), 45)
    (tmp_path / "k").write_text("tried")
    with pytest.raises(BackendError, match="another network change is in progress"):
        io_trial.start(change(tmp_path), 45)
    assert trial.plan["restore"][str(tmp_path / "k")] == "old" and len(trial.begun) == 1


def test_a_run_that_was_killed_before_its_unit_started_is_not_in_the_way(trial, tmp_path, monkeypatch):
    monkeypatch.setattr(io_trial, "run", lambda *args, **kwargs: None)
    io_trial.start(change(tmp_path), 45, patience=0)
    assert trial.state == io_deadman.STATE_PLANNED and not io_trial.pending()
    io_trial.start(change(tmp_path), 45, patience=0)
    monkeypatch.setattr(io_trial, "unit_active", lambda unit: unit == "reduced-footprint-network.service")
    assert io_trial.pending()


def test_old_files_are_kept_byte_for_byte(trial, tmp_path):
    """A comment in another encoding than UTF-8."""
    (tmp_path / "k").write_bytes(b"# caf\xe9\nold\n")
    io_trial.start(change(tmp_path), 45)
    (tmp_path / "k").write_text("tried")
    with trial:
        trial.revert("no confirmation")
    assert (tmp_path / "k").read_bytes() == b"# caf\xe9\nold\n"


def test_failed_change_is_reported(trial, tmp_path, monkeypatch):
    monkeypatch.setattr(io_trial, "run", lambda *args, **kwargs: io_trial.current().set_state(io_deadman.STATE_REVERTED, "netplan apply failed"))
    with pytest.raises(BackendError, match="the old configuration is active: netplan apply failed"):
        io_trial.start(change(tmp_path), 45)
    assert not io_trial.pending()


def test_confirmation_over_the_first_connection_is_refused(trial, tmp_path, monkeypatch):
    io_trial.start(change(tmp_path), 45)
    with pytest.raises(RefusedError, match="SSH connection that started it.*reset_connection") as caught:
        io_trial.confirm()
    assert caught.value.path == "state" and trial.state == io_deadman.STATE_APPLIED
    monkeypatch.setattr(io_trial, "connection", lambda: "198.51.100.1 1001 192.0.2.11 22")
    assert io_trial.confirm() is True
    assert trial.state == io_deadman.STATE_CONFIRMED and (tmp_path / "k").read_text() == "new"
    assert io_trial.confirm() is False


def test_unknown_connection_may_confirm(trial, tmp_path, monkeypatch):
    monkeypatch.setattr(io_trial, "connection", lambda: None)
    io_trial.start(change(tmp_path), 45)
    assert io_trial.confirm() is True


def test_confirmation_after_the_rollback_is_refused(trial, tmp_path):
    io_trial.start(change(tmp_path), 45)
    with trial:
        trial.revert("the change was not confirmed")
    with pytest.raises(BackendError, match="was reverted, the old configuration is active: the change was not confirmed"):
        io_trial.confirm()


def test_failed_confirmation_is_reported(trial, tmp_path, monkeypatch):
    io_trial.start(change(tmp_path, confirm=(("false",),)), 45)
    monkeypatch.setattr(io_trial, "connection", lambda: None)
    with pytest.raises(BackendError, match="could not be made permanent, the old configuration is active: false ended"):
        io_trial.confirm()
    assert not (tmp_path / "k").exists() and trial.state == io_deadman.STATE_REVERTED


def test_nothing_to_confirm(trial):
    assert io_trial.confirm() is False and not io_trial.pending()


def test_connection_is_read_from_a_parent_under_sudo():
    inner = [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; from {io_trial.__name__} import connection; print(connection())"]
    # a parent that waits, as sudo does, with a child from whose environment the variable is gone
    outer = [sys.executable, "-c", f"import subprocess; subprocess.run({inner!r}, env={{}}, check=True)"]
    said = subprocess.run(outer, env={"SSH_CONNECTION": "198.51.100.1 7 192.0.2.11 22"}, stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    assert said.strip() == "198.51.100.1 7 192.0.2.11 22"


LIVE = {
    **{name: Link(name, link.index, link.mac, master="bond0") for name, link in LINKS.items()},
    "bond0": Link("bond0", 5, "", "bond", ports=("eno1", "eno2"), master="br-admin"),
    "bond0.100": Link("bond0.100", 6, "", "vlan", lower="bond0", master="br-vms"),
    "br-admin": Link("br-admin", 7, "", "bridge", ports=("bond0",), addresses=("192.0.2.11/24", "2001:db8::1/64")),
    "br-vms": Link("br-vms", 8, "", "bridge", ports=("bond0.100", "tap0")),
}


@pytest.mark.parametrize(
    "changes, missing",
    [
        ({}, None),
        ({"br-admin": {"addresses": ("192.0.2.11/24",)}}, None),
        ({"br-vms": None}, "br-vms does not exist"),
        ({"bond0": {"ports": ("eno1",)}}, "bond0 does not have the port eno2"),
        ({"bond0.100": {"lower": "eno1"}}, "bond0.100 does not have the port bond0"),
        ({"br-admin": {"addresses": ()}}, "br-admin does not have 192.0.2.11/24"),
    ],
)
def test_what_is_waited_for(monkeypatch, changes, missing):
    now = {name: dataclasses.replace(link, **(changes.get(name) or {})) for name, link in LIVE.items() if changes.get(name, {}) is not None}
    monkeypatch.setattr(io_trial, "links", lambda: now)
    assert io_trial.wait_until_live(layout_of(CHAIN, {}), 0) == missing
