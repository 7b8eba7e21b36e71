# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sweep finds what it looks for: a search that finds nothing proves nothing by itself."""

from __future__ import annotations

import base64
import gzip
import io
import pathlib
import socket
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest

from tests.support.canary import Canaries, CommandLines, Syslog

ROOT = pathlib.Path(__file__).resolve().parents[2]
CANARIES = Canaries()
TEXT = CANARIES("vnc password", 8)


def packed_zip(data):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x", data)
    return buffer.getvalue()


def packed_tar(data):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("x")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: data,
        lambda data: data.hex().encode(),
        base64.b64encode,
        lambda data: base64.b64encode(b"p" + data + b"pp"),
        lambda data: base64.b64encode(b"pq" + data),
        gzip.compress,
        packed_zip,
        packed_tar,
        lambda data: gzip.compress(packed_tar(packed_zip(data))),
        lambda data: b"#!/usr/bin/python\nZIP = '''" + base64.b64encode(packed_zip(data + bytes(900))) + b"'''",
    ],
)
def test_a_canary_is_found_in_whatever_it_is_packed(pack):
    assert len(TEXT) == 8 and CANARIES("vnc password") == TEXT and CANARIES("other") != TEXT
    found = CANARIES.in_bytes(pack(b"before " + TEXT.encode() + b" behind"), "here")
    assert {each.name for each in found} == {"vnc password"}
    assert not CANARIES.in_bytes(pack(b"before nothing behind"), "here")


def test_files_and_their_names_are_read(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "kept").write_text(TEXT)
    (tmp_path / "deep" / "kept").chmod(0o600)
    assert len(CANARIES.in_tree(tmp_path)) == 1 and not CANARIES.in_tree(tmp_path, readable=True)
    (tmp_path / "deep" / "kept").chmod(0o644)
    (tmp_path / TEXT).touch()
    assert len(CANARIES.in_tree(tmp_path, readable=True)) == 2


def test_command_lines_are_watched():
    with CommandLines(CANARIES) as watch:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(1)", TEXT], check=True)
    assert {each.name for each in watch.found} == {"vnc password"} and watch.looks > 1


def test_the_log_of_the_system_is_read(tmp_path):
    with Syslog(tmp_path / "log") as log:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(f"<14>x: {TEXT}".encode(), str(log.path))
        time.sleep(0.3)
    assert CANARIES.in_text("\n".join(log.lines), "log")


def test_every_module_with_secrets_is_swept():
    swept = (ROOT / "tests/canary/inputs.yml").read_text(encoding="utf-8")
    modules = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "plugins/modules").glob("*.py")}
    secret = [name for name, text in modules.items() if '"no_log": True' in text or "quiet(" in text or "no_log_values" in text]
    assert len(secret) > 10 and [name for name in sorted(secret) if f"reduced.footprint.{name}:" not in swept] == []
