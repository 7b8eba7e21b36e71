# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was sent to the standby is flushed while a long copy runs, with disks in memory."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_nbd, plan_standby, run_send
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import CHUNK

CAPACITY = 8 * io_nbd.BLOCK


class Source:
    """A disk without zeros."""

    def zeros(self) -> list[tuple[int, int]]:
        return []

    def read(self, unused: int, size: int) -> bytes:
        return b"x" * size


class Target:
    """A disk that counts what was written and what of it is durable; writing a block takes some time."""

    def __init__(self, clock: list[float], seconds: float) -> None:
        self.clock, self.seconds = clock, seconds
        self.written = 0
        self.durable: list[int] = []

    def write(self, unused: int, content: bytes) -> None:
        self.clock[0] += self.seconds
        self.written += len(content)

    def flush(self) -> None:
        self.durable.append(self.written)


@pytest.mark.parametrize(("seconds", "flushes"), [(3.0, 5), (0.1, 1)])
def test_a_lost_connection_costs_a_few_seconds(monkeypatch: pytest.MonkeyPatch, seconds: float, flushes: int) -> None:
    clock = [0.0]
    monkeypatch.setattr(run_send, "time", types.SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda unused: None))
    worker: t.Any = types.SimpleNamespace(
        capacities={"vda": CAPACITY}, have={}, mode=plan_standby.FULL, bytes=0, save=lambda: None,
        job=types.SimpleNamespace(bandwidth_limit=None), journal=types.SimpleNamespace(phase="copy", progress={}),
    )  # fmt: skip
    disk: t.Any = types.SimpleNamespace(target="vda", format="raw")
    target: t.Any = Target(clock, seconds)
    sent = run_send._transfer(worker, disk, plan_standby.blank(CAPACITY), t.cast(t.Any, Source()), target)
    assert len(sent) == CAPACITY // CHUNK and target.durable[-1] == CAPACITY and len(target.durable) == flushes
