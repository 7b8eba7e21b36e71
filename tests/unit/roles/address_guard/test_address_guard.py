# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook of libvirt that refuses the start of a VM which runs elsewhere; tests/replace has a real one."""

from __future__ import annotations

import importlib.util
import io
import pathlib
import socket
import struct
import sys
import typing as t

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "address_guard" / "files" / "address_guard.py"
_SPEC = importlib.util.spec_from_file_location("address_guard", SCRIPT)
assert _SPEC and _SPEC.loader
guard = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(guard)

MAC, UUID = "52:54:00:aa:bb:01", "5a2b8f4e-9f2f-4c53-9a0b-3d8c3a1f2b10"
NIC = f"<interface type='bridge'><mac address='{MAC.upper()}'/><source bridge='br-admin'/></interface>"
DOMAIN = f"<domain><uuid>{UUID}</uuid><devices>{NIC}<interface type='user'/></devices></domain>"


@pytest.fixture(name="home", autouse=True)
def fixture_home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "guard.conf").write_text("# a comment\nc1 192.0.2.31\n", encoding="ascii")
    monkeypatch.setattr(guard.address_of, "__defaults__", (tmp_path / "guard.conf",))
    monkeypatch.setattr(guard.arrives, "__defaults__", (tmp_path / "moved",))
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


def test_a_vm_that_answers_elsewhere_is_refused_until_the_mark_is_removed(home: pathlib.Path) -> None:
    why, asked = refused(home, True)
    assert why is not None and "c1 runs on another server: its MAC answers at 192.0.2.31" in why
    assert [given[:3] for given in asked] == [("br-admin", {MAC}, "192.0.2.31")]
    # the other one is off now
    assert refused(home, False) == (why, [])
    (home / "refused" / "c1").unlink()
    assert refused(home, False)[0] is None


def test_other_vms_and_vms_that_are_moved_here_are_not_asked_for(home: pathlib.Path) -> None:
    assert refused(home, True, name="web") == (None, [])
    (home / "moved").mkdir()
    (home / "moved" / f"{UUID}.json").write_text('{"state": "arriving"}', encoding="ascii")
    assert refused(home, True) == (None, [])
    (home / "moved" / f"{UUID}.json").write_text('{"state": "moved"}', encoding="ascii")
    assert refused(home, True)[0] is not None


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
    monkeypatch.setattr(sys, "stdin", io.StringIO(DOMAIN))
    assert guard.main(argv) == code


def test_an_error_of_the_hook_permits_the_start(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("<domain"))
    assert guard.main(["c1", "prepare", "begin", "-"]) == 0
    assert "ParseError" in capsys.readouterr().err
    (home / "guard.conf").unlink()
    assert guard.main(["c1", "prepare", "begin", "-"]) == 0
