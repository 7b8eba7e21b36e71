# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A source stops its services, releases its address and returns: on request, and when requests stop."""

from __future__ import annotations

import time

import pytest
from source_machine import LEASE, NIC, SERVICES, SourceMachine, lasting
from support import eventually

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

WATCH = "reduced-footprint-source-master.service"


def test_all_covers_every_service_except_those_of_the_migration(source: SourceMachine) -> None:
    before = lasting(source.running())
    stopped = set(source.remote.ask("facts", {"services": ["all"], "address": source.admin})["facts"]["everything"])
    assert set(SERVICES) <= stopped and not stopped & {"ssh.service", "dbus.service", "systemd-networkd.service", "systemd-journald.service"}
    source.quiesce(["all"], lease=60)
    left = lasting(source.running())
    assert left == before - stopped and "ssh.service" in left
    assert source.listening() == {"22"}
    # held services cannot be started by other programs either
    source.lab.ssh("laptop", "systemctl", "start", "mariadb", check=False)
    assert "mariadb.service" not in source.running()
    source.remote.ask("restore", {"reason": "seen enough"})
    source.await_state("serving")
    source.await_serving()
    assert lasting(source.running()) == before
    assert source.state()["failed"] == []


def test_address_has_one_owner_and_the_source_returns_after_the_lease(source: SourceMachine) -> None:
    nic = ("ip", "address", "add")
    source.lab.ssh("laptop", *nic, f"{source.lab.net}.77/24", "dev", NIC)
    source.lab.ssh("laptop", *nic, "2001:db8::2/64", "dev", NIC, "nodad")
    with source.watch() as watch:
        source.park()
        here = source.addresses()
        assert f"{source.temporary}/24" in here
        # the copy has the other static addresses as well
        assert not [each for each in (f"{source.admin}/24", f"{source.lab.net}.77/24", "2001:db8::2/64") if each in here]
        eventually("the address has no owner", lambda: watch.holder() == (), 10)
        # another network manager sets the address again
        source.lab.ssh(source.temporary, *nic, f"{source.admin}/24", "dev", NIC)
        eventually("the address is removed again", lambda: f"{source.admin}/24" not in source.addresses(), 6)
        # the watch is killed, and the lease is not renewed
        for unused in range(3):
            source.lab.ssh(source.temporary, "systemctl", "kill", "--signal=KILL", WATCH, check=False)
            time.sleep(1.2)
        source.await_serving(LEASE + 30)
    report = watch.report()
    assert report["seconds_two"] == 0, report
    assert report["longest_none"] < LEASE + 20, report
    wanted = (f"{source.admin}/24", f"{source.lab.net}.77/24", "2001:db8::2/64")
    eventually("every address is back", lambda: all(each in source.addresses() for each in wanted), 10)
    assert f"{source.temporary}/24" not in source.addresses()
    assert "lease expired" in source.state()["reason"]
    for each in (f"{source.lab.net}.77/24", "2001:db8::2/64"):
        source.lab.ssh("laptop", "ip", "address", "del", each, "dev", NIC)


def test_source_does_not_return_to_an_address_in_use(source: SourceMachine) -> None:
    # the server of the lab acts as a VM that was not stopped in time
    other = ("metal1", "ip", "address")
    source.park()
    source.lab.ssh(*other, "add", f"{source.admin}/24", "dev", "eno1")
    try:
        with source.watch() as watch:
            time.sleep(LEASE + 6)
            assert source.state()["state"] == "parked"
            source.lab.ssh(*other, "del", f"{source.admin}/24", "dev", "eno1")
            source.await_serving()
    finally:
        source.lab.ssh(*other, "del", f"{source.admin}/24", "dev", "eno1", check=False)
    report = watch.report()
    assert report["seconds_two"] == 0, report
    assert [len(each["macs"]) for each in report["stretches"]][0] == 1


def test_source_returns_if_the_hand_over_is_not_confirmed(source: SourceMachine) -> None:
    # nothing renews the lease until the hand-over starts a new one
    source.park(lease=90)
    # the first request may be repeated, because its answer may be lost
    for unused in range(2):
        assert source.remote.ask("hand_over", {"lease": LEASE})["state"]["state"] == "handing_over"
    with source.watch() as watch:
        time.sleep(1)
        assert watch.holder() == ()
        source.await_serving(LEASE + 30)
    report = watch.report()
    assert report["seconds_two"] == 0 and report["longest_none"] < LEASE + 20, report
    assert "lease expired" in source.state()["reason"]
    # too late
    assert source.remote.ask("confirm")["state"]["state"] == "serving"
    assert source.serves()


def test_source_stays_handed_over_until_it_is_restored(source: SourceMachine) -> None:
    source.park(lease=90)
    source.hand_over()
    with source.watch() as watch:
        time.sleep(2 * LEASE)
        assert source.state()["state"] == "handed_over" and watch.holder() == ()
        source.remote.ask("restore", {"reason": "rolled back"})
        source.await_serving(60)
    assert watch.report()["seconds_two"] == 0


def test_maintenance_boot_serves_nothing_and_ends_after_the_lease(source: SourceMachine) -> None:
    before = lasting(source.running())
    usual = source.lab.ssh("laptop", "systemctl", "get-default")
    with source.watch() as watch:
        source.quiesce([], "maintenance_boot", lease=15)
        source.await_state("quiesced", lambda state: state["maintenance"]["arrived"], 90)
        assert source.listening() == {"22"}
        assert not lasting(source.running()) & set(SERVICES)
        assert source.lab.ssh("laptop", "systemctl", "is-active", "multi-user.target", check=False).strip() == "inactive"
        # one more boot would be the usual one already
        assert source.lab.ssh("laptop", "systemctl", "get-default") == usual
        source.remote.ask("renew", {"lease": LEASE})
        # no further request follows
        source.await_serving(LEASE + 60)
    assert watch.report()["seconds_two"] == 0
    assert before <= lasting(source.running())
    assert source.state()["state"] == "serving"
    left = ("find", "/etc/systemd/system", "/run/systemd/system", "-name", "*reduced-footprint*")
    eventually("no unit of the migration is left", lambda: source.lab.ssh("laptop", *left).strip() == "", 10)


def test_source_is_parked_in_a_maintenance_boot_and_restored(source: SourceMachine) -> None:
    before = lasting(source.running())
    source.quiesce([], "maintenance_boot", lease=60)
    source.await_state("quiesced", lambda state: state["maintenance"]["arrived"], 90)
    with source.watch() as watch:
        source.remote.ask("detach")
        source.remote.address = source.temporary
        source.await_state("parked", lambda state: "parked_at" in state, 20)
        assert source.listening() == {"22"}
        source.remote.ask("restore", {"reason": "the VM would not boot"})
        source.await_serving(60)
    assert watch.report()["seconds_two"] == 0
    eventually("everything runs again", lambda: before <= lasting(source.running()), 30)


# The laptop of the lab has no engine; this program accepts the commands of the engines and records them. test_containers.py uses a real one.
ENGINE = """#!/usr/bin/python3
import pathlib, sys
home = pathlib.Path("/var/lib/fake-engine")
home.mkdir(exist_ok=True)
words = sys.argv[1:]
if words[0] in ("start", "stop"):
    with open(home / "log", "a") as log:
        log.write(f"{words[0]} {words[-1]}\\n")
    (home / f"{words[-1]}.state").write_text("true" if words[0] == "start" else "false")
elif words[:2] == ["container", "inspect"]:
    state = home / f"{words[-1]}.state"
    if not state.exists():
        sys.exit("no such container")
    print(state.read_text())
elif words[0] == "ps":
    print("\\n".join(each.stem for each in home.glob("*.state") if each.read_text() == "true"))
"""


def test_containers_are_stopped_with_the_services_and_started_after_them(source: SourceMachine) -> None:
    ssh = source.lab.ssh
    ssh("laptop", "tee", "/usr/local/bin/podman", stdin=ENGINE)
    ssh("laptop", "chmod", "755", "/usr/local/bin/podman")
    try:
        for name in ("web", "db", "other"):
            ssh("laptop", "podman", "start", name)
        ssh("laptop", "podman", "stop", "other")
        ssh("laptop", "rm", "/var/lib/fake-engine/log")
        named = [{"engine": "podman", "name": name} for name in ("web", "db", "other", "missing")]
        facts = source.remote.ask("facts", {"containers": named, "address": source.admin})["facts"]
        assert [each["state"] for each in facts["containers"]] == ["running", "running", "stopped", "missing"]
        assert {each["name"] for each in facts["running_containers"]} == {"web", "db"}
        answer = source.quiesce(containers=named[:3])
        assert [each["name"] for each in answer["containers"]] == ["web", "db"]
        # no further request follows
        source.await_serving(LEASE + 30)
        source.await_state("serving")
        assert ssh("laptop", "cat", "/var/lib/fake-engine/log").split("\n")[:4] == ["stop web", "stop db", "start db", "start web"]
        # everything is everything, unnamed containers too
        assert {each["name"] for each in source.quiesce(["all"])["containers"]} == {"web", "db"}
        source.remote.ask("restore", {"reason": "seen enough"})
        source.await_serving()
        source.await_state("serving")
        assert {each["name"] for each in source.remote.ask("facts")["facts"]["running_containers"]} == {"web", "db"}
    finally:
        ssh("laptop", "rm", "-rf", "/usr/local/bin/podman", "/var/lib/fake-engine")


def test_copy_is_not_accepted_as_the_source(source: SourceMachine) -> None:
    source.quiesce(lease=60, new_mark="m1")
    source.remote.identity.mark = "m1"
    assert source.state()["state"] == "quiesced"
    # a copy has all files of the source but those of this folder
    home = "/var/lib/reduced.footprint/source"
    source.lab.ssh("laptop", f"mv {home} {home}.away")
    try:
        for command, given in (("state", {}), ("renew", {"lease": 60}), ("leave", {"marker": "m", "power_off": True}), ("restore", {})):
            with pytest.raises(BackendError, match="a copy of the source"):
                source.remote.ask(command, given)
    finally:
        source.lab.ssh("laptop", f"rm -rf {home} && mv {home}.away {home}")
    assert source.state()["state"] == "quiesced"
    source.remote.ask("restore", {"reason": "the test"})
    source.await_serving()
    # the mark is kept, to distinguish a returned source from a serving copy
    assert source.state()["mark"] == "m1"
    source.remote.identity.mark = "m2"
    with pytest.raises(BackendError, match="a copy of the source"):
        source.state()
