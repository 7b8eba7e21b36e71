# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vm_define killed at any moment, and twice at once, on real libvirt with real guests."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import random
import shlex
import subprocess
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support" / "libvirtd"
COUNT = 6
ROUNDS = int(os.environ.get("TORTURE_ROUNDS", "12"))
FORK = multiprocessing.get_context("fork")


@pytest.fixture(name="uri")
def fixture_uri() -> t.Iterator[str]:
    """A libvirtd of our own."""
    folder = f"/var/tmp/footprint-torture-{os.getpid()}"
    started = subprocess.run([str(SUPPORT), "start", folder], check=True, capture_output=True, text=True).stdout
    yield dict(pair.split("=", 1) for pair in shlex.split(started))["FOOTPRINT_TEST_QEMU_URI"]
    subprocess.run([str(SUPPORT), "stop", folder], check=True)


def request(uri: str, memory: int) -> DefineRequest:
    """A few guests with disks."""
    vms = [
        {"id": number, "cpu": 1, "memory_mb": memory, "hypervisor": "qemu", "disks": [{"size": "2 MiB"}, {"size": "2 MiB", "format": "qcow2"}]}
        for number in range(COUNT)
    ]
    return DefineRequest(cluster="torture", vms=vms, uri=uri, pool="footprint-test", lock_timeout=60)


def attempt(uri: str, memory: int) -> None:
    """One run in a process of its own; a VM that failed makes it end with 1."""
    raise SystemExit(int(define_vms(request(uri, memory), check_mode=False).failed))


def test_killed_at_any_moment(uri: str) -> None:
    dice = random.Random(4)
    whole = time.monotonic()
    first = FORK.Process(target=attempt, args=(uri, 32))
    first.start()
    time.sleep(dice.uniform(0.05, 0.5))
    first.kill()
    first.join()
    assert not define_vms(request(uri, 32), check_mode=False).failed
    seconds = max(time.monotonic() - whole, 1)
    before = {vm["name"]: vm["uuid"] for vm in read_vms(InfoRequest(uri=uri))}
    assert len(before) == COUNT
    for number in range(ROUNDS):
        # an edit of all, killed on its way: nothing may be missing, nothing may have stopped
        victim = FORK.Process(target=attempt, args=(uri, 33 + number))
        victim.start()
        time.sleep(dice.uniform(0, seconds / 2))
        victim.kill()
        victim.join()
        found = read_vms(InfoRequest(uri=uri))
        assert {vm["name"]: vm["uuid"] for vm in found} == before
        assert {vm["state"] for vm in found} == {"running"}
    last = define_vms(request(uri, 32 + ROUNDS), check_mode=False)
    assert not last.failed
    again = define_vms(request(uri, 32 + ROUNDS), check_mode=False)
    assert [vm.actions for vm in again.vms] == [[]] * COUNT


def test_two_at_once_serialise(uri: str) -> None:
    both = [FORK.Process(target=attempt, args=(uri, 32)) for unused in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    again = define_vms(request(uri, 32), check_mode=False)
    assert [(vm.state, vm.actions) for vm in again.vms] == [("running", [])] * COUNT
