# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another standby for a VM that may run on its former one; ssh and libvirt are replaced."""

from __future__ import annotations

import pathlib
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_store, run_agent, run_automatic, run_guard, run_standby
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from tests.support.records import TAKEN, away

STANDBY = {"name": "metal2", "host": "192.0.2.12", "port": 22, "host_keys": ["ssh-ed25519 AAAA"]}
GIVEN = {"id": "m", "cluster": "blue", "state": "present", "standby": STANDBY, "interval_seconds": 900, "copies": 2, "source": "metal1"}
OTHER = {**GIVEN, "standby": {**STANDBY, "name": "metal9", "host": "192.0.2.19"}}


@pytest.fixture(name="store")
def fixture_store(monkeypatch):
    """A VM whose copies have begun."""
    monkeypatch.setattr(run_standby.io_look, "find", lambda *given: ("qemu:///system", types.SimpleNamespace(name="m", uuid="u")))
    monkeypatch.setattr(run_standby, "_refuse_unfit", lambda *given: None)
    monkeypatch.setattr(io_store.StandbyHost, "ask", lambda self, command, given=None: run_agent.answer(command, "blue", "m", given or {}))
    monkeypatch.setattr(run_guard, "install_hook", lambda check_mode: False)
    monkeypatch.setattr(run_standby.io_units, "keep_code", lambda: pathlib.Path("/code"))
    for name in ("install", "differing"):
        monkeypatch.setattr(run_standby.io_timers, name, lambda *given: [])
    store = io_store.StandbyStore("m")
    store.directory.mkdir(parents=True)
    (store.directory / "id_ed25519").touch()
    assert run_standby.apply(GIVEN, check_mode=False)["changed"]
    return store


@pytest.mark.parametrize(("answers", "good"), [([None, None], False), ([{"state": "started"}, None], False), ([{"state": "receiving"}, None], True)])
def test_a_vm_that_waits_for_its_standby_gets_no_other_one_that_would_permit_its_start(store, monkeypatch, answers, good):
    """The new machines do not know of a start on the former standby."""
    monkeypatch.setattr(run_guard, "records", lambda job, store: answers)
    # the server was restarted
    io_owner.revoke("u")
    if good:
        assert run_standby.apply(OTHER, check_mode=False)["changed"] and store.job().standby.name == "metal9"
        return
    with pytest.raises(RefusedError, match="stays off until metal2 or a witness confirms"):
        run_standby.apply(OTHER, check_mode=False)
    assert store.job().standby.name == "metal2" and not io_owner.is_permitted("u")


def test_an_automatic_start_that_cannot_end_continues(store, monkeypatch):
    """Without a majority it is not known whether the VM is about to be started on its standby."""
    calls = []

    def end(job, confirmed=None):
        calls.append(job.automatic)
        if len(calls) == 1:
            raise RefusedError("this server has no majority in the cluster.")
        return True

    store.write_job(job_data(store.job()._replace(automatic=True, witnesses=(store.job().standby._replace(name="w1"),))))
    monkeypatch.setattr(run_guard, "records", lambda job, store: [{"state": "receiving"}])
    monkeypatch.setattr(run_automatic, "end", end)
    with pytest.raises(RefusedError, match="no majority"):
        run_standby.apply(GIVEN, check_mode=False)
    assert store.job().automatic
    # a killed run is continued
    assert run_standby.apply(GIVEN, check_mode=False)["changed"] and not store.job().automatic
    assert run_standby.apply(GIVEN, check_mode=False)["changed"] and len(calls) == 3


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_vm_that_runs_on_its_standby_is_not_copied_to_another_one(store, check_mode):
    io_owner.write(away(TAKEN, "metal2", "m", cluster="blue"))
    with pytest.raises(RefusedError, match="m was started on its standby metal2"):
        run_standby.apply(OTHER, check_mode=check_mode)
    assert store.job().standby.name == "metal2"


def test_the_standby_knows_whom_the_server_asks_before_it_does(store, monkeypatch):
    """A start is recorded on these machines, and not on those that the inventory lists when the server is lost."""
    copies = io_copies.CopyStore("blue", "m")
    assert copies.witnesses() == []
    wanted = {**GIVEN, "witnesses": [{**STANDBY, "name": "w1"}]}

    def kill(*_unused):
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(store.__class__, "write_job", kill)
        with pytest.raises(KeyboardInterrupt):
            run_standby.apply(wanted, check_mode=False)
    assert copies.witnesses() == ["w1"] and store.job().witnesses == ()
    assert run_standby.apply(wanted, check_mode=False)["changed"]
    # the former one counts until the next copy, with which the new request takes effect
    assert run_standby.apply({**GIVEN, "witnesses": [{**STANDBY, "name": "w2"}]}, check_mode=False)["changed"]
    assert copies.witnesses() == ["w1", "w2"]
    # the record of a start keeps them
    copies.write_record({"state": "started", "phase": "claimed"})
    assert copies.witnesses() == ["w1", "w2"]
    with pytest.raises(RefusedError, match="was started on the standby"):
        run_agent.answer("ask", "blue", "m", {"witnesses": []})


def test_a_copy_takes_the_witnesses_of_its_request_along(store, monkeypatch, tmp_path):
    copies = io_copies.CopyStore("blue", "m")
    copies.note_witnesses(["w1", "w2"])
    monkeypatch.setattr(run_agent, "_pool_folders", lambda: [str(tmp_path)])
    monkeypatch.setattr(io_copies.CopyStore, "prepare", lambda *given: False)
    disk = {"target": "vda", "path": f"{tmp_path}/m-disk0.qcow2", "format": "qcow2", "capacity": 1 << 20}
    begin = {"copy": "20261124T101500Z", "disks": [disk], "uuid": "u"}
    # of an earlier version
    run_agent.answer("begin", "blue", "m", begin)
    assert copies.witnesses() == ["w1", "w2"]
    run_agent.answer("begin", "blue", "m", {**begin, "witnesses": ["w2"]})
    assert copies.witnesses() == ["w2"]


@pytest.mark.parametrize(
    ("given", "record", "good"),
    [
        ({"machine": "first", "epoch": 0}, {}, True),
        # installed again: its disks are new
        ({"machine": "second", "epoch": 0}, {}, False),
        # it was moved
        ({"machine": "second", "epoch": 3}, {}, True),
        # it was started here, and moved back
        ({"machine": "second", "epoch": 0}, {"state": "receiving", "at": 9.0}, True),
        # an earlier version
        ({}, {}, True),
    ],
)
def test_copies_of_lost_disks_are_not_replaced_by_those_of_a_server_that_was_installed_again(store, monkeypatch, tmp_path, given, record, good):
    copies = io_copies.CopyStore("blue", "m")
    old = Copy("20261124T100001Z", "m", "u", "m", "metal1", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, (), machine="first", epoch=2)
    copies.commit(old, {})
    copies.write_record({**copies.record(), **record})
    monkeypatch.setattr(run_agent, "_pool_folders", lambda: [str(tmp_path)])
    monkeypatch.setattr(io_copies.CopyStore, "prepare", lambda *given: False)
    begin = {"copy": "20261124T101500Z", "disks": [], "uuid": "u", **given}
    if good:
        run_agent.answer("begin", "blue", "m", begin)
        return
    with pytest.raises(RefusedError, match="metal1 was installed again, and its disks may be new"):
        run_agent.answer("begin", "blue", "m", begin)
