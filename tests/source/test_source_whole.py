# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power losses of a stopped source, a restore that fails itself, and the removal of a source."""

from __future__ import annotations

import time

import pytest
from source_machine import LEASE, SourceMachine, lasting
from support import eventually

pytestmark = pytest.mark.whole


def cut_power(source: SourceMachine) -> None:
    """Cut the power and restore it."""
    source.lab.command("kill", "laptop")
    source.lab.command("start", "laptop", "--no-wait")


def test_power_loss_while_parked(source: SourceMachine) -> None:
    source.park(lease=12)
    with source.watch() as watch:
        cut_power(source)
        source.await_state("parked", lambda state: True, 40)
        assert "mariadb.service" not in source.running()
        assert f"{source.admin}/24" not in source.addresses()
        source.await_serving(60)
    assert watch.report()["seconds_two"] == 0
    assert "lease expired" in source.state()["reason"]


def test_source_stays_handed_over_after_a_power_loss(source: SourceMachine) -> None:
    source.park(services=["all"], lease=90)
    source.hand_over()
    with source.watch() as watch:
        cut_power(source)
        source.await_state("handed_over", seconds=40)
        time.sleep(2 * LEASE)
    assert watch.report()["stretches"][-1]["macs"] == []
    assert sum(len(each["macs"]) for each in watch.report()["stretches"]) == 0
    assert source.listening() == {"22"}


def test_power_loss_while_handing_over_restarts_the_lease(source: SourceMachine) -> None:
    source.park(lease=90)
    source.remote.ask("hand_over", {"lease": 12})
    with source.watch() as watch:
        cut_power(source)
        source.await_state("parked", lambda state: True, 40)
        # a delayed confirmation of the earlier hand-over has no effect
        assert source.remote.ask("confirm")["state"]["state"] == "parked"
        source.await_serving(60)
    assert watch.report()["seconds_two"] == 0


def test_power_loss_while_quiesced(source: SourceMachine) -> None:
    source.quiesce(["all"])
    cut_power(source)
    source.await_serving(60)
    assert source.state()["state"] == "serving"


def test_power_loss_in_a_maintenance_boot(source: SourceMachine) -> None:
    before = lasting(source.running())
    source.quiesce([], "maintenance_boot", lease=600)
    source.await_state("quiesced", lambda state: state["maintenance"]["arrived"], 90)
    cut_power(source)
    source.await_serving(60)
    eventually("everything runs again", lambda: before <= lasting(source.running()), 30)
    assert "rebooted" in source.state()["reason"]


def test_power_loss_before_a_maintenance_boot(source: SourceMachine) -> None:
    source.quiesce([], "maintenance_boot")
    eventually("the boot is armed", source.armed, 10)
    cut_power(source)
    # the source boots, receives no request, and returns
    source.await_serving(LEASE + 60)
    assert source.state()["state"] == "serving"


def test_failing_restore_is_repeated_after_one_reboot(source: SourceMachine) -> None:
    library = source.root / "var" / "lib" / "reduced.footprint" / "lib"
    away = library.with_name("lib.away")
    source.quiesce([], "maintenance_boot", lease=600)
    eventually("the boot is armed", source.armed, 10)
    library.rename(away)
    try:
        eventually("it goes down", lambda: not source.serves(), 60)
        # five attempts, then a boot into the usual target, where the source serves
        source.await_serving(120)
    finally:
        away.rename(library)
    assert not source.armed()
    assert source.lab.ssh("laptop", "systemctl", "is-active", "multi-user.target").strip() == "active"


def test_leaving_source_removes_the_key_and_powers_off(source: SourceMachine) -> None:
    marker = "reduced.footprint-migrate-master"
    line = f"restrict ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl {marker}"
    source.lab.ssh("laptop", "tee", "-a", "/root/.ssh/authorized_keys", stdin=line + "\n")
    source.park()
    source.hand_over()
    source.remote.ask("leave", {"marker": marker, "power_off": True})
    assert marker not in (source.root / "root" / ".ssh" / "authorized_keys").read_text(encoding="utf-8")
    eventually("it is off", lambda: not source.powered(), 40)
    source.lab.command("start", "laptop", "--no-wait")
    source.await_state("handed_over", seconds=40)
