# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the destination refuses; tests/move has a real one."""

from __future__ import annotations

import contextlib
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_agent
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_moved
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import ARRIVING, CONFIRMED, MOVED, MOVING, Moved

NOTE = Moved("c1", "lab", "c1", "u", "metal1", "20261127T040000Z", MOVING)


@pytest.fixture(name="notes")
def fixture_notes(monkeypatch):
    notes: dict[str, Moved] = {}
    monkeypatch.setattr(run_agent, "host_lock", lambda name, timeout: contextlib.nullcontext())
    monkeypatch.setattr(io_moved, "read", notes.get)
    monkeypatch.setattr(io_moved, "write", lambda note: notes.update({note.uuid: note}))
    monkeypatch.setattr(io_moved, "forget", lambda uuid: bool(notes.pop(uuid, None)))
    return notes


@pytest.mark.parametrize("state", [MOVING, MOVED, CONFIRMED])
def test_the_old_copy_of_a_vm_that_was_moved_on_does_not_return(notes, state):
    # it runs on metal3: returned with the old data from here, it would run twice
    notes["u"] = Moved(**{**vars(NOTE), "to": "metal3", "state": state})
    before = dict(notes)
    asked = {"uuid": "u", "source": "metal1", "autostart": None, "known": [], "items": []}
    for command, given in (("hold", {"note": vars(NOTE), "items": []}), ("settle", asked), ("written", asked)):
        with pytest.raises(RefusedError, match="moved on to metal3"):
            run_agent.answer(command, given)
    assert notes == before


@pytest.mark.parametrize("before", [None, Moved(**{**vars(NOTE), "to": "metal2", "state": ARRIVING}), NOTE])
def test_the_vm_of_this_move_returns(notes, before):
    # also if the move or an earlier return was interrupted
    notes.update({"u": before} if before else {})
    run_agent.answer("hold", {"note": vars(NOTE), "items": []})
    assert notes == {"u": NOTE}
    run_agent.answer("settle", {"uuid": "u", "source": "metal1", "autostart": None, "items": []})
    assert not notes


class Host:
    """A connection to libvirt with one domain, which is off; records how it is undefined."""

    def __init__(self, done):
        self.done = done
        self.connection = types.SimpleNamespace(lookupByUUIDString=lambda uuid: types.SimpleNamespace(undefineFlags=done.append))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass

    def domain(self, unused):
        return types.SimpleNamespace(active=False)

    def undefine(self, unused):
        self.done.append("with its NVRAM")


@pytest.mark.parametrize("keep", [True, False])
def test_the_nvram_and_the_tpm_of_kept_disks_are_kept(notes, monkeypatch, keep):
    done: list = []
    monkeypatch.setattr(run_agent, "DomainHost", lambda uri: Host(done))
    run_agent.answer("undefine", {"uuid": "u", "uri": "x", "keep": keep})
    if keep:
        # VIR_DOMAIN_UNDEFINE_…: MANAGED_SAVE 1, SNAPSHOTS_METADATA 2, NVRAM 4, KEEP_NVRAM 8, CHECKPOINTS_METADATA 16, TPM 32, KEEP_TPM 64
        assert done == [1 | 2 | 8 | 16 | 64]
    else:
        assert done == ["with its NVRAM"]
