# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address watch, on a bridge with two real owners of the address."""

from __future__ import annotations

import subprocess
import time
import typing as t

import pytest
from address_watch import AddressWatch, Round, summary

from tests.support import leftovers

BRIDGE, CLAIMED = "rfwatch0", "192.0.2.2"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@pytest.fixture
def machines() -> t.Iterator[list[str]]:
    """Create two namespaces on a bridge."""
    names = ["rfwatch-a", "rfwatch-b"]

    def clear() -> None:
        for argv in (["link", "del", BRIDGE], *(["netns", "del", name] for name in names)):
            subprocess.run(["ip", *argv], stderr=subprocess.DEVNULL, check=False)

    clear()
    for name in (BRIDGE, "rfw0", "rfw1"):
        leftovers.note("link", name)
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("link", "set", BRIDGE, "up")
    for number, name in enumerate(names):
        leftovers.note("netns", name)
        ip("netns", "add", name)
        ip("link", "add", f"rfw{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", f"rfw{number}", "master", BRIDGE, "up")
        ip("-n", name, "link", "set", "eth0", "up")
    yield names
    clear()


def held(machine: str, yes: bool) -> None:
    """Add or remove the address."""
    ip("-n", machine, "address", "add" if yes else "del", f"{CLAIMED}/24", "dev", "eth0")


def test_none_one_and_two_owners_are_distinguished(machines: list[str]) -> None:
    with AddressWatch(BRIDGE, CLAIMED) as watch:
        time.sleep(0.5)
        held(machines[0], True)
        time.sleep(0.7)
        held(machines[1], True)
        time.sleep(0.7)
        held(machines[0], False)
        time.sleep(0.7)
        held(machines[1], False)
        time.sleep(0.5)
    report = watch.report()
    assert [len(each["macs"]) for each in report["stretches"]] == [0, 1, 2, 1, 0], report
    assert report["seconds_two"] >= 0.4 and report["seconds_none"] >= 0.4


def test_watch_without_answers_is_not_accepted() -> None:
    watch = AddressWatch("lo", CLAIMED)
    with pytest.raises(AssertionError):
        watch.report()


def test_summary_counts_periods() -> None:
    rounds = [Round(0.0, ("a",)), Round(0.2, ()), Round(0.4, ()), Round(0.6, ("b",)), Round(0.8, ("a", "b"))]
    report = summary(rounds)
    assert (report["seconds"], report["seconds_two"], report["seconds_none"], report["longest_none"]) == (1.0, 0.2, 0.4, 0.4)
