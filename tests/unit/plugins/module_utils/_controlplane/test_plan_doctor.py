# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_doctor, plan_doctor_finding, plan_status, plan_status_answers

GIB = 1024**3
HEALTHY: dict[str, t.Any] = {
    "vms": [{"name": "web", "state": "running", "origin": "vm_define", "cluster": "lab"}],
    "migrations": [],
    "standbys": [],
    "clock": {"offset_seconds": 0.0, "uncertainty_seconds": 0.01, "synchronized": True},
    "links": [
        {"name": "br0", "kind": "bridge", "master": None, "up": True, "carrier": True, "mtu": 1500, "speed": None},
        {"name": "eno1", "kind": "device", "master": "br0", "up": True, "carrier": True, "mtu": 1500, "speed": 10000},
        # not used, and the interface of a guest
        {"name": "eno2", "kind": "device", "master": None, "up": True, "carrier": False, "mtu": 1500, "speed": -1},
        {"name": "vnet0", "kind": "other", "master": "br0", "up": True, "carrier": False, "mtu": 1500, "speed": 10},
    ],
    "file_systems": [{"path": "/", "size_bytes": 100 * GIB, "free_bytes": 60 * GIB, "inodes": 1000, "free_inodes": 900, "read_only": False}],
    "disks": {"smart": True, "disks": [{"name": "/dev/sda", "known": True, "problems": []}], "arrays": [{"name": "md0", "missing": 0}]},
    "units": {"failed": [], "stopped": [], "time_services": {"chrony.service": True}},
    "restart": "",
    "keys": [{"name": "standby-web@lab", "public_key": "ssh-ed25519 AAAA x", "left_seconds": None}],
    "run": {},
    "pools": [{"name": "vg0", "type": "logical", "active": True, "autostart": True, "size_bytes": 100 * GIB, "free_bytes": 50 * GIB}],
    "record": {"name": "m1", "cluster": "lab", "roles": ["virt"], "qemu": "7.2.9"},
    "moves": [],
}
DECLARED = plan_doctor.Declared({"web": "m1"}, {"m1": ["virt"], "m2": ["virt"]}, "lab")


def host(**parts: t.Any) -> dict[str, t.Any]:
    """The answer of a healthy server with other parts; an error is a mapping with ``error``."""
    values = {**HEALTHY, **parts}
    entries = {name: one if isinstance(one, dict) and "error" in one else {"value": one} for name, one in values.items()}
    return {"reachable": True, "reason": "", "parts": entries}


def second(**parts: t.Any) -> dict[str, t.Any]:
    return host(**{"vms": [], "record": {**HEALTHY["record"], "name": "m2"}, **parts})


def examined(answers: dict[str, t.Any], declared: plan_doctor.Declared = DECLARED) -> list[t.Any]:
    ask = {name: {"server": True, "services": [], "probes": {}, "cloud": False} for name in answers}
    found = plan_status_answers.read_answers(ask, answers, {}, dict.fromkeys(ask, ""))
    return plan_doctor.examine(answers, plan_status.build_status(found), found["clocks"], declared)


def problems(answers: dict[str, t.Any], declared: plan_doctor.Declared = DECLARED) -> list[str]:
    return [line for line in plan_doctor.lines(examined(answers, declared)) if not line.startswith("ok ")]


def test_what_is_healthy_is_one_line_for_each_check() -> None:
    found = examined({"m1": host(), "m2": second()})
    assert plan_doctor.lines(found) == [
        "ok      hosts: 2 answer",
        "ok      VMs: 1 of 1 run",
        "ok      inventory: the servers have what it says",
        "ok      jobs: none is unfinished",
        "ok      keys: no one-time key is left",
        "ok      links: 2 ports of bridges and bonds on 2 hosts",
        "ok      MTU: 1500 at all bridges",
        "ok      clocks: 2 hosts differ by 0.000 s at most (± 0.020 s)",
        "ok      space: at most 40 % used (/ on m2)",
        "ok      disks: SMART of 2 disks",
        "ok      units: none has failed",
        "ok      restarts: none is due",
    ]
    assert plan_doctor.verdict(found) == "healthy: nothing to repair"


def test_nothing_is_called_broken_if_no_host_answers() -> None:
    silent = {name: {"reachable": False, "reason": "", "parts": {}} for name in ("m1", "m2")}
    ask = {name: {"server": True, "services": ["galera"], "probes": {}, "cloud": False} for name in silent}
    found = plan_status_answers.read_answers(ask, silent, {"galera": list(silent)}, dict.fromkeys(ask, ""))
    lines = plan_doctor.lines(plan_doctor.examine(silent, plan_status.build_status(found), found["clocks"], DECLARED))
    assert lines == [
        "UNKNOWN hosts: m1, m2: no answer. Check the network of this control node, then run doctor again",
        "UNKNOWN services: galera: no host that answers knows them",
    ]
    refused = {**silent, "m2": {**silent["m2"], "reason": "Permission denied"}}
    assert [line[:7] for line in problems(refused)] == ["REPAIR ", "REPAIR "]
    # the hosts outside of the limit may answer
    assert problems(silent, DECLARED._replace(excluded=["m3"]))[0].startswith("REPAIR  hosts: m1, m2: no answer. Restore the power")


def link(name: str, **values: t.Any) -> list[dict[str, t.Any]]:
    """The links with other values of one of them."""
    return [{**one, **values} if one["name"] == name else one for one in HEALTHY["links"]]


def filled(free: float, **values: t.Any) -> list[dict[str, t.Any]]:
    return [{**HEALTHY["file_systems"][0], "free_bytes": int(free * GIB), **values}]


def key(left: int) -> list[dict[str, t.Any]]:
    return [{"name": "move-web", "public_key": "ssh-ed25519 AAAA reduced.footprint-migrate-move-web", "left_seconds": left}]


def pool(**values: t.Any) -> list[dict[str, t.Any]]:
    return [{**HEALTHY["pools"][0], **values}]


PROBLEMS: list[tuple[dict[str, t.Any], str]] = [
    ({"links": link("eno1", carrier=False)}, "REPAIR  links: m2: eno1, a port of br0, has no link. Check its cable and the port of its switch"),
    ({"links": link("eno1", up=False, carrier=None)}, "REPAIR  links: m2: eno1, a port of br0, is switched off. ip link set eno1 up"),
    ({"links": link("eno1", speed=100)}, "note    links: m2: eno1, a port of br0, runs at 100 Mb/s. Check its cable"),
    ({"links": link("br0", mtu=9000)}, "REPAIR  MTU: m2: eno1 has 1500, its bridge br0 9000. Set mtu in virt_host_bridges"),
    ({"clock": {**HEALTHY["clock"], "offset_seconds": 3.0}}, "REPAIR  clocks: m2 is 3.000 s ahead of m1"),
    ({"clock": {**HEALTHY["clock"], "synchronized": False}}, "note    clocks: m2: no time service synchronizes it. Use the role chrony"),
    ({"file_systems": filled(4)}, "REPAIR  space: m2: the file system / has 96 % of its space in use, 4 GiB left. Free or add space"),
    ({"file_systems": filled(10)}, "note    space: m2: the file system / has 90 % of its space in use, 10 GiB left"),
    ({"file_systems": filled(60, free_inodes=10)}, "REPAIR  space: m2: the file system / has 99 % of its inodes in use, almost none left"),
    ({"file_systems": filled(60, read_only=True)}, "REPAIR  space: m2: / is read-only. Read the kernel's messages"),
    ({"pools": pool(free_bytes=0)}, "REPAIR  space: m2: the pool vg0 has 100 % of its space in use, almost none left"),
    ({"pools": pool(active=False, size_bytes=0, free_bytes=0)}, "REPAIR  space: m2: the pool vg0 is not active. Mount its file system"),
    ({"disks": {**HEALTHY["disks"], "disks": [{"name": "/dev/sda", "known": True, "problems": ["8 pending sectors"]}]}},
     "REPAIR  disks: m2: /dev/sda: 8 pending sectors. Replace it"),
    ({"disks": {**HEALTHY["disks"], "arrays": [{"name": "md0", "missing": 1}]}}, "REPAIR  disks: m2: md0 lacks 1 members. Replace the disk, then mdadm"),
    ({"disks": {"smart": False, "disks": [], "arrays": []}}, "note    disks: m2: the health of its disks is not known. Install smartmontools"),
    ({"units": {**HEALTHY["units"], "failed": ["a.service", "b.mount"]}}, "REPAIR  units: m2: failed: a.service, b.mount. journalctl -u a.service"),
    ({"restart": "packages that were updated require it"}, "note    restarts: m2: packages that were updated require it. maintain_virt_node"),
    ({"keys": key(7200)}, "note    keys: m2: the key of move-web is accepted for 2 hours. It is withdrawn by the end"),
    ({"run": {"playbook": "rolling_restart", "user": "me", "node": "c", "since": "2026-01-01T00:00:00Z"}},
     "note    jobs: rolling_restart of me on c restarts members since 2026-01-01T00:00:00Z, according to m2. If it has ended, run it again"),
    ({"moves": [{"name": "db", "to": "m3", "state": "moving", "waiting": None}, {"name": "old", "to": "m3", "state": "moved", "waiting": None}]},
     "REPAIR  jobs: m2: the move of db to m3 is not finished. Run move_vm again"),
    ({"migrations": [{"name": "master", "phase": "copy", "state": "interrupted", "host": "m2"}]}, "REPAIR  jobs: master interrupted in phase copy on m2"),
    ({"record": {**HEALTHY["record"], "name": "m2", "roles": [], "cluster": "old"}},
     "REPAIR  inventory: m2: it has recorded cluster old, here lab; roles none, here virt. Run provision_virt"),
    ({"record": {**HEALTHY["record"], "name": "m2", "qemu": "8.2.2"}}, "note    inventory: QEMU is 7.2.9 on m1, 8.2.2 on m2. VMs move live"),
    ({"vms": [{"name": "new", "state": "running", "origin": "vm_define", "cluster": "lab"}]}, "note    inventory: m2: the VM new is not in the inventory."),
    ({"vms": [{"name": "web2", "state": "shutdown"}]}, "REPAIR  VMs: server m2: 0 of 1 VMs running (web2 is shutdown). Start these VMs with spawn_vms"),
    ({"vms": [{"name": "x", "state": "running", "pending": ["memory"]}]}, "note    VMs: x requires a restart (memory)"),
    ({"standbys": [{"id": "web", "part": "source", "state": "done", "standby": "m1", "age_seconds": 9000, "problem": "its last copy is 9000 s old"}]},
     "REPAIR  copies: web its last copy is 9000 s old; copy on m1, 9000 s old"),
    ({"links": {"error": "no answer within 8 s"}}, "UNKNOWN links: m2: cannot be read: no answer within 8 s"),
    ({"vms": {"error": "libvirt does not answer."}}, "UNKNOWN VMs: server m2: failed to list its VMs: libvirt does not answer."),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "line"), PROBLEMS, ids=[line[:60] for _parts, line in PROBLEMS])
def test_a_problem_of_a_host_is_one_line_and_hides_that_its_check_is_healthy(parts: dict[str, t.Any], line: str) -> None:
    answers = {"m1": host(), "m2": second(**parts)}
    found = problems(answers)
    # the bridge of the other server has another MTU then
    assert found[0].startswith(line) and len(found) == 1 + ("its bridge" in line), found
    check = line[8:].partition(":")[0]
    assert not any(one.startswith(f"ok      {check}:") for one in plan_doctor.lines(examined(answers)))


def test_problems_of_several_hosts() -> None:
    larger = [{**one, "mtu": 9000} for one in HEALTHY["links"]]
    assert problems({"m1": host(), "m2": second(links=larger)})[0].startswith("REPAIR  MTU: br0 has 1500 on m1, 9000 on m2. Set the same mtu")
    moved = {"m1": host(vms=[]), "m2": second(vms=HEALTHY["vms"])}
    assert problems(moved)[0].startswith("REPAIR  inventory: the VM web is on m2, the inventory has it on m1. Move its entry to m2")
    assert problems({"m1": host(vms=[]), "m2": second()})[0].startswith("REPAIR  inventory: the VM web does not exist on m1. Run spawn_vms")
    # a VM that does not exist does not answer either
    silent = {"reachable": False, "reason": "", "parts": {}}
    assert len(problems({"m1": host(vms=[]), "m2": second(), "web": silent})) == 1
    assert len(problems({"m1": host(), "m2": second(), "web": silent})) == 1
    # the same is one line
    assert problems({"m1": host(restart="x"), "m2": second(restart="x")}) == ["note    restarts: m1, m2: x. maintain_virt_node restarts servers one at a time"]


def test_a_host_that_does_not_answer_is_named_and_nothing_is_said_of_what_it_has() -> None:
    answers = {"m1": {"reachable": False, "reason": "", "parts": {}}, "m2": second()}
    assert problems(answers)[0].startswith("REPAIR  hosts: m1: no answer. Restore the power or network")
    # the VM that should be there is unknown, not missing
    assert len(problems(answers)) == 1
    nothing = examined({"m1": answers["m1"]})
    assert [one.check for one in nothing] == ["hosts"] and plan_doctor.verdict(nothing).startswith("0 to repair, 1 unknown. Begin with hosts: ")


@pytest.mark.parametrize(
    ("parts", "line", "fix"),
    [
        ({"keys": key(-5)}, "REPAIR  keys: m2: the key of move-web has expired. Remove it (doctor_fix=true does it)",
         {"remove_key": {"name": "move-web", "public_key": key(0)[0]["public_key"]}}),
        ({"units": {**HEALTHY["units"], "stopped": ["footprint-x.timer"]}}, "REPAIR  units: m2: footprint-x.timer is enabled and does not run. Start it (",
         {"start_unit": "footprint-x.timer"}),
        ({"clock": {**HEALTHY["clock"], "synchronized": False}, "units": {**HEALTHY["units"], "time_services": {"chrony.service": False}}},
         "REPAIR  clocks: m2: chrony.service is enabled and does not run. Start it (", {"start_unit": "chrony.service"}),
    ],
)  # fmt: skip
def test_what_is_safe_is_repaired(parts: dict[str, t.Any], line: str, fix: dict[str, t.Any]) -> None:
    answers = {"m1": host(), "m2": second(**parts)}
    assert problems(answers)[0].startswith(line)
    assert plan_doctor_finding.steps(examined(answers)) == {"m2": [fix]}


def test_only_what_is_listed_is_repaired() -> None:
    """No other problem has a repair."""
    assert not any(plan_doctor_finding.steps(examined({"m1": host(), "m2": second(**parts)})) for parts, _line in PROBLEMS)


def test_a_certificate_and_a_journal() -> None:
    def with_certificate(days: int) -> dict[str, t.Any]:
        return second(controlplane={"addresses": [], "services": {"keystone": {"units": {}, "certificate": {"days": days}}}})

    assert problems({"m1": host(), "m2": with_certificate(12)})[0].startswith("REPAIR  certificates: m2: that of keystone expires in 12 days. Run deploy")
    assert problems({"m1": host(), "m2": with_certificate(-1)})[0].startswith("REPAIR  certificates: m2: that of keystone has expired. Run deploy")
    assert "ok      certificates: the next one expires in 300 days (keystone on m2)" in plan_doctor.lines(examined({"m1": host(), "m2": with_certificate(300)}))
    declared = DECLARED._replace(journals={"/i/.rolling-lab.json": "rolling_restart"})
    assert problems({"m1": host(), "m2": second()}, declared) == [
        "REPAIR  jobs: a run of rolling_restart is not complete (/i/.rolling-lab.json). Run it again, which continues it"
    ]
