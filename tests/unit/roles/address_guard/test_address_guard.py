# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook of libvirt that refuses the start of a VM which runs elsewhere; tests/replace has a real one."""

from __future__ import annotations

import io
import json
import pathlib
import socket
import struct
import subprocess
import sys
import typing as t

import pytest

from tests.support.program import load

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "address_guard" / "files" / "address_guard.py"
guard = load("roles/address_guard/files/address_guard.py")

MAC, UUID = "52:54:00:aa:bb:01", "5a2b8f4e-9f2f-4c53-9a0b-3d8c3a1f2b10"
NIC = f"<interface type='bridge'><mac address='{MAC.upper()}'/><source bridge='br-admin'/></interface>"
DOMAIN = f"<domain><uuid>{UUID}</uuid><devices>{NIC}<interface type='user'/></devices></domain>"


@pytest.fixture(name="home", autouse=True)
def fixture_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "guard.conf").write_text("# a comment\nc1 192.0.2.31\n", encoding="ascii")
    monkeypatch.setattr(guard.address_of, "__defaults__", (tmp_path / "guard.conf",))
    monkeypatch.setattr(guard, "QUIET_SINCE", tmp_path / "run")
    monkeypatch.setattr(guard.role_of, "__defaults__", (tmp_path / "vms",))
    return tmp_path


def frame(mac: str = MAC, address: str = "192.0.2.31", kind: int = 0x0806) -> bytes:
    sender = bytes.fromhex(mac.replace(":", ""))
    body = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 2, sender, socket.inet_aton(address), bytes(6), bytes(4))
    return bytes(6) + sender + struct.pack("!H", kind) + body


def refused(home: pathlib.Path, answers: bool, name: str = "c1") -> tuple[str | None, list[t.Any]]:
    asked: list[t.Any] = []

    def ask(*given: t.Any) -> bool:
        asked.append(given)
        return answers

    return guard.refusal(name, DOMAIN, ask, home / "refused"), asked


def test_a_vm_that_answers_elsewhere_is_asked_for_again_at_each_start(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"uptime": 1000.0}
    monkeypatch.setattr(guard, "uptime", lambda: now["uptime"])
    why, asked = refused(home, True)
    assert why is not None and "c1 runs on another server: its MAC answers at 192.0.2.31" in why
    assert [given[:3] for given in asked] == [("br-admin", {MAC}, "192.0.2.31")]
    # the other one may only be restarting
    for later in (60, guard.QUIET):
        now["uptime"] = 1000.0 + later
        why, asked = refused(home, False)
        assert why is not None and "has not answered for" in why and asked
    # it answers again, and the time starts again
    assert "runs on another server" in str(refused(home, True)[0])
    now["uptime"] += 60
    assert "has not answered for 0 s" in str(refused(home, False)[0])
    # time before a boot does not count: the other server may boot as well
    (home / "run" / "c1").unlink()
    now["uptime"] = 5.0
    assert "has not answered for 0 s" in str(refused(home, False)[0])
    now["uptime"] += guard.QUIET
    assert refused(home, False)[0] is None and (home / "refused" / "c1").exists()
    # the start may still fail; the VM runs when libvirt says so
    monkeypatch.setattr(guard.forget, "__defaults__", (home / "refused",))
    assert guard.main(["c1", "started", "begin", "-"]) == 0
    assert not list((home / "refused").iterdir()) and not list((home / "run").iterdir())


def test_the_old_copy_of_a_moved_vm_is_not_started_when_the_new_one_is_off(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"uptime": 1000.0}
    monkeypatch.setattr(guard, "uptime", lambda: now["uptime"])
    (home / "vms").mkdir()
    record = home / "vms" / f"{UUID}.json"
    record.write_text('{"role": "former"}', encoding="ascii")
    assert "runs on another server" in str(refused(home, True)[0])
    for _retry in range(3):
        assert "was moved to another server" in str(refused(home, False)[0])
        now["uptime"] += guard.QUIET
    # it has been returned
    record.write_text('{"role": "owner"}', encoding="ascii")
    assert "has not answered for 0 s" in str(refused(home, False)[0])


def test_a_damaged_file_starts_the_time_again(home: pathlib.Path) -> None:
    refused(home, True)
    (home / "run").mkdir()
    for text in ("", "x", "1 2", "\x00"):
        (home / "run" / "c1").write_text(text, encoding="utf-8")
        assert "has not answered for 0 s" in str(refused(home, False)[0])


def test_refused_starts_are_tried_again_until_there_is_no_such_vm(home: pathlib.Path) -> None:
    refused(home, True)
    calls: list[list[str]] = []
    there = {"qemu:///system": True}

    def call(argv: list[str]) -> int:
        calls.append(argv)
        return 0 if there.get(argv[2], False) or "list" in argv else 1

    guard.retry(call, home / "refused")
    assert ["virsh", "-c", "qemu:///system", "start", "--", "c1"] in calls and (home / "refused" / "c1").exists()
    # silence of libvirt is not an answer
    there.clear()
    guard.retry(lambda argv: 1, home / "refused")
    assert (home / "refused" / "c1").exists()
    guard.retry(call, home / "refused")
    assert not (home / "refused" / "c1").exists()


def test_the_start_of_one_vm_that_hangs_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "LIMIT", 0.1)
    assert guard.call(["sleep", "10"]) == 1
    assert guard.call(["true"]) == 0


WIRE = """
import importlib.util, json, socket, subprocess, sys, threading
spec = importlib.util.spec_from_file_location("guard", sys.argv[1])
guard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard)
subprocess.run(["mount", "-t", "sysfs", "none", "/sys"], check=True)
for words in ("add br-admin type bridge", "add p0 type veth peer name p1", "set p0 master br-admin", "set br-admin up", "set p0 up", "set p1 up"):
    subprocess.run(["ip", "link", *words.split()], check=True)
frame, burst, every = bytes.fromhex(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "every"

def answer():
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    wire.bind(("p1", 0x0806))
    while True:
        asked = wire.recv(2048)
        if asked[:6] == bytes([255] * 6) and asked[12:14] == bytes([8, 6]):
            for _frame in range(burst):
                wire.send(asked[6:12] + frame[6:])
            if not every:
                return

threading.Thread(target=answer, daemon=True).start()
print(json.dumps(guard.used("br-admin", {sys.argv[5]}, "192.0.2.31", 3)))
"""


@pytest.mark.parametrize("burst, when, found", [(1, "every", True), (1, "once", False), (50, "once", False)])
def test_one_forged_answer_is_not_a_vm(burst: int, when: str, found: bool) -> None:
    argv = ["unshare", "--user", "--map-root-user", "--net", "--mount", sys.executable, "-c", WIRE, str(SCRIPT), frame().hex(), str(burst), when, MAC]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(done.stdout or "null") is found, done.stderr


def test_other_vms_and_vms_that_are_moved_here_are_not_asked_for(home: pathlib.Path) -> None:
    assert refused(home, True, name="web") == (None, [])
    (home / "vms").mkdir()
    for text, asks in (('{"role": "incoming"}', False), ('{"role": "former"}', True), ("{", True)):
        (home / "vms" / f"{UUID}.json").write_text(text, encoding="ascii")
        assert (refused(home, True)[0] is not None) is asks


def test_only_the_same_mac_with_the_same_address_counts() -> None:
    assert guard.sender(frame(), "192.0.2.31") == MAC
    # a router that answers for others is found, and has another MAC
    assert guard.sender(frame(mac="00:00:5e:00:01:07"), "192.0.2.31") == "00:00:5e:00:01:07"
    assert guard.sender(frame(address="192.0.2.32"), "192.0.2.31") is None
    assert guard.sender(frame(kind=0x0800), "192.0.2.31") is None
    assert guard.sender(frame()[:41], "192.0.2.31") is None


@pytest.mark.parametrize("argv, code", [(["c1", "prepare", "begin", "-"], 1), (["c1", "started", "begin", "-"], 0), (["c1"], 0)])
def test_only_starts_are_refused(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], code: int) -> None:
    monkeypatch.setattr(guard.refusal, "__defaults__", (lambda *unused: True, home / "refused"))
    monkeypatch.setattr(guard.forget, "__defaults__", (home / "refused",))
    monkeypatch.setattr(sys, "stdin", io.StringIO(DOMAIN))
    assert guard.main(argv) == code


def test_an_error_of_the_hook_permits_the_start(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("<domain"))
    assert guard.main(["c1", "prepare", "begin", "-"]) == 0
    assert "ParseError" in capsys.readouterr().err
    (home / "guard.conf").unlink()
    assert guard.main(["c1", "prepare", "begin", "-"]) == 0
