# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A standby starts a machine by itself: only when its server is lost, and never while it runs there.

The machines of the lab have no hardware watchdog, so they use ``watchdog: none``; a kernel that hangs is not simulated.
"""

from __future__ import annotations

import pathlib
import time
import typing as t

import pytest

from standby_automatic import LEASE, Operator, back, begun, check_never_two, copied, logs, ready, running, taken
from standby_pair import CLUSTER, VM, Refused, Trio, eventually, lab, sampled
from test_standby import move_back

STEADY = 150.0


def test_power_cut_and_the_way_back(trio: Trio) -> None:
    begun(trio)
    lost = time.time()
    lab("kill", trio.here.name)
    print(f"started {taken(trio, lost):.0f} s after the loss of power")
    eventually("it is recorded", lambda: trio.entry(trio.there)["phase"] == "running", 60)
    assert trio.entry(trio.there)["taken_over"]
    eventually("the witness knows", lambda: trio.entry(trio.witness)["state"] == "started", 60)
    back(trio)
    assert trio.here.state(VM) == "shut off" and trio.there.state(VM) == "running"
    assert "was not started elsewhere" in trio.here.ssh(f"virsh start {VM} 2>&1", check=False)
    check_never_two(trio)
    assert trio.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "released"})["changed"] is True
    move_back(trio)
    for server in (trio.witness, trio.there):
        assert server.call("standby", {"id": VM, "cluster": CLUSTER, "state": "returned"})["changed"] is True
    assert trio.automatic()["changed"] is True
    copied(trio)


def test_server_is_cut_off(trio: Trio) -> None:
    begun(trio)
    lost = time.time()
    trio.split((trio.here, trio.there), (trio.here, trio.witness))
    started = taken(trio, lost)
    ended = running(trio, trio.here)[-1] - lost
    print(f"ended {ended:.0f} s after the cut, started on the other server after {started:.0f} s")
    check_never_two(trio)
    assert ended < started - 20
    trio.join()
    eventually("the first server knows", trio.here.gave_up, 120)
    check_never_two(trio)


def test_a_short_cut_restarts_it_where_it_was(trio: Trio) -> None:
    begun(trio)
    trio.split((trio.here, trio.there), (trio.here, trio.witness))
    eventually("it is ended", lambda: trio.here.state(VM) == "shut off", 90)
    assert "was not started elsewhere" in trio.here.ssh(f"virsh start {VM} 2>&1", check=False)
    trio.join()
    eventually("it starts again", lambda: trio.here.state(VM) == "running", 120)
    ready(trio)
    assert not running(trio, trio.there)


def test_one_link_or_the_witness_is_lost(trio: Trio) -> None:
    begun(trio)
    for begin, end in (
        (lambda: trio.split((trio.here, trio.there)), trio.join),
        (lambda: lab("kill", trio.witness.name), lambda: lab("start", trio.witness.name)),
    ):
        since = time.time()
        begin()
        eventually("it is reported", lambda: "no lease from" in (trio.entry(trio.here)["automatic_problem"] or ""), 60)
        time.sleep(STEADY)
        states = {state for at, state in sampled(trio.here) if at > since}
        assert states == {"running"} and not running(trio, trio.there), logs(trio)
        end()
        ready(trio)


@pytest.mark.parametrize("how", ["hangs", "fails"])
def test_without_its_service_it_is_ended_in_time(trio: Trio, how: str) -> None:
    begun(trio)
    lost = time.time()
    trio.split((trio.here, trio.there), (trio.here, trio.witness))
    if how == "hangs":
        trio.here.ssh(f"systemctl kill --signal=STOP {LEASE}")
    else:
        # no instance starts any more: systemd ends the machine
        code = trio.here.ssh(f"systemctl show --value -p Environment {LEASE} | grep -o '/var/[^ ]*zip'").strip()
        trio.here.ssh(f"mv {code} {code}.away; systemctl kill --signal=KILL {LEASE}")
    started = taken(trio, lost)
    ended = running(trio, trio.here)[-1] - lost
    print(f"{how}: ended {ended:.0f} s after the cut, started on the other server after {started:.0f} s")
    print(trio.here.ssh(f"journalctl -n 20 --no-pager -u {LEASE} -u reduced-footprint-standby-fence", check=False))
    check_never_two(trio)
    assert ended < started - 10


def test_shutdown_and_stops_start_nothing(trio: Trio) -> None:
    begun(trio)
    # a crash changes nothing while there are leases
    trio.here.ssh(f"systemctl kill --signal=KILL {LEASE}")
    time.sleep(10)
    assert trio.here.state(VM) == "running" and trio.entry(trio.here)["automatic_armed"] is True
    # a stop of the service ends the automatic start, the machine continues
    trio.here.ssh(f"systemctl stop {LEASE}")
    assert trio.here.state(VM) == "running" and trio.entry(trio.here)["automatic_armed"] is False
    assert "ended the automatic start" in trio.entry(trio.there)["automatic_problem"]
    trio.here.ssh(f"systemctl start {LEASE}")
    ready(trio)
    # a machine that is off on purpose
    trio.here.ssh(f"virsh destroy {VM}")
    eventually("it is reported", lambda: "not running" in (trio.entry(trio.there)["automatic_problem"] or ""), 60)
    trio.here.ssh(f"virsh start {VM}")
    ready(trio)
    # a move ends it until the copies continue
    trio.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "paused"})
    assert trio.entry(trio.here)["automatic_armed"] is False and trio.here.state(VM) == "running"
    trio.here.ssh(f"rm /var/lib/reduced.footprint/standby/{VM}/paused")
    ready(trio)
    lab("stop", trio.here.name)
    time.sleep(STEADY)
    assert not running(trio, trio.there), logs(trio)
    lab("start", trio.here.name)
    eventually("it starts where it was", lambda: trio.here.state(VM) == "running", 180)
    ready(trio)


def test_its_end(trio: Trio) -> None:
    begun(trio)
    with pytest.raises(Refused, match="has no hardware watchdog"):
        trio.present(witnesses=[trio.voter(trio.witness)], automatic=True)
    with pytest.raises(Refused, match="needs at least one witness"):
        trio.present(automatic=True, watchdog="none")
    assert trio.here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "disarmed"})["changed"] is True
    assert not trio.here.has(f"/etc/systemd/system/{LEASE}.service") and trio.here.state(VM) == "running"
    assert trio.there.call("standby", {"id": VM, "cluster": CLUSTER, "state": "unwatched"})["changed"] is True
    withdrawn: dict[str, t.Any] = {"name": VM, "cluster": CLUSTER, "purpose": "standby", "state": "absent"}
    assert trio.witness.call("key", withdrawn)["changed"] is True
    assert "reduced.footprint-migrate" not in trio.witness.ssh("cat /root/.ssh/authorized_keys")


def test_playbooks(trio: Trio, tmp_path: pathlib.Path) -> None:
    """The way of an operator: what is missing is refused, spawn_vms begins the automatic start and ends it."""
    operator = Operator(trio, tmp_path)

    def run(automatic: bool, fails: str | None = None, **more: t.Any) -> int:
        operator.write(automatic=automatic, **more)
        return operator.run("spawn_vms", fails=fails)

    run(True, "metal1.vms[0].standby.automatic: m1 needs at least one witness", standby_witnesses=None)
    run(True, "metal1.vms[0].standby.automatic: metal1 has no hardware watchdog", standby_watchdog=None)
    assert trio.here.state(VM) == "gone", "the error came after the change"
    assert run(True) > 0
    copied(trio)
    assert run(True) == 0
    assert run(False) > 0
    assert trio.here.state(VM) == "running" and not trio.here.has(f"/etc/systemd/system/{LEASE}.service")
    assert "takeover" not in trio.witness.ssh("cat /root/.ssh/authorized_keys") and not trio.there.has("/var/lib/reduced.footprint/standby-watches/standbys/m1")
    assert run(False) == 0
