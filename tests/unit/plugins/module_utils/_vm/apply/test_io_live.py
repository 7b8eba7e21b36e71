# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for a guest that decides itself how fast it follows."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_live

WANTED, BEFORE = 1024 * 1024, 2048 * 1024


def guest(steps: t.Iterator[int]) -> t.Any:
    """A host with a domain whose memory is the next of these at each look, in KiB."""
    domain = types.SimpleNamespace(setMemoryFlags=lambda *unused: None, XMLDesc=lambda flags: f"<currentMemory unit='KiB'>{next(steps)}</currentMemory>")
    return types.SimpleNamespace(connection=types.SimpleNamespace(lookupByUUIDString=lambda uuid: domain), alive=lambda: True)


@pytest.fixture(autouse=True)
def fixture_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look take a second."""
    now = iter(range(10**9))
    monkeypatch.setattr(io_live, "time", types.SimpleNamespace(monotonic=lambda: next(now) // 2, sleep=lambda seconds: None))


def test_a_slow_guest_is_given_the_time_it_needs() -> None:
    looks = iter(range(BEFORE, WANTED - 1, -16 * 1024))
    io_live.LiveDomain(guest(looks), "uuid", 10).set_memory(WANTED)


def test_a_guest_that_gives_a_page_at_a_time_is_not_waited_for() -> None:
    looks = iter(range(BEFORE, BEFORE - 1000, -4))
    with pytest.raises(io_live.LiveRefusal, match="still differs"):
        io_live.LiveDomain(guest(looks), "uuid", 10).set_memory(WANTED)
