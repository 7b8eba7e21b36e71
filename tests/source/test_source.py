# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A source comes to rest, steps aside and returns: asked to, and when nobody asks any more."""

from __future__ import annotations

import time

import pytest
from source_machine import LEASE, NIC, SERVICES, SourceMachine, lasting
from support import eventually

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

WATCH = "reduced-footprint-source-master.service"


def test_all_is_everything_but_what_carries_the_migration(source: SourceMachine) -> None:
    before = lasting(source.running())
    told = set(source.remote.ask("facts", {"services": ["all"], "address": source.admin})["facts"]["everything"])
    assert set(SERVICES) <= told and not told & {"ssh.service", "dbus.service", "systemd-networkd.service", "systemd-journald.service"}
    source.quiesce(["all"], lease=60)
    left = lasting(source.running())
    assert left == before - told and "ssh.service" in left
    assert source.listening() == {"22"}
    # held means that nothing else can start it either
    source.lab.ssh("laptop", "systemctl", "start", "mariadb", check=False)
    assert "mariadb.service" not in source.running()
    source.remote.ask("restore", {"reason": "seen enough"})
    source.await_state("serving")
    source.await_serving()
    assert lasting(source.running()) == before
    assert source.state()["failed"] == []


def test_two_never_answer_and_the_dead_man_returns(source: SourceMachine) -> None:
    nic = ("ip", "address", "add")
    source.lab.ssh("laptop", *nic, f"{source.lab.net}.77/24", "dev", NIC)
    source.lab.ssh("laptop", *nic, "2001:db8::2/64", "dev", NIC, "nodad")
    with source.watch() as watch:
        source.park()
        here = source.addresses()
        assert f"{source.temporary}/24" in here
        # the copy has the other static addresses too
        assert not [each for each in (f"{source.admin}/24", f"{source.lab.net}.77/24", "2001:db8::2/64") if each in here]
        eventually("nobody has the address", lambda: watch.holder() == (), 10)
        # a manager of the network that means well
        source.lab.ssh(source.temporary, *nic, f"{source.admin}/24", "dev", NIC)
        eventually("it is taken off again", lambda: f"{source.admin}/24" not in source.addresses(), 6)
        # its watch dies, and nobody renews
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


def test_it_does_not_return_to_an_address_that_somebody_has(source: SourceMachine) -> None:
    # the lab's server stands for a VM that was not stopped in time
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


def test_a_source_that_hands_over_returns_when_the_final_word_does_not_come(source: SourceMachine) -> None:
    source.park()
    # the first word may be said twice, for its answer may be lost
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


def test_a_source_that_heard_the_final_word_stays_aside_until_it_is_asked_back(source: SourceMachine) -> None:
    source.park()
    source.hand_over()
    with source.watch() as watch:
        time.sleep(2 * LEASE)
        assert source.state()["state"] == "handed_over" and watch.holder() == ()
        source.remote.ask("restore", {"reason": "taken back"})
        source.await_serving(60)
    assert watch.report()["seconds_two"] == 0


def test_a_maintenance_boot_serves_nothing_and_ends_by_itself(source: SourceMachine) -> None:
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
        # and nobody is heard from again
        source.await_serving(LEASE + 60)
    assert watch.report()["seconds_two"] == 0
    assert before <= lasting(source.running())
    assert source.state()["state"] == "serving"
    left = ("find", "/etc/systemd/system", "/run/systemd/system", "-name", "*reduced-footprint*")
    eventually("nothing of ours is left", lambda: source.lab.ssh("laptop", *left).strip() == "", 10)


def test_stepping_aside_in_a_maintenance_boot_and_coming_back(source: SourceMachine) -> None:
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


# The lab's laptop has no engine, so this one only remembers what it was told, in the engines' own words; test_containers.py has a real one.
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


def test_containers_rest_with_the_services_and_return_after_them(source: SourceMachine) -> None:
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
        # nobody speaks up any more
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


def test_a_copy_cannot_answer_for_the_source(source: SourceMachine) -> None:
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
    # it is still known, so that a source that returned is told from a copy that claims to serve
    assert source.state()["mark"] == "m1"
    source.remote.identity.mark = "m2"
    with pytest.raises(BackendError, match="a copy of the source"):
        source.state()
