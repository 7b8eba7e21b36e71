# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the destination refuses; tests/move has a real one."""

from __future__ import annotations

import contextlib
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_agent
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ARRIVED,
    ARRIVING,
    CONFIRMED,
    FORMER,
    INCOMING,
    LIVE,
    MOVE,
    MOVED,
    MOVING,
    OWNER,
    Operation,
    Record,
)
from tests.support.records import away, use_folder

BEGUN = Record("lab", "c1", "u", "c1", to="metal1", operation=Operation(MOVE, "1", "metal2", "metal1"))
HANDED = BEGUN._replace(role=FORMER, to="metal2")


class Host:
    """A connection to libvirt with one domain, which is off; records how it is undefined."""

    def __init__(self, done):
        self.done, self.active, self.defined = done, False, True

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass

    def domain(self, unused):
        state = "running" if self.active else "shutdown"
        return types.SimpleNamespace(active=self.active, state=state, persistent=True) if self.defined else None

    def undefine(self, unused, keep):
        self.done.append(f"undefined, keep: {keep}")

    def define(self, unused):
        pass

    def set_autostart(self, unused, value):
        if not self.defined:
            raise BackendError("no domain.")
        self.done.append(f"autostart: {value}")

    def start(self, unused):
        assert io_owner.away("u") is None
        self.active = True

    def shutdown(self, *unused):
        self.active = False


@pytest.fixture(name="host")
def fixture_host(tmp_path, monkeypatch):
    host = Host([])
    use_folder(tmp_path, monkeypatch)
    monkeypatch.setattr(run_agent, "host_lock", lambda name, timeout: contextlib.nullcontext())
    monkeypatch.setattr(run_agent, "DomainHost", lambda uri: host)
    monkeypatch.setattr(run_agent, "_STEADY", 0.0)
    return host


def ask(command, of, **given):
    """What the source asks, with its record."""
    return run_agent.answer(command, {"uri": "x", "uuid": "u", "source": "metal1", "record": of.values(), "items": [], **given})


def test_a_move_and_its_return(host):
    host.defined = False
    assert ask("receive", BEGUN) == {"hashes": {}}
    host.defined = True
    assert io_owner.known("u")[5:7] == (INCOMING, "metal2") and io_owner.away("u").state == ARRIVING
    there = ask("define", BEGUN, xml="<domain/>", token="1")["record"]
    assert there["operation"]["step"] == ARRIVED
    # it starts only after its source has handed it over
    with pytest.raises(RefusedError, match="metal1 does not answer that it handed c1 over"):
        ask("run", BEGUN, seconds=1)
    assert not host.active
    assert ask("run", HANDED, seconds=1)["error"] is None and host.active
    record = io_owner.known("u")
    assert (record.role, record.epoch, record.proof) == (OWNER, 1, "handed over by metal1")
    assert ask("settle", HANDED, autostart=True)["record"]["operation"] is None
    # back: not before it is off, and has no other owner
    back = HANDED._replace(operation=Operation(MOVE, "2", "metal1", "metal1"))
    ask("hold", back, token="2")
    assert io_owner.away("u").state == MOVING
    with pytest.raises(RefusedError, match="does not answer that all data"):
        ask("hand_back", back)
    ask("stop", back, seconds=1, returns=True)
    given = ask("hand_back", back)["record"]
    assert (given["role"], given["epoch"], given["to"]) == (FORMER, 1, "metal1") and ask("hand_back", back)["record"] == given
    with pytest.raises(RefusedError):
        ask("run", HANDED, seconds=1)
    ask("settle", BEGUN._replace(epoch=2, operation=None))
    assert io_owner.known("u").state == CONFIRMED


def test_a_vm_that_was_removed_without_its_disks_returns_with_them(host):
    io_owner.write(HANDED._replace(role=OWNER, epoch=1, operation=None))
    host.defined = False
    with pytest.raises(BackendError, match="no domain"):
        ask("settle", HANDED, autostart=True)
    there = ask("settle", HANDED, autostart=True, returns=True)["record"]
    assert (there["role"], there["epoch"]) == (OWNER, 1)
    back = HANDED._replace(operation=Operation(MOVE, "2", "metal1", "metal1"))
    ask("hold", back, token="2")
    ask("stop", back, seconds=1, returns=True)
    assert ask("hand_back", back)["record"]["role"] == FORMER


@pytest.mark.parametrize("defined", [True, False])
def test_a_vm_that_arrives_while_it_runs_belongs_here_once_libvirt_has_it(host, defined):
    live = BEGUN._replace(operation=BEGUN.operation._replace(step=LIVE))
    host.defined = False
    ask("receive", live)
    host.defined = defined
    if defined:
        # a late request of an earlier attempt
        with pytest.raises(RefusedError, match="all data of c1 are here"):
            ask("receive", BEGUN._replace(operation=BEGUN.operation._replace(token="0")))
    with contextlib.nullcontext() if defined else pytest.raises(RefusedError, match="not all data"):
        ask("settle", live._replace(role=FORMER, to="metal2"), autostart=True)
    assert io_owner.known("u").role == (OWNER if defined else INCOMING)


@pytest.mark.parametrize("before", [None, CONFIRMED])
def test_what_arrived_is_discarded_only_when_the_source_keeps_the_vm(host, before):
    if before:
        io_owner.write(away(before, "metal3")._replace(epoch=0))
    host.defined = False
    ask("receive", BEGUN)
    # begun again, without an answer to the first one
    ask("receive", BEGUN._replace(operation=BEGUN.operation._replace(token="2")))
    with pytest.raises(RefusedError, match="does not answer that it keeps"):
        ask("settle", HANDED._replace(operation=HANDED.operation._replace(token="2")))
    ask("settle", BEGUN._replace(operation=None))
    # the machine that had it before must not define it again
    assert (io_owner.known("u") is None) is (before is None) and (before is None or io_owner.away("u").state == CONFIRMED)


@pytest.mark.parametrize("state", [MOVING, MOVED, CONFIRMED])
def test_the_old_copy_of_a_vm_that_was_moved_on_does_not_return(host, state):
    # it runs on metal3: returned with the old data from here, it would run twice
    io_owner.write(away(state, "metal3"))
    before = io_owner.known("u")
    for command in ("hold", "settle", "written"):
        with pytest.raises(RefusedError, match="moved on to metal3"):
            ask(command, HANDED, known=[], token="2")
    assert io_owner.known("u") == before


@pytest.mark.parametrize("keep", [True, False])
def test_what_is_kept_of_a_vm_is_kept(host, keep):
    run_agent.answer("undefine", {"uuid": "u", "uri": "x", "keep": keep})
    assert host.done == [f"undefined, keep: {keep}"]
